"""A signed request that shows a stack's whole front door and does nothing: no flow takes events of its type."""

import base64
import hashlib
import hmac
import secrets
import shlex
import time
import urllib.error
import urllib.request

import boto3
from botocore.exceptions import ClientError
from samcli.yamlhelper import yaml_parse

from look import FLOWS, mind

TYPE = "ledgerline.smoke"
BODY = f'{{"type":"{TYPE}"}}'
RIGHT = (422, "urn:ledgerline:problem:unknown-type")


def request(stack, url):
    """The URL and the headers, signed by a secret of the first source that has one; `None` where there is none."""
    for source in sources():
        try:
            path = f"/{stack}/sources/{source}"
            found = boto3.client("ssm").get_parameters_by_path(Path=path, WithDecryption=True)["Parameters"]
        except ClientError:
            continue
        if found:
            try:
                headers = {"content-type": "application/json", **signed(found[-1]["Value"])}
            except ValueError:
                mind(f"a secret of sources/{source} is no whsec_<base64>: put it anew, or no delivery of it is believed")
                continue
            return f"{url}/v1/events/{source}/{TYPE}", headers
    return None


def sources():
    """The sources whose requests are signed in this way."""
    entries = yaml_parse((FLOWS / "sources.yaml").read_text()) or {}
    return (name for name, entry in entries.items() if entry.get("scheme") == "standard-webhooks")


def signed(secret):
    """The headers of Standard Webhooks."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    id, at = f"msg_{secrets.token_hex(8)}", str(int(time.time()))
    digest = hmac.new(key, f"{id}.{at}.{BODY}".encode(), hashlib.sha256).digest()
    return {"webhook-id": id, "webhook-timestamp": at, "webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}


def curl(request):
    url, headers = request
    lines = [f"curl -i {shlex.quote(url)}", *(f"  -H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items())]
    return " \\\n".join([*lines, f"  -d {shlex.quote(BODY)}"])


def send(request):
    """Sends it, and says what the answer means."""
    url, headers = request
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=BODY.encode(), headers=headers), timeout=15) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        status, text = answer.code, answer.read().decode()
    except OSError as error:
        return f"{url} does not answer: {error}"
    if status == RIGHT[0] and RIGHT[1] in text:
        return "It works: the API, the intake, its secrets and its flows answered as they should."
    if status == 401:
        return f"The signature was refused: is the secret the one that the intake reads? {text}"
    return f"An answer that is not right: {status} {text}"
