//! The schemes that have a word of their own.

use std::borrow::Cow;

use crate::flows::signature::{
    Algorithm, Encoding, Layout, Piece, Proof, ProofPlace, SecretForm, Signature, Stamp, TimeUnit,
};

/// Names of one header.
type Names = &'static [Cow<'static, str>];

/// What one word stands for: an HMAC-SHA256 in a header.
#[derive(Clone, Copy)]
struct Parameters {
    header: Names,
    encoding: Encoding,
    prefix: &'static str,
    separator: Option<&'static str>,
    key_behind: Option<&'static str>,
    id: Names,
    timestamp: Time,
    signed: &'static [Piece],
}

/// Where the time stands, in Unix seconds.
#[derive(Clone, Copy)]
enum Time {
    Absent,
    Header(Names),
    Item(&'static str),
}

/// An HMAC of the body, in hex.
const PLAIN: Parameters = Parameters {
    header: &[],
    encoding: Encoding::Hex,
    prefix: "",
    separator: None,
    key_behind: None,
    id: &[],
    timestamp: Time::Absent,
    signed: &[Piece::Body],
};

/// GitHub: over the body, in `X-Hub-Signature-256: sha256=<hex>`.
///
/// GitHub still sends an older `X-Hub-Signature` with SHA-1. It is never read.
pub(super) static GITHUB: Signature =
    signature(Parameters { header: &[Cow::Borrowed("X-Hub-Signature-256")], prefix: "sha256=", ..PLAIN });

/// Shopify: over the body, in `X-Shopify-Hmac-Sha256: <base64>`.
pub(super) static SHOPIFY: Signature =
    signature(Parameters { header: &[Cow::Borrowed("X-Shopify-Hmac-Sha256")], encoding: Encoding::Base64, ..PLAIN });

/// Slack: over `v0:<timestamp>:<body>`, in `X-Slack-Signature: v0=<hex>`.
pub(super) static SLACK: Signature = signature(Parameters {
    header: &[Cow::Borrowed("X-Slack-Signature")],
    prefix: "v0=",
    timestamp: Time::Header(&[Cow::Borrowed("X-Slack-Request-Timestamp")]),
    signed: &[Piece::Text(Cow::Borrowed("v0:")), Piece::Timestamp, Piece::Text(Cow::Borrowed(":")), Piece::Body],
    ..PLAIN
});

/// Stripe: over `<timestamp>.<body>`, in `Stripe-Signature: t=<timestamp>,v1=<hex>`; while its secret rotates, several `v1`.
///
/// Other versions are ignored: `v0` is what Stripe makes up for test events.
pub(super) static STRIPE: Signature = signature(Parameters {
    header: &[Cow::Borrowed("Stripe-Signature")],
    prefix: "v1=",
    separator: Some(","),
    timestamp: Time::Item("t="),
    signed: &[Piece::Timestamp, Piece::Text(Cow::Borrowed(".")), Piece::Body],
    ..PLAIN
});

/// Standard Webhooks: over `<id>.<timestamp>.<body>`, in a list of `v1,<base64>`. Senders on Svix use the older names of the
/// headers, with the same meaning.
pub(super) static STANDARD_WEBHOOKS: Signature = signature(Parameters {
    header: &[Cow::Borrowed("webhook-signature"), Cow::Borrowed("svix-signature")],
    encoding: Encoding::Base64,
    prefix: "v1,",
    separator: Some(" "),
    key_behind: Some("whsec_"),
    id: &[Cow::Borrowed("webhook-id"), Cow::Borrowed("svix-id")],
    timestamp: Time::Header(&[Cow::Borrowed("webhook-timestamp"), Cow::Borrowed("svix-timestamp")]),
    signed: &[
        Piece::Id,
        Piece::Text(Cow::Borrowed(".")),
        Piece::Timestamp,
        Piece::Text(Cow::Borrowed(".")),
        Piece::Body,
    ],
});

const fn signature(given: Parameters) -> Signature {
    Signature {
        at: ProofPlace::Header(Cow::Borrowed(given.header)),
        proof: Proof::Hmac(Algorithm::Sha256),
        encoding: given.encoding,
        prefix: Cow::Borrowed(given.prefix),
        separator: match given.separator {
            Some(text) => Some(Cow::Borrowed(text)),
            None => None,
        },
        secret: match given.key_behind {
            Some(prefix) => SecretForm::Base64(Cow::Borrowed(prefix)),
            None => SecretForm::Text,
        },
        id: Cow::Borrowed(given.id),
        timestamp: match given.timestamp {
            Time::Absent => None,
            Time::Header(names) => {
                Some(Stamp { at: ProofPlace::Header(Cow::Borrowed(names)), unit: TimeUnit::Seconds })
            }
            Time::Item(text) => Some(Stamp { at: ProofPlace::Item(Cow::Borrowed(text)), unit: TimeUnit::Seconds }),
        },
        body_hash: None,
        signed: Layout(Cow::Borrowed(given.signed)),
    }
}

/// The word of a signature, if it has one.
#[cfg(feature = "schema")]
pub(super) fn word(signature: &Signature) -> Option<&'static str> {
    let words = [
        (&STANDARD_WEBHOOKS, "standard-webhooks"),
        (&STRIPE, "stripe"),
        (&GITHUB, "github"),
        (&SHOPIFY, "shopify"),
        (&SLACK, "slack"),
    ];
    words.into_iter().find(|(named, _)| *named == signature).map(|(_, word)| word)
}
