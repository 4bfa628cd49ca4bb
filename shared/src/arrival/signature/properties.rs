//! Properties of every scheme, for any delivery.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::vectors::{sender, source};
use super::*;
use crate::arrival::delivery::{Called, Headers};

const SENT: i64 = 1_794_819_600;

/// Every scheme that signs, and the configurable one in many shapes.
fn schemes() -> Vec<Value> {
    let mut schemes: Vec<Value> =
        ["standard-webhooks", "stripe", "github", "shopify", "slack"].map(|name| json!(name)).into();
    schemes.push(json!({"hmac": {
        "header": "X-Sig", "algorithm": "sha256", "encoding": "hex", "prefix": "h1=", "separator": ";",
        "timestamp": {"item": "ts="}, "signed": "{timestamp}:{body}",
    }}));
    for unit in ["milliseconds", "rfc3339"] {
        schemes.push(json!({"hmac": {
            "header": "X-Sig", "algorithm": "sha256", "encoding": "base64",
            "timestamp": {"header": "X-Time", "unit": unit}, "signed": "{method}{url}{body}{timestamp}",
        }}));
    }
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
    url: String,
    body: Vec<u8>,
}

impl Genuine {
    fn verifies(&self) -> bool {
        let headers: Headers = self.headers.iter().cloned().collect();
        let delivery = Delivery {
            source: "shop".into(),
            event_type: None,
            headers,
            body: self.body.clone(),
            called: Called::post(&self.url),
        };
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
        Genuine { source, secret, headers, url: String::new(), body }
    })
}

/// Senders of the catalogue that sign more than a body's bytes: URLs, forms, fields.
const SIGN_MORE: [&str; 5] = ["hubspot", "square", "mailgun", "twilio", "twilio-json"];

fn more() -> impl Strategy<Value = Genuine> {
    by_senders(&SIGN_MORE)
}

fn by_senders(names: &[&'static str]) -> impl Strategy<Value = Genuine> + use<> {
    let url = "https://[a-z]{1,9}(/[a-z]{1,9}){0,3}([?][a-z]=[a-z0-9]{0,8}){0,1}";
    (select(names.to_vec()), any::<[u8; 32]>(), url, -300..=300i64, "\\PC{0,40}").prop_map(
        |(name, key, url, skew, text)| {
            let source = sender(name);
            let secret = new_secret(&source.scheme, &key);
            let form = || {
                form_urlencoded::Serializer::new(String::new()).append_pair("b", &text).append_pair("a", "1").finish()
            };
            let body = match (source.posts_forms(), source.scheme.reads_body()) {
                (true, _) => form(),
                (_, true) => json!({"event-data": {"id": text}}).to_string(),
                _ => text.clone(),
            };
            let at = Timestamp::from_secs(SENT + skew);
            let request = Unsigned { id: "msg_1", at, url: &url, body: body.as_bytes() };
            let SignedRequest { headers, url, body } =
                sign_request(&source.scheme, &secret, request).expect("a good secret");
            Genuine { source, secret, headers, url, body }
        },
    )
}

/// A delivery of any scheme.
fn any_genuine() -> impl Strategy<Value = Genuine> {
    prop_oneof![genuine(), more()]
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
    fn what_a_sender_signs_verifies(genuine in any_genuine()) {
        prop_assert!(genuine.verifies());
    }

    #[test]
    fn one_changed_byte_of_the_body_is_refused(
        mut genuine in any_genuine(), at in any::<Index>(), byte in any::<u8>(), how in 0..3u8,
    ) {
        // Of a form the names and values are signed, however they are written.
        prop_assume!(genuine.source.scheme.signs_body() && !genuine.source.posts_forms());
        change_body(&mut genuine.body, at, byte, how);
        prop_assert!(!genuine.verifies());
    }

    /// The id, the timestamp and the signature are all in the headers.
    #[test]
    fn one_changed_byte_of_a_header_is_refused(
        mut genuine in any_genuine(), header in any::<Index>(), at in any::<Index>(), byte in b' '..=b'~',
    ) {
        prop_assume!(!genuine.headers.is_empty());
        let header = header.index(genuine.headers.len());
        let value = &mut genuine.headers[header].1;
        let at = at.index(value.len());
        prop_assume!(value.as_bytes()[at] != byte);
        value.replace_range(at..=at, &char::from(byte).to_string());
        prop_assert!(!genuine.verifies());
    }

    #[test]
    fn one_changed_byte_of_a_signed_url_is_refused(
        mut genuine in by_senders(&["hubspot", "square", "twilio", "twilio-json"]),
        at in any::<Index>(),
        byte in b'!'..=b'~',
    ) {
        let called = Called::post(&genuine.url).url();
        let at = at.index(genuine.url.len());
        genuine.url.replace_range(at..=at, &char::from(byte).to_string());
        prop_assume!(Called::post(&genuine.url).url() != called);
        prop_assert!(!genuine.verifies());
    }

    #[test]
    fn one_changed_value_of_a_form_is_refused(
        mut genuine in by_senders(&["twilio"]), name in "[ab]", value in "\\PC{1,10}",
    ) {
        let pairs = || form_urlencoded::parse(&genuine.body).into_owned();
        prop_assume!(!pairs().any(|pair| pair == (name.clone(), value.clone())));
        let changed = pairs().map(|(other, old)| if other == name { (other, value.clone()) } else { (other, old) });
        genuine.body = form_urlencoded::Serializer::new(String::new()).extend_pairs(changed).finish().into();
        prop_assert!(!genuine.verifies());
    }

    #[test]
    fn one_changed_character_of_a_signed_field_is_refused(
        mut genuine in by_senders(&["mailgun"]),
        field in select(vec!["timestamp", "token", "signature"]),
        at in any::<Index>(),
        digit in 0..10u8,
    ) {
        let mut body: Value = serde_json::from_slice(&genuine.body).expect("JSON");
        let signed = &body["signature"][field];
        let mut text = signed.as_str().map_or_else(|| signed.to_string(), str::to_owned);
        let at = at.index(text.len());
        prop_assume!(text.as_bytes()[at] != b'0' + digit);
        text.replace_range(at..=at, &digit.to_string());
        body["signature"][field] = json!(text);
        genuine.body = body.to_string().into();
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
