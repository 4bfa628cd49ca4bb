"""Copies the rows that an old ledger has over those of one that was restored to an earlier moment.

    python refill.py --from <old table> --to <restored table> --since 2026-11-19T08:00:00Z

What was accepted or done after that moment stands in the old table alone. Without it, what senders repeat would be done
again, and what waits would be forgotten. `--since` is a moment before the first event that may have changed since then: the
restored moment, less the longest `max_age` of your flows. Rows that belong to no single event are all copied. Copying twice
does no harm; nobody may accept or work on events meanwhile.
"""

import argparse
import datetime
import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

# What BatchWriteItem takes at once.
BATCH = 25


def moment(text):
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if at.tzinfo is None:
        raise argparse.ArgumentTypeError("write the moment with its offset, as 2026-11-19T08:00:00Z")
    return at


def rows(table, since):
    """The rows of events that were received since then, and all that is no event."""
    pages = boto3.client("dynamodb").get_paginator("scan").paginate(
        TableName=table,
        ConsistentRead=True,
        FilterExpression="attribute_not_exists(received_at) OR received_at >= :since",
        ExpressionAttributeValues={":since": {"N": str(int(since.timestamp() * 1000))}},
    )
    for page in pages:
        yield from page["Items"]


def put(table, items):
    """Writes some rows, and again those that DynamoDB had no room for."""
    dynamodb = boto3.client("dynamodb")
    waiting = {table: [{"PutRequest": {"Item": item}} for item in items]}
    while waiting:
        waiting = dynamodb.batch_write_item(RequestItems=waiting)["UnprocessedItems"]


def refill(old, restored, since):
    """Copies the rows. Returns how many."""
    batch, count = [], 0
    for item in rows(old, since):
        batch.append(item)
        count += 1
        if len(batch) == BATCH:
            put(restored, batch)
            batch = []
    if batch:
        put(restored, batch)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="old", required=True)
    parser.add_argument("--to", dest="restored", required=True)
    parser.add_argument("--since", required=True, type=moment)
    asked = parser.parse_args()
    try:
        print(f"{refill(asked.old, asked.restored, asked.since)} rows of {asked.old} are in {asked.restored}.")
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"AWS did not answer as it should; run it again: {error}")


if __name__ == "__main__":
    main()
