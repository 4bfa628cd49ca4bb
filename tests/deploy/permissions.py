"""What the deployer's policies grant, and what the scripts and the pages ask of AWS."""

import ast
import functools
import json
import pathlib
import re

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


def statements(policies):
    for policy in policies:
        for statement in json.loads((FOLDER / f"policy-{policy}.json").read_text())["Statement"]:
            yield statement["Action"], statement["Resource"]


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


def calls(script, only=None):
    """Each operation that a script calls, or one function of it, as `service:Operation`."""
    for function in functions(ast.parse(script.read_text())):
        if only not in (None, function.name):
            continue
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
