//! The providers' own vectors, under `events/signatures`, and every doubt about them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::arrival::delivery::{Called, Headers};
use crate::flows::catalog::Shelf;
use crate::flows::{File, Flows};

/// A provider's published vector: a secret, and a delivery that it signed with it.
#[derive(Clone, Deserialize)]
pub(super) struct Vector {
    /// The sender in the catalogue.
    source: String,
    secret: String,
    /// The time of signing, in Unix seconds, where the scheme signs it.
    at: i64,
    #[serde(default)]
    url: String,
    pub(super) headers: BTreeMap<String, String>,
    body: String,
}

impl Vector {
    pub(super) fn of(source: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/signatures");
        let text = std::fs::read_to_string(folder.join(format!("{source}.json"))).expect("the fixture is there");
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
        let source = sender(&self.source);
        let delivery = Delivery {
            source: "shop".into(),
            event_type: None,
            headers: self.headers.clone().into_iter().collect(),
            body: self.body.clone().into_bytes(),
            called: Called::post(&self.url),
        };
        let secrets: Vec<Secret> = secrets.iter().copied().map(Secret::new).collect();
        verify(&source, &secrets, delivery, Timestamp::from_secs(self.at + later)).is_ok()
    }

    /// The vector's variations that every scheme must reject.
    fn doubts(&self) -> Vec<(String, Self)> {
        let mut doubts = Vec::new();
        if sender(&self.source).scheme.signs_body() {
            doubts.push(("another body".to_owned(), Self { body: format!("{} ", self.body), ..self.clone() }));
        }
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

/// A source that uses this sender of the shipped catalogue.
pub(super) fn sender(name: &str) -> Source {
    let path = Shelf::Sources.path(name);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/flows");
    let text = std::fs::read_to_string(folder.join(&path)).expect("a file of the catalogue");
    let own = format!("shop: {{uses: {name}, max_body: 64KiB, rate: 10/s}}");
    let files = [File { path: "sources.yaml".into(), text: own }, File { path, text }];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    flows.source("shop").expect("it is there").clone()
}

/// The senders of the shipped catalogue.
pub(super) fn senders() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/flows").join(Shelf::Sources.folder());
    let files = std::fs::read_dir(folder).expect("the catalogue").flatten();
    let mut names: Vec<String> = files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

/// Every vector that a provider published, or whose library believes it.
const ALL: [&str; 10] =
    ["standard-webhooks", "stripe", "github", "shopify", "slack", "paddle", "sendgrid", "twilio", "meta", "basic"];

#[test]
fn every_published_vector_verifies() {
    for name in ALL {
        assert!(Vector::of(name).verifies(), "{name}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/signatures");
    assert_eq!(std::fs::read_dir(folder).expect("the vectors").count(), ALL.len(), "each is tried");
}

#[test]
fn we_sign_as_the_providers_do() {
    // Of SendGrid, only the public key is published.
    for name in ALL.into_iter().filter(|name| *name != "sendgrid") {
        let Vector { source, secret, at, url, headers, body } = Vector::of(name);
        let id = headers.get("webhook-id").map_or("", String::as_str);
        let request = Unsigned { id, at: Timestamp::from_secs(at), url: &url, body: body.as_bytes() };
        let signed = sign_request(&sender(&source).scheme, &Secret::new(secret), request).expect("a good secret");
        for (header, value) in signed.headers {
            // Some vectors have the signatures of a rotation.
            assert!(value.split([',', ';']).all(|part| headers[&header].contains(part)), "{name}: {header}: {value}");
        }
    }
}

#[test]
fn a_word_means_what_the_catalogue_says() {
    for word in ["standard-webhooks", "stripe", "github", "shopify", "slack"] {
        assert_eq!(source(&json!(word)).scheme, sender(word).scheme, "{word}");
    }
}

#[test]
fn every_doubt_is_a_refusal() {
    for name in ALL {
        for (why, vector) in Vector::of(name).doubts() {
            // A number may be shouted, and so may the time of signing.
            let same = vector.headers == Vector::of(name).headers && vector.body == Vector::of(name).body;
            assert!(same || !vector.verifies(), "{name}: {why}");
        }
    }
}

#[test]
fn any_live_secret_will_do_and_no_other() {
    for name in ALL {
        let vector = Vector::of(name);
        let good = vector.secret.as_str();
        assert!(vector.verifies_with(&["whsec_b3RoZXI=", good], 0), "{name}");
        assert!(vector.verifies_with(&[good, ""], 0), "{name}");
        assert!(vector.verifies_with(&[&format!("{good}\n")], 0), "{name}: pasted with its line's end");
        for bad in [&[][..], &[""], &[" "], &["whsec_"], &["whsec_???"], &["whsec_b3RoZXI="], &[&good[1..]]] {
            assert!(!vector.verifies_with(bad, 0), "{name}: {bad:?}");
        }
    }
}

#[test]
fn the_stale_and_the_future_are_refused_where_the_time_is_signed() {
    for name in ALL {
        let vector = Vector::of(name);
        let verifies = |later| vector.verifies_with(&[&vector.secret], later);
        let source = sender(&vector.source);
        let (signs_time, bound) = (source.scheme.signs_time(), source.tolerance().as_secs() as i64);
        assert!(verifies(bound) && verifies(-bound), "{name}");
        assert_eq!(verifies(bound + 1), !signs_time, "{name}");
        assert_eq!(verifies(-bound - 1), !signs_time, "{name}");
    }
}

#[test]
fn without_a_scheme_anybody_is_believed() {
    let source = source(&json!("none"));
    let delivery = Delivery {
        source: "shop".into(),
        event_type: None,
        headers: Headers::default(),
        body: b"{}".to_vec(),
        called: Called::default(),
    };
    assert!(verify(&source, &[], delivery, Timestamp::from_secs(0)).is_ok());
}

#[test]
fn a_secret_does_not_show_itself() {
    assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
}

/// A delivery as a sender of the catalogue makes it, and as its receiver sees it.
struct Sent {
    source: Source,
    secret: Secret,
    request: SignedRequest,
}

const NOW: i64 = 1_794_819_600;

impl Sent {
    fn by(name: &str, later: i64) -> Self {
        let source = sender(name);
        let secret = new_secret(&source.scheme, &[7; 32]);
        let body: &[u8] = if source.posts_forms() { b"Body=Hi&To=%2B1" } else { br#"{"type":"a","id":1}"# };
        let (at, url) = (Timestamp::from_secs(NOW + later), "https://hooks.example.com/v1/events/shop");
        let request = sign_request(&source.scheme, &secret, Unsigned { id: "msg_1", at, url, body });
        Sent { request: request.expect("a good secret"), secret, source }
    }

    fn verifies_by(&self, secret: &Secret) -> bool {
        let SignedRequest { headers, url, body } = self.request.clone();
        let headers = headers.into_iter().collect();
        let delivery = Delivery { source: "shop".into(), event_type: None, headers, body, called: Called::post(&url) };
        verify(&self.source, std::slice::from_ref(secret), delivery, Timestamp::from_secs(NOW)).is_ok()
    }

    fn verifies(&self) -> bool {
        self.verifies_by(&receivers_secret(&self.source.scheme, &self.secret).expect("a secret"))
    }
}

#[test]
fn every_sender_of_the_catalogue_is_believed_by_its_own_secret_alone() {
    assert!(senders().len() >= 21, "{:?}", senders());
    for name in senders() {
        let sent = Sent::by(&name, 0);
        assert!(sent.verifies(), "{name}");
        let other = new_secret(&sent.source.scheme, &[8; 32]);
        let other = receivers_secret(&sent.source.scheme, &other).expect("a secret");
        assert!(!sent.verifies_by(&other), "{name}: another secret");
        for bad in ["", " ", "whsec_", ":", "user:", "x"] {
            assert!(!sent.verifies_by(&Secret::new(bad)), "{name}: {bad}");
        }
        for header in 0..sent.request.headers.len() {
            let mut without = Sent::by(&name, 0);
            without.request.headers.remove(header);
            assert!(!without.verifies(), "{name}: without {:?}", sent.request.headers[header].0);
        }
    }
}

#[test]
fn what_a_scheme_signs_cannot_be_changed() {
    for name in senders() {
        let scheme = &sender(&name).scheme;
        let mut changed = Sent::by(&name, 0);
        changed.request.body =
            String::from_utf8(changed.request.body).expect("text").replace("Hi", "Ho").replace('1', "2").into();
        assert_eq!(changed.verifies(), !scheme.signs_body() && !scheme.reads_body(), "{name}: the body");
        let mut elsewhere = Sent::by(&name, 0);
        elsewhere.request.url = elsewhere.request.url.replace("shop", "shop/orders/paid");
        let signs_url = scheme.signature().is_some_and(Signature::signs_url);
        assert_eq!(elsewhere.verifies(), !signs_url, "{name}: the URL");
        let late = sender(&name).tolerance().as_secs() as i64 + 1;
        for skew in [late, -late] {
            assert_eq!(Sent::by(&name, skew).verifies(), !scheme.signs_time(), "{name}: {skew} s");
        }
    }
}

/// A delivery that met one failure of ours must not be rejected for its age when it comes again.
#[test]
fn a_repetition_with_its_first_signature_is_believed_unless_each_is_signed_anew() {
    for name in senders() {
        let retries = sender(&name).retries.filter(|retries| !retries.signed_anew);
        let last = retries.map_or(0, |retries| retries.within.as_secs() as i64);
        assert!(Sent::by(&name, -last).verifies(), "{name}: after {last} s");
    }
}

/// The weakness of Mailgun's scheme, which its file tells: nothing signs the event.
#[test]
fn what_nothing_signs_can_be_changed_and_the_catalogue_says_so() {
    let mut forged = Sent::by("mailgun", 0);
    forged.request.body =
        String::from_utf8(forged.request.body).expect("text").replace(r#""type":"a""#, r#""type":"b""#).into();
    assert!(forged.verifies());
    for name in senders() {
        let source = sender(&name);
        let told =
            source.about.and_then(|about| about.note).is_some_and(|note| note.contains("whoever sees one delivery"));
        assert_eq!(told, !source.scheme.signs_body(), "{name}");
    }
}
