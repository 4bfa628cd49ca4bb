//! Signatures in flow files: where one stands, how it is written, and what is signed.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::Error as _};

use super::Field;

/// A signature of a delivery, in its sender's own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The place of the signature.
    pub at: ProofPlace,
    /// How the signature is made.
    pub proof: Proof,
    /// The encoding of the signature's bytes.
    pub encoding: Encoding,
    /// The text before the signature, such as `sha256=`.
    pub prefix: Cow<'static, str>,
    /// The text between the items of a header that lists several. The signatures are those that begin with the prefix.
    pub separator: Option<Cow<'static, str>>,
    /// The form of the secret.
    pub secret: SecretForm,
    /// The headers with the sender's id of the delivery, where it signs one. The first that is there counts.
    pub id: HeaderNames,
    /// The time of signing, where the sender signs it.
    pub timestamp: Option<Stamp>,
    /// The parameter of the query that holds the SHA-256 of the body in hex, where the sender signs the URL in place of the
    /// body.
    pub body_hash: Option<Cow<'static, str>>,
    /// The signed content.
    pub signed: Layout,
}

/// Header names that mean the same. The first that is there counts.
pub type HeaderNames = Cow<'static, [Cow<'static, str>]>;

/// The place of a signature or of a time in a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProofPlace {
    /// A header. Of several names, the first that is there counts.
    Header(HeaderNames),
    /// The item of the signature's own header that begins with this text.
    Item(Cow<'static, str>),
    /// A field of the body.
    Field(Field),
}

/// The time of signing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The place of the time.
    pub at: ProofPlace,
    /// The form of the time.
    pub unit: TimeUnit,
}

/// How a signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By an HMAC. Sender and receiver share the secret.
    Hmac(Algorithm),
    /// By ECDSA over P-256 with SHA-256, in DER. The secret is the sender's public key.
    EcdsaP256,
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

/// The form in which a time is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Unix seconds.
    #[default]
    Seconds,
    /// Unix milliseconds.
    Milliseconds,
    /// RFC 3339 in UTC, such as `2026-11-16T09:00:00Z`.
    Rfc3339,
}

/// The form of a secret: its text is the key, or its bytes behind a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum SecretForm {
    /// The secret's text is the key.
    #[default]
    Text,
    /// The key is what stands in Base64 behind this prefix, such as `whsec_`.
    Base64(Cow<'static, str>),
}

/// The layout of the signed content, such as `{timestamp}.{body}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String")]
pub struct Layout(pub Cow<'static, [Piece]>);

/// A piece of the signed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A fixed text.
    Text(Cow<'static, str>),
    /// The sender's id of the delivery, as its header has it.
    Id,
    /// The time, as its place has it.
    Timestamp,
    /// The method of the request.
    Method,
    /// The URL that the sender called.
    Url,
    /// The body's bytes.
    Body,
    /// The names and values of the form in the body, sorted, with nothing between.
    Form,
    /// A field of the body.
    Field(Field),
}

impl Signature {
    /// Whether the signature covers what the body says.
    pub fn signs_body(&self) -> bool {
        self.body_hash.is_some() || self.signed.0.iter().any(|piece| matches!(piece, Piece::Body | Piece::Form))
    }

    /// Whether the signature covers the URL that the sender called, and so the type in the path.
    pub fn signs_url(&self) -> bool {
        self.signed.0.contains(&Piece::Url)
    }

    /// Whether the secret is a public key.
    pub fn has_public_key(&self) -> bool {
        self.proof == Proof::EcdsaP256
    }
}

/// A signature as files write it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSignature {
    /// The header with the signature, or several names of it.
    #[serde(default)]
    header: Option<WrittenNames>,
    /// The field of the body with the signature, in place of a header.
    #[serde(default)]
    field: Option<Field>,
    /// The hash function of an HMAC: `sha1`, `sha256` or `sha512`. ECDSA has its own.
    #[serde(default)]
    algorithm: Option<Algorithm>,
    /// The encoding of the signature's bytes: `hex` in lower case, or `base64` with its padding.
    encoding: Encoding,
    /// The text before the signature, such as `sha256=`.
    #[serde(default)]
    prefix: String,
    /// The text between the items of a header that lists several. The signatures are those that begin with the prefix.
    #[serde(default)]
    separator: Option<String>,
    /// The form of the secret: `text`, or `{base64: whsec_}`, where the key is what stands in Base64 behind a prefix.
    #[serde(default)]
    secret: SecretForm,
    /// The header with the sender's id of the delivery, where it signs one; or several names of it.
    #[serde(default)]
    id: Option<WrittenNames>,
    /// The time of signing, where the sender signs it.
    #[serde(default)]
    timestamp: Option<WrittenStamp>,
    /// The parameter of the query that holds the SHA-256 of the body in hex, where the sender signs the URL in place of the
    /// body.
    #[serde(default)]
    body_hash: Option<String>,
    /// The signed content: texts and `{id}`, `{timestamp}`, `{method}`, `{url}`, `{body}`, `{form}`, `{body.<field>}`.
    /// Without it, the body alone.
    #[serde(default)]
    signed: Option<Layout>,
    /// Whether the sender leaves the body unsigned: said where it is so, because whoever saw one delivery can then send
    /// others.
    #[serde(default)]
    body_unsigned: bool,
}

