//! Nobody is believed without the secret, and with it only what was signed.

use std::collections::BTreeMap;

use bolero::{TypeGenerator, check};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::arrival::delivery::Delivery;
use shared::arrival::signature::{Secret, sign, verify};
use shared::base::time::Timestamp;
use shared::flows::Source;

use super::each;
use super::payload::Spoiled;
use crate::fixtures::root;

/// What a provider published, or we signed in its way.
#[derive(Clone, Deserialize)]
struct Vector {
    scheme: Value,
    secret: String,
    at: i64,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A vector with its headers and its body spoiled, at another time.
#[derive(Clone, Debug, TypeGenerator)]
struct Attack {
    vector: u8,
    headers: [Option<Spoiled>; 3],
    body: Option<Spoiled>,
    /// Seconds after the signature was made.
    later: i16,
}

/// What the headers of all schemes are made of.
const WORDS: &[&str] = &[
    "v1,",
    "v1=",
    "v0=",
    "v2,",
    "t=",
    "s=",
    "sha256=",
    "sha1=",
    ",",
    " ",
    ".",
    "=",
    ":",
    "0",
    "+",
    "-1",
    "\n",
    "\0",
    "1531420618",
    "1614265330",
    "1680064028",
    "9223372036854775807",
    "msg_p5jXN8AQM9LWM0D4loKWxJek",
];

impl Attack {
    fn on(&self, vectors: &[Vector]) -> (Vector, Timestamp) {
        let genuine = vectors[usize::from(self.vector) % vectors.len()].clone();
        let mut forged = genuine.clone();
        for (value, spoiled) in forged.headers.values_mut().zip(&self.headers) {
            if let Some(spoiled) = spoiled {
                *value = spoiled.text(&[&value], WORDS);
            }
        }
        if let Some(spoiled) = &self.body {
            forged.body = spoiled.text(&[&genuine.body], WORDS);
        }
        let now = Timestamp::from_secs(genuine.at + i64::from(self.later));
        (forged, now)
    }
}

impl Vector {
    fn source(&self) -> Source {
        let source = json!({"scheme": self.scheme, "max_body": "64KiB", "rate": "10/s", "type_at": "type"});
        serde_json::from_value(source).expect("a good source")
    }

    fn is_believed(&self, secrets: &[&str], now: Timestamp) -> bool {
        let headers = self.headers.clone().into_iter().collect();
        let body = self.body.clone().into_bytes();
        let secrets: Vec<Secret> = secrets.iter().copied().map(Secret::new).collect();
        verify(&self.source(), &secrets, Delivery { source: "shop".into(), event_type: None, headers, body }, now)
            .is_ok()
    }
}

/// The published vectors, and the configurable scheme in the shapes that nobody publishes.
fn vectors() -> Vec<Vector> {
    let folder = std::fs::read_dir(root().join("events/signatures")).expect("the vectors are there");
    let read = |path| std::fs::read_to_string(path).expect("a vector");
    let mut vectors: Vec<Vector> = folder
        .map(|entry| serde_json::from_str(&read(entry.expect("an entry").path())).expect("it is a vector"))
        .collect();
    let stamp = |signed: &str| json!({"header": "X-Time", "signed": signed});
    for (algorithm, encoding, timestamp) in [
        ("sha1", "base64", Value::Null),
        ("sha512", "hex", stamp("{timestamp}{body}")),
        ("sha256", "base64", stamp("{body}{timestamp}")),
    ] {
        let hmac = json!({"header": "X-Sig", "algorithm": algorithm, "encoding": encoding, "timestamp": timestamp});
        vectors.push(own(json!({"hmac": hmac})));
    }
    vectors
}

fn own(scheme: Value) -> Vector {
    let (secret, at, body) = ("test-webhook-secret".to_owned(), 1_614_265_330, r#"{"id":1}"#.to_owned());
    let mut vector = Vector { scheme, secret, at, headers: BTreeMap::new(), body };
    let signed = sign(&vector.source().scheme, &Secret::new(&vector.secret), "", at, vector.body.as_bytes());
    vector.headers = signed.expect("a good secret").into_iter().collect();
    vector
}

#[test]
fn target() {
    let vectors = vectors();
    each(check!(), |attack: &Attack| {
        let (forged, now) = attack.on(&vectors);
        let wrong = ["whsec_d3Jvbmc=", "wrong", "", " ", "whsec_", &forged.secret[1..]];
        assert!(!forged.is_believed(&wrong, now), "believed without the secret");

        if forged.is_believed(&[&forged.secret], now) {
            let genuine = vectors.iter().find(|vector| vector.scheme == forged.scheme).expect("it is one of them");
            assert_eq!(forged.body, genuine.body, "another body under an old signature");
            let age = i64::from(attack.later).unsigned_abs();
            let source = forged.source();
            assert!(!source.scheme.signs_time() || age <= source.tolerance().as_secs(), "believed after {age} s");
        }
    });
}
