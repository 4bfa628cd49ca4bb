//! Verification of a delivery's signature. It fails closed.
//!
//! Every doubt leads to the same rejection: a missing header, a malformed one, a stale or future timestamp,
//! no secret, a wrong signature. The caller is told that the signature was rejected and not why, so that the
//! answer teaches a forger nothing.
//!
//! A scheme is data: [`offer`] reads by it what a delivery offers, the signatures, their content and their time. Whether any
//! of them is true is decided here, once for all schemes.

mod digest;
#[cfg(test)]
mod doubts;
mod ecdsa;
mod offer;
#[cfg(test)]
mod properties;
mod sender;
mod token;
#[cfg(test)]
mod vectors;

use std::fmt;

use subtle::{Choice, ConstantTimeEq};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

pub use sender::{
    SignedRequest, Unsigned, new_secret, receivers_secret, sign, sign_request, standard_webhooks_signature,
};

use crate::arrival::delivery::Delivery;
use crate::base::time::Timestamp;
use crate::flows::{Proof, Scheme, SecretForm, Signature, Source};
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
    delivery: Box<Delivery>,
}

impl Unproven {
    /// The delivery, as untrusted as before.
    pub fn into_delivery(self) -> Delivery {
        *self.delivery
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
        Some(false) | None => Err(Unproven { delivery: Box::new(delivery) }),
    }
}

/// The sender's id of a delivery, as its signature covers it: under the name by which this delivery has it.
pub fn signed_id<'d>(scheme: &Scheme, delivery: &'d Delivery) -> Option<&'d str> {
    offer::first(&delivery.headers, &scheme.signature()?.id)
}

/// Whether the delivery is genuine. `None` says that something is missing or malformed.
fn genuine(source: &Source, secrets: &[Secret], delivery: &Delivery, now: Timestamp) -> Option<bool> {
    match &source.scheme {
        Scheme::Signature(signature) => is_signed(signature, source, secrets, delivery, now),
        Scheme::Token(token) => token::is_carried(token, secrets, &delivery.headers),
        Scheme::None => Some(true),
    }
}

/// Whether one of the offered signatures is true.
fn is_signed(
    signature: &Signature,
    source: &Source,
    secrets: &[Secret],
    delivery: &Delivery,
    now: Timestamp,
) -> Option<bool> {
    let offer = offer::offer(signature, delivery)?;
    if offer.signatures.len() > MAX_SIGNATURES {
        return None;
    }
    if offer.signed_at.is_some_and(|at| at.since(now).max(now.since(at)) > source.tolerance()) {
        return None;
    }
    let Proof::Hmac(algorithm) = signature.proof else {
        let by = |secret: &Secret| {
            let mut offered = offer.signatures.iter();
            offered.any(|offered| ecdsa::is_by(secret, &offer.content, offered, signature.encoding))
        };
        return Some(secrets.iter().any(by));
    };
    // Every pair is compared, so that the time taken tells nothing about which one matched.
    let (mut genuine, digest) = (Choice::from(0), Digest { algorithm, encoding: signature.encoding });
    for key in keys(signature, secrets) {
        let expected = digest.written(&key, &offer.content);
        for offered in &offer.signatures {
            genuine |= expected.is(offered);
        }
    }
    Some(genuine.into())
}

/// The keys in those secrets that are one in this scheme. An empty secret is no secret, and a line's end that was pasted with
/// it is not part of it.
fn keys(signature: &Signature, secrets: &[Secret]) -> Vec<Vec<u8>> {
    let key = |secret: &Secret| {
        let text = secret.expose().trim();
        match &signature.secret {
            SecretForm::Text => Some(text.as_bytes().to_vec()),
            SecretForm::Base64(prefix) => {
                STANDARD_NO_PAD.decode(text.strip_prefix(&**prefix)?.trim_end_matches('=')).ok()
            }
        }
    };
    secrets.iter().filter_map(key).filter(|key| !key.is_empty()).collect()
}
