"""A change set in words: what is made, changed, replaced and deleted; why a deploy failed; and what outlives a stack."""

import boto3

from stack import kept_resources

# What holds something that cannot be made again.
HOLDS = {
    "AWS::DynamoDB::Table": "the rows in it stay in the old table, and the new one is empty",
    "AWS::SQS::Queue": "what is on it stays on the old queue, and nobody takes it from there",
}


def read(change_set):
    """The changes of resources, each as CloudFormation lists it."""
    pages = boto3.client("cloudformation").get_paginator("describe_change_set").paginate(ChangeSetName=change_set)
    changes = [change["ResourceChange"] for page in pages for change in page.get("Changes", []) if "ResourceChange" in change]
    return sorted(changes, key=lambda change: (change["ResourceType"], change["LogicalResourceId"]))


def replaced(change):
    """`True`, or `Conditional` where CloudFormation finds out only as it goes; `None` where it is changed in place."""
    kind = change.get("Replacement")
    return kind if change["Action"] == "Modify" and kind in ("True", "Conditional") else None


def named(change):
    return f"{change['LogicalResourceId']} ({change['ResourceType'].removeprefix('AWS::')})"


def causes(change):
    """The properties that change, as far as CloudFormation tells."""
    names = {detail.get("Target", {}).get("Name") for detail in change.get("Details", [])} - {None}
    return f": {', '.join(sorted(names))}" if names else ""


def words(changes):
    """The change set for a person, what is dangerous first."""
    kinds = {
        "deleted": [named(change) for change in changes if change["Action"] == "Remove"],
        "replaced by a new one": [named(change) + causes(change) for change in changes if replaced(change) == "True"],
        "perhaps replaced by a new one": [named(change) + causes(change) for change in changes if replaced(change) == "Conditional"],
        "changed": [
            named(change) + causes(change) for change in changes if change["Action"] == "Modify" and not replaced(change)
        ],
        "made": [named(change) for change in changes if change["Action"] in ("Add", "Import")],
    }
    lines = []
    for kind, resources in kinds.items():
        if resources:
            lines.append(f"{len(resources)} {'is' if len(resources) == 1 else 'are'} {kind}:")
            lines += [f"  {resource}" for resource in resources]
    return "\n".join(lines) or "No resource is changed."


# The alarms that take silence for trouble, and are made together with the schedules that they listen to.
LISTENERS = ("ScheduleNotRun", "WakeNotRun")


def begins_schedules(changes):
    """Whether schedules begin by it, which have not run when it ends."""
    return any(change["Action"] == "Add" and change["LogicalResourceId"] in LISTENERS for change in changes)


def dangers(changes):
    """What would be lost or begin anew. Versions of functions and layers come and go with each deploy."""
    found = []
    for change in changes:
        holds = HOLDS.get(change["ResourceType"])
        if holds and change["Action"] == "Remove":
            found.append(f"delete {named(change)}")
        elif holds and replaced(change):
            found.append(f"{'replace' if replaced(change) == 'True' else 'perhaps replace'} {named(change)}: {holds}")
    return found


# How a deploy that failed ended, and what to do.
ENDED = {
    "ROLLBACK_COMPLETE": "Nothing of the first deploy is left but its record. Mend the cause, and deploy again",
    "UPDATE_ROLLBACK_COMPLETE": "The stack is as it was before",
    "ROLLBACK_FAILED": "The first deploy could not be taken back whole: `make destroy STACK={stack}`, then deploy again",
    "UPDATE_ROLLBACK_FAILED": (
        "It could not be taken back whole: some resources are new, and some old. Mend the cause of the last reason, then\n"
        "  aws cloudformation continue-update-rollback --stack-name {stack}"
    ),
}


def ended(stack, state):
    """What became of a stack whose deploy failed."""
    return ENDED.get(state, "Look at it in the CloudFormation console before anything else").format(stack=stack)


def failures(stack):
    """The first reasons for which a deploy failed, from the stack's events."""
    events = boto3.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    failed = [each for each in events if each["ResourceStatus"].endswith("_FAILED") and each.get("ResourceStatusReason")]
    # What was cancelled is no reason.
    failed = [each for each in failed if "cancelled" not in each["ResourceStatusReason"]]
    lines = [f"  {each['LogicalResourceId']}: {each['ResourceStatusReason']}" for each in reversed(failed)]
    return "\n".join(lines[:5]) or "  the stack's events tell no reason"


def kept(stack):
    """The physical ids of what outlives the stack, by their logical ids."""
    pages = boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    resources = {each["LogicalResourceId"]: each.get("PhysicalResourceId") for page in pages for each in page["StackResourceSummaries"]}
    return {name: resources[name] for name in kept_resources() if resources.get(name)}


def removal(stack, kept):
    """The commands that delete what a deleted stack left."""
    for logical_id, name in kept.items():
        if kept_resources()[logical_id]["Type"] == "AWS::DynamoDB::Table":
            yield f"aws dynamodb update-table --table-name {name} --no-deletion-protection-enabled"
            yield f"aws dynamodb delete-table --table-name {name}"
        else:
            yield f"aws sqs delete-queue --queue-url {name}"
    layer = f"--layer-name {stack}-flows"
    yield (
        f"aws lambda list-layer-versions {layer} --query 'LayerVersions[].[Version]' --output text"
        f" | xargs -n 1 aws lambda delete-layer-version {layer} --version-number"
    )
    yield (
        f"aws ssm get-parameters-by-path --path /{stack} --recursive --query 'Parameters[].[Name]' --output text"
        " | xargs -n 10 aws ssm delete-parameters --names"
    )
