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
        (
            "event.what | hmac('Jefe', 'sha512')",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
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

/// What an event says of a country is not checked by anybody before it is here.
#[test]
fn a_phone_number_is_never_rejected() {
    let usable = [json!("49"), json!("+49"), json!(49), json!(" 49 ")];
    let unusable = [
        json!("DE"),
        json!(""),
        json!("4949"),
        json!(-4),
        json!(4.9),
        json!(true),
        json!(null),
        json!([49]),
        json!({"code": 49}),
    ];
    for (country, expected) in usable.iter().map(|it| (it, "+491511")).chain(unusable.iter().map(|it| (it, "+01511"))) {
        let event = json!({"phone": "01511", "country": country});
        assert_eq!(value("event.phone | e164(event.country)", &event), Ok(json!(expected)), "{country}");
    }
    for (trunk, expected) in
        [(json!("0"), "+391511"), (json!(""), "+3901511"), (json!("x"), "+391511"), (json!([]), "+391511")]
    {
        let event = json!({"phone": "01511", "trunk": trunk});
        assert_eq!(value("event.phone | e164('39', trunk=event.trunk)", &event), Ok(json!(expected)), "{trunk}");
    }
    for phone in [json!(["01511"]), json!({"number": "01511"}), json!([])] {
        let event = json!({"phone": phone});
        assert_eq!(value("event.phone | e164('49')", &event), Ok(phone), "it comes out as it is");
    }
    let event = json!({"phone": "01511"});
    assert_eq!(value("event.phone | e164(event.country)", &event), Ok(json!("+01511")), "no country is given");
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
        let is_rejected = value(&format!("event.list | {filter}"), &event).is_err();
        assert!(is_rejected != filter.starts_with("e164"), "{filter}");
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
    assert!(malformed("event.a | e164(event.country | default('DE'))"), "what stands in the file");
    assert!(malformed("event.a | e164(['49'])"));
    for good in [
        "event.a | e164(event.country)",
        "event.a | e164(event.country, trunk=event.trunk)",
        "event.a | replace(event.b, event.c)",
        "event.a | default(event.b)",
    ] {
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

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(Value::from),
        "[+0-9 ]{0,5}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        any::<Vec<u8>>().prop_map(Value::from),
        any::<String>().prop_map(|text| json!({ "code": text })),
    ]
}

proptest! {
    #[test]
    fn no_event_makes_e164_fail(phone in anything(), country in anything(), trunk in anything()) {
        let event = json!({"phone": phone, "country": country, "trunk": trunk});
        let number = value("event.phone | e164(event.country, trunk=event.trunk)", &event);
        let number = number.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let digits = |text: &str| text.strip_prefix('+').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
        let phone = event["phone"].to_string();
        prop_assert!(number == event["phone"] || number.as_str().is_some_and(|text| digits(text) || phone == text));
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
