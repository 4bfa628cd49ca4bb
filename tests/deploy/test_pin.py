"""What is written into the built template: SAM's versions and Lambda's are made together, and CodeDeploy moves what it can."""

import contextlib
import datetime
import io
import logging
import os
import pathlib
import re
import tempfile
import unittest

import stack
from fake_aws import NO_STACK, Aws, declined

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
import template as sam  # noqa: E402

logging.disable(logging.CRITICAL)

TEXT = stack.TEMPLATE.read_text()
FAILED_AT = datetime.datetime(2026, 11, 19, 9, 0)


def account(state="UPDATE_COMPLETE", pinned="v0", live="1", at=FAILED_AT, **parameters):
    """An account in which the stack `a` was deployed: its function's version 1, where `live` points to another after a roll back."""
    described = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
    function = {"LogicalResourceId": "IntakeFunction", "PhysicalResourceId": "a-intake", "ResourceType": "AWS::Lambda::Function"}
    version = {"LogicalResourceId": "V", "PhysicalResourceId": "arn:aws:lambda:x:1:function:a-intake:1", "ResourceType": "AWS::Lambda::Version"}
    stacks = {"StackName": "a", "StackStatus": state, "Parameters": described, "LastUpdatedTime": at}
    return Aws(
        cloudformation__describe_stacks={"Stacks": [stacks]} if state else NO_STACK,
        cloudformation__list_stack_resources={"StackResourceSummaries": [function, version]},
        lambda__get_function_configuration={"Environment": {"Variables": {"PARAMETERS": pinned}}},
        lambda__get_alias={"FunctionVersion": live},
    )


def pinned(aws, text=TEXT, **named):
    """The built template after the pin, and what was said."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, aws, contextlib.redirect_stdout(said):
        built = pathlib.Path(folder) / "template.yaml"
        built.write_text(text)
        stack.pin("a", built, named)
        return built.read_text(), said.getvalue()


def pin(*arguments, **named):
    return re.search(r"PARAMETERS: (\S+)", pinned(*arguments, **named)[0])[1]


def versions(text):
    return sam.versions(sam.uploaded(text))["IntakeFunction"]


class Pin(unittest.TestCase):
    def test_lambda_has_something_to_publish_whenever_sam_wants_a_version(self):
        function = "      FunctionName: !Sub ${AWS::StackName}-intake\n"
        changes = {
            "nothing": (TEXT, False),
            "a tag": (TEXT.replace(function, f"{function}      Tags: {{team: shop}}\n"), True),
            "wording": (TEXT.replace(function, "      FunctionName: !Join ['-', [!Ref AWS::StackName, intake]]\n"), True),
            "a tag of all": (TEXT.replace("    Runtime: provided", "    Tags: {team: shop}\n    Runtime: provided"), True),
            "reserved concurrency": (TEXT.replace("!If [Reserved, !Ref IntakeReserve, !Ref AWS::NoValue]", "5"), True),
            "who moves it": (TEXT.replace("Enabled: !Ref Rollout", "Enabled: false"), False),
            "an event": (TEXT.replace("BatchSize: 10", "BatchSize: 9"), False),
            "an alarm": (TEXT.replace("Threshold: 2\n", "Threshold: 3\n"), False),
        }
        before, without = pinned(account())[0], pin(account())
        for what, (text, differs) in changes.items():
            self.assertEqual(text != TEXT, what != "nothing", what)
            self.assertEqual((versions(pinned(account(), text)[0]) != versions(before)), differs, what)
            self.assertEqual(pin(account(), text) != without, differs, what)

    def test_a_parameter_is_seen_wherever_its_value_comes_from(self):
        self.assertEqual(pin(account(), LogLevel="debug"), pin(account(LogLevel="debug")))
        self.assertNotEqual(pin(account(), LogLevel="debug"), pin(account()))
        self.assertEqual(pin(account(None)), pin(account()), "a first deploy has the defaults")

    def test_an_equal_deploy_after_one_that_was_taken_back_publishes_anew_and_then_no_more(self):
        first, failed = pin(account()), account("UPDATE_ROLLBACK_COMPLETE", pinned="v0")
        again = pin(failed)
        self.assertNotEqual(again, first, "the versions of the deploy that failed are still there")
        self.assertEqual(again, pin(account("UPDATE_ROLLBACK_COMPLETE")), "and asking twice is no change")
        later = pin(account("UPDATE_ROLLBACK_COMPLETE", at=FAILED_AT + datetime.timedelta(hours=1)))
        self.assertNotIn(later, (first, again), "nor is the next try equal to this one")
        self.assertEqual(pin(account(pinned=again)), again, "once it came about, there is nothing to change")
        self.assertEqual(pin(account(pinned=again), LogLevel="debug").partition("-")[2], again.partition("-")[2])

    def test_after_a_roll_back_by_hand_the_same_is_deployed_again_and_without_codedeploy(self):
        text, said = pinned(account(live="0", Rollout="Canary10Percent10Minutes"))
        self.assertNotIn("Enabled: !Ref Rollout", text)
        self.assertEqual(text.count("Enabled: false"), 2)
        self.assertIn("CodeDeploy takes no alias that was moved by hand", said)
        again = re.search(r"PARAMETERS: (\S+)", text)[1]
        text, said = pinned(account(pinned=again))
        self.assertEqual(text.count("Enabled: !Ref Rollout"), 2, "the next deploy is CodeDeploy's again")
        self.assertEqual((said, re.search(r"PARAMETERS: (\S+)", text)[1]), ("", again), "and changes no function by that")

    def test_alarms_that_a_deploy_makes_are_not_asked_by_it(self):
        said = lambda *arguments, **named: pinned(*arguments, **named)[1]
        self.assertIn("the alarms that it would ask", said(account(Alarms="false"), Alarms="true"))
        self.assertEqual(said(account(Alarms="false")), "")
        self.assertEqual(said(account(Alarms="true"), Alarms="true"), "")
        self.assertEqual(said(account(Alarms="false", Rollout="false"), Alarms="true"), "")
        self.assertEqual(said(account(None), Alarms="true"), "", "a first deploy moves no alias")

    def test_the_template_that_sam_built_is_read_the_same(self):
        built = TEXT.replace("Enabled: !Ref Rollout", "Enabled:\n          Ref: Rollout")
        text, _ = pinned(account(live="0", LogLevel="info"), built)
        self.assertEqual(text.count("Enabled: false"), 2)

    def test_whoever_may_not_look_deploys_nothing(self):
        aws = account()
        aws.answers["lambda.get_function_configuration"] = declined("AccessDenied")
        with self.assertRaises(stack.ClientError):
            pinned(aws)


if __name__ == "__main__":
    unittest.main()
