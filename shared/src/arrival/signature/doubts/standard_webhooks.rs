//! Doubts about Standard Webhooks' signatures.

use super::super::vectors::Vector;
use super::super::{Secret, keys};
use crate::flows::Scheme;

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
    let scheme = Scheme::standard_webhooks();
    let keys = |text: &str| keys(scheme.signature().expect("it signs"), &[Secret::new(text)]);
    assert_eq!(keys("whsec_b3RoZXI="), [b"other".to_vec()]);
    assert_eq!(keys("whsec_b3RoZXI"), [b"other".to_vec()]);
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