/// The time of signing as files write it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
struct WrittenStamp {
    /// The header with the time, or several names of it.
    #[serde(default)]
    header: Option<WrittenNames>,
    /// The text before the time, among the items of the signature's header, such as `t=`.
    #[serde(default)]
    item: Option<String>,
    /// The field of the body with the time.
    #[serde(default)]
    field: Option<Field>,
    /// The form of the time: `seconds`, `milliseconds` or `rfc3339`.
    #[serde(default)]
    unit: TimeUnit,
    /// The signed content. It may stand here, too, beside the time.
    #[serde(default)]
    signed: Option<Layout>,
}

/// One header's name, or several that mean the same.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(untagged)]
enum WrittenNames {
    One(#[serde(deserialize_with = "header_name")] Cow<'static, str>),
    Several(Vec<HeaderName>),
}

#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(transparent)]
struct HeaderName(#[serde(deserialize_with = "header_name")] Cow<'static, str>);

impl WrittenNames {
    fn list(self) -> HeaderNames {
        match self {
            WrittenNames::One(name) => vec![name].into(),
            WrittenNames::Several(names) => names.into_iter().map(|HeaderName(name)| name).collect(),
        }
    }
}

impl WrittenSignature {
    /// The HMAC that is described.
    pub(super) fn hmac(self) -> Result<Signature, String> {
        let algorithm = self.algorithm.ok_or("an HMAC needs its `algorithm`: sha1, sha256 or sha512")?;
        self.signature(Proof::Hmac(algorithm))
    }

    /// The signature by ECDSA that is described.
    pub(super) fn ecdsa(self) -> Result<Signature, String> {
        if self.algorithm.is_some() {
            return Err("ECDSA is over P-256 with SHA-256: leave out `algorithm`".into());
        }
        self.signature(Proof::EcdsaP256)
    }

    fn signature(self, made: Proof) -> Result<Signature, String> {
        let written = self;
        let one = "say where the signature stands: `header`, or `field`, and not both";
        let at = place(written.header, None, written.field).ok_or(one)?;
        let (mut stamp, mut within) = (None, None);
        if let Some(written) = written.timestamp {
            let one = "say where the time stands: `header`, `item` or `field`, and only one of them";
            stamp =
                Some(Stamp { at: place(written.header, written.item, written.field).ok_or(one)?, unit: written.unit });
            within = written.signed;
        }
        if written.signed.is_some() && within.is_some() {
            return Err("`signed` stands twice: leave out the one in `timestamp`".into());
        }
        let signed = written.signed.or(within).unwrap_or(Layout(Cow::Borrowed(&[Piece::Body])));
        let signature = Signature {
            at,
            proof: made,
            encoding: written.encoding,
            prefix: written.prefix.into(),
            separator: written.separator.map(Cow::from),
            secret: written.secret,
            id: written.id.map(WrittenNames::list).unwrap_or_default(),
            timestamp: stamp,
            body_hash: written.body_hash.map(Cow::from),
            signed,
        };
        match signature.mistake(written.body_unsigned) {
            Some(mistake) => Err(mistake),
            None => Ok(signature),
        }
    }
}

fn place(header: Option<WrittenNames>, item: Option<String>, field: Option<Field>) -> Option<ProofPlace> {
    match (header, item, field) {
        (Some(header), None, None) => Some(ProofPlace::Header(header.list())),
        (None, Some(item), None) => Some(ProofPlace::Item(item.into())),
        (None, None, Some(field)) => Some(ProofPlace::Field(field)),
        _ => None,
    }
}

impl Signature {
    /// What would make the signature prove less than it seems to.
    fn mistake(&self, body_unsigned: bool) -> Option<String> {
        let times = |wanted: &Piece| self.signed.0.iter().filter(|piece| *piece == wanted).count();
        let text = self.signed.text();
        let in_items = matches!(&self.timestamp, Some(Stamp { at: ProofPlace::Item(_), .. }));
        let whole = times(&Piece::Body) + times(&Piece::Form) + usize::from(self.body_hash.is_some());
        let told = if self.timestamp.is_some() && (times(&Piece::Timestamp) != 1 || whole != 1 && !body_unsigned) {
            format!("`{text}` must name {{timestamp}} and {{body}} once each; write `{{timestamp}}.{{body}}`")
        } else if self.timestamp.is_none() && times(&Piece::Timestamp) > 0 {
            format!("`{text}` names {{timestamp}}: say where the time stands, as `timestamp: {{header: X-Timestamp}}`")
        } else if whole != 1 && !body_unsigned {
            format!("`{text}` must name {{body}} once; where the sender signs no body, say `body_unsigned: true`")
        } else if body_unsigned && whole > 0 {
            format!("`{text}` signs the body, and `body_unsigned` says that it does not")
        } else if self.body_hash.is_some() && times(&Piece::Url) != 1 {
            format!("`{text}` must name {{url}}: the query that holds the body's hash is a part of it")
        } else if (times(&Piece::Id) > 0) == self.id.is_empty() {
            format!("`{text}` and `id` must go together: `id` is the header, and {{id}} its place")
        } else if times(&Piece::Id) > 0 && self.after_id().is_none() {
            format!("in `{text}`, a text must stand behind {{id}}, so that the id has an end")
        } else if self.separator.as_ref().is_some_and(|text| text.is_empty()) {
            "a separator cannot be empty".to_owned()
        } else if self.separator.is_some() && self.prefix.is_empty() {
            "a list of signatures needs a prefix, by which they are known".to_owned()
        } else if in_items && self.separator.is_none() {
            "the time is an item of the signature's header: say by which `separator` its items are told apart"
                .to_owned()
        } else if self.has_public_key() && self.secret != SecretForm::Text {
            "a public key has no form: leave out `secret`".to_owned()
        } else {
            return None;
        };
        Some(told)
    }

    /// The text behind the id in the signed content. An id that holds it could be cut from the same bytes at another place.
    pub fn after_id(&self) -> Option<&str> {
        let mut behind = self.signed.0.iter().skip_while(|piece| **piece != Piece::Id).skip(1);
        match behind.next()? {
            Piece::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(feature = "schema")]
impl Signature {
    /// The signature as files write it, for tools that compare.
    pub(super) fn written(&self) -> serde_json::Value {
        use serde_json::json;
        let place = |place: &ProofPlace| match place {
            ProofPlace::Header(names) => json!({ "header": names }),
            ProofPlace::Item(text) => json!({ "item": text }),
            ProofPlace::Field(field) => json!({ "field": field }),
        };
        let timestamp = self.timestamp.as_ref().map(|stamp| {
            let mut written = place(&stamp.at);
            written["unit"] = json!(stamp.unit);
            written
        });
        let mut written = place(&self.at);
        for (name, value) in [
            ("encoding", json!(self.encoding)),
            ("prefix", json!(self.prefix)),
            ("separator", json!(self.separator)),
            ("secret", json!(self.secret)),
            ("id", json!(self.id)),
            ("timestamp", json!(timestamp)),
            ("body_hash", json!(self.body_hash)),
            ("signed", json!(self.signed)),
        ] {
            written[name] = value;
        }
        match self.proof {
            Proof::Hmac(algorithm) => {
                written["algorithm"] = json!(algorithm);
                json!({ "hmac": written })
            }
            Proof::EcdsaP256 => json!({ "ecdsa": written }),
        }
    }
}

impl Layout {
    /// The layout as files write it.
    pub fn text(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone().into_owned(),
            Piece::Id => "{id}".into(),
            Piece::Timestamp => "{timestamp}".into(),
            Piece::Method => "{method}".into(),
            Piece::Url => "{url}".into(),
            Piece::Body => "{body}".into(),
            Piece::Form => "{form}".into(),
            Piece::Field(field) => format!("{{body.{field}}}"),
        };
        self.0.iter().map(piece).collect()
    }
}

impl TryFrom<String> for Layout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let pieces = pieces(&text).filter(|pieces| !pieces.is_empty());
        let places = "{id}, {timestamp}, {method}, {url}, {body}, {form} or {body.<field>}";
        pieces.map(|pieces| Layout(pieces.into())).ok_or_else(|| format!("`{text}` is no layout of {places}"))
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
            "id" => Piece::Id,
            "timestamp" => Piece::Timestamp,
            "method" => Piece::Method,
            "url" => Piece::Url,
            "body" => Piece::Body,
            "form" => Piece::Form,
            field => Piece::Field(field.strip_prefix("body.")?.parse().ok()?),
        });
        rest = after;
    }
    pieces.extend(literal(rest));
    Some(pieces)
}

