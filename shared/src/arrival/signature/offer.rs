//! What a delivery offers as proof, by the parameters of its source's scheme.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::arrival::delivery::{Delivery, Headers};
use crate::base::id::hex;
use crate::base::time::Timestamp;
use crate::flows::{Piece, ProofPlace, Signature, TimeUnit};

/// The offer of a delivery: its signatures, and what they should be over.
pub(super) struct Offer<'d> {
    /// The signatures, as they are written. Any may be the true one.
    pub(super) signatures: Vec<Cow<'d, str>>,
    /// The signed content, piece by piece.
    pub(super) content: Vec<Cow<'d, [u8]>>,
    /// The time of signing, in a scheme that signs it.
    pub(super) signed_at: Option<Timestamp>,
}

/// The offer of a delivery. `None` says that something is missing or malformed.
pub(super) fn offer<'d>(signature: &'d Signature, delivery: &'d Delivery) -> Option<Offer<'d>> {
    let fields = SignedFields::of(signature, &delivery.body)?;
    let written = value_at(&signature.at, &delivery.headers, &fields)?;
    let Items { signatures, all } = items(signature, written)?;
    let id = id(signature, &delivery.headers)?;
    let timestamp = match &signature.timestamp {
        None => Cow::Borrowed(""),
        Some(stamp) => match &stamp.at {
            ProofPlace::Item(prefix) => only(&all, prefix)?,
            place => value_at(place, &delivery.headers, &fields)?,
        },
    };
    let signed_at = match &signature.timestamp {
        Some(stamp) => Some(moment(&timestamp, stamp.unit)?),
        None => None,
    };
    if let Some(name) = &signature.body_hash {
        let hash = hex(&Sha256::digest(&delivery.body));
        delivery.called.parameter(name).filter(|signed| *signed == hash)?;
    }
    let url = signature.signs_url().then(|| delivery.called.url());
    let signed = Signed {
        id: id.into(),
        timestamp,
        method: delivery.called.method.as_str().into(),
        url: url.unwrap_or_default().into(),
        body: &delivery.body,
        fields,
    };
    Some(Offer { signatures, content: signed.content(signature)?, signed_at })
}

/// What a signature may be over.
pub(super) struct Signed<'d> {
    pub(super) id: Cow<'d, str>,
    pub(super) timestamp: Cow<'d, str>,
    pub(super) method: Cow<'d, str>,
    pub(super) url: Cow<'d, str>,
    pub(super) body: &'d [u8],
    pub(super) fields: SignedFields,
}

impl<'d> Signed<'d> {
    /// The signed content, piece by piece. `None` says that a field is missing.
    pub(super) fn content(&self, signature: &'d Signature) -> Option<Vec<Cow<'d, [u8]>>> {
        let bytes = |text: &Cow<'d, str>| match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.clone().into_bytes()),
        };
        let piece = |piece: &'d Piece| {
            Some(match piece {
                Piece::Text(text) => Cow::Borrowed(text.as_bytes()),
                Piece::Id => bytes(&self.id),
                Piece::Timestamp => bytes(&self.timestamp),
                Piece::Method => bytes(&self.method),
                Piece::Url => bytes(&self.url),
                Piece::Body => Cow::Borrowed(self.body),
                Piece::Form => Cow::Owned(sorted(self.body)),
                Piece::Field(field) => Cow::Owned(text(field.of(&self.fields.0)?)?.into_bytes()),
            })
        };
        signature.signed.0.iter().map(piece).collect()
    }
}

/// The fields of a body that a signature is made of. They are read before anything is proven, and decide nothing but that.
pub(super) struct SignedFields(pub(super) Value);

impl SignedFields {
    /// `None` says that the body is needed and is not JSON.
    fn of(signature: &Signature, body: &[u8]) -> Option<Self> {
        match reads_fields(signature) {
            true => serde_json::from_slice(body).ok().map(SignedFields),
            false => Some(SignedFields(Value::Null)),
        }
    }
}

/// Whether the signature, its time or its content are fields of the body.
pub(super) fn reads_fields(signature: &Signature) -> bool {
    let is_field = |place: &ProofPlace| matches!(place, ProofPlace::Field(_));
    let content = signature.signed.0.iter().any(|piece| matches!(piece, Piece::Field(_)));
    content || is_field(&signature.at) || signature.timestamp.as_ref().is_some_and(|stamp| is_field(&stamp.at))
}

/// The names and the values of a form, sorted, each pair once, with nothing between.
fn sorted(body: &[u8]) -> Vec<u8> {
    let pairs: BTreeSet<_> = form_urlencoded::parse(body).collect();
    pairs.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect::<Vec<_>>().concat()
}

/// What stands at the place of the signatures.
struct Items<'d> {
    signatures: Vec<Cow<'d, str>>,
    /// All items of a list; none where there is one signature alone.
    all: Vec<Cow<'d, str>>,
}

