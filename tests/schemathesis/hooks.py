"""Signs what schemathesis sends, so that most of it gets past the door."""

import base64
import hashlib
import hmac
import os
import random
import time

import requests
import schemathesis

KEY = base64.b64decode(os.environ["LEDGERLINE_SECRET"].removeprefix("whsec_"))
TOKEN = os.environ["LEDGERLINE_RECEIPTS_TOKEN"]

# The same choices in every run.
chance = random.Random(7)

# How often a sender sends what the intake has no time for.
TRIES = 5


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """A source that exists, most of the time: a stranger learns nothing but 404."""
    if path_parameters and "source" in path_parameters and chance.random() < 0.9:
        path_parameters["source"] = "web-forms"
    return path_parameters


def sign(request):
    body = request.body or b""
    body = body.encode() if isinstance(body, str) else body
    now = str(int(time.time()))
    signed = b"msg_fuzz." + now.encode() + b"." + body
    signature = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    request.headers["webhook-id"] = "msg_fuzz"
    request.headers["webhook-timestamp"] = now
    request.headers["webhook-signature"] = "v1," + signature


send = requests.Session.send


def send_signed(self, request, **kwargs):
    """The signature is over the bytes as they leave, which only this place knows."""
    is_signed = request.method == "POST" and chance.random() < 0.9
    if "/v1/receipts/" in request.url and chance.random() < 0.9:
        request.headers["authorization"] = f"Bearer {TOKEN}"
    for _ in range(TRIES):
        if is_signed:
            sign(request)
        answer = send(self, request, **kwargs)
        if answer.status_code != 503:
            break
        time.sleep(1)
    return answer


requests.Session.send = send_signed
