"""What `make deploy` asks of CloudFormation before it deploys, and `make adopt` of what an earlier stack left.

A stack that is deleted keeps its tables and its dead letter queue. A new stack of the same name would begin with an empty
ledger beside them, and run old events again. `check` stops before that; `adopt` makes the new stack around what was kept.

    python stack.py check --stack ledgerline [--fresh]
    python stack.py adopt --stack ledgerline [--yes] [LedgerTable=<name> …]
"""

import argparse
import json
import pathlib
import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError, WaiterError
from samcli.yamlhelper import yaml_parse

TEMPLATE = pathlib.Path(__file__).resolve().parents[1] / "template.yaml"

# A stack in one of these states has nothing: its first deploy was taken back, or never began.
EMPTY = ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE")
# These states want a person: a deploy is under way, or CloudFormation could not take one back.
STUCK = ("ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED", "IMPORT_ROLLBACK_FAILED")

RED, PLAIN = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")


class Declined(Exception):
    """Nothing was changed, for this reason."""


def kept_resources():
    """The resources of the template that outlive a stack, by their logical ids."""
    resources = yaml_parse(TEMPLATE.read_text())["Resources"]
    return {name: resource for name, resource in resources.items() if resource.get("DeletionPolicy") == "RetainExceptOnCreate"}


def left_behind(stack):
    """The names of tables and the URLs of queues that stacks of this name made, by their logical ids."""
    found = {}
    for logical_id, resource in kept_resources().items():
        start = f"{stack}-{logical_id}-"
        if resource["Type"] == "AWS::DynamoDB::Table":
            pages = boto3.client("dynamodb").get_paginator("list_tables").paginate()
            found[logical_id] = [name for page in pages for name in page["TableNames"] if name.startswith(start)]
        else:
            pages = boto3.client("sqs").get_paginator("list_queues").paginate(QueueNamePrefix=start)
            found[logical_id] = [url for page in pages for url in page.get("QueueUrls", [])]
    return {logical_id: names for logical_id, names in found.items() if names}


def state_of(stack):
    """The stack's state, or `None` where there is no such stack."""
    try:
        return boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def shown(found):
    return "\n".join(f"  {logical_id:<18} {name}" for logical_id, names in found.items() for name in names)


def check(stack, fresh):
    """Stops a deploy that would begin a new ledger beside an old one. Takes away what a failed first deploy left."""
    state = state_of(stack)
    if state in STUCK or (state or "").endswith("_IN_PROGRESS") and state not in EMPTY:
        raise Declined(
            f"the stack {stack} is in the state {state}: wait until it is done, or mend it in the CloudFormation console"
        )
    if state == "ROLLBACK_COMPLETE":
        print(f"The first deploy of {stack} failed, and nothing of it is left but its record: that is deleted.")
        cloudformation = boto3.client("cloudformation")
        cloudformation.delete_stack(StackName=stack)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack)
    if state not in (None, *EMPTY):
        return
    found = left_behind(stack)
    if found and not fresh:
        raise Declined(
            f"there is no stack {stack}, but an earlier one left this behind:\n{shown(found)}\n"
            "A new stack would begin with an empty ledger, and events that were done would be done again when their senders\n"
            f"repeat them. `make adopt STACK={stack}` makes the stack around what was left; then deploy. If you do want to\n"
            "begin anew: `make deploy FRESH=1`."
        )


def chosen(stack, named):
    """One resource for each logical id: what was named, or what is there."""
    wanted, found, chosen = kept_resources(), left_behind(stack), dict(named)
    strangers = set(named) - set(wanted)
    if strangers:
        raise Declined(f"there is no {', '.join(sorted(strangers))} to adopt: name {', '.join(wanted)}")
    for logical_id in wanted:
        names = found.get(logical_id, [])
        if logical_id not in chosen and len(names) > 1:
            raise Declined(
                f"several stacks left a {logical_id}:\n{shown({logical_id: names})}\nName one: {logical_id}=<the one to adopt>"
            )
        if logical_id not in chosen and names:
            chosen[logical_id] = names[0]
    if "LedgerTable" not in chosen:
        raise Declined(f"there is no table {stack}-LedgerTable-…: name the ledger to adopt, as LedgerTable=<its name>")
    return chosen


def import_template(logical_ids):
    """The template of the stack that is made of them alone. It has no transform: CloudFormation imports by none."""
    template = yaml_parse(TEMPLATE.read_text())
    resources = {name: template["Resources"][name] for name in logical_ids}
    for resource in resources.values():
        # It names the queue of events, which the deploy makes.
        resource["Properties"].pop("RedriveAllowPolicy", None)
    text = json.dumps(resources)
    parameters = {name: it for name, it in template["Parameters"].items() if f'{{"Ref": "{name}"}}' in text}
    return json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Parameters": parameters, "Resources": resources})


def identified(logical_id, name):
    """What is to be imported, as CloudFormation wants it named."""
    kind = kept_resources()[logical_id]["Type"]
    key = "TableName" if kind == "AWS::DynamoDB::Table" else "QueueUrl"
    return {"ResourceType": kind, "LogicalResourceId": logical_id, "ResourceIdentifier": {key: name}}


def adopt(stack, named, yes):
    """Makes a stack of what an earlier one left."""
    state = state_of(stack)
    if state not in (None, *EMPTY):
        raise Declined(f"there is a stack {stack} already ({state}): only a stack that is not there yet can adopt")
    check(stack, fresh=True)
    adopted = chosen(stack, named)
    print(f"The stack {stack} is made of:\n{shown({key: [name] for key, name in adopted.items()})}")
    if not yes and input("Go on? [y/N] ").strip().lower() != "y":
        raise Declined("you did not say yes")
    cloudformation = boto3.client("cloudformation")
    change = cloudformation.create_change_set(
        StackName=stack,
        ChangeSetName="adopt",
        ChangeSetType="IMPORT",
        TemplateBody=import_template(adopted),
        ResourcesToImport=[identified(*each) for each in adopted.items()],
    )
    cloudformation.get_waiter("change_set_create_complete").wait(ChangeSetName=change["Id"])
    cloudformation.execute_change_set(ChangeSetName=change["Id"])
    cloudformation.get_waiter("stack_import_complete").wait(StackName=stack)
    print(f"The stack {stack} has them. Now deploy the rest: make deploy STACK={stack}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("check", "adopt"):
        verbs.add_parser(verb).add_argument("--stack", required=True)
    verbs.choices["check"].add_argument("--fresh", action="store_true")
    verbs.choices["adopt"].add_argument("--yes", action="store_true")
    verbs.choices["adopt"].add_argument("named", nargs="*", metavar="LedgerTable=<name>")
    return parser.parse_args()


def main():
    asked = arguments()
    try:
        if asked.verb == "check":
            check(asked.stack, asked.fresh)
        else:
            adopt(asked.stack, dict(each.split("=", 1) for each in asked.named), asked.yes)
    except Declined as declined:
        sys.exit(f"{RED}nothing was changed{PLAIN}: {declined}")
    except (BotoCoreError, ClientError, WaiterError) as error:
        sys.exit(f"{RED}AWS did not answer as it should{PLAIN}: {error}\nSee the stack's events in the CloudFormation console.")
    except ValueError:
        sys.exit("write what to adopt as LedgerTable=<name of the table>")


if __name__ == "__main__":
    main()
