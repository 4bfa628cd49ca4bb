"""`make deploy` and `make destroy` for a person, and without a question in CI.

    python deploy.py before  --stack ledgerline [--stage staging] [Parameter=value …]   looks, and changes nothing
    python deploy.py run     --stack ledgerline … --template .aws-sam/build/template.yaml   the change set, the question, the deploy
    python deploy.py destroy --stack ledgerline

Who sits at a terminal is asked. Without one, or with --yes, a deploy goes on by itself: unless it would replace or delete a
table or a queue (--replace), or a change of the flows could make an effect happen again (--risky).
"""

import argparse
import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import time

import boto3
import tomlkit
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

import change_set
import guide
import look
import smoke
import stack as stacks
from stack import Declined

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / "infra/samconfig.toml"

# SAM takes an empty value in quotes alone.
NOTHING = '""'

DONE = ("CREATE_COMPLETE", "UPDATE_COMPLETE")

# Each count holds alarms back for 15 minutes. The slowest rollouts take half an hour, and one that hangs has to be told.
COUNTED_EVERY, COUNTED_FOR = 5 * 60, 45 * 60


def terminal(asked):
    return not asked.yes and sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


def agreed(asked, question):
    """Whether to go on. Without a terminal nobody is asked, and what is dangerous has a flag of its own."""
    if not terminal(asked):
        return True
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def stages():
    return [name for name in tomlkit.parse(CONFIG.read_text()) if name not in ("version", "default")]


def parameters(asked):
    """The parameters of the stage, with those that the command line names in their place."""
    config = tomlkit.parse(CONFIG.read_text())
    stage = config.get(asked.stage, {}) if asked.stage else {}
    if asked.stage and not stage:
        raise Declined(f"there is no stage {asked.stage} in infra/samconfig.toml: name {', '.join(stages())}")
    pairs = [*stage.get("deploy", {}).get("parameters", {}).get("parameter_overrides", []), *asked.parameters]
    return named(pairs, "parameters")


def named(texts, what):
    """`Name=value` pairs of the command line."""
    if wrong := [pair for pair in texts if "=" not in pair]:
        raise Declined(f"write {what} as Name=value: {' '.join(wrong)}")
    return dict(pair.split("=", 1) for pair in texts)


def tags(asked):
    """The stack's tags: those that it has, with those that the command line names. `team=` takes one away."""
    wanted = named(shlex.split(asked.tags), "tags")
    if stacks.state_if_made(asked.stack):
        described = boto3.client("cloudformation").describe_stacks(StackName=asked.stack)["Stacks"][0]
        wanted = {each["Key"]: each["Value"] for each in described.get("Tags", [])} | wanted
    return {name: value for name, value in wanted.items() if value}


def ledgerline(asked, *arguments, **options):
    return subprocess.run([*shlex.split(asked.ledgerline), *arguments], cwd=ROOT, **options)


# ── Before the build ─────────────────────────────────────────────────────────────────────────────────────────────────────


def before(asked):
    """Looks at everything that a deploy needs, and says it at once; nothing is changed."""
    wanted = parameters(asked)
    first = stacks.state_if_made(asked.stack)
    check_first(first, wanted)
    if first is None and terminal(asked) and not asked.stage:
        guide.stage(asked, stages())
    print(f"{'The first deploy' if first is None else 'A deploy'} of the stack {asked.stack}:")
    look.tools(wanted.get("Architecture", "arm64"))
    look.account()
    look.quotas(asked.stack, wanted)
    stacks.check(asked.stack, asked.fresh)
    flows(asked)
    missing_secrets(asked, wanted)
    if not agreed(asked, "Build and go on?"):
        raise Declined("you did not say yes")


def check_first(state, wanted):
    """Declines what CloudFormation could not take back if the first deploy failed halfway."""
    if state is None and wanted.get("DeletionProtection") == "true":
        raise Declined(
            "DeletionProtection=true is for the second deploy: CloudFormation could not delete the tables of a first one that\n"
            "fails, and the next would begin beside them. Leave it out now, and deploy once more with it"
        )


def flows(asked):
    """What a change of the flows makes happen again, compared with those that are deployed."""
    try:
        compared = compared_flows(asked)
    except look.Unreadable as why:
        meant(asked, f"the deployed flows cannot be compared, and an effect could happen again or be forgotten: {why}")
        return
    if compared is None:
        return
    print("  The flows, compared with those that are deployed:")
    print("".join(f"    {line}\n" for line in compared.stdout.splitlines()), end="")
    if compared.returncode == 3:
        meant(asked, "an effect can happen again or be forgotten (above)")


def compared_flows(asked):
    """What `flows diff` says, or nothing where no flows are deployed."""
    with look.deployed_flows(asked.stack) as folder:
        if folder is None:
            return None
        compared = ledgerline(asked, "flows", "diff", f"{folder}/", "infra/flows", capture_output=True, text=True)
    if compared.returncode not in (0, 3):
        raise look.Unreadable(compared.stderr.strip())
    return compared


