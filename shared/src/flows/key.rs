//! Keys in flow files: what makes two deliveries the same event.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::text_or_map::text_or_map;
use super::{Field, Flow, Source, order};
use crate::base::suggest::suggest;
use crate::base::time::{DurationText, Unit, parse_duration};
use crate::base::wrong::Wrong;

/// The key: two deliveries with the same key are the same event.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The version of the key's definition. Raise it when the definition changes: every key changes with it.
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
    /// The time within which the same fields are the same event, wherever it begins.
    #[serde(default)]
    pub window: Option<Window>,
}

/// The use of the header `Idempotency-Key`.
///
/// Few schemes sign this header, so it is as good as the transport: an attacker who can alter a request on its
/// way could pass one event for two. Fields are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// The header is ignored: the fields are the key.
    #[default]
    Ignored,
    /// The header is the key if it is there; the fields are if it is not.
    Preferred,
    /// The header is the key, and an event without it is rejected.
    Required,
}

/// A field of a key, and how it is normalised first: `data.id`, or
/// `{field: data.email, normalize: [trim, lower]}`.
#[derive(Clone, Debug)]
pub struct KeyField {
    /// The part of the event that holds the value.
    pub part: Part,
    /// The normalisers, in their order.
    pub normalize: Vec<Normalizer>,
}

/// A part of an event that a key is made of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub enum Part {
    /// The provider's own id of the event, as `$id`. The source says where it stands.
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

/// The long form of a key's field.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Normalized {
    field: Part,
    normalize: Vec<Normalizer>,
}

impl From<Part> for KeyField {
    fn from(part: Part) -> Self {
        KeyField { part, normalize: Vec::new() }
    }
}

impl From<Normalized> for KeyField {
    fn from(Normalized { field: part, normalize }: Normalized) -> Self {
        KeyField { part, normalize }
    }
}

impl<'de> Deserialize<'de> for KeyField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "a field, as `data.id` or `{field: data.email, normalize: [trim, lower]}`";
        text_or_map::<_, Part, Normalized, _>(deserializer, forms)
    }
}

/// One step of normalising a key's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = NORMALIZERS)))]
pub enum Normalizer {
    /// Trims white space at either end.
    Trim,
    /// Makes it lower case.
    Lower,
    /// Makes it the hex SHA-256 of itself.
    Sha256,
    /// Cuts a moment down to a unit, in UTC.
    Date(Unit),
}

/// The normalisers' names, as flow files write them.
pub(crate) const NORMALIZERS: [&str; 7] =
    ["trim", "lower", "sha256", "date(second)", "date(minute)", "date(hour)", "date(day)"];

impl Normalizer {
    /// The normaliser's name, as flow files write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Normalizer::Trim => "trim",
            Normalizer::Lower => "lower",
            Normalizer::Sha256 => "sha256",
            Normalizer::Date(Unit::Second) => "date(second)",
            Normalizer::Date(Unit::Minute) => "date(minute)",
            Normalizer::Date(Unit::Hour) => "date(hour)",
            Normalizer::Date(Unit::Day) => "date(day)",
        }
    }
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
            _ => return Err(format!("there is no normaliser `{text}`; {}", suggest(&text, NORMALIZERS))),
        })
    }
}

/// A sliding window: `{field: data.at, within: 5m}` by a moment that the event names, or `5m` by the moment when the
/// intake received it. A bucket has fixed edges; a window begins with the first event of its key.
#[derive(Clone, Debug)]
pub struct Window {
    /// The field with the moment. Without it, the moment is that of reception.
    pub field: Option<Field>,
    /// How far a repetition may be from the first event.
    pub within: Duration,
}

/// The long form of a window.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WindowByField {
    field: Field,
    #[serde(with = "DurationText")]
    within: Duration,
}

/// The short form of a window.
struct WindowByReception(Duration);

impl TryFrom<String> for WindowByReception {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        parse_duration(&text).map(WindowByReception)
    }
}

