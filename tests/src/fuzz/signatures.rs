//! Nobody is believed without the secret, and with it only what was signed.

use std::collections::BTreeMap;

use bolero::{TypeGenerator, check};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::signature::{Secret, Unsigned, new_secret, sign, sign_request, verify};
use shared::base::time::Timestamp;
use shared::flows::Source;

use super::each;
use super::payload::Spoiled;
use crate::fixtures::{root, sender};

/// What a provider published, or we signed in its way.
#[derive(Clone, Deserialize)]
struct Vector {
    /// The sender in the catalogue.
    #[serde(default)]
    source: String,
    /// A scheme of no sender's, in place of one.
    #[serde(default)]
    scheme: Value,
    secret: String,
    at: i64,
    #[serde(default)]
    url: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A vector with its headers, its URL and its body spoiled, at another time.
#[derive(Clone, Debug, TypeGenerator)]
struct Attack {
    vector: u8,
    headers: [Option<Spoiled>; 3],
    url: Option<Spoiled>,
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
    "?",
    "&",
    "/",
    "%2F",
    "https://",
    "bodySHA256=",
    "\"signature\":",
    "\"token\":",
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
        if let Some(spoiled) = &self.url {
            forged.url = spoiled.text(&[&genuine.url], WORDS);
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
        if !self.source.is_empty() {
            return sender(&self.source);
        }
        let source = json!({"scheme": self.scheme, "max_body": "64KiB", "rate": "10/s", "type_at": "type"});
        serde_json::from_value(source).expect("a good source")
    }

    fn is_believed(&self, secrets: &[&str], now: Timestamp) -> bool {
        let headers = self.headers.clone().into_iter().collect();
        let body = self.body.clone().into_bytes();
        let secrets: Vec<Secret> = secrets.iter().copied().map(Secret::new).collect();
        let called = Called::post(&self.url);
        let delivery = Delivery { source: "shop".into(), event_type: None, headers, body, called };
        verify(&self.source(), &secrets, delivery, now).is_ok()
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
    vectors.extend(SIGN_MORE.map(|(name, body)| of_sender(name, body)));
    vectors
}

/// The senders that sign more than a body's bytes: URLs, forms, fields.
const SIGN_MORE: [(&str, &str); 5] = [
    ("hubspot", r#"[{"eventId":1}]"#),
    ("square", r#"{"event_id":"1"}"#),
    ("mailgun", r#"{"event-data":{"id":"1"}}"#),
    ("twilio", "MessageSid=SM1&Body=Hi+there"),
    ("twilio-json", r#"{"id":1}"#),
];

fn of_sender(name: &str, body: &str) -> Vector {
    let scheme = sender(name).scheme;
    let (secret, at) = (new_secret(&scheme, &[7; 32]), 1_614_265_330);
    let url = "https://hooks.example.com/v1/events/shop?a=1";
    let unsigned = Unsigned { id: "", at: Timestamp::from_secs(at), url, body: body.as_bytes() };
    let signed = sign_request(&scheme, &secret, unsigned).expect("a good secret");
    Vector {
        source: name.to_owned(),
        scheme: Value::Null,
        secret: secret.expose().to_owned(),
        at,
        url: signed.url,
        headers: signed.headers.into_iter().collect(),
        body: String::from_utf8(signed.body).expect("text"),
    }
}

fn own(scheme: Value) -> Vector {
    let (secret, at, body) = ("test-webhook-secret".to_owned(), 1_614_265_330, r#"{"id":1}"#.to_owned());
    let (source, url) = (String::new(), String::new());
    let mut vector = Vector { source, scheme, secret, at, url, headers: BTreeMap::new(), body };
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
            let name = |vector: &Vector| (vector.source.clone(), vector.scheme.clone(), vector.secret.clone());
            let same = |vector: &&Vector| name(vector) == name(&forged);
            let (genuine, source) = (vectors.iter().find(same).expect("it is one of them"), forged.source());
            // A form may be written in another way: its names and values are what is signed. Some sign no body.
            let free = source.posts_forms() || !source.scheme.signs_body();
            assert!(free || forged.body == genuine.body, "another body under an old signature");
            let signs_url = source.scheme.signature().is_some_and(|signature| signature.signs_url());
            let called = |vector: &Vector| Called::post(&vector.url).url();
            assert!(!signs_url || called(&forged) == called(genuine), "another URL under an old signature");
            let age = i64::from(attack.later).unsigned_abs();
            assert!(!source.scheme.signs_time() || age <= source.tolerance().as_secs(), "believed after {age} s");
        }
    });
}
