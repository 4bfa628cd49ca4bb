use proptest::prelude::*;
use serde_json::{Value, json};

use crate::flows::template::{Body, Scope, TemplateError, Values};

fn value(expression: &str, event: &Value) -> Result<Value, TemplateError> {
    Body::of(json!(format!("{{{{ {expression} }}}}"))).render_from(&Values::from(&Scope::of(event)))
}

fn malformed(expression: &str) -> bool {
    !Body::of(json!(format!("{{{{ {expression} }}}}"))).malformed().is_empty()
}

/// The digests of RFC 1321, RFC 3174, FIPS 180 and RFC 4231.
#[test]
fn digests_are_those_of_the_standards() {
    let event = json!({"abc": "abc", "n": 7, "what": "what do ya want for nothing?"});
    for (expression, expected) in [
        ("event.abc | sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("event.abc | sha256('base64')", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
        ("event.abc | sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("event.abc | md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("event.n | md5", "8f14e45fceea167a5a36dedd4bea2543"),
        ("event.what | hmac('Jefe')", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ("event.what | hmac('Jefe', 'sha1')", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        ("event.what | hmac('Jefe', 'sha256', 'base64')", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="),
        ("event.abc | upper | trim | lower | sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    ] {
        assert_eq!(value(expression, &event), Ok(json!(expected)), "{expression}");
    }
}

#[test]
fn texts_are_encoded() {
    let event = json!({"t": "a?b>c~", "user": "AC01:secret", "o": {"a": [1, "<x>", null], "ä": true}});
    for (expression, expected) in [
        ("event.user | base64", "QUMwMTpzZWNyZXQ="),
        ("event.t | base64", "YT9iPmN+"),
        ("event.t | base64('url')", "YT9iPmN-"),
        ("event.t | hex", "613f623e637e"),
        ("event.o | tojson", r#"{"a":[1,"<x>",null],"ä":true}"#),
        ("' Ada@Example.COM ' | trim | lower", "ada@example.com"),
    ] {
        assert_eq!(value(expression, &event), Ok(json!(expected)), "{expression}");
    }
}

#[test]
fn a_phone_number_is_a_plus_and_digits() {
    let event = json!({"phone": "0151 1234567", "n": 491511234567_u64});
    assert_eq!(value("event.phone | e164('49')", &event), Ok(json!("+491511234567")));
    assert_eq!(value("event.phone | e164('+39', trunk='')", &event), Ok(json!("+3901511234567")));
    assert_eq!(value("event.n | e164", &event), Ok(json!("+491511234567")));
    assert_eq!(value("'call me' | e164('49')", &event), Ok(json!("call me")));
}

#[test]
fn none_stays_none_and_undefined_is_an_error() {
    let event = json!({"none": null, "list": [1]});
    for filter in
        ["sha256", "md5", "hmac('k')", "base64", "hex", "e164('49')", "lower", "upper", "trim | lower | sha256"]
    {
        assert_eq!(value(&format!("event.none | {filter}"), &event), Ok(Value::Null), "{filter}");
        assert_eq!(value(&format!("event.gone | default(none) | {filter}"), &event), Ok(Value::Null), "{filter}");
        assert!(value(&format!("event.gone | {filter}"), &event).is_err(), "{filter}");
        assert!(value(&format!("event.list | {filter}"), &event).is_err(), "{filter}");
    }
    assert_eq!(value("event.none | tojson", &event), Ok(json!("null")), "JSON has a word for it");
    assert!(value("event.gone | tojson", &event).is_err());
    assert!(value("'a' | hmac(event.gone)", &event).is_err(), "a key that is not there must not be an empty one");
}

#[test]
fn a_wrong_argument_is_told_when_the_file_is_read() {
    for bad in [
        "event.a | sha256('binary')",
        "event.a | hmac('k', 'md5')",
        "event.a | hmac('k', 'sha256', 'raw')",
        "event.a | base64('mime')",
        "event.a | e164('DE')",
        "event.a | e164('49', trunk='x')",
        "event.a | e164('49', prefix='0')",
        "event.a | hex(1)",
        "event.a | sha3",
    ] {
        assert!(malformed(bad), "{bad}");
    }
    assert!(!malformed("event.a | hmac(vars.secret) | upper"));
    for good in ["event.a | e164(event.country)", "event.a | replace(event.b, event.c)", "event.a | default(event.b)"] {
        assert!(!malformed(good), "{good}: what an event says is known only then");
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_filter_fail(text in any::<String>()) {
        let event = json!({"t": text});
        for filter in ["sha256", "sha1", "md5", "hmac(event.t)", "base64", "base64('url')", "hex", "tojson", "e164", "e164('49')"] {
            prop_assert!(value(&format!("event.t | {filter}"), &event).is_ok(), "{}", filter);
        }
        let json = value("event.t | tojson", &event).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Value>(json.as_str().expect("a text")).expect("JSON"), json!(text));
    }
}

#[test]
fn none_is_no_word_of_a_text() {
    let render =
        |template: &str| Body::of(json!(template)).render_from(&Values::from(&Scope::of(&json!({"none": null}))));
    assert!(render("Hi {{ event.none }}!").is_err());
    assert_eq!(render("Hi {{ event.none or 'you' }}!"), Ok(json!("Hi you!")));
    assert_eq!(render("{{ event.none }}"), Ok(Value::Null));
    assert_eq!(render("{{ '-a-' | trim('-') }}!"), Ok(json!("a!")));
}
