"""What `make deploy` asks of CloudFormation before it deploys, `make adopt` of what an earlier stack left, and `make
rollback` of the versions that were live.

A stack that is deleted keeps its tables and its dead letter queue. A new stack of the same name would begin with an empty
ledger beside them, and run old events again. `check` stops before that; `adopt` makes the new stack around what was kept.

SAM makes a version of a function when its code, its flows or its properties change as the template writes them, and Lambda
publishes one when its code or its configuration changed. `pin` makes the two agree: it writes a hash into the environment of
the built template, of all parameters' values (which SAM does not see) and of all that is written (which Lambda does not see).

The alias `live` runs the functions. `keep` points the alias `previous` at what is live before a deploy changes it, with
what `previous` was before in its description: the deploy may not come about. `rollback` points `live` back.

    python stack.py check --stack ledgerline [--fresh]
    python stack.py pin --stack ledgerline --template .aws-sam/build/template.yaml [Parameter=value …]
    python stack.py keep --stack ledgerline
    python stack.py rollback --stack ledgerline [--yes]
    python stack.py adopt --stack ledgerline [--yes] [LedgerTable=<name> …] [TablesKeyArn=<key> …]
"""

import argparse
import hashlib
import json
import pathlib
import re
import secrets
import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError, WaiterError
from samcli.yamlhelper import yaml_parse

TEMPLATE = pathlib.Path(__file__).resolve().parents[1] / "template.yaml"

# A stack in one of these states has nothing: its first deploy was taken back, or never began.
EMPTY = ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE")
# These states want a person: a deploy is under way, or CloudFormation could not take one back.
STUCK = ("ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED", "IMPORT_ROLLBACK_FAILED")

# The aliases: what runs the functions, and what ran them before the last deploy.
LIVE, PREVIOUS = "live", "previous"

# What the template has in the place of the hash of all parameters.
UNPINNED = "PARAMETERS: unknown"

# Where the template lets CodeDeploy move a function, as we write it and as `sam build` does.
ROLLOUT = re.compile(r"Enabled:\s+(?:!Ref|Ref:) Rollout\b")

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


def state_if_made(stack):
    """The stack's state, or `None` where a deploy would be the first."""
    state = state_of(stack)
    return None if state in EMPTY else state


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
    conditions = named_in(resources, template["Conditions"], "Fn::If", "Condition")
    parameters = named_in([resources, conditions], template["Parameters"], "Ref")
    sections = {"Parameters": parameters, "Conditions": conditions, "Resources": resources}
    return json.dumps({"AWSTemplateFormatVersion": "2010-09-09", **{name: it for name, it in sections.items() if it}})


def named_in(part, section, *functions):
    """What a part of the template names by these functions, and what that names in turn."""
    found = {}
    for function, value in called_in(part):
        name = value[0] if isinstance(value, list) else value
        if function in functions and isinstance(name, str) and name in section:
            found |= {name: section[name]} | named_in(section[name], section, *functions)
    return found


def called_in(part):
    """Every key of every object in a part of the template, with its value."""
    for key, value in part.items() if isinstance(part, dict) else ((None, value) for value in part):
        if key is not None:
            yield key, value
        if isinstance(value, (dict, list)):
            yield from called_in(value)


def keys_of(adopted):
    """The parameters of the customer's keys under which the adopted are: without them the next deploy would change the keys."""
    keys = {}
    if table := adopted.get("LedgerTable"):
        described = boto3.client("dynamodb").describe_table(TableName=table)["Table"].get("SSEDescription", {})
        arn = described.get("KMSMasterKeyArn")
        if arn and boto3.client("kms").describe_key(KeyId=arn)["KeyMetadata"]["KeyManager"] == "CUSTOMER":
            keys["TablesKeyArn"] = arn
    if queue := adopted.get("DeadLettersQueue"):
        asked = boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["KmsMasterKeyId"])
        arn = asked.get("Attributes", {}).get("KmsMasterKeyId", "")
        if arn.startswith("arn:"):
            keys["QueuesKeyArn"] = arn
    return keys


def identified(logical_id, name):
    """What is to be imported, as CloudFormation wants it named."""
    kind = kept_resources()[logical_id]["Type"]
    key = "TableName" if kind == "AWS::DynamoDB::Table" else "QueueUrl"
    return {"ResourceType": kind, "LogicalResourceId": logical_id, "ResourceIdentifier": {key: name}}


