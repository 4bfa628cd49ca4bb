//! Stripe: HMAC-SHA256 over `<timestamp>.<body>`, in `Stripe-Signature: t=<timestamp>,v1=<hex>`.

use super::digest::Digest;
use super::{Offer, header, moment, whole};
use crate::arrival::delivery::Delivery;
use crate::flows::{Algorithm, Encoding};

pub(super) const HEADER: &str = "Stripe-Signature";

pub(super) const DIGEST: Digest = Digest { algorithm: Algorithm::Sha256, encoding: Encoding::Hex };

/// The offer of a delivery: while its secret rotates, several `v1` beside one `t`.
///
/// Other versions are ignored: `v0` is what Stripe makes up for test events.
pub(super) fn offer(delivery: &Delivery) -> Option<Offer<'_>> {
    let mut timestamps = Vec::new();
    let mut signatures = Vec::new();
    for item in header(&delivery.headers, HEADER)?.split(',') {
        match item.split_once('=')? {
            ("t", timestamp) => timestamps.push(timestamp),
            ("v1", signature) => signatures.push(signature),
            _ => (),
        }
    }
    // With two, the one that is checked need not be the one that is signed.
    let [timestamp] = timestamps[..] else { return None };
    let signed_at = Some(moment(timestamp)?);
    Some(Offer { signatures, content: content(timestamp, &delivery.body), signed_at, digest: DIGEST, key: whole })
}

pub(super) fn content<'d>(timestamp: &'d str, body: &'d [u8]) -> Vec<&'d [u8]> {
    vec![timestamp.as_bytes(), b".", body]
}

#[cfg(test)]
mod tests {
    use super::super::vectors::Vector;
    use super::HEADER;

    /// The time, the signature of the secret before, that of the live one, and a made-up `v0`.
    fn parts(vector: &Vector) -> [String; 4] {
        let parts: Vec<String> = vector.headers[HEADER].split(',').map(str::to_owned).collect();
        parts.try_into().expect("the vector has four")
    }

    #[test]
    fn any_listed_signature_will_do_in_any_order() {
        let vector = Vector::of("stripe");
        let [time, old, live, _] = parts(&vector);
        for header in [format!("{time},{live}"), format!("{time},{live},{old}"), format!("{live},{time},v2=00")] {
            assert!(vector.with(HEADER, &header).verifies(), "{header}");
        }
    }

    #[test]
    fn refuses_every_doubt() {
        let vector = Vector::of("stripe");
        let [time, old, live, made_up] = parts(&vector);
        let hex = &live["v1=".len()..];
        for (why, header) in [
            ("no time", live.clone()),
            ("no signature", time.clone()),
            ("an old secret only", format!("{time},{old}")),
            ("v0 only", format!("{time},{made_up}")),
            ("a true signature as v0", format!("{time},v0={hex}")),
            ("a true signature as v2", format!("{time},v2={hex}")),
            ("a true signature as V1", format!("{time},V1={hex}")),
            ("the time twice", format!("{time},{time},{live}")),
            ("two times", format!("t=1,{time},{live}")),
            ("another time", format!("t=1680064029,{live}")),
            ("a time with a sign", format!("{},{live}", time.replace("t=", "t=+"))),
            ("a time with a zero", format!("{},{live}", time.replace("t=", "t=0"))),
            ("a time of no number", format!("t=now,{live}")),
            ("an empty signature", format!("{time},v1=")),
            ("no hex", format!("{time},v1={}", "zz".repeat(32))),
            ("in capitals", format!("{time},v1={}", hex.to_uppercase())),
            ("longer", format!("{time},{live}00")),
            ("a space", format!("{time}, {live}")),
            ("an item of no pair", format!("{time},{live},x")),
            ("too many", format!("{time},{}{live}", "v1=00,".repeat(16))),
        ] {
            assert!(!vector.with(HEADER, header).verifies(), "{why}");
        }
    }
}
