//! Who sent this? Verification of a delivery's signature, fail closed.
//!
//! Every doubt is the same refusal: a missing header, a malformed one, a stale or future timestamp,
//! no secret, a wrong signature. The caller is told that it was refused and not why, so that the
//! answer teaches a forger nothing.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use crate::delivery::{Delivery, Headers};
use crate::flow::{Scheme, Source};
use crate::time::Timestamp;

/// A secret that signs or authenticates. It never shows itself in a log.
#[derive(Clone, PartialEq, Eq)]
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
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A delivery whose sender is proven. Only [`verify`] makes one.
#[derive(Debug)]
pub struct Verified {
    delivery: Delivery,
}

impl Verified {
    /// The delivery, to be taken at its word.
    pub fn into_delivery(self) -> Delivery {
        self.delivery
    }
}

/// The delivery was not proven to come from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not prove who sent this")]
pub struct Refused;

/// Proves that `delivery` was signed by `source` with one of its live secrets, or refuses it.
pub fn verify(source: &Source, secrets: &[Secret], delivery: Delivery, now: Timestamp) -> Result<Verified, Refused> {
    let genuine = match source.scheme {
        Scheme::StandardWebhooks => standard_webhooks(source, secrets, &delivery, now),
    };
    match genuine {
        Some(true) => Ok(Verified { delivery }),
        Some(false) | None => Err(Refused),
    }
}

/// Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, in a space-separated list of `v1,<base64>`.
///
/// `None` says that something needed for an opinion is missing or malformed.
fn standard_webhooks(source: &Source, secrets: &[Secret], delivery: &Delivery, now: Timestamp) -> Option<bool> {
    let id = header(&delivery.headers, "webhook-id")?;
    let timestamp = header(&delivery.headers, "webhook-timestamp")?;
    let signatures = header(&delivery.headers, "webhook-signature")?;

    let signed_at = Timestamp::from_secs(timestamp.parse().ok()?);
    if signed_at.since(now).max(now.since(signed_at)) > source.tolerance {
        return None;
    }

    let offered: Vec<Vec<u8>> = signatures
        .split(' ')
        .filter_map(|signature| signature.strip_prefix("v1,"))
        .filter_map(|signature| STANDARD.decode(signature).ok())
        .collect();
    let keys = secrets.iter().filter_map(standard_webhooks_key);

    // Every pair is compared, so that the time taken tells nothing about which one matched.
    let mut genuine = Choice::from(0);
    for key in keys {
        let expected = sign(&key, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", &delivery.body]);
        for signature in &offered {
            genuine |= signature.as_slice().ct_eq(&expected);
        }
    }
    Some(genuine.into())
}

/// A header that is there and not empty.
fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.get(name).filter(|value| !value.is_empty())
}

/// The key inside `whsec_<base64>`. An empty or malformed secret is no secret.
fn standard_webhooks_key(secret: &Secret) -> Option<Vec<u8>> {
    let encoded = secret.expose().trim().strip_prefix("whsec_")?;
    STANDARD.decode(encoded).ok().filter(|key| !key.is_empty())
}

fn sign(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The header `webhook-signature` that a sender with `secret` would set. For tools and tests.
pub fn standard_webhooks_signature(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let key = standard_webhooks_key(secret)?;
    let signature = sign(&key, &[id.as_bytes(), b".", timestamp.to_string().as_bytes(), b".", body]);
    Some(format!("v1,{}", STANDARD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // The vector that the Standard Webhooks libraries test against.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SENT: i64 = 1_614_265_330;
    const BODY: &str = r#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn source() -> Source {
        Source {
            scheme: Scheme::StandardWebhooks,
            tolerance: Duration::from_secs(300),
            max_body: 1024,
            type_at: "type".parse().expect("a field"),
        }
    }

    fn delivery(id: &str, timestamp: &str, signature: &str) -> Delivery {
        let headers = [("Webhook-Id", id), ("Webhook-Timestamp", timestamp), ("Webhook-Signature", signature)];
        Delivery {
            source: "web-forms".into(),
            event_type: None,
            headers: headers.into_iter().collect(),
            body: BODY.into(),
        }
    }

    fn outcome(secrets: &[&str], delivery: Delivery, now: i64) -> bool {
        let secrets: Vec<_> = secrets.iter().copied().map(Secret::new).collect();
        verify(&source(), &secrets, delivery, Timestamp::from_secs(now)).is_ok()
    }

    fn genuine() -> Delivery {
        delivery(ID, &SENT.to_string(), SIGNATURE)
    }

    #[test]
    fn accepts_the_published_vector() {
        assert!(outcome(&[SECRET], genuine(), SENT));
        assert_eq!(
            standard_webhooks_signature(&Secret::new(SECRET), ID, SENT, BODY.as_bytes()).as_deref(),
            Some(SIGNATURE)
        );
    }

    #[test]
    fn any_live_secret_and_any_listed_signature_will_do() {
        assert!(outcome(&["whsec_b3RoZXI=", SECRET], genuine(), SENT));
        let listed = format!("v1,bm90IGl0 v2,{} {SIGNATURE}", &SIGNATURE[3..]);
        assert!(outcome(&[SECRET], delivery(ID, &SENT.to_string(), &listed), SENT));
    }

    #[test]
    fn refuses_every_doubt() {
        let sent = SENT.to_string();
        for (why, delivery) in [
            ("no id", delivery("", &sent, SIGNATURE)),
            ("another id", delivery("msg_other", &sent, SIGNATURE)),
            ("no timestamp", delivery(ID, "", SIGNATURE)),
            ("a timestamp that is none", delivery(ID, "yesterday", SIGNATURE)),
            ("another timestamp", delivery(ID, &(SENT + 1).to_string(), SIGNATURE)),
            ("no signature", delivery(ID, &sent, "")),
            ("an unknown version only", delivery(ID, &sent, &SIGNATURE.replace("v1,", "v2,"))),
            ("no version", delivery(ID, &sent, &SIGNATURE[3..])),
            ("a signature cut short", delivery(ID, &sent, "v1,g0hM9SsE")),
            ("no base64", delivery(ID, &sent, "v1,???")),
        ] {
            assert!(!outcome(&[SECRET], delivery, SENT), "{why}");
        }
    }

    #[test]
    fn refuses_without_a_usable_secret() {
        for secrets in [&[][..], &[""], &["whsec_"], &["whsec_???"], &["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]] {
            assert!(!outcome(secrets, genuine(), SENT), "{secrets:?}");
        }
    }

    #[test]
    fn refuses_the_stale_and_the_future() {
        assert!(outcome(&[SECRET], genuine(), SENT + 300));
        assert!(!outcome(&[SECRET], genuine(), SENT + 301));
        assert!(outcome(&[SECRET], genuine(), SENT - 300));
        assert!(!outcome(&[SECRET], genuine(), SENT - 301));
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret::new(SECRET)), "Secret(…)");
    }
}