def adopt(stack, named, yes):
    """Makes a stack of what an earlier one left."""
    state = state_of(stack)
    if state not in (None, *EMPTY):
        raise Declined(
            f"there is a stack {stack} already ({state}): only a stack that is not there yet can adopt. If it is what an\n"
            f"adoption that failed left, `make destroy STACK={stack}` takes it away and keeps tables and queue; then adopt again"
        )
    check(stack, fresh=True)
    parameters = yaml_parse(TEMPLATE.read_text())["Parameters"]
    adopted = chosen(stack, {name: value for name, value in named.items() if name not in parameters})
    template = import_template(adopted)
    values = keys_of(adopted) | {name: value for name, value in named.items() if name in parameters}
    values = {name: value for name, value in values.items() if name in json.loads(template).get("Parameters", {})}
    print(f"The stack {stack} is made of:\n{shown({key: [name] for key, name in adopted.items()})}")
    if values:
        print("with " + ", ".join(f"{name}={value}" for name, value in values.items()))
    if not yes and input("Go on? [y/N] ").strip().lower() != "y":
        raise Declined("you did not say yes")
    cloudformation = boto3.client("cloudformation")
    change = cloudformation.create_change_set(
        StackName=stack,
        # One that failed keeps its name.
        ChangeSetName=f"adopt-{secrets.token_hex(4)}",
        ChangeSetType="IMPORT",
        TemplateBody=template,
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()],
        ResourcesToImport=[identified(*each) for each in adopted.items()],
    )
    await_change_set(cloudformation, change["Id"])
    cloudformation.execute_change_set(ChangeSetName=change["Id"])
    cloudformation.get_waiter("stack_import_complete").wait(StackName=stack)
    print(f"The stack {stack} has them. Now deploy the rest: make deploy STACK={stack}")


def await_change_set(cloudformation, change_set):
    """Waits until a change set can be executed. One that failed is taken away, and says why."""
    try:
        cloudformation.get_waiter("change_set_create_complete").wait(ChangeSetName=change_set)
    except WaiterError as error:
        described = cloudformation.describe_change_set(ChangeSetName=change_set)
        cloudformation.delete_change_set(ChangeSetName=change_set)
        reason = described.get("StatusReason") or str(error)
        raise Declined(f"CloudFormation takes no such import: {reason}") from error


def resources_of(stack, kind):
    """The physical ids of the stack's resources of a kind."""
    pages = boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
    return sorted(each["PhysicalResourceId"] for each in resources if each["ResourceType"] == kind)


def alias_of(function, name):
    """An alias of a function, or `None` where there is none."""
    client = boto3.client("lambda")
    try:
        return client.get_alias(FunctionName=function, Name=name)
    except client.exceptions.ResourceNotFoundException:
        return None


def moved_by_hand(stack):
    """The versions that are live, and not those of the last deploy: somebody rolled back."""
    deployed = {tuple(arn.rsplit(":", 2)[-2:]) for arn in resources_of(stack, "AWS::Lambda::Version")}
    live = {function: alias_of(function, LIVE) for function in resources_of(stack, "AWS::Lambda::Function")}
    live = {(name, alias["FunctionVersion"]) for name, alias in live.items() if alias and not alias.get("RoutingConfig")}
    return sorted(live - deployed)


def check_numbers(values):
    """Declines numbers that do not fit one another. A deploy keeps those that it does not name."""
    timeout, lease, visibility, reserve, provisioned = (
        int(values[name])
        for name in ("ProcessorTimeout", "LeaseSeconds", "VisibilityTimeout", "IntakeReserve", "IntakeProvisioned")
    )
    if timeout >= lease or lease > visibility or visibility < 6 * timeout:
        raise Declined(
            f"ProcessorTimeout ({timeout}) must be shorter than LeaseSeconds ({lease}), and VisibilityTimeout ({visibility}) at\n"
            "least as long as LeaseSeconds and 6 times ProcessorTimeout. A deploy keeps those that you do not name: name all"
        )
    if reserve and provisioned > reserve:
        raise Declined(f"IntakeProvisioned ({provisioned}) must be at most IntakeReserve ({reserve}), or that 0")