pub(super) fn header_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, str>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Err(D::Error::custom(format!("`{name}` is not the name of a header; write `X-Signature`")));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Signature, String> {
        let written: WrittenSignature =
            serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
        written.hmac()
    }

    const PLAIN: &str = "{header: X-Signature, algorithm: sha256, encoding: hex}";

    #[test]
    fn a_signature_is_described_in_one_line() {
        let plain = read(PLAIN).expect("it is good");
        assert_eq!(plain.at, ProofPlace::Header(vec!["X-Signature".into()].into()));
        assert_eq!((plain.prefix.as_ref(), plain.timestamp, plain.signed.text()), ("", None, "{body}".into()));

        for stamped in [
            "{header: X-Sig, algorithm: sha1, encoding: base64, prefix: 'v0=', \
             timestamp: {header: X-Time, signed: 'v0:{timestamp}:{body}'}}",
            "{header: X-Sig, algorithm: sha1, encoding: base64, prefix: 'v0=', \
             timestamp: {header: X-Time}, signed: 'v0:{timestamp}:{body}'}",
        ] {
            let read = read(stamped).expect("it is good");
            assert_eq!(read.timestamp.map(|stamp| stamp.unit), Some(TimeUnit::Seconds));
            let text = |text: &'static str| Piece::Text(text.into());
            assert_eq!(*read.signed.0, [text("v0:"), Piece::Timestamp, text(":"), Piece::Body]);
        }
    }

    #[test]
    fn every_place_of_a_layout_is_read_and_written() {
        let layout = "{method}-{url}{id}.{timestamp}{body}{form}{body.signature.token}";
        assert_eq!(Layout::try_from(layout.to_owned()).expect("a layout").text(), layout);
        for bad in ["", "{", "{bodies}", "{body.}", "{timestamp}.{body"] {
            assert!(Layout::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_time_and_the_body_are_signed_once_each() {
        let stamped =
            |layout: &str| read(&PLAIN.replace('}', &format!(", timestamp: {{header: X-Time, signed: '{layout}'}}}}")));
        for good in
            ["{timestamp}.{body}", "{body}{timestamp}", "a{timestamp}b{body}c", "{method}{url}{form}{timestamp}"]
        {
            assert!(stamped(good).is_ok(), "{good}");
        }
        for bad in ["body", "{body}", "{timestamp}", "{timestamp}{body}{body}", "{body}{form}{timestamp}"] {
            let refusal = stamped(bad).expect_err(bad);
            assert!(refusal.ends_with("once each; write `{timestamp}.{body}`"), "{refusal}");
        }
    }

    #[test]
    fn what_would_prove_less_than_it_seems_is_refused() {
        for (more, why) in [
            (", signed: '{timestamp}.{body}'", "say where the time stands"),
            (", signed: '{url}'", "body_unsigned: true"),
            (", signed: '{url}{body}', body_unsigned: true", "signs the body"),
            (", signed: '{body}', body_hash: sha", "must name {body} once"),
            (", signed: 'x', body_hash: sha", "must name {url}"),
            (", signed: '{id}.{body}'", "must go together"),
            (", id: X-Id", "must go together"),
            (", id: X-Id, signed: '{id}{body}'", "so that the id has an end"),
            (", separator: ','", "needs a prefix"),
            (", separator: '', prefix: x", "cannot be empty"),
            (", prefix: 'v=', timestamp: {item: 't='}, signed: '{timestamp}.{body}'", "separator"),
            (", field: a.b", "not both"),
            (", timestamp: {header: X-Time, item: 't='}, signed: '{timestamp}.{body}'", "only one of them"),
            (", timestamp: {header: X-T, signed: '{timestamp}.{body}'}, signed: '{timestamp}.{body}'", "stands twice"),
        ] {
            let refusal = read(&PLAIN.replace('}', &format!("{more}}}"))).expect_err(more);
            assert!(refusal.contains(why), "{more}: {refusal}");
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
            ("}", ", key: s3cret}"),
            ("}", ", timestamp: {header: X-Time}}"),
        ] {
            assert!(read(&PLAIN.replacen(good, bad, 1)).is_err(), "{bad} for {good}");
        }
    }
}
