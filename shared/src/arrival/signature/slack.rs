//! Slack: HMAC-SHA256 over `v0:<timestamp>:<body>`, in `X-Slack-Signature: v0=<hex>`.

use std::borrow::Cow;

use crate::flows::{Algorithm, Encoding, Hmac, Layout, Piece, Stamp};

pub(super) static HMAC: Hmac = Hmac {
    header: Cow::Borrowed("X-Slack-Signature"),
    algorithm: Algorithm::Sha256,
    encoding: Encoding::Hex,
    prefix: Cow::Borrowed("v0="),
    timestamp: Some(Stamp {
        header: Cow::Borrowed("X-Slack-Request-Timestamp"),
        signed: Layout(Cow::Borrowed(&[
            Piece::Text(Cow::Borrowed("v0:")),
            Piece::Timestamp,
            Piece::Text(Cow::Borrowed(":")),
            Piece::Body,
        ])),
    }),
};

#[cfg(test)]
mod tests {
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
}
