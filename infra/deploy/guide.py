"""What a person is asked at the first deploy of a stack, each with a default. In CI nothing is asked."""

import re

import boto3
from botocore.exceptions import ClientError
from samcli.yamlhelper import yaml_parse

from stack import TEMPLATE, Declined

TOPICS = {
    "PageTopicArn": "the SNS topic that wakes somebody",
    "TicketTopicArn": "the SNS topic for what can wait for the morning",
}


def stage(asked, stages):
    """Where no stage is named, the stack is `ledgerline` with the template's defaults: is that meant?"""
    answer = input(f"  Which stage is it: {', '.join(stages)}, or none? [none] ").strip()
    if answer in stages:
        raise Declined(f"a stage has a stack of its own: make deploy STAGE={answer}")
    if answer not in ("", "none"):
        raise Declined(f"there is no stage {answer}")


def answers(wanted):
    """The parameters that are asked for, without those that are named already."""
    given = {}
    if not any(wanted.get(name) for name in (*TOPICS, "AlarmTopicArn")):
        given |= topics()
    if "AccountConcurrency" not in wanted:
        given |= concurrency()
    return given


def topics():
    given, default = {}, ""
    for name, what in TOPICS.items():
        default = given[name] = fitting(name, f"  {name}, {what}, as an ARN", default)
    if not any(given.values()):
        print("  ! no topic is told of alarms: make deploy PARAMETERS='PageTopicArn=… TicketTopicArn=…' (see DEPLOY.md)")
    return {name: topic for name, topic in given.items() if topic}


def concurrency():
    try:
        limit = boto3.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    except ClientError:
        return {}
    return {"AccountConcurrency": fitting("AccountConcurrency", "  AccountConcurrency, how much Lambda runs at once for you", limit)}


def fitting(name, question, default):
    """An answer that the template takes, or the default."""
    pattern = yaml_parse(TEMPLATE.read_text())["Parameters"][name].get("AllowedPattern", r"^\d+$")
    while True:
        answer = input(f"{question} [{default or 'none'}] ").strip() or str(default)
        if re.match(pattern, answer):
            return answer
        print("  that is none")