def meant(asked, what):
    """Goes on where somebody says that it is meant."""
    if not terminal(asked) and not asked.risky:
        raise Declined(f"{what}. If that is meant: make deploy RISKY=1")
    if not agreed(asked, f"{what[0].upper()}{what[1:]}. Is that meant?"):
        raise Declined("you did not say yes")


def missing_secrets(asked, wanted):
    """Names whose secret is not there yet, and offers to put each."""
    key = look.current(asked.stack, wanted, "SecretsKeyArn")
    for owner in look.owners_without_secret(asked.stack):
        print(f"  ! there is no secret of {owner} yet")
        if terminal(asked) and input("    Put it now? Leave it out if it needs none. [y/N] ").strip().lower() == "y":
            options = ["--key", key] if key else []
            if owner.startswith("sources/") and input("    Make a random one? [y/N] ").strip().lower() == "y":
                options += ["--generate"]
            ledgerline(asked, "--stack", asked.stack, "secrets", "set", owner, *options)


# ── The deploy ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(asked):
    """Makes the change set, says it in words, and executes it."""
    state, wanted = stacks.state_if_made(asked.stack), parameters(asked)
    check_first(state, wanted)
    if state is None and terminal(asked):
        wanted |= guide.answers(wanted)
    with pinned(asked, wanted) as copy:
        made = create(asked, wanted, copy)
    if made is None:
        print(f"Nothing is to be changed in {asked.stack}.")
    else:
        changes = change_set.read(made)
        print(change_set.words(changes))
        decide(asked, made, change_set.dangers(changes), state)
        stacks.keep(asked.stack)
        ledgerline(asked, "--stack", asked.stack, "deploying")
        execute(asked, made)
        if change_set.begins_schedules(changes):
            ledgerline(asked, "--stack", asked.stack, "deploying")
    tell(asked)


@contextlib.contextmanager
def pinned(asked, wanted):
    """A copy of the template with the hash of all parameters, so that a change of any publishes versions."""
    built = pathlib.Path(asked.template)
    copy = built.with_name(f"pinned-{built.name}")
    copy.write_text(built.read_text())
    stacks.pin(asked.stack, copy, wanted)
    try:
        yield copy
    finally:
        copy.unlink()


def create(asked, wanted, template):
    """The ARN of the new change set, made by `sam deploy`; `None` where there is nothing to change."""
    cloudformation = boto3.client("cloudformation")
    sam = pathlib.Path(sys.executable).with_name("sam")
    command = [sys.executable, str(sam), "deploy", "--no-execute-changeset", "--no-confirm-changeset"]
    command += ["--no-fail-on-empty-changeset", "--no-progressbar", "--config-file", str(CONFIG)]
    command += ["--template-file", str(template), "--stack-name", asked.stack, "--resolve-s3"]
    command += ["--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
    if wanted:
        command += ["--parameter-overrides", *(f"{name}={value or NOTHING}" for name, value in wanted.items())]
    if wanted_tags := tags(asked):
        command += ["--tags", *(f"{name}={value}" for name, value in wanted_tags.items())]
    known = change_sets(cloudformation, asked.stack)
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "SAM_CLI_TELEMETRY": "0"})
    new = [each for each in change_sets(cloudformation, asked.stack) if each not in known]
    if ran.returncode != 0:
        raise Declined(f"the change set could not be made:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return new[0] if new else None


def change_sets(cloudformation, stack):
    """The change sets of a stack that can be executed."""
    try:
        listed = cloudformation.list_change_sets(StackName=stack)["Summaries"]
    except ClientError as error:
        if "does not exist" in str(error):
            return []
        raise
    return [each["ChangeSetId"] for each in listed if each.get("Status") == "CREATE_COMPLETE"]


def decide(asked, made, dangers, state):
    """Goes on, or takes the change set away again."""
    refused = None
    if dangers and not terminal(asked) and not asked.replace:
        refused = f"it would {'; '.join(dangers)}. If that is meant: make deploy REPLACE=1"
    elif dangers and terminal(asked):
        typed = input(f"This would {'; '.join(dangers)}. Type the stack's name if that is meant: ")
        refused = None if typed.strip() == asked.stack else "you did not type the stack's name"
    elif not agreed(asked, f"Deploy this to {asked.stack}?"):
        refused = "you did not say yes"
    if refused:
        cloudformation = boto3.client("cloudformation")
        cloudformation.delete_change_set(ChangeSetName=made)
        if state is None:
            # A stack that is only under review has nothing.
            cloudformation.delete_stack(StackName=asked.stack)
        raise Declined(refused)


def execute(asked, made):
    cloudformation = boto3.client("cloudformation")
    cloudformation.execute_change_set(ChangeSetName=made)
    print("Deploying", end="", flush=True)
    stack, counted = asked.stack, 0
    began = time.monotonic()
    while True:
        lasts = time.monotonic() - began
        if counted + COUNTED_EVERY <= lasts < COUNTED_FOR:
            ledgerline(asked, "--stack", stack, "deploying", capture_output=True)
            counted = lasts
        state = stacks.state_of(stack)
        if state is None or not state.endswith("_IN_PROGRESS"):
            print()
            break
        print(".", end="", flush=True)
        time.sleep(0.5 if os.environ.get("AWS_ENDPOINT_URL") else 5)
    if state not in DONE:
        reasons = change_set.failures(stack)
        raise Declined(f"the deploy failed ({state}):\n{reasons}\n{change_set.ended(stack, state)}")


def tell(asked):
    described = boto3.client("cloudformation").describe_stacks(StackName=asked.stack)["Stacks"][0]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in described.get("Outputs", [])}
    url = asked.url or outputs["Url"]
    print(f"\nSenders post to {url}/v1/events/<source>\nThe console is {outputs['ConsoleUrl']}\n")
    request = smoke.request(asked.stack, url)
    if request is None:
        print("There is no secret of a source with standard-webhooks, so there is no signed request to try it with.")
        return
    print("A signed request that does nothing; it is good for five minutes, and 422 unknown-type is the right answer:\n")
    print(smoke.curl(request))
    if asked.smoke or terminal(asked) and input("\nSend it? [y/N] ").strip().lower() == "y":
        print(f"\n{smoke.send(request)}")


