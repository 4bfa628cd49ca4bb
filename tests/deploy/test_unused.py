"""No permission of the deployer's policies is for nothing: CloudFormation's handlers of the template's types say what they
call, as cfn-lint has them; the scripts, the pages and the tools call the rest.
"""

import fnmatch
import json
import os
import pathlib
import unittest

import botocore.session
import cfnlint

from permissions import DEPLOYER, FOLDER, ROOT, SCRIPTS, VERIFIER, action, calls, commands, statements

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
import template as sam  # noqa: E402

# What `sam deploy --resolve-s3` makes for its packages.
MANAGED = {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}

# What `make verify` calls of the other scripts.
SHARED = {"stack": "resources_of", "smoke": "request"}

# What neither a handler nor a script calls.
ELSEWHERE = {
    DEPLOYER: {
        "apigateway:AddCertificateToDomain": "API Gateway asks for it beside PATCH, where a domain has mutual TLS",
        "apigateway:RemoveCertificateFromDomain": "the same",
        "cloudformation:GetTemplateSummary": "sam deploy",
        "cloudformation:TagResource": "sam deploy tags its own stack, and TAGS this one",
        "cloudformation:UntagResource": "the same",
        "cloudwatch:PutMetricData": "ledgerline deploying",
        "kms:ReEncryptFrom": "DynamoDB, of whoever makes a table under a key of his own",
        "kms:ReEncryptTo": "the same",
        "logs:*LogDelivery": "API Gateway, of whoever turns on the access logs of an HTTP API",
        "logs:ListLogDeliveries": "the same",
        "s3:GetBucketLocation": "sam deploy uploads",
        "s3:PutObject": "the same",
        "ssm:DeleteParameter": "ledgerline secrets rotate --retire",
        "ssm:PutParameter": "ledgerline secrets set",
    },
    VERIFIER: {
        "dynamodb:DeleteItem": "the contract suite",
        "dynamodb:GetItem": "the contract suite",
        "dynamodb:Query": "the contract suite",
        "dynamodb:UpdateItem": "the contract suite",
        "iam:PassRole": "Lambda, of whoever gives a function a role",
        "sqs:ChangeMessageVisibility": "the contract suite",
    },
}


def types():
    """The types of the resources that SAM makes of the template."""
    text = (ROOT / "infra/template.yaml").read_text()
    made = sam.transform(sam.uploaded(text), {"AWS::Region": "us-east-1"}, sam.ManagedPolicies())
    return {resource["Type"] for resource in made["Resources"].values()}


def handled(types):
    """What CloudFormation calls to make, change, read and delete resources of these types."""
    found, folder = {}, pathlib.Path(cfnlint.__file__).parent / "data/schemas/resources"
    for schema in (json.loads(file.read_text()) for file in folder.glob("*.json")):
        if schema["typeName"] in types:
            handlers = schema.get("handlers", {}).items()
            found[schema["typeName"]] = {it for verb, handler in handlers if verb != "list" for it in handler["permissions"]}
    assert set(found) == types and all(found.values()), f"cfn-lint does not know {types - set(found)}"
    return set().union(*found.values())


def scripts(policies):
    return {action(it) for name in SCRIPTS[policies] for it in calls(FOLDER / f"{name}.py")}


def needed(policies):
    if policies == VERIFIER:
        shared = {action(it) for name, function in SHARED.items() for it in calls(FOLDER / f"{name}.py", function)}
        return scripts(policies) | shared
    texts = [*(FOLDER / f"{name}.py" for name in SCRIPTS[policies]), ROOT / "infra/docs/DEPLOY.md"]
    told = {command for text in texts for command in commands(text.read_text())}
    return scripts(policies) | told | handled(types() | MANAGED)


def meant(pattern):
    """The operations of a service that a pattern of a policy allows; an action that is no operation stands for itself."""
    service, verb = pattern.split(":")
    if "*" not in verb:
        return {pattern}
    known = botocore.session.get_session().get_service_model(service).operation_names
    return {f"{service}:{it}" for it in known if fnmatch.fnmatchcase(it.lower(), verb.lower())} or {pattern}


class Unused(unittest.TestCase):
    maxDiff = None

    def test_every_permission_is_used(self):
        for policies in SCRIPTS:
            used, elsewhere = {it.lower() for it in needed(policies)}, ELSEWHERE[policies]
            granted = {it for actions, _ in statements(policies) for pattern in actions for it in meant(pattern)}
            unused = {it for it in granted if it.lower() not in used}
            self.assertEqual(sorted(unused), sorted(elsewhere), f"{policies}: unused, and what is used elsewhere")


if __name__ == "__main__":
    unittest.main()
