"""What a deploy needs, looked at before anything is built: each in one sentence, with what to do where it is missing."""

import contextlib
import io
import pathlib
import shutil
import subprocess
import tempfile
import urllib.request
import zipfile

import boto3
from botocore.exceptions import ClientError, NoRegionError
from samcli.yamlhelper import yaml_parse

from stack import LIVE, TEMPLATE, Declined

FLOWS = TEMPLATE.parent / "flows"

# What a stack has at work at its busiest: the processor's batches, the replay function's, a console, and some deliveries.
BUSY = 40

TARGETS = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}


def good(sentence):
    print(f"  ✓ {sentence}")


def mind(sentence):
    print(f"  ! {sentence}")


def tools(architecture):
    if architecture not in TARGETS:
        raise Declined(f"there is no architecture {architecture}: ARCH is arm64 or x86_64")
    if not shutil.which("cargo"):
        raise Declined("there is no cargo on PATH: install Rust (rustup.rs), or deploy a release, which needs none")
    target = TARGETS[architecture]
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    if not (pathlib.Path(sysroot) / "lib/rustlib" / target).is_dir():
        raise Declined(f"Rust has no target for {architecture}: `rustup target add {target}`, or choose the other by ARCH")
    good(f"Rust builds for {architecture}")


def account():
    """Whose account it is. Without credentials or a region nothing else can be asked."""
    try:
        region = boto3.session.Session().region_name
        who = boto3.client("sts", region_name=region or "us-east-1").get_caller_identity()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        raise Declined(f"AWS does not take the credentials ({code}): they may have expired, `aws sso login` renews them") from error
    if not region:
        raise NoRegionError()
    good(f"account {who['Account']} in {region}, as {who['Arn'].rsplit(':', 1)[-1]}")


def allowed(ask, what):
    """The answer, or nothing where the deployer may not ask: that stops no deploy."""
    try:
        return ask()
    except ClientError as error:
        mind(f"{what} could not be read ({error.response['Error']['Code']})")
        return None


def quotas(stack, wanted):
    settings = allowed(boto3.client("lambda").get_account_settings, "the quota of Lambda")
    if settings:
        limit, said = settings["AccountLimit"]["ConcurrentExecutions"], int(current(stack, wanted, "AccountConcurrency"))
        if limit < BUSY:
            mind(f"Lambda runs {limit} at once in this account, which is little: ask AWS for 1,000 (Service Quotas, L-B99A9384)")
        else:
            good(f"Lambda runs {limit} at once in this account")
        if limit != said:
            mind(f"AccountConcurrency is {said}: name AccountConcurrency={limit} in PARAMETERS, for the alarm that watches it")
    setting = "/ssm/parameter-store/high-throughput-enabled"
    answer = allowed(lambda: boto3.client("ssm").get_service_setting(SettingId=setting), "the throughput of SSM")
    if answer and answer["ServiceSetting"]["SettingValue"] == "true":
        good("SSM answers with its higher throughput")
    elif answer:
        mind(
            "SSM answers 40 requests a second. Each new container reads a secret of each source that sends: for bursts of more,\n"
            f"    aws ssm update-service-setting --setting-id {setting} --setting-value true   (it costs per request)"
        )


def current(stack, wanted, name):
    """A parameter's value after the deploy: as it is named, as the stack has it, or its default."""
    if name in wanted:
        return wanted[name]
    try:
        stacks = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        known = {each["ParameterKey"]: each["ParameterValue"] for each in stacks[0].get("Parameters", [])}
    except ClientError:
        known = {}
    return known.get(name, yaml_parse(TEMPLATE.read_text())["Parameters"][name]["Default"])


class Unreadable(Exception):
    """There are deployed flows, and they cannot be read, for this reason."""


@contextlib.contextmanager
def deployed_flows(stack):
    """A folder with the flows that the stack runs, or nothing where there is no stack yet, or one without aliases."""
    package = flows_package(stack)
    if package is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(io.BytesIO(package)).extractall(folder)
        yield folder


def flows_package(stack):
    """The layer that the live version of the processor reads its flows from, as a zip."""
    aws = boto3.client("lambda")
    try:
        live = aws.get_function_configuration(FunctionName=f"{stack}-processor", Qualifier=LIVE)
    except aws.exceptions.ResourceNotFoundException:
        return None
    except ClientError as error:
        raise Unreadable(error) from error
    layers = [layer["Arn"] for layer in live.get("Layers", []) if f":layer:{stack}-flows:" in layer["Arn"]]
    if not layers:
        raise Unreadable(f"{stack}-processor has no layer {stack}-flows")
    try:
        found = aws.get_layer_version_by_arn(Arn=layers[0])
        return urllib.request.urlopen(found["Content"]["Location"], timeout=30).read()
    except (ClientError, OSError) as error:
        raise Unreadable(error) from error


def owners_without_secret(stack):
    """The sources and integrations of the flows that have no secret below the stack's path."""
    owners = [f"sources/{name}" for name in names("sources.yaml")] + [f"integrations/{name}" for name in names("integrations.yaml")]

    def ask():
        pages = boto3.client("ssm").get_paginator("get_parameters_by_path").paginate(Path=f"/{stack}", Recursive=True)
        return [each["Name"] for page in pages for each in page["Parameters"]]

    known = allowed(ask, "the names of the secrets")
    return [owner for owner in owners if known is not None and not any(name.startswith(f"/{stack}/{owner}/") for name in known)]


def names(file):
    """The names in a file of the flows, without those that need no secret."""
    for name, entry in (yaml_parse((FLOWS / file).read_text()) or {}).items():
        if "invoke" not in entry and entry.get("auth") != "none" and entry.get("scheme") != "none":
            yield name
