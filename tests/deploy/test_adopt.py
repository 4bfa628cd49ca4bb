"""A stack around what an earlier one left: `make adopt`."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from botocore.exceptions import WaiterError

import stack
from fake_aws import NO_STACK, Aws, Waiter

KEY = "arn:aws:kms:us-east-1:123456789012:key/one"


def aws(key_manager, queue_key):
    """An account in which a stack of the name `a` left all that it keeps."""
    tables = [f"a-{name}-1" for name in ("LedgerTable", "LimitsTable", "ContactsTable")]
    return Aws(
        cloudformation__describe_stacks=NO_STACK,
        dynamodb__list_tables={"TableNames": tables},
        dynamodb__describe_table={"Table": {"SSEDescription": {"KMSMasterKeyArn": KEY}}},
        kms__describe_key={"KeyMetadata": {"KeyId": "one", "KeyManager": key_manager}},
        sqs__list_queues={"QueueUrls": ["https://sqs/a-DeadLettersQueue-1.fifo"]},
        sqs__get_queue_attributes={"Attributes": {"KmsMasterKeyId": queue_key} if queue_key else {}},
        cloudformation__create_change_set={"Id": "adopt"},
        cloudformation__execute_change_set={},
        cloudformation__describe_change_set={"Status": "FAILED", "StatusReason": "a table is in another stack"},
        cloudformation__delete_change_set={},
    )


def adopted(account, **named):
    with account, contextlib.redirect_stdout(io.StringIO()):
        stack.adopt("a", named, yes=True)
    (asked,) = account.of("cloudformation.create_change_set")
    return asked


def parameters(asked):
    return {each["ParameterKey"]: each["ParameterValue"] for each in asked["Parameters"]}


class Adopt(unittest.TestCase):
    def test_the_template_of_an_import_is_one_that_cloudformation_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("all.json", "ledger.json")]
            for file, ids in zip(files, (list(stack.kept_resources()), ["LedgerTable"])):
                file.write_text(stack.import_template(ids))
            lint = pathlib.Path(sys.executable).with_name("cfn-lint")
            ran = subprocess.run([sys.executable, lint, *files], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))

    def test_everything_that_was_kept_is_imported_by_its_name(self):
        asked = adopted(aws("AWS", None))
        names = {each["LogicalResourceId"]: list(each["ResourceIdentifier"].values())[0] for each in asked["ResourcesToImport"]}
        self.assertEqual(set(names), set(stack.kept_resources()))
        self.assertEqual(set(json.loads(asked["TemplateBody"])["Resources"]), set(names))
        self.assertEqual(names["LedgerTable"], "a-LedgerTable-1")
        self.assertEqual(parameters(asked), {})

    def test_tables_and_queues_stay_under_the_keys_that_they_are_under(self):
        self.assertEqual(parameters(adopted(aws("CUSTOMER", KEY))), {"TablesKeyArn": KEY, "QueuesKeyArn": KEY})
        other = KEY.replace("one", "other")
        self.assertEqual(parameters(adopted(aws("CUSTOMER", None), TablesKeyArn=other)), {"TablesKeyArn": other})

    def test_an_import_that_is_declined_says_why_and_can_be_tried_again(self):
        account, failed = aws("AWS", None), WaiterError("create", "Waiter encountered a terminal failure state", {})
        with unittest.mock.patch.object(Waiter, "wait", side_effect=failed), self.assertRaises(stack.Declined) as declined:
            adopted(account)
        self.assertIn("a table is in another stack", str(declined.exception))
        self.assertEqual(account.of("cloudformation.delete_change_set"), [{"ChangeSetName": "adopt"}])
        self.assertEqual(account.of("cloudformation.execute_change_set"), [])
        names = {adopted(aws("AWS", None))["ChangeSetName"] for _ in range(2)}
        self.assertEqual(len(names), 2, "what failed before may still have the name")


if __name__ == "__main__":
    unittest.main()
