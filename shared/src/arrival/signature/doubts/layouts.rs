//! Doubts about layouts of signed content.

use serde_json::json;

use super::super::vectors::source;
use super::super::{Secret, sign, verify};
use crate::arrival::delivery::{Called, Delivery};
use crate::base::time::Timestamp;

const SENT: i64 = 1_794_819_600;

/// Whether a delivery verifies with this time and this body, under what was signed for `900`.
fn verifies(layout: &str, timestamp: &str, body: &str) -> bool {
    let stamp = json!({"header": "X-Time", "signed": layout});
    let source = source(&json!({
        "hmac": {"header": "X-Sig", "algorithm": "sha256", "encoding": "hex", "timestamp": stamp}
    }));
    let secret = [Secret::new("s3cret")];
    let mut headers = sign(&source.scheme, &secret[0], "", SENT, b"900").expect("a good secret");
    headers.iter_mut().filter(|(name, _)| name == "X-Time").for_each(|(_, value)| *value = timestamp.into());
    let headers = headers.into_iter().collect();
    let delivery =
        Delivery { source: "shop".into(), event_type: None, headers, body: body.into(), called: Called::default() };
    verify(&source, &secret, delivery, Timestamp::from_secs(SENT)).is_ok()
}

/// A layout with nothing between the body and the time leaves the same bytes in all of these.
#[test]
fn the_same_bytes_cut_elsewhere_are_refused() {
    let sent = SENT.to_string();
    assert!(verifies("{body}{timestamp}", &sent, "900"));
    assert!(!verifies("{body}{timestamp}", &format!("0{sent}"), "90"));
    assert!(!verifies("{body}{timestamp}", &format!("00{sent}"), "9"));
    assert!(!verifies("{body}{timestamp}", &format!("900{sent}"), ""));
    assert!(!verifies("{body}{timestamp}", &sent[1..], &format!("900{}", &sent[..1])));

    assert!(verifies("{timestamp}{body}", &sent, "900"));
    assert!(!verifies("{timestamp}{body}", &format!("{sent}9"), "00"));
    assert!(!verifies("{timestamp}{body}", &sent[..9], &format!("{}900", &sent[9..])));
}

#[test]
fn the_layout_decides_what_is_signed() {
    let sent = SENT.to_string();
    for layout in ["{timestamp}.{body}", "v0:{timestamp}:{body}", "{body}|{timestamp}|end"] {
        assert!(verifies(layout, &sent, "900"), "{layout}");
        assert!(!verifies(layout, &sent, "901"), "{layout}");
        assert!(!verifies(layout, &(SENT + 1).to_string(), "900"), "{layout}");
    }
}
