"""What the functions are given: their environment, signed deliveries, and messages."""

import base64
import hashlib
import hmac
import itertools
import json
import os
import time
from pathlib import Path

from cloud import KEY

EVENTS = Path(__file__).resolve().parents[2] / "events"
REQUEST, LEAD = (json.loads((EVENTS / name).read_text()) for name in ("http/request.json", "lead-created.json"))
NUMBERS = itertools.count()


def environment(cloud, root, traced):
    """The variables of both functions, as the template sets them."""
    return {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": cloud.url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "RUST_LOG": "info",
        "METRICS_NAMESPACE": "Ledgerline/bench",
        "FLOWS_DIR": f"{root}/tests/flows",
        "LEDGER_TABLE": "ledger",
        "LIMITS_TABLE": "limits",
        "CONTACTS_TABLE": "contacts",
        "EVENTS_QUEUE_URL": f"{cloud.url}/000000000000/events.fifo",
        "DEAD_LETTERS_QUEUE_URL": f"{cloud.url}/000000000000/events-dlq.fifo",
        "SECRETS_PREFIX": "/bench",
        "LEASE_SECONDS": "60",
        "PROCESSOR_TIMEOUT": "30",
        "VISIBILITY_TIMEOUT": "180",
        "LOG_SAMPLE_RATE": "1",
        "PARTNER_ENDPOINT_URL": f"{cloud.url}/partner",
        "TRACES_ENDPOINT": f"{cloud.url}/collector" if traced else "",
        "TRACES_SAMPLE_RATE": "1",
    }


def delivery():
    """A new lead, signed, as API Gateway hands it over."""
    number = next(NUMBERS)
    lead = LEAD | {"data": LEAD["data"] | {"event_id": f"evt_{number:08}", "email": f"ada.{number:08}@example.com"}}
    body, moment = json.dumps(lead), str(int(time.time()))
    signature = hmac.new(KEY, f"msg_1.{moment}.{body}".encode(), hashlib.sha256).digest()
    signed = {
        "webhook-id": "msg_1",
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
    return json.dumps(REQUEST | {"headers": REQUEST["headers"] | signed, "body": body}).encode()


def message(sent):
    """A message that was sent, as SQS hands it over."""
    record = {
        "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": sent["MessageBody"],
        "attributes": {
            "ApproximateReceiveCount": "1",
            "ApproximateFirstReceiveTimestamp": str(int(time.time() * 1000)),
            "SentTimestamp": str(int(time.time() * 1000)),
            "SequenceNumber": "18849496460467696128",
            "SenderId": "AROAEXAMPLE:intake",
            "MessageGroupId": sent["MessageGroupId"],
            "MessageDeduplicationId": sent["MessageDeduplicationId"],
        },
        "messageAttributes": {},
        "md5OfBody": hashlib.md5(sent["MessageBody"].encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:events.fifo",
        "awsRegion": "us-east-1",
    }
    return json.dumps({"Records": [record]}).encode()