def pin(stack, built, named):
    """Writes a hash into the built template, so that versions are published exactly when Lambda has something to publish."""
    values, deployed, mark = defaults(), {}, ""
    if state_of(stack) not in (None, *EMPTY):
        described = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
        deployed = {it["ParameterKey"]: it["ParameterValue"] for it in described.get("Parameters", [])}
        mark = mark_of(stack, described)
    values |= deployed | named
    check_numbers(values)
    text = built.read_text()
    if text.count(UNPINNED) != 1:
        raise Declined(f"{built} has no line `{UNPINNED}`, or several: build it again")
    if reason := why_at_once(stack, deployed, values):
        print(f"The functions move at once this time, without CodeDeploy: {reason}.")
        text = ROLLOUT.sub("Enabled: false", text)
    pinned = digest([values, mark, written(text)])
    built.write_text(text.replace(UNPINNED, "PARAMETERS: " + "-".join(filter(None, [f"v{pinned}", mark]))))


def digest(of, length=16):
    return hashlib.sha256(json.dumps(of, sort_keys=True, default=str).encode()).hexdigest()[:length]


def defaults():
    return {name: str(it.get("Default", "")) for name, it in yaml_parse(TEMPLATE.read_text())["Parameters"].items()}


def written(text):
    """The functions as the template writes them, tags and wording included. SAM makes a new version resource for any change
    of it, and Lambda publishes none for most: CloudFormation would fail with "A version for this Lambda function exists".
    """
    template = yaml_parse(text)
    functions = {name: it["Properties"] for name, it in template["Resources"].items() if it["Type"] == "AWS::Serverless::Function"}
    # Neither is a property of the function itself.
    elsewhere = ("DeploymentPreference", "Events")
    kept = {name: {key: it for key, it in all.items() if key not in elsewhere} for name, all in functions.items()}
    return [template["Globals"]["Function"], kept]


