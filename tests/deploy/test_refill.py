"""The rows of an old ledger over those of a restored one, and the commands of DEPLOY.md around that."""

import json
import pathlib
import re
import shlex
import unittest

import botocore.session

import refill
from fake_aws import Aws

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A row as this version stores it.
ROW = json.loads((ROOT / "tests/formats/format-2/row-succeeded.json").read_text())


def account(count, unprocessed=0):
    """An old table with so many rows, of which DynamoDB first leaves some out."""
    kept, left = [], [unprocessed]

    def write(RequestItems):
        ((table, requests),) = RequestItems.items()
        assert table == "restored" and len(requests) <= 25, requests
        refused, left[0] = requests[: left[0]], 0
        kept.extend(each["PutRequest"]["Item"]["pk"]["S"] for each in requests[len(refused) :])
        return {"UnprocessedItems": {table: refused} if refused else {}}

    items = [{"pk": {"S": f"id-{number}"}} for number in range(count)]
    return Aws(dynamodb__scan={"Items": items}, dynamodb__batch_write_item=write), kept


class Refill(unittest.TestCase):
    def test_every_row_since_the_moment_is_copied_and_those_left_out_again(self):
        for count, unprocessed in ((0, 0), (1, 1), (25, 0), (60, 7)):
            aws, kept = account(count, unprocessed)
            with aws:
                self.assertEqual(refill.refill("old", "restored", refill.moment("2026-11-16T09:00:00Z")), count)
            self.assertEqual(sorted(kept), sorted(f"id-{number}" for number in range(count)))

    def test_the_moment_is_in_the_unit_and_of_the_name_that_rows_have(self):
        aws, _ = account(0)
        with aws:
            refill.refill("old", "restored", refill.moment("2026-11-16T10:00:00+01:00"))
        (asked,) = aws.of("dynamodb.scan")
        self.assertEqual(int(asked["ExpressionAttributeValues"][":since"]["N"]), ROW["received_at"])
        self.assertTrue(asked["ConsistentRead"])
        with self.assertRaises(Exception):
            refill.moment("2026-11-16T10:00:00")


class Commands(unittest.TestCase):
    """Each command of the AWS CLI that DEPLOY.md tells is one, with options that it has."""

    def test_every_command_of_the_page_is_one(self):
        text = (ROOT / "infra/docs/DEPLOY.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        commands = [part for line in lines for part in re.findall(r"\baws ([a-z0-9]+ [a-z-]+-[^#&|]*)", line)]
        self.assertGreater(len(commands), 9, commands)
        for command in commands:
            with self.subTest(command):
                self.check(*shlex.split(command.replace("<", "").replace(">", "")))

    def check(self, service, verb, *words):
        session = botocore.session.get_session()
        model = session.get_service_model(service)
        operation = "".join(word.title() for word in verb.split("-"))
        if verb == "wait" or operation.startswith("Wait"):
            return
        (name,) = [it for it in model.operation_names if it.lower() == operation.lower()]
        members = model.operation_model(name).input_shape.members
        options = {re.sub(r"(?<!^)(?=[A-Z])", "-", member).lower() for member in members}
        options |= {f"no-{option}" for option in options} | {"query", "output"}
        given = {word[2:] for word in words if word.startswith("--")}
        # Numbers and abbreviations within a name are no words of their own.
        plain = {option.replace("-", "") for option in options}
        self.assertEqual({option for option in given if option.replace("-", "") not in plain}, set(), operation)


if __name__ == "__main__":
    unittest.main()
