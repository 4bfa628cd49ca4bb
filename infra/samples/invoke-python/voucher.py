"""A sample: makes a voucher at a partner that YAML could not call as well, and says what became of it."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from typing import Any

from ledgerline import Absent, CannotSay, Failed, Found, Invocation, Retry, effect

SURELY_NOT = {400, 404, 405, 410, 413, 415, 422}
"""Answers that say that the partner did nothing, and will not."""


@effect
def handler(call: Invocation) -> dict[str, Any]:
    """Makes one voucher for the event."""
    try:
        made = request(call, "POST", {"percent": call.with_["percent"]})
    except urllib.error.HTTPError as answer:
        if answer.code == 429:
            raise Retry("the partner throttles", after=float(answer.headers.get("Retry-After") or 1)) from answer
        if answer.code in SURELY_NOT:
            raise Failed(f"the partner answered {answer.code}") from answer
        raise
    except urllib.error.URLError as error:
        # Not even connected, so nothing happened. Whatever else goes wrong may come after the partner has acted.
        if isinstance(error.reason, (ConnectionRefusedError, socket.gaierror)):
            raise Retry("the partner was not reached") from error
        raise
    return {"code": made["id"]}


@handler.asks
def happened(call: Invocation) -> Found | Absent:
    """Looks for the voucher of the event."""
    try:
        return Found({"code": request(call, "GET")["id"]})
    except urllib.error.HTTPError as answer:
        if answer.code == 404:
            return Absent()
        raise CannotSay(f"the partner answered {answer.code}") from answer


def request(call: Invocation, method: str, body: object = None) -> dict[str, Any]:
    headers = {"Idempotency-Key": call.key, "Content-Type": "application/json", **call.trace}
    data = None if body is None else json.dumps(body).encode()
    url = f"{os.environ['VOUCHERS_URL']}/{call.id}-{call.effect}"
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(asked, timeout=max(0.1, call.remaining())) as answer:
        made: dict[str, Any] = json.load(answer)
        return made