def mark_of(stack, described):
    """What the deployed functions are marked by; another mark after a roll back. Then the versions of the deploy that was taken
    back are still there, and Lambda would publish no equal ones: without another mark the same code could not be deployed.
    """
    functions = resources_of(stack, "AWS::Lambda::Function")
    if not functions:
        return ""
    configuration = boto3.client("lambda").get_function_configuration(FunctionName=functions[0])
    pinned = configuration.get("Environment", {}).get("Variables", {}).get("PARAMETERS", "")
    mark, moved = pinned.partition("-")[2], moved_by_hand(stack)
    taken_back = described["LastUpdatedTime"] if described["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE" else None
    return digest([mark, moved, taken_back], length=8) if moved or taken_back else mark


def why_at_once(stack, deployed, values):
    """Why CodeDeploy cannot move the functions in this deploy, though `Rollout` says so; `None` where it can."""
    if not deployed or values["Rollout"] == "false":
        return None
    if moved_by_hand(stack):
        return "somebody rolled back, and CodeDeploy takes no alias that was moved by hand"
    if values["Alarms"] == "true" and deployed.get("Alarms", "true") != "true":
        return "the alarms that it would ask are made by this deploy, and after the functions"
    return None


def standing(stack):
    """Of each function: what is live, what was when the last deploy began, and what was before that was live."""
    found = {}
    for function in resources_of(stack, "AWS::Lambda::Function"):
        live, kept = alias_of(function, LIVE), alias_of(function, PREVIOUS) or {}
        if live:
            found[function] = (live["FunctionVersion"], kept.get("FunctionVersion"), kept.get("Description"))
    return found


def keep(stack):
    """Points `previous` at what is live, for a roll back of the deploy that follows."""
    if state_of(stack) in (None, *EMPTY):
        return
    functions = standing(stack)
    if all(live == kept for live, kept, _ in functions.values()):
        return  # a deploy began since, and did not come about: what was noted then is as good
    client = boto3.client("lambda")
    for function, (live, kept, _) in functions.items():
        change = client.update_alias if kept else client.create_alias
        change(FunctionName=function, Name=PREVIOUS, FunctionVersion=live, Description=kept or "")


def steps_back(stack):
    """Each function that the last deploy changed, with the version that is live and the one before it."""
    functions, moved = standing(stack), dict(moved_by_hand(stack))
    nothing_came = not moved and all(live == kept for live, kept, _ in functions.values())
    back = {name: (live, before if nothing_came else kept) for name, (live, kept, before) in functions.items()}
    steps = [(name, live, to) for name, (live, to) in back.items() if to and to != live and name not in moved]
    if moved and not steps:
        raise Declined(f"{stack} was rolled back already: what the last deploy made is not live. Mend it, and deploy")
    if not steps:
        raise Declined(f"it is not known what ran as {stack} before: `make deploy` notes it, from the second on")
    return steps


def rollback(stack, yes):
    """Points `live` of every function back at the version before the last deploy."""
    state = state_of(stack)
    if state in (None, *EMPTY):
        raise Declined(f"there is no stack {stack}")
    if state.endswith("_IN_PROGRESS"):
        raise Declined(
            f"a deploy of {stack} is under way ({state}). This takes it back, and all that it has shifted:\n"
            f"  aws cloudformation cancel-update-stack --stack-name {stack}"
        )
    steps = steps_back(stack)
    print("\n".join(f"  {function:<40} {live} → {previous}" for function, live, previous in steps))
    print(
        "Code, flows and environment of each version go back together, at once. Tables, queues, alarms, routes and roles\n"
        "stay as they are. What the newer version wrote in a newer format is left alone until that version is back, and\n"
        "events of a flow that only it has wait for an hour, and park as unknown_flow. No effect is done twice by it."
    )
    if not yes and input("Go back? [y/N] ").strip().lower() != "y":
        raise Declined("you did not say yes")
    client = boto3.client("lambda")
    for function, live, previous in steps:
        # Of the replay function, what approvers use goes along.
        aliases = client.list_aliases(FunctionName=function)["Aliases"]
        for name in (alias["Name"] for alias in aliases if alias["Name"] != PREVIOUS and alias["FunctionVersion"] == live):
            client.update_alias(
                FunctionName=function, Name=name, FunctionVersion=previous, RoutingConfig={"AdditionalVersionWeights": {}}
            )
    print("These versions are live. The next `make deploy` deploys what is in your checkout: mend that first.")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("check", "pin", "keep", "rollback", "adopt"):
        verbs.add_parser(verb).add_argument("--stack", required=True)
    verbs.choices["check"].add_argument("--fresh", action="store_true")
    verbs.choices["pin"].add_argument("--template", required=True, type=pathlib.Path)
    verbs.choices["pin"].add_argument("named", nargs="*", metavar="Parameter=value")
    verbs.choices["rollback"].add_argument("--yes", action="store_true")
    verbs.choices["adopt"].add_argument("--yes", action="store_true")
    verbs.choices["adopt"].add_argument("named", nargs="*", metavar="LedgerTable=<name>", help="what to adopt, or a parameter of the template")
    return parser.parse_args()


def pairs(named):
    return dict(each.split("=", 1) for each in named)


def run(asked):
    match asked.verb:
        case "check":
            check(asked.stack, asked.fresh)
        case "pin":
            pin(asked.stack, asked.template, pairs(asked.named))
        case "keep":
            keep(asked.stack)
        case "rollback":
            rollback(asked.stack, asked.yes)
        case "adopt":
            adopt(asked.stack, pairs(asked.named), asked.yes)


def unasked(error):
    """Why AWS could not be asked at all, if that is the error."""
    if isinstance(error, NoRegionError):
        return "no region is set: put AWS_REGION=eu-central-1 before the command"
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return "there are no AWS credentials: set AWS_PROFILE, or run `aws configure` or `aws sso login`"
    return None


def main():
    asked = arguments()
    try:
        run(asked)
    except Declined as declined:
        sys.exit(f"{RED}nothing was changed{PLAIN}: {declined}")
    except (BotoCoreError, ClientError, WaiterError) as error:
        if unasked(error):
            sys.exit(f"{RED}nothing was changed{PLAIN}: {unasked(error)}")
        sys.exit(f"{RED}AWS did not answer as it should{PLAIN}: {error}\nSee the stack's events in the CloudFormation console.")
    except ValueError:
        sys.exit("write each as <name>=<value>, such as LedgerTable=<name of the table>")


if __name__ == "__main__":
    main()
