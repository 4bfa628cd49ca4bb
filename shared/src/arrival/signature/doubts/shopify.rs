//! Doubts about Shopify's signatures.

use super::super::vectors::Vector;

#[test]
fn refuses_every_doubt() {
    let vector = Vector::of("shopify");
    let signature = |change: fn(&str) -> String| vector.having("X-Shopify-Hmac-Sha256", change);
    for (why, vector) in [
        ("no padding", signature(|it| it.trim_end_matches('=').into())),
        ("more padding", signature(|it| format!("{it}="))),
        ("a prefix", signature(|it| format!("sha256={it}"))),
        ("base64 for URLs", signature(|it| it.replace('/', "_").replace('+', "-"))),
        // The last character's low bits are not part of the 32 bytes.
        ("other bits below the last byte", signature(|it| it.replace("0Gw=", "0Gx="))),
        ("hex", signature(|_| "40dc8e6d394a6ccc76a8394f17f64e65c06a8393a03e0fb6a24cb7ce575cd06c".into())),
    ] {
        assert!(!vector.verifies(), "{why}");
    }
}