impl From<WindowByReception> for Window {
    fn from(WindowByReception(within): WindowByReception) -> Self {
        Window { field: None, within }
    }
}

impl From<WindowByField> for Window {
    fn from(WindowByField { field, within }: WindowByField) -> Self {
        Window { field: Some(field), within }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "a window, as `5m` or `{field: data.at, within: 5m}`";
        text_or_map::<_, WindowByReception, WindowByField, _>(deserializer, forms)
    }
}

/// A stretch of time, by a moment that the event names. It is not the moment of arrival: a repetition that
/// arrives in the next stretch would be another event.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The field with the moment.
    pub field: Field,
    /// The length of the stretch.
    #[serde(with = "DurationText")]
    pub every: Duration,
}

impl Key {
    /// The fields that the key reads, each with its place in the flow.
    fn reads(&self) -> impl Iterator<Item = (String, &Field)> {
        let fields = self.fields.iter().enumerate().filter_map(|(index, key)| match &key.part {
            Part::Id => None,
            Part::Field(field) => Some((format!("/key/fields/{index}/field"), field)),
        });
        let bucket = self.bucket.iter().map(|bucket| ("/key/bucket/field".into(), &bucket.field));
        let window = self.window.iter().filter_map(|window| Some(("/key/window/field".into(), window.field.as_ref()?)));
        fields.chain(bucket).chain(window)
    }

    fn id_at(&self) -> Option<usize> {
        self.fields.iter().position(|key| key.part == Part::Id)
    }
}

/// The mistakes in a flow's key.
pub(super) fn check(flow: &Flow, source: Option<&Source>) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if let Some(index) = flow.key.id_at().filter(|_| source.is_some_and(|source| source.id_at.is_none())) {
        let what = format!("the key reads $id, but the source `{}` has no id_at", flow.on.source);
        let hint = "say in sources.yaml where the provider's id stands: `id_at: data.id`";
        wrong.push(Wrong::at(format!("/key/fields/{index}"), what).hint(hint));
    }
    match (flow.key.header, flow.key.fields.is_empty()) {
        (Header::Required, false) => {
            wrong.push(Wrong::at("/key/fields", "key.fields is not used where key.header is required"));
        }
        (Header::Ignored | Header::Preferred, true) => {
            let hint = "name what makes an event the same when it comes again: `fields: [data.id]`";
            wrong.push(Wrong::at("/key/fields", "key.fields names no field").hint(hint));
        }
        _ => (),
    }
    if flow.key.bucket.as_ref().is_some_and(|bucket| bucket.every < Duration::from_secs(1)) {
        wrong.push(Wrong::at("/key/bucket/every", "key.bucket.every must be at least 1s"));
    }
    wrong.extend(flow.key.window.as_ref().and_then(|window| check_window(flow, window)));
    wrong
}

/// The mistake in a window. It may not outlast the key: what is forgotten cannot be recognised.
fn check_window(flow: &Flow, window: &Window) -> Option<Wrong> {
    let within = if window.field.is_some() { "/key/window/within" } else { "/key/window" };
    if flow.key.header == Header::Required {
        Some(Wrong::at("/key/window", "key.window is not used where key.header is required"))
    } else if flow.key.bucket.is_some() {
        let hint = "keep the window: a bucket has fixed edges, and what is close on both sides of one is two events";
        Some(Wrong::at("/key/window", "key.window and key.bucket exclude each other").hint(hint))
    } else if window.within < Duration::from_secs(1) {
        Some(Wrong::at(within, "key.window must be at least 1s"))
    } else if window.within > flow.ttl {
        let hint = "a settled event is forgotten after its ttl: shorten the window, or raise the ttl";
        Some(Wrong::at(within, "key.window must not be longer than the flow's ttl").hint(hint))
    } else {
        None
    }
}

/// The mistakes in the fields that the key needs.
pub(super) fn check_fields(flow: &Flow) -> Vec<Wrong> {
    flow.key.reads().filter_map(|(at, field)| order::check_needed(flow, &at, field, "the key")).collect()
}
