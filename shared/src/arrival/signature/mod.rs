//! Verification of a delivery's signature. It fails closed.
//!
//! Every doubt leads to the same rejection: a missing header, a malformed one, a stale or future timestamp,
//! no secret, a wrong signature. The caller is told that the signature was rejected and not why, so that the
//! answer teaches a forger nothing.
//!
//! A scheme only reads what a delivery offers: the signatures, their content and their time. Whether any of
//! them is true is decided here, once for all schemes.

mod digest;
mod github;
mod hmac;
#[cfg(test)]
mod properties;
mod sender;
mod shopify;
mod slack;
mod standard_webhooks;
mod stripe;
#[cfg(test)]
mod vectors;

use std::fmt;

use subtle::{Choice, ConstantTimeEq};

pub use sender::{sign, standard_webhooks_signature};

use crate::arrival::delivery::{Delivery, Headers};
use crate::base::time::Timestamp;
use crate::flows::{Scheme, Source};
use digest::Digest;

/// The most signatures of a delivery. No sender rotates among more secrets than this.
const MAX_SIGNATURES: usize = 16;

/// A secret that signs or authenticates. It never shows itself in a log, and however it is compared,
/// the time taken tells nothing about it but its length.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text of a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret's text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is one line: no header takes another one.
    pub fn is_one_line(&self) -> bool {
        !self.0.chars().any(char::is_control)
    }
}

impl ConstantTimeEq for Secret {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.as_bytes().ct_eq(other.0.as_bytes())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A delivery whose sender is verified. Only [`verify`] makes one.
#[derive(Debug)]
pub struct Verified {
    delivery: Delivery,
}

impl Verified {
    /// The delivery, which may be trusted now.
    pub fn into_delivery(self) -> Delivery {
        self.delivery
    }
}

/// A delivery that these secrets do not verify. Newer ones may.
#[derive(Debug)]
pub struct Unproven {
    delivery: Delivery,
}

impl Unproven {
    /// The delivery, as untrusted as before.
    pub fn into_delivery(self) -> Delivery {
        self.delivery
    }
}

/// The signature was rejected: the delivery is not proven to come from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature was rejected: it does not prove that the source sent this")]
pub struct Rejected;

impl From<Unproven> for Rejected {
    fn from(_: Unproven) -> Self {
        Rejected
    }
}

/// Proves that `delivery` was signed by `source` with one of its live secrets, or gives it back.
pub fn verify(source: &Source, secrets: &[Secret], delivery: Delivery, now: Timestamp) -> Result<Verified, Unproven> {
    match genuine(source, secrets, &delivery, now) {
        Some(true) => Ok(Verified { delivery }),
        Some(false) | None => Err(Unproven { delivery }),
    }
}

/// The offer of a delivery: its signatures, and what they should be over.
struct Offer<'d> {
    /// The signatures, as they are written. Any may be the true one.
    signatures: Vec<&'d str>,
    /// The signed content, piece by piece.
    content: Vec<&'d [u8]>,
    /// The time of signing, in a scheme that signs it.
    signed_at: Option<Timestamp>,
    digest: Digest,
    /// The key in a secret, if the secret is one in this scheme.
    key: fn(&Secret) -> Option<Vec<u8>>,
}

/// Whether a signature is true. `None` says that something is missing or malformed.
fn genuine(source: &Source, secrets: &[Secret], delivery: &Delivery, now: Timestamp) -> Option<bool> {
    let offer = match &source.scheme {
        Scheme::StandardWebhooks => standard_webhooks::offer(delivery)?,
        Scheme::Stripe => stripe::offer(delivery)?,
        Scheme::Github => hmac::offer(&github::HMAC, delivery)?,
        Scheme::Shopify => hmac::offer(&shopify::HMAC, delivery)?,
        Scheme::Slack => hmac::offer(&slack::HMAC, delivery)?,
        Scheme::Hmac(hmac) => hmac::offer(hmac, delivery)?,
        Scheme::None => return Some(true),
    };
    if offer.signatures.len() > MAX_SIGNATURES {
        return None;
    }
    if offer.signed_at.is_some_and(|at| at.since(now).max(now.since(at)) > source.tolerance()) {
        return None;
    }

    // Every pair is compared, so that the time taken tells nothing about which one matched.
    let mut genuine = Choice::from(0);
    for key in secrets.iter().filter_map(offer.key) {
        let expected = offer.digest.written(&key, &offer.content);
        for signature in &offer.signatures {
            genuine |= expected.is(signature);
        }
    }
    Some(genuine.into())
}

/// The value of a header that is there and not empty.
fn header<'d>(headers: &'d Headers, name: &str) -> Option<&'d str> {
    headers.get(name).filter(|value| !value.is_empty())
}

/// The moment in Unix seconds, in the one way to write it. With a sign or a leading zero, the same
/// moment could be cut from the same signed bytes at another place.
fn moment(text: &str) -> Option<Timestamp> {
    let seconds: i64 = text.parse().ok()?;
    (seconds >= 0 && seconds.to_string() == text).then(|| Timestamp::from_secs(seconds))
}

/// The key of a secret whose whole text is the key. An empty secret is no secret, and a line's end that was pasted
/// with it is not part of it.
fn whole(secret: &Secret) -> Option<Vec<u8>> {
    let key = secret.expose().trim();
    (!key.is_empty()).then(|| key.as_bytes().to_vec())
}