/// The signatures in what stands at their place.
///
/// A list has items of one form: each has a version before the last character of the prefix. Other versions are ignored.
fn items<'d>(signature: &Signature, written: Cow<'d, str>) -> Option<Items<'d>> {
    let Some(separator) = &signature.separator else {
        return Some(Items { signatures: vec![behind(&written, &signature.prefix)?], all: Vec::new() });
    };
    let mark = signature.prefix.chars().last()?;
    let all: Vec<Cow<'d, str>> = match written {
        Cow::Borrowed(text) => text.split(separator.as_ref()).map(Cow::Borrowed).collect(),
        Cow::Owned(text) => text.split(separator.as_ref()).map(|item| Cow::Owned(item.to_owned())).collect(),
    };
    // A header that came twice is joined by a comma, which no item has but in its prefix.
    let commas = |text: &str| text.matches(',').count();
    let single = |item: &Cow<'_, str>| separator == "," || commas(item) <= commas(&signature.prefix);
    if !all.iter().all(|item| item.contains(mark) && single(item)) {
        return None;
    }
    Some(Items { signatures: all.iter().filter_map(|item| behind(item, &signature.prefix)).collect(), all })
}

/// The one item with this prefix, without it. With two, the one that is checked need not be the one that is signed.
fn only<'d>(items: &[Cow<'d, str>], prefix: &str) -> Option<Cow<'d, str>> {
    let mut found = items.iter().filter_map(|item| behind(item, prefix));
    let one = found.next()?;
    found.next().is_none().then_some(one)
}

fn behind<'d>(text: &Cow<'d, str>, prefix: &str) -> Option<Cow<'d, str>> {
    match text {
        Cow::Borrowed(text) => text.strip_prefix(prefix).map(Cow::Borrowed),
        Cow::Owned(text) => text.strip_prefix(prefix).map(|rest| Cow::Owned(rest.to_owned())),
    }
}

/// The sender's id of the delivery; an empty text where it signs none.
///
/// An id that holds the text behind it is rejected: the same signed bytes could then be cut into another id and another rest.
fn id<'d>(signature: &Signature, headers: &'d Headers) -> Option<&'d str> {
    let Some(behind) = signature.after_id() else { return Some("") };
    first(headers, &signature.id).filter(|id| !id.contains(behind))
}

fn value_at<'d>(place: &ProofPlace, headers: &'d Headers, fields: &SignedFields) -> Option<Cow<'d, str>> {
    match place {
        ProofPlace::Header(names) => first(headers, names).map(Cow::Borrowed),
        ProofPlace::Field(field) => text(field.of(&fields.0)?).map(Cow::Owned),
        ProofPlace::Item(_) => None,
    }
}

/// The first of these headers that is there and not empty.
pub(super) fn first<'d>(headers: &'d Headers, names: &[Cow<'static, str>]) -> Option<&'d str> {
    names.iter().find_map(|name| headers.get(name).filter(|value| !value.is_empty()))
}

/// A field's value as the signer writes it: a text, or a whole number.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// The moment that is written, in the one way to write it. With a sign or a leading zero, the same moment could be cut from
/// the same signed bytes at another place.
fn moment(text: &str, unit: TimeUnit) -> Option<Timestamp> {
    let number = || text.parse::<i64>().ok().filter(|number| *number >= 0 && number.to_string() == text);
    match unit {
        TimeUnit::Seconds => number().map(Timestamp::from_secs),
        TimeUnit::Milliseconds => number().map(Timestamp::from_millis),
        TimeUnit::Rfc3339 => is_utc(text).then(|| Timestamp::parse(text)).flatten(),
    }
}

/// Whether a text has the one form `2026-11-16T09:00:00Z`, with or without a fraction.
fn is_utc(text: &str) -> bool {
    let Some((seconds, fraction)) = text.strip_suffix('Z').map(|text| text.split_once('.').unwrap_or((text, "0")))
    else {
        return false;
    };
    let fits = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let digits = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    digits && seconds.len() == 19 && seconds.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_one_spelling() {
        let at = |text: &str, unit| moment(text, unit).map(Timestamp::millis);
        assert_eq!(at("1794819600", TimeUnit::Seconds), Some(1_794_819_600_000));
        assert_eq!(at("1794819600123", TimeUnit::Milliseconds), Some(1_794_819_600_123));
        assert_eq!(at("2026-11-16T09:00:00Z", TimeUnit::Rfc3339), Some(1_794_819_600_000));
        assert_eq!(at("2026-11-16T09:00:00.5Z", TimeUnit::Rfc3339), Some(1_794_819_600_500));
        for (bad, unit) in [
            ("01794819600", TimeUnit::Seconds),
            ("+1794819600", TimeUnit::Seconds),
            ("1794819600.0", TimeUnit::Milliseconds),
            ("", TimeUnit::Seconds),
            ("2026-11-16T09:00:00+00:00", TimeUnit::Rfc3339),
            ("2026-11-16 09:00:00Z", TimeUnit::Rfc3339),
            ("2026-11-16T09:00:00.Z", TimeUnit::Rfc3339),
            ("2026-13-16T09:00:00Z", TimeUnit::Rfc3339),
            ("1794819600", TimeUnit::Rfc3339),
            ("026-11-16T09:00:00Z", TimeUnit::Rfc3339),
        ] {
            assert_eq!(at(bad, unit), None, "{bad}");
        }
    }

    #[test]
    fn a_form_is_sorted_and_each_pair_stands_once() {
        let text = |body: &str| String::from_utf8(sorted(body.as_bytes())).expect("text");
        assert_eq!(text("b=2&a=x+y&a=1&b=2&%C3%A9=%26"), "a1ax yb2é&");
        assert_eq!(text(""), "");
    }
}
