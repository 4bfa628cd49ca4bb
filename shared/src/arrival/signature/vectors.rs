//! The providers' own vectors, under `events/signatures`, and every doubt about them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

/// A provider's published vector: a secret, and a delivery that it signed with it.
#[derive(Clone, Deserialize)]
pub(super) struct Vector {
    scheme: Value,
    secret: String,
    /// The time of signing, in Unix seconds, where the scheme signs it.
    at: i64,
    pub(super) headers: BTreeMap<String, String>,
    body: String,
}

impl Vector {
    pub(super) fn of(scheme: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/signatures");
        let text = std::fs::read_to_string(folder.join(format!("{scheme}.json"))).expect("the fixture is there");
        serde_json::from_str(&text).expect("the fixture is a vector")
    }

    /// The vector with another value in this header.
    pub(super) fn with(&self, header: &str, value: impl Into<String>) -> Self {
        let mut changed = self.clone();
        changed.headers.insert(header.into(), value.into());
        changed
    }

    /// The vector with this header changed.
    pub(super) fn having(&self, header: &str, change: impl Fn(&str) -> String) -> Self {
        self.with(header, change(&self.headers[header]))
    }

    /// The vector with this header alone under another name.
    pub(super) fn renamed(&self, header: &str, name: &str) -> Self {
        let mut changed = self.clone();
        let value = changed.headers.remove(header).expect("the vector has it");
        changed.headers.insert(name.into(), value);
        changed
    }

    pub(super) fn verifies(&self) -> bool {
        self.verifies_with(&[&self.secret], 0)
    }

    /// Whether the vector verifies with these secrets, so many seconds after it was signed.
    pub(super) fn verifies_with(&self, secrets: &[&str], later: i64) -> bool {
        let source = source(&self.scheme);
        let delivery = Delivery {
            source: "shop".into(),
            event_type: None,
            headers: self.headers.clone().into_iter().collect(),
            body: self.body.clone().into_bytes(),
        };
        let secrets: Vec<Secret> = secrets.iter().copied().map(Secret::new).collect();
        verify(&source, &secrets, delivery, Timestamp::from_secs(self.at + later)).is_ok()
    }

    /// The vector's variations that every scheme must reject.
    fn doubts(&self) -> Vec<(String, Self)> {
        let mut doubts = vec![("another body".to_owned(), Self { body: format!("{} ", self.body), ..self.clone() })];
        for header in self.headers.keys() {
            let mut without = self.clone();
            without.headers.remove(header);
            doubts.push((format!("no {header}"), without));
            for value in ["", " ", ",", "=", "0", "-1", "nonsense", "\u{1f984}"] {
                doubts.push((format!("{header}: {value}"), self.with(header, value)));
            }
            doubts.push((format!("{header} without its start"), self.having(header, |value| value[1..].into())));
            doubts.push((format!("{header} twice"), self.having(header, |value| format!("{value},{value}"))));
            doubts.push((format!("{header} shouted"), self.having(header, str::to_uppercase)));
        }
        doubts
    }
}

/// A source with this scheme.
pub(super) fn source(scheme: &Value) -> Source {
    let source = json!({"scheme": scheme, "max_body": "64KiB", "rate": "10/s", "type_at": "type"});
    serde_json::from_value(source).expect("a good source")
}

const ALL: [&str; 5] = ["standard-webhooks", "stripe", "github", "shopify", "slack"];

#[test]
fn every_published_vector_verifies() {
    for scheme in ALL {
        assert!(Vector::of(scheme).verifies(), "{scheme}");
    }
}

#[test]
fn we_sign_as_the_providers_do() {
    for scheme in ALL {
        let Vector { scheme, secret, at, headers, body } = Vector::of(scheme);
        let id = headers.get("webhook-id").map_or("", String::as_str);
        let signed =
            sign(&source(&scheme).scheme, &Secret::new(secret), id, at, body.as_bytes()).expect("a good secret");
        for (name, value) in signed {
            // Stripe's vector has the signatures of a rotation.
            assert!(value.split(',').all(|part| headers[&name].contains(part)), "{scheme}: {name}: {value}");
        }
    }
}

#[test]
fn every_doubt_is_a_refusal() {
    for scheme in ALL {
        for (why, vector) in Vector::of(scheme).doubts() {
            // A number may be shouted, and so may the time of signing.
            let same = vector.headers == Vector::of(scheme).headers && vector.body == Vector::of(scheme).body;
            assert!(same || !vector.verifies(), "{scheme}: {why}");
        }
    }
}

#[test]
fn any_live_secret_will_do_and_no_other() {
    for scheme in ALL {
        let vector = Vector::of(scheme);
        let good = vector.secret.as_str();
        assert!(vector.verifies_with(&["whsec_b3RoZXI=", good], 0), "{scheme}");
        assert!(vector.verifies_with(&[good, ""], 0), "{scheme}");
        assert!(vector.verifies_with(&[&format!("{good}\n")], 0), "{scheme}: pasted with its line's end");
        for bad in [&[][..], &[""], &[" "], &["whsec_"], &["whsec_???"], &["whsec_b3RoZXI="], &[&good[1..]]] {
            assert!(!vector.verifies_with(bad, 0), "{scheme}: {bad:?}");
        }
    }
}

#[test]
fn the_stale_and_the_future_are_refused_where_the_time_is_signed() {
    for scheme in ALL {
        let vector = Vector::of(scheme);
        let verifies = |later| vector.verifies_with(&[&vector.secret], later);
        let signs_time = source(&vector.scheme).scheme.signs_time();
        assert!(verifies(300) && verifies(-300), "{scheme}");
        assert_eq!(verifies(301), !signs_time, "{scheme}");
        assert_eq!(verifies(-301), !signs_time, "{scheme}");
    }
}

#[test]
fn without_a_scheme_anybody_is_believed() {
    let vector = Vector { scheme: json!("none"), ..Vector::of("github") };
    assert!(vector.verifies_with(&[], 0));
}

#[test]
fn a_secret_does_not_show_itself() {
    assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
}
