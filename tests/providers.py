"""Signs and verifies deliveries with the providers' own libraries.

Reads a list of deliveries with our signatures as JSON from stdin, and writes for each what its
library signs, whether it believes our signature, and whether it believes it of another body.
"""

import json
import sys
from datetime import datetime, timezone

import standardwebhooks
import stripe
import svix.webhooks
from slack_sdk.signature import SignatureVerifier


class Stripe:
    def sign(secret, id, timestamp, body):
        header = stripe.WebhookSignature.generate_signature_header(body, secret, timestamp)
        return {"Stripe-Signature": header}

    def verify(secret, headers, body):
        stripe.WebhookSignature.verify_header(body, headers["Stripe-Signature"], secret, 300)


class StandardWebhooks:
    def sign(secret, id, timestamp, body):
        at = datetime.fromtimestamp(timestamp, tz=timezone.utc)
        signature = standardwebhooks.Webhook(secret).sign(id, at, body)
        return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}

    def verify(secret, headers, body):
        standardwebhooks.Webhook(secret).verify(body, headers, json_parse=False)


class Svix:
    def sign(secret, id, timestamp, body):
        at = datetime.fromtimestamp(timestamp, tz=timezone.utc)
        signature = svix.webhooks.Webhook(secret).sign(id, at, body)
        return {"svix-id": id, "svix-timestamp": str(timestamp), "svix-signature": signature}

    def verify(secret, headers, body):
        svix.webhooks.Webhook(secret).verify(body, headers)


class Slack:
    def sign(secret, id, timestamp, body):
        signature = SignatureVerifier(secret).generate_signature(timestamp=str(timestamp), body=body)
        return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": signature}

    def verify(secret, headers, body):
        if not SignatureVerifier(secret).is_valid_request(body, headers):
            raise standardwebhooks.WebhookVerificationError()


LIBRARIES = {"stripe": Stripe, "standardwebhooks": StandardWebhooks, "svix": Svix, "slack_sdk": Slack}

REFUSALS = (stripe.SignatureVerificationError, standardwebhooks.WebhookVerificationError)


def believes(library, secret, headers, body):
    try:
        library.verify(secret, headers, body)
        return True
    except REFUSALS:
        return False


def answer(delivery):
    library = LIBRARIES[delivery["library"]]
    secret, ours, body = delivery["secret"], delivery["ours"], delivery["body"]
    return {
        "theirs": library.sign(secret, delivery["id"], delivery["timestamp"], body),
        "believes": believes(library, secret, ours, body),
        "believes_another": believes(library, secret, ours, body + " "),
    }


json.dump([answer(delivery) for delivery in json.load(sys.stdin)], sys.stdout)