# ── The end ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def destroy(asked):
    """Deletes the stack, and says what stays and how to delete that, too."""
    if stacks.state_of(asked.stack) is None:
        raise Declined(f"there is no stack {asked.stack}")
    kept = change_set.kept(asked.stack)
    print(f"The stack {asked.stack} goes: functions, API, alarms, dashboards, logs, and the events queue with what is on it.")
    print("This stays, and `make adopt` makes a new stack around it:")
    print("".join(f"  {logical_id:<18} {name}\n" for logical_id, name in kept.items()), end="")
    print(f"So do the versions of the layer {asked.stack}-flows, and the secrets.")
    if terminal(asked):
        if input("Type the stack's name to delete it: ").strip() != asked.stack:
            raise Declined("you did not type the stack's name")
    elif not asked.yes:
        raise Declined("there is no terminal to ask on: make destroy YES=1")
    cloudformation = boto3.client("cloudformation")
    cloudformation.delete_stack(StackName=asked.stack)
    cloudformation.get_waiter("stack_delete_complete").wait(StackName=asked.stack, WaiterConfig=patience(asked))
    print(f"The stack {asked.stack} is gone. To delete what stays, for good:")
    print("".join(f"  {command}\n" for command in change_set.removal(asked.stack, kept)), end="")


def patience(asked):
    """An hour: Lambda takes its network interfaces out of a VPC some 40 minutes after the functions are gone."""
    return {"Delay": asked.poll, "MaxAttempts": 3600 // asked.poll}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("before", "run", "destroy"):
        known = verbs.add_parser(verb)
        known.add_argument("--stack", required=True)
        known.add_argument("--yes", action="store_true")
        # The emulator is done at once.
        known.add_argument("--poll", type=int, default=1 if os.environ.get("AWS_ENDPOINT_URL") else 10)
    for verb in ("before", "run"):
        known = verbs.choices[verb]
        known.add_argument("--stage")
        known.add_argument("--ledgerline", default="ledgerline")
        known.add_argument("parameters", nargs="*", metavar="Name=value")
    verbs.choices["before"].add_argument("--fresh", action="store_true")
    verbs.choices["before"].add_argument("--risky", action="store_true")
    verbs.choices["run"].add_argument("--template", required=True)
    verbs.choices["run"].add_argument("--tags", default="", help="of the stack and all that takes some: 'team=shop env=prod'")
    verbs.choices["run"].add_argument("--replace", action="store_true")
    verbs.choices["run"].add_argument("--smoke", action="store_true")
    verbs.choices["run"].add_argument("--url", help="another URL of the API than the stack's own, as that of a domain")
    return parser.parse_args()


def main():
    asked = arguments()
    try:
        {"before": before, "run": run, "destroy": destroy}[asked.verb](asked)
    except Declined as declined:
        sys.exit(f"{stacks.RED}stopped{stacks.PLAIN}: {declined}")
    except (BotoCoreError, ClientError, WaiterError) as error:
        if stacks.unasked(error):
            sys.exit(f"{stacks.RED}stopped{stacks.PLAIN}: {stacks.unasked(error)}")
        sys.exit(f"{stacks.RED}AWS did not answer as it should{stacks.PLAIN}: {error}")
    except KeyboardInterrupt:
        sys.exit("\nstopped: look at the CloudFormation console for what was begun")


if __name__ == "__main__":
    main()
