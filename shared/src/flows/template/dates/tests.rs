use proptest::prelude::*;
use serde_json::{Value, json};

use crate::flows::template::{Body, Scope, TemplateError, Values};

fn value(expression: &str, event: &Value) -> Result<Value, TemplateError> {
    Body::of(json!(format!("{{{{ {expression} }}}}"))).render_from(&Values::from(&Scope::of(event)))
}

fn malformed(expression: &str) -> bool {
    !Body::of(json!(format!("{{{{ {expression} }}}}"))).malformed().is_empty()
}

fn event() -> Value {
    json!({"at": "2026-11-16T09:00:00Z", "berlin": "2026-07-01T10:30:00.5+02:00", "unix": 1_763_283_600, "float": 0.25,
        "german": "16.11.2026 10:00", "day": "2026-11-16", "mail": "Mon, 16 Nov 2026 09:00:00 +0000", "bad": "soon"})
}

#[test]
fn moments_are_read_written_and_moved() {
    for (expression, expected) in [
        ("event.german | date_parse('%d.%m.%Y %H:%M', zone='Europe/Berlin')", "2026-11-16T09:00:00Z"),
        ("event.german | date_parse('%d.%m.%Y %H:%M')", "2026-11-16T10:00:00Z"),
        ("event.day | date_parse", "2026-11-16T00:00:00Z"),
        ("event.day | date_parse(zone='America/New_York')", "2026-11-16T05:00:00Z"),
        ("event.day | date_parse('%Y-%m-%d')", "2026-11-16T00:00:00Z"),
        ("event.mail | date_parse", "2026-11-16T09:00:00Z"),
        ("event.berlin | date_parse", "2026-07-01T08:30:00.5Z"),
        ("event.at | date_format('%Y-%m-%d')", "2026-11-16"),
        ("event.at | date_format('%d.%m.%Y %H:%M', zone='Europe/Berlin')", "16.11.2026 10:00"),
        ("event.berlin | date_format('%H:%M')", "10:30"),
        ("event.unix | date_format('%FT%TZ')", "2025-11-16T09:00:00Z"),
        ("event.at | date_zone('Europe/Berlin')", "2026-11-16T10:00:00+01:00"),
        ("event.at | date_zone('Europe/Berlin') | date_format('%H:%M')", "10:00"),
        ("event.berlin | date_zone('UTC')", "2026-07-01T08:30:00.5Z"),
        ("event.at | date_add('36h')", "2026-11-17T21:00:00Z"),
        ("event.at | date_add('-1d')", "2026-11-15T09:00:00Z"),
        ("event.berlin | date_add('90m')", "2026-07-01T12:00:00.5+02:00"),
    ] {
        assert_eq!(value(expression, &event()), Ok(json!(expected)), "{expression}");
    }
    assert_eq!(value("event.at | date_unix", &event()), Ok(json!(1_794_819_600)));
    assert_eq!(value("event.float | date_unix", &event()), Ok(json!(0)));
}

#[test]
fn none_stays_none_and_what_is_no_moment_is_an_error() {
    for filter in ["date_parse", "date_format('%Y')", "date_add('1h')", "date_zone('UTC')", "date_unix"] {
        assert_eq!(value(&format!("none | {filter}"), &event()), Ok(Value::Null), "{filter}");
        assert!(value(&format!("event.bad | {filter}"), &event()).is_err(), "{filter}");
        assert!(value(&format!("event.gone | {filter}"), &event()).is_err(), "{filter}");
    }
    assert!(value("event.german | date_format('%Y')", &event()).is_err(), "it says no offset: date_parse reads it");
    assert!(value("event.at | date_add('9999999d')", &event()).is_err());
    assert!(value("99999999999999999 | date_unix", &event()).is_err());
}

#[test]
fn a_wrong_argument_is_told_when_the_file_is_read() {
    for bad in [
        "event.at | date_format('%!')",
        "event.at | date_format('%Y', zone='Europe/Berln')",
        "event.at | date_format('%Y', tz='UTC')",
        "event.at | date_zone('Mars')",
        "event.at | date_add('1 hour')",
        "event.at | date_add('--1h')",
        "event.at | date_parse('%')",
        "event.at | date_add",
        "event.at | date_format(7)",
    ] {
        assert!(malformed(bad), "{bad}");
    }
    assert!(!malformed("event.at | date_add(event.wait) | date_format(event.format)"));
}

proptest! {
    #[test]
    fn no_text_makes_a_filter_panic(text in any::<String>(), format in any::<String>(), seconds in any::<f64>()) {
        let event = json!({"t": text, "f": format, "n": seconds});
        for expression in [
            "event.t | date_parse", "event.t | date_parse(event.f)", "event.n | date_format(event.f)", "event.n | date_add(event.t)",
            "event.t | date_zone(event.f)", "event.n | date_unix", "event.n | date_format('%F %T', zone=event.t)",
        ] {
            let _ = value(expression, &event);
        }
    }

    #[test]
    fn a_moment_that_is_written_is_read_again(seconds in -62_135_596_800i64..253_402_000_000) {
        let event = json!({"n": seconds});
        let there_and_back = "event.n | date_zone('Asia/Kathmandu') | date_add('1h') | date_add('-1h') | date_unix";
        prop_assert_eq!(value(there_and_back, &event), Ok(json!(seconds)));
        let formatted = "event.n | date_format('%Y-%m-%d %H:%M:%S') | date_parse('%Y-%m-%d %H:%M:%S') | date_unix";
        prop_assert_eq!(value(formatted, &event), Ok(json!(seconds)));
    }
}
