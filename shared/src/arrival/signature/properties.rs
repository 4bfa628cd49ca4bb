//! Properties of every scheme, for any delivery.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::vectors::source;
use super::*;

const SENT: i64 = 1_794_819_600;

/// Every scheme that signs, and the configurable one in many shapes.
fn schemes() -> Vec<Value> {
    let mut schemes: Vec<Value> =
        ["standard-webhooks", "stripe", "github", "shopify", "slack"].map(|name| json!(name)).into();
    for algorithm in ["sha1", "sha256", "sha512"] {
        for encoding in ["hex", "base64"] {
            let plain = json!({"header": "X-Sig", "algorithm": algorithm, "encoding": encoding, "prefix": "s="});
            let mut stamped = plain.clone();
            stamped["timestamp"] = json!({"header": "X-Time", "signed": "{body}{timestamp}"});
            schemes.extend([json!({"hmac": plain}), json!({"hmac": stamped})]);
        }
    }
    schemes
}

/// A delivery as its sender signed it.
#[derive(Clone, Debug)]
struct Genuine {
    source: Source,
    secret: Secret,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Genuine {
    fn verifies(&self) -> bool {
        let headers: Headers = self.headers.iter().cloned().collect();
        let delivery = Delivery { source: "shop".into(), event_type: None, headers, body: self.body.clone() };
        verify(&self.source, std::slice::from_ref(&self.secret), delivery, Timestamp::from_secs(SENT)).is_ok()
    }
}

fn genuine() -> impl Strategy<Value = Genuine> {
    let key = prop::collection::vec(any::<u8>(), 1..80);
    let body = prop::collection::vec(any::<u8>(), 0..200);
    (select(schemes()), key, "[a-zA-Z0-9_-]{1,20}", -300..=300i64, body).prop_map(|(scheme, key, id, skew, body)| {
        let source = source(&scheme);
        let secret = Secret::new(format!("whsec_{}", STANDARD.encode(key)));
        let headers = sign(&source.scheme, &secret, &id, SENT + skew, &body).expect("a good secret");
        Genuine { source, secret, headers, body }
    })
}

/// One byte that was changed on the way.
fn change_body(body: &mut Vec<u8>, at: Index, byte: u8, how: u8) {
    match how {
        0 => body.insert(at.index(body.len() + 1), byte),
        1 if !body.is_empty() => drop(body.remove(at.index(body.len()))),
        _ if !body.is_empty() => {
            let at = at.index(body.len());
            body[at] ^= byte.max(1);
        }
        _ => body.push(byte),
    }
}

proptest! {
    #[test]
    fn what_a_sender_signs_verifies(genuine in genuine()) {
        prop_assert!(genuine.verifies());
    }

    #[test]
    fn one_changed_byte_of_the_body_is_refused(
        mut genuine in genuine(), at in any::<Index>(), byte in any::<u8>(), how in 0..3u8,
    ) {
        change_body(&mut genuine.body, at, byte, how);
        prop_assert!(!genuine.verifies());
    }

    /// The id, the timestamp and the signature are all in the headers.
    #[test]
    fn one_changed_byte_of_a_header_is_refused(
        mut genuine in genuine(), header in any::<Index>(), at in any::<Index>(), byte in b' '..=b'~',
    ) {
        let header = header.index(genuine.headers.len());
        let value = &mut genuine.headers[header].1;
        let at = at.index(value.len());
        prop_assume!(value.as_bytes()[at] != byte);
        value.replace_range(at..=at, &char::from(byte).to_string());
        prop_assert!(!genuine.verifies());
    }

    #[test]
    fn arbitrary_headers_are_refused_and_nobody_panics(
        genuine in genuine(), values in prop::collection::vec(".*", 3), body in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let names = genuine.headers.iter().map(|(name, _)| name.clone());
        let headers = names.zip(values).collect();
        let forged = Genuine { headers, body, ..genuine };
        prop_assert!(!forged.verifies());
    }

    /// The shape is right and only the signature is made up.
    #[test]
    fn likely_headers_are_refused_and_nobody_panics(
        genuine in genuine(), items in prop::collection::vec("(t=|v0=|v1=|v1,|s=|sha256=|)[0-9a-f]{0,64}[, =]?", 1..40),
    ) {
        let is_signature = |value: &str| value.len() > 20;
        let forge = |value: &String| if is_signature(value) { items.concat() } else { value.clone() };
        let headers = genuine.headers.iter().map(|(name, value)| (name.clone(), forge(value)));
        let forged = Genuine { headers: headers.collect(), ..genuine };
        prop_assert!(!forged.verifies());
    }
}
