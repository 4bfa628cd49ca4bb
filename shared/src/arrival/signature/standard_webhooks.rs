//! Standard Webhooks: HMAC-SHA256 over `<id>.<timestamp>.<body>`, in a list of `v1,<base64>`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::digest::Digest;
use super::{Offer, Secret, header, moment};
use crate::arrival::delivery::{Delivery, Headers};
use crate::flows::{Algorithm, Encoding};

pub(super) const DIGEST: Digest = Digest { algorithm: Algorithm::Sha256, encoding: Encoding::Base64 };

/// The offer of a delivery: while its secret rotates, several signatures with spaces between.
///
/// An id with a full stop is rejected: the same signed bytes could then be cut into another id,
/// another timestamp and another body.
pub(super) fn offer(delivery: &Delivery) -> Option<Offer<'_>> {
    let id = named(&delivery.headers, "id").filter(|id| !id.contains('.'))?;
    let timestamp = named(&delivery.headers, "timestamp")?;
    let listed = named(&delivery.headers, "signature")?.split(' ');

    let signatures = listed.filter_map(|signature| signature.strip_prefix("v1,")).collect();
    let signed_at = Some(moment(timestamp)?);
    Some(Offer { signatures, content: content(id, timestamp, &delivery.body), signed_at, digest: DIGEST, key })
}

pub(super) fn content<'d>(id: &'d str, timestamp: &'d str, body: &'d [u8]) -> Vec<&'d [u8]> {
    vec![id.as_bytes(), b".", timestamp.as_bytes(), b".", body]
}

/// The value of a header. Senders on Svix use the older names, with the same meaning.
fn named<'d>(headers: &'d Headers, what: &str) -> Option<&'d str> {
    ["webhook", "svix"].iter().find_map(|family| header(headers, &format!("{family}-{what}")))
}

/// The key inside `whsec_<base64>`, padded or not. An empty or malformed secret is no secret.
pub(super) fn key(secret: &Secret) -> Option<Vec<u8>> {
    let encoded = secret.expose().trim().strip_prefix("whsec_")?.trim_end_matches('=');
    STANDARD_NO_PAD.decode(encoded).ok().filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::vectors::Vector;

    const SIGNATURE: &str = "webhook-signature";

    #[test]
    fn any_listed_signature_will_do() {
        let vector = Vector::of("standard-webhooks");
        let listed = |signature: &str| format!("v1,bm90IGl0 v1a,{} {signature} v2,x", &signature[3..]);
        assert!(vector.having(SIGNATURE, listed).verifies());
    }

    #[test]
    fn the_older_names_mean_the_same() {
        let names = ["id", "timestamp", "signature"];
        let svix = names.iter().fold(Vector::of("standard-webhooks"), |vector, name| {
            vector.renamed(&format!("webhook-{name}"), &format!("svix-{name}"))
        });
        assert!(svix.verifies());
    }

    #[test]
    fn a_secret_may_lack_its_padding() {
        let vector = Vector::of("standard-webhooks");
        assert!(!vector.verifies_with(&["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], 0), "but not its prefix");
        let key = |text: &str| super::key(&super::Secret::new(text));
        assert_eq!(key("whsec_b3RoZXI="), Some(b"other".to_vec()));
        assert_eq!(key("whsec_b3RoZXI"), Some(b"other".to_vec()));
    }

    #[test]
    fn refuses_every_doubt() {
        let vector = Vector::of("standard-webhooks");
        let signature = |change: fn(&str) -> String| vector.having(SIGNATURE, change);
        for (why, vector) in [
            ("another id", vector.with("webhook-id", "msg_other")),
            ("an id with a full stop", vector.with("webhook-id", "msg.1")),
            ("another timestamp", vector.with("webhook-timestamp", "1614265331")),
            ("a timestamp with a zero", vector.having("webhook-timestamp", |time| format!("0{time}"))),
            ("an unknown version only", signature(|it| it.replace("v1,", "v2,"))),
            ("an asymmetric version", signature(|it| it.replace("v1,", "v1a,"))),
            ("no version", signature(|it| it[3..].into())),
            ("no padding", signature(|it| it.trim_end_matches('=').into())),
            ("too many", signature(|it| format!("{}{it}", "v1,bm90IGl0 ".repeat(16)))),
        ] {
            assert!(!vector.verifies(), "{why}");
        }
    }
}
