//! HMAC schemes in flow files, for sources that follow no standard.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::Error as _};

/// An HMAC of the body in a header, perhaps with the time under it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Hmac {
    /// The header with the signature.
    #[serde(deserialize_with = "header_name")]
    pub header: Cow<'static, str>,
    /// The hash function.
    pub algorithm: Algorithm,
    /// The encoding of the signature's bytes.
    pub encoding: Encoding,
    /// The text before the signature in its header, such as `sha256=`.
    #[serde(default)]
    pub prefix: Cow<'static, str>,
    /// The time of signing. Without it the body alone is signed.
    #[serde(default)]
    pub timestamp: Option<Stamp>,
}

/// The hash function of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// SHA-1: broken for documents, not for an HMAC; for senders that have nothing newer.
    Sha1,
    /// SHA-256: what most senders use.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The encoding of a signature's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Lower-case hexadecimal.
    Hex,
    /// Base64 with its padding.
    Base64,
}

/// The time of signing, in Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// The header with the time.
    #[serde(deserialize_with = "header_name")]
    pub header: Cow<'static, str>,
    /// The signed content, such as `{timestamp}.{body}`.
    pub signed: Layout,
}

/// The layout of the signed content: how the time and the body are joined.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String")]
pub struct Layout(pub Cow<'static, [Piece]>);

/// A piece of the signed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A fixed text.
    Text(Cow<'static, str>),
    /// The time, as its header has it.
    Timestamp,
    /// The body's bytes.
    Body,
}

impl TryFrom<String> for Layout {
    type Error = String;

    /// Both places exactly once: a signature that does not cover the body and the time proves neither.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let pieces = pieces(&text).unwrap_or_default();
        let once = |place| pieces.iter().filter(|piece| **piece == place).count() == 1;
        if !once(Piece::Timestamp) || !once(Piece::Body) {
            return Err(format!(
                "`{text}` must name {{timestamp}} and {{body}} once each; write `{{timestamp}}.{{body}}`"
            ));
        }
        Ok(Layout(pieces.into()))
    }
}

fn pieces(text: &str) -> Option<Vec<Piece>> {
    let literal = |text: &str| (!text.is_empty()).then(|| Piece::Text(text.to_owned().into()));
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, place)) = rest.split_once('{') {
        let (name, after) = place.split_once('}')?;
        pieces.extend(literal(before));
        pieces.push(match name {
            "timestamp" => Piece::Timestamp,
            "body" => Piece::Body,
            _ => return None,
        });
        rest = after;
    }
    pieces.extend(literal(rest));
    Some(pieces)
}

fn header_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, str>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Err(D::Error::custom(format!("`{name}` is not the name of a header; write `X-Signature`")));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Hmac, String> {
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
    }

    const PLAIN: &str = "{header: X-Signature, algorithm: sha256, encoding: hex}";

    #[test]
    fn a_signature_is_described_in_one_line() {
        let hmac = read(PLAIN).expect("it is good");
        assert_eq!((hmac.header.as_ref(), hmac.prefix.as_ref(), hmac.timestamp), ("X-Signature", "", None));

        let stamped = "{header: X-Sig, algorithm: sha1, encoding: base64, prefix: 'v0=', \
            timestamp: {header: X-Time, signed: 'v0:{timestamp}:{body}'}}";
        let stamp = read(stamped).expect("it is good").timestamp.expect("it has one");
        let text = |text: &'static str| Piece::Text(text.into());
        assert_eq!(stamp.header, "X-Time");
        assert_eq!(*stamp.signed.0, [text("v0:"), Piece::Timestamp, text(":"), Piece::Body]);
    }

    #[test]
    fn the_time_and_the_body_are_signed_once_each() {
        for good in ["{timestamp}.{body}", "{body}{timestamp}", "a{timestamp}b{body}c"] {
            assert!(Layout::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "body",
            "{body}",
            "{timestamp}",
            "{timestamp}{body}{body}",
            "{timestamp}.{body",
            "{id}{timestamp}{body}",
        ] {
            let refusal = Layout::try_from(bad.to_owned()).expect_err(bad);
            assert!(refusal.ends_with("once each; write `{timestamp}.{body}`"), "{refusal}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for (good, bad) in [
            ("sha256", "md5"),
            ("sha256", "SHA256"),
            ("hex", "base58"),
            ("X-Signature", "'X Signature'"),
            ("X-Signature", "''"),
            ("header: X-Signature, ", ""),
            ("algorithm: sha256, ", ""),
            (", encoding: hex", ""),
            ("}", ", secret: s3cret}"),
            ("}", ", timestamp: {header: X-Time}}"),
        ] {
            assert!(read(&PLAIN.replacen(good, bad, 1)).is_err(), "{bad} for {good}");
        }
    }
}
