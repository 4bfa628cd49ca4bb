//! Doubts about Slack's signatures.

use super::super::vectors::Vector;

const TIME: &str = "X-Slack-Request-Timestamp";

#[test]
fn refuses_every_doubt() {
    let vector = Vector::of("slack");
    let signature = |change: fn(&str) -> String| vector.having("X-Slack-Signature", change);
    for (why, vector) in [
        ("another version", signature(|it| it.replace("v0=", "v1="))),
        ("a version in capitals", signature(|it| it.replace("v0=", "V0="))),
        ("no version", signature(|it| it["v0=".len()..].into())),
        ("another time", vector.with(TIME, "1531420619")),
        ("a time with a zero", vector.with(TIME, "01531420618")),
        ("a time with a sign", vector.with(TIME, "+1531420618")),
        ("a time with a fraction", vector.with(TIME, "1531420618.0")),
        ("a time with a space", vector.with(TIME, " 1531420618")),
        ("a time beyond numbers", vector.with(TIME, "9".repeat(40))),
    ] {
        assert!(!vector.verifies(), "{why}");
    }
}
