"""What `make verify` asks of AWS, or of the local cloud in its place: whether the platform does what Ledgerline leans on.

    python verify.py --stack ledgerline        a deployed stack, with the region and the credentials of the environment
    python verify.py --local                   the local cloud that runs this (`local exec`)

It makes tables, queues, functions and an API of its own beside the stack, and takes them away again, whatever happens. Of
the stack itself it only reads, but for one request with a wrong signature. It costs some cents and takes some minutes. What
it saw goes to infra/docs/VERIFIED.md, into the section of the local cloud or of the region.

The emulator cannot answer some of the questions: `unanswered.yaml` lists them. One more fails the verification, and so does
one that it does answer.
"""

import argparse
import datetime
import os
import pathlib
import secrets
import sys
import traceback

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from samcli.yamlhelper import yaml_parse

from questions import QUESTIONS, Pointless, Unanswered
from scratch import Scratch
from stack import unasked

HERE = pathlib.Path(__file__).resolve().parent
REPORT = HERE.parents[0] / "docs" / "VERIFIED.md"
UNANSWERED = HERE / "unanswered.yaml"

HELD, FAILED, NOT_ANSWERED, POINTLESS = "held", "FAILED", "not answered", "no question here"

HEAD = """# Verified

What `make verify` saw, last on the local cloud and in each region in which somebody ran it on AWS. The local cloud's figures
tell how busy a machine was, and nothing about AWS. If you have an account, `make verify STACK=<yours>` writes a section
here: send it to us. [DEPLOY.md](DEPLOY.md#verify-it) says what it makes and costs. Releases are tried [by hand](#by-hand).
"""


class Place:
    """The stack that is verified, and how it is reached."""

    def __init__(self, stack, local):
        self.stack, self.local = stack, local
        self.region = boto3.session.Session().region_name
        described = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
        self.outputs = {each["OutputKey"]: each["OutputValue"] for each in described.get("Outputs", [])}
        self.parameters = {each["ParameterKey"]: each["ParameterValue"] for each in described.get("Parameters", [])}
        self.deployed_at = described.get("LastUpdatedTime") or described["CreationTime"]
        # The local cloud's own gateway stands in for API Gateway.
        self.url = os.environ["LEDGERLINE_URL"] if local else self.outputs["Url"]

    def name(self):
        return "The local cloud" if self.local else f"AWS, {self.region}"


def ask(place, scratch):
    """Each question's outcome: its id, what was asked, how it ended, and what was seen."""
    for question in QUESTIONS:
        print(f"  {question.id:<34}", end="", flush=True)
        try:
            ended, seen = HELD, question.ask(place, scratch)
        except Unanswered as reason:
            ended, seen = NOT_ANSWERED, str(reason)
        except Pointless as reason:
            ended, seen = POINTLESS, str(reason)
        except AssertionError as wrong:
            ended, seen = FAILED, str(wrong)
        except Exception as error:
            traceback.print_exc()
            ended, seen = FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
        print(ended + (f": {seen}" if ended != HELD else ""))
        yield question, ended, seen


def unexpected(outcomes, expected):
    """What is not as the list of unanswered questions says. On AWS the list is empty."""
    for question, ended, seen in outcomes:
        if ended == FAILED:
            yield f"{question.id}: {seen}"
        elif ended == NOT_ANSWERED and question.id not in expected:
            yield f"{question.id} was not answered, and infra/deploy/unanswered.yaml does not list it: {seen}"
        elif ended == HELD and question.id in expected:
            yield f"{question.id} was answered: take it out of infra/deploy/unanswered.yaml"
    for id in expected - {question.id for question, *_ in outcomes}:
        yield f"{id} stands in infra/deploy/unanswered.yaml, and is no question"


def section(place, outcomes):
    today = datetime.date.today().isoformat()
    rows = [f"| `{question.id}` | {question.asked} | {ended} | {seen} |" for question, ended, seen in outcomes]
    count = sum(ended == HELD for _, ended, _ in outcomes)
    told = f"{today}: {count} of {len(outcomes)} questions were answered as Ledgerline needs it."
    return "\n".join([f"## {place.name()}", "", told, "", "| id | asked | outcome | seen |", "|---|---|---|---|", *rows, ""])


def write(place, outcomes):
    """Puts the section into the report, in the place of the last one of the same place."""
    old = REPORT.read_text() if REPORT.exists() else HEAD
    sections = old.split("\n## ")[1:]
    kept = [f"## {each.rstrip()}\n" for each in sections if each.splitlines()[0] != place.name()]
    mine = section(place, outcomes)
    # The local cloud first: it is always there.
    ordered = [mine, *kept] if place.local else [*kept, mine]
    REPORT.write_text("\n".join([HEAD, *ordered]))


def why_not(error, stack):
    """Why the stack could not be read, and what to do."""
    if "does not exist" in str(error):
        return f"there is no stack {stack} in this account and region: is it spelt so, and is AWS_REGION right?"
    if isinstance(error, ClientError) and "Token" in error.response["Error"]["Code"]:
        return f"AWS does not take the credentials: they may have expired, `aws sso login` renews them ({error})"
    return error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", default="ledgerline")
    parser.add_argument("--local", action="store_true")
    asked = parser.parse_args()
    try:
        place = Place(asked.stack, asked.local)
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"nothing was asked: {unasked(error) or why_not(error, asked.stack)}")
    expected = set(yaml_parse(UNANSWERED.read_text())) if place.local else set()
    print(f"{place.name()}, stack {place.stack}:")
    with Scratch(f"{place.stack}-verify-{secrets.token_hex(3)}") as scratch:
        outcomes = list(ask(place, scratch))
    write(place, outcomes)
    print(f"The report is {REPORT}.")
    wrong = list(unexpected(outcomes, expected))
    if wrong:
        sys.exit("not as Ledgerline needs it:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
