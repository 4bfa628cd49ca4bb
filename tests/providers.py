"""Signs and verifies deliveries with the providers' own libraries.

Reads a list of deliveries with our signatures as JSON from stdin, and writes for each what its
library signs (nothing, where it only verifies), whether it believes our signature, and whether it
believes it of another body. `--libraries` prints of each its version, and whether it signs.
"""

import base64
import json
import logging
import sys
import types
from datetime import datetime, timezone
from importlib.metadata import distribution, version
from urllib.parse import parse_qsl

import standardwebhooks
import stripe
import svix.webhooks
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_private_key
from hubspot.utils.signature import Signature
from paddle_billing.Notifications import Secret, Verifier
from paddle_billing.Notifications.PaddleSignature import PaddleSignature
from slack_sdk.signature import SignatureVerifier
from square.utils.webhooks_helper import verify_signature
from twilio.request_validator import RequestValidator

logging.disable()


def without_start(package):
    """Lets modules of a package be imported without its __init__, which needs a client for HTTP."""
    module = types.ModuleType(package)
    module.__path__ = [str(distribution(package).locate_file(package))]
    sys.modules[package] = module


without_start("mailgun")
from mailgun.security import SecurityGuard  # noqa: E402

without_start("sendgrid")
from sendgrid.helpers.eventwebhook import EventWebhook  # noqa: E402


class Refused(Exception):
    """The library does not believe it."""


def demand(believed):
    if not believed:
        raise Refused


class Stripe:
    def sign(secret, id, timestamp, url, body):
        header = stripe.WebhookSignature.generate_signature_header(body, secret, timestamp)
        return {"Stripe-Signature": header}

    def verify(secret, headers, url, body):
        stripe.WebhookSignature.verify_header(body, headers["Stripe-Signature"], secret, 300)


class StandardWebhooks:
    def sign(secret, id, timestamp, url, body):
        at = datetime.fromtimestamp(timestamp, tz=timezone.utc)
        signature = standardwebhooks.Webhook(secret).sign(id, at, body)
        return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}

    def verify(secret, headers, url, body):
        standardwebhooks.Webhook(secret).verify(body, headers, json_parse=False)


class Svix:
    def sign(secret, id, timestamp, url, body):
        at = datetime.fromtimestamp(timestamp, tz=timezone.utc)
        signature = svix.webhooks.Webhook(secret).sign(id, at, body)
        return {"svix-id": id, "svix-timestamp": str(timestamp), "svix-signature": signature}

    def verify(secret, headers, url, body):
        svix.webhooks.Webhook(secret).verify(body, headers)


class Slack:
    def sign(secret, id, timestamp, url, body):
        signature = SignatureVerifier(secret).generate_signature(timestamp=str(timestamp), body=body)
        return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": signature}

    def verify(secret, headers, url, body):
        demand(SignatureVerifier(secret).is_valid_request(body, headers))


class HubSpot:
    def sign(secret, id, timestamp, url, body):
        millis = str(timestamp * 1000)
        signature = Signature.get_signature(secret, body, "v3", url, "POST", millis)
        return {"X-HubSpot-Request-Timestamp": millis, "X-HubSpot-Signature-v3": signature}

    def verify(secret, headers, url, body):
        signature, millis = headers["X-HubSpot-Signature-v3"], headers["X-HubSpot-Request-Timestamp"]
        demand(Signature.is_valid(signature, secret, body, url, "POST", "v3", millis))


class Fields(dict):
    """A form, as Twilio's library takes it."""

    def __init__(self, body):
        super().__init__()
        for name, value in parse_qsl(body, keep_blank_values=True):
            self.setdefault(name, []).append(value)

    def getall(self, name):
        return self[name]


class Twilio:
    def sign(secret, id, timestamp, url, body):
        return {"X-Twilio-Signature": RequestValidator(secret).compute_signature(url, Fields(body))}

    def verify(secret, headers, url, body):
        demand(RequestValidator(secret).validate(url, Fields(body), headers["X-Twilio-Signature"]))


class TwilioJson:
    def sign(secret, id, timestamp, url, body):
        return {"X-Twilio-Signature": RequestValidator(secret).compute_signature(url, {})}

    def verify(secret, headers, url, body):
        demand(RequestValidator(secret).validate(url, body, headers["X-Twilio-Signature"]))


class Paddle:
    def sign(secret, id, timestamp, url, body):
        signature = PaddleSignature.calculate_hmac(secret, f"{timestamp}:{body}".encode())
        return {"Paddle-Signature": f"ts={timestamp};h1={signature.hexdigest()}"}

    def verify(secret, headers, url, body):
        request = types.SimpleNamespace(headers=headers, body=body.encode())
        demand(Verifier(300).verify(request, Secret(secret)))


class Square:
    sign = None

    def verify(secret, headers, url, body):
        signature = headers["x-square-hmacsha256-signature"]
        demand(
            verify_signature(
                request_body=body, signature_header=signature, signature_key=secret, notification_url=url
            )
        )


class SendGrid:
    def sign(secret, id, timestamp, url, body):
        key = load_der_private_key(base64.b64decode(secret), None)
        signature = key.sign(f"{timestamp}{body}".encode(), ec.ECDSA(hashes.SHA256()))
        head = "X-Twilio-Email-Event-Webhook-"
        return {head + "Timestamp": str(timestamp), head + "Signature": base64.b64encode(signature).decode()}

    # The library only verifies: its key signs by the library beneath it.
    sign.of_another = True

    def verify(secret, headers, url, body):
        head = "X-Twilio-Email-Event-Webhook-"
        key = load_der_private_key(base64.b64decode(secret), None).public_key()
        webhook = EventWebhook()
        demand(webhook.verify_signature(body, headers[head + "Signature"], headers[head + "Timestamp"], key))


class Mailgun:
    sign = None

    def verify(secret, headers, url, body):
        signed = json.loads(body)["signature"]
        demand(SecurityGuard.verify_webhook(secret, signed["token"], signed["timestamp"], signed["signature"]))


LIBRARIES = {
    "stripe": Stripe,
    "standardwebhooks": StandardWebhooks,
    "svix": Svix,
    "slack_sdk": Slack,
    "hubspot-api-client": HubSpot,
    "twilio": Twilio,
    "twilio-json": TwilioJson,
    "paddle-python-sdk": Paddle,
    "squareup": Square,
    "sendgrid": SendGrid,
    "mailgun": Mailgun,
}

REFUSALS = (Refused, stripe.SignatureVerificationError, standardwebhooks.WebhookVerificationError)


def believes(library, secret, headers, url, body):
    try:
        library.verify(secret, headers, url, body)
        return True
    except REFUSALS:
        return False


def answer(delivery):
    library = LIBRARIES[delivery["library"]]
    secret, ours, url, body = delivery["secret"], delivery["ours"], delivery["url"], delivery["body"]
    signs = library.sign is not None
    return {
        "theirs": library.sign(secret, delivery["id"], delivery["timestamp"], url, body) if signs else None,
        "believes": believes(library, secret, ours, url, body),
        "believes_another": believes(library, secret, ours, url, delivery["another"]),
    }


def described(name, library):
    signs = library.sign is not None and not getattr(library.sign, "of_another", False)
    return {"version": version(name.removesuffix("-json")), "signs": signs}


if sys.argv[1:] == ["--libraries"]:
    json.dump({name: described(name, library) for name, library in LIBRARIES.items()}, sys.stdout)
else:
    json.dump([answer(delivery) for delivery in json.load(sys.stdin)], sys.stdout)
