//! How flow files say what makes two deliveries the same event.

use std::time::Duration;

use serde::Deserialize;

use super::{Field, Flow, Source, Wrong};
use crate::time::{Unit, duration};

/// What makes two deliveries the same event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Raised when the key's definition changes: every key changes with it.
    pub version: u32,
    /// Whether the sender's header `Idempotency-Key` is the key.
    #[serde(default)]
    pub header: Header,
    /// The fields that identify the event, where the header does not.
    #[serde(default)]
    pub fields: Vec<KeyField>,
    /// The stretch of time within which the same fields are the same event.
    #[serde(default)]
    pub bucket: Option<Bucket>,
}

/// What a flow makes of the header `Idempotency-Key`.
///
/// Few schemes sign this header, so it is as good as the transport: whoever can alter a request on its
/// way could pass one event for two. Fields are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// Nothing: the fields are the key.
    #[default]
    Ignored,
    /// It is the key if it is there; the fields are if it is not.
    Preferred,
    /// It is the key, and an event without it is refused.
    Required,
}

/// One field of a key, and how it is normalised first.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "KeyFieldForm")]
pub struct KeyField {
    /// Where the value is.
    pub part: Part,
    /// What is done to it, in this order.
    pub normalize: Vec<Normalizer>,
}

/// What a key is made of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Part {
    /// `$id`: what the provider itself calls the event. The source says where that stands.
    Id,
    /// A field of the event.
    Field(Field),
}

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == "$id" { Ok(Part::Id) } else { text.parse().map(Part::Field) }
    }
}

/// `data.id`, or `{field: data.email, normalize: [trim, lower]}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum KeyFieldForm {
    Plain(Part),
    Normalized(NormalizedForm),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NormalizedForm {
    field: Part,
    normalize: Vec<Normalizer>,
}

impl From<KeyFieldForm> for KeyField {
    fn from(form: KeyFieldForm) -> Self {
        match form {
            KeyFieldForm::Plain(part) => KeyField { part, normalize: Vec::new() },
            KeyFieldForm::Normalized(NormalizedForm { field: part, normalize }) => KeyField { part, normalize },
        }
    }
}

/// One step of normalising a key's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Normalizer {
    /// Without white space at either end.
    Trim,
    /// In lower case.
    Lower,
    /// As the hex SHA-256 of itself.
    Sha256,
    /// A moment, cut down to a unit, in UTC.
    Date(Unit),
}

impl TryFrom<String> for Normalizer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(match text.as_str() {
            "trim" => Normalizer::Trim,
            "lower" => Normalizer::Lower,
            "sha256" => Normalizer::Sha256,
            "date(second)" => Normalizer::Date(Unit::Second),
            "date(minute)" => Normalizer::Date(Unit::Minute),
            "date(hour)" => Normalizer::Date(Unit::Hour),
            "date(day)" => Normalizer::Date(Unit::Day),
            _ => return Err(format!("there is no `{text}`; use trim, lower, sha256, or date(second|minute|hour|day)")),
        })
    }
}

/// A stretch of time, by a moment that the event names. Not by when it arrived: a repetition that
/// arrives in the next stretch would be another event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Where the moment is.
    pub field: Field,
    /// How long the stretch is.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
}

impl Key {
    /// Every field that the key reads, and where the flow says so.
    fn reads(&self) -> impl Iterator<Item = (String, &Field)> {
        let fields = self.fields.iter().enumerate().filter_map(|(index, key)| match &key.part {
            Part::Id => None,
            Part::Field(field) => Some((format!("/key/fields/{index}"), field)),
        });
        fields.chain(self.bucket.iter().map(|bucket| ("/key/bucket/field".into(), &bucket.field)))
    }

    fn id_at(&self) -> Option<usize> {
        self.fields.iter().position(|key| key.part == Part::Id)
    }
}

/// What is wrong with a flow's key. A key made of a field that may be missing would be no key.
pub(super) fn check(flow: &Flow, source: Option<&Source>) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if let Some(index) = flow.key.id_at().filter(|_| source.is_some_and(|source| source.id_at.is_none())) {
        let what = format!("the key reads $id, but the source `{}` has no id_at", flow.on.source);
        wrong.push(Wrong::at(format!("/key/fields/{index}"), what));
    }
    match (flow.key.header, flow.key.fields.is_empty()) {
        (Header::Required, false) => {
            wrong.push(Wrong::at("/key/fields", "key.fields is not used where key.header is required"));
        }
        (Header::Ignored | Header::Preferred, true) => {
            wrong.push(Wrong::at("/key/fields", "key.fields names no field"));
        }
        _ => (),
    }
    if flow.key.bucket.as_ref().is_some_and(|bucket| bucket.every < Duration::from_secs(1)) {
        wrong.push(Wrong::at("/key/bucket/every", "key.bucket.every must be at least 1s"));
    }
    for (at, field) in flow.key.reads().chain([("/order_by".into(), &flow.order_by)]) {
        let versions = flow.schemas().filter(|(_, schema)| !field.required_by(schema));
        wrong.extend(versions.map(|(version, _)| {
            let what =
                format!("the schema of version {version} does not require `{field}`, which the key or the order needs");
            Wrong::at(at.as_str(), what)
        }));
    }
    wrong
}
