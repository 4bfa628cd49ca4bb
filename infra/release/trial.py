"""Deploys what was built to the local cloud as somebody would who has no Rust, and calls each function.

    local exec -- python trial.py target/releases/ledgerline-0.1.0-linux-x86_64      a release's folder
    local exec -- python trial.py .aws-sam/build                                     what `make build` left

No cargo is on the PATH of anything that runs here. The emulator unpacks no layer for such functions, so that they read the
flows from the folder; nor does it know CodeDeploy or an alarm on an expression.
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

import boto3

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "infra/deploy"))

import smoke  # noqa: E402

STACK = "trial"
SECRET = "whsec_dHJpYWwgdHJpYWwgdHJpYWwgdHJpYWwgdHJpYWw="
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
# As an ELF header numbers them.
MACHINES = {62: "x86_64", 183: "arm64"}


def path_without_cargo():
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (pathlib.Path(folder) / "cargo").exists()]
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), *folders])
    assert not shutil.which("cargo", path=path) and not shutil.which("rustc", path=path), path
    return path


def run(*command, **options):
    print("+", " ".join(map(str, command)), flush=True)
    environment = {**os.environ, "PATH": path_without_cargo(), "SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "0.2"}
    ran = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{command[0]} failed:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
    return ran.stdout


def check_release(folder):
    """What a release has beside its template: the sums are right, and the command runs."""
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, f"{name} is another than was released"
    print(run(folder / "ledgerline", "version"), end="")
    run(folder / "ledgerline", "flows", "check", folder / "flows")


def deploy(folder, architecture):
    flows = folder / "flows" if (folder / "flows").is_dir() else ROOT / "infra/flows"
    parameters = [
        f"Architecture={architecture}",
        f"FlowsDir={flows}",
        f"PartnerEndpoint={os.environ['LEDGERLINE_CALLS_URL']}",
        *("Alarms=plain", "Rollout=false", "Schedule=DISABLED"),
    ]
    sam = pathlib.Path(sys.executable).with_name("sam")
    run(
        *(sys.executable, sam, "deploy", "--template-file", folder / "template.yaml", "--stack-name", STACK, "--resolve-s3"),
        *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND", "--no-confirm-changeset", "--no-progressbar"),
        *("--no-fail-on-empty-changeset", "--parameter-overrides", *parameters),
        cwd=folder,
    )


def invoke(function, event):
    answer = boto3.client("lambda").invoke(FunctionName=f"{STACK}-{function}", Qualifier="live", Payload=json.dumps(event))
    text = answer["Payload"].read().decode()
    assert "FunctionError" not in answer, f"{function}: {text[:500]}"
    return json.loads(text)


def signed_request():
    """A delivery as API Gateway hands it over, signed by the stack's secret: it is believed, and no flow takes it."""
    request = json.loads((ROOT / "events/http/request.json").read_text())
    _, headers = smoke.request(STACK, "https://trial")
    return {**request, "headers": headers, "body": smoke.BODY, "pathParameters": {"source": "web-forms"}}


def call_each():
    boto3.client("ssm").put_parameter(
        Name=f"/{STACK}/sources/web-forms/one", Value=SECRET, Type="SecureString", Overwrite=True
    )
    answer = invoke("intake", signed_request())
    assert (answer["statusCode"], smoke.RIGHT[1] in answer["body"]) == (smoke.RIGHT[0], True), answer
    assert invoke("processor", {"Records": []}) == {"batchItemFailures": []}
    assert invoke("replay", {"op": "list", "limit": 1})["parked"] == []
    assert "<" in str(invoke("console", {"page": "overview", "widgetContext": {"dashboardName": f"{STACK}-{os.environ['AWS_REGION']}-view"}}))
    return 4


def machine_of(folder):
    """For which machine the functions are, of a folder with zips or with binaries."""
    binaries = list(folder.glob("*/bootstrap"))
    if binaries:
        return MACHINES[int.from_bytes(binaries[0].read_bytes()[18:20], "little")]
    return folder.resolve().name.rsplit("-", 1)[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder.resolve()
    # The SDKs read the one, and Python's the other.
    os.environ.setdefault("AWS_DEFAULT_REGION", os.environ["AWS_REGION"])
    here, built = ARCHITECTURES[platform.machine()], machine_of(folder)
    if built != here:
        sys.exit(f"{folder.name} is for {built}, and this machine is {here}: try it on one of those")
    if (folder / "SHA256SUMS").exists():
        check_release(folder)
    began = time.monotonic()
    deploy(folder, here)
    print(f"It was deployed in {time.monotonic() - began:.0f} s, and {call_each()} functions answered as they should.")


if __name__ == "__main__":
    main()
