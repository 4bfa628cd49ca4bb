//! JSON Schemas of the flow files, for editors, and the files as the types would write them.
//!
//! Only for tools: the functions are built without this.

use std::time::Duration;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::answers::WrittenResult;
use super::auth::WrittenAuth;
use super::integration::WrittenIntegration;
use super::key::{Normalized, WindowByField};
use super::log::NormalizedLog;
use super::maybe_known::{KeyWindow, MaybeKnown, NOT_KNOWN};
use super::order::NormalizedOrder;
use super::parse::Size;
use super::source::{InHeader, WrittenSource};
use super::vars::{VarSettings, WrittenVar};
use super::written_breaker::WrittenBreaker;
use super::{
    AnswerPlace, Auth, Field, Flow, IdAt, KeyField, Layout, LoggedField, LookupPlace, Normalizer, OrderBy, Part,
    Percent, ResultAt, Split, Statuses, Window,
};
use crate::base::time::{DurationText, HourMinute};
use crate::limits::pressure::Breaker;
use crate::limits::rates::Rate;

/// The schema of each kind of file, by the name of its own file.
pub fn schemas() -> [(&'static str, Value); 5] {
    let partner = "A partner of the catalogue: catalog/partners/<name>.yaml";
    let sender = "A sender of the catalogue: catalog/sources/<name>.yaml";
    [
        ("flow.json", schema::<Flow>("A flow: flows/<name>.yaml")),
        ("integrations.json", schema::<std::collections::BTreeMap<String, WrittenIntegration>>("integrations.yaml")),
        ("partner.json", schema::<WrittenIntegration>(partner)),
        ("sender.json", schema::<WrittenSource>(sender)),
        ("sources.json", schema::<std::collections::BTreeMap<String, WrittenSource>>("sources.yaml")),
    ]
}

pub(crate) fn schema<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = false);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), json!(title));
    schema.to_value()
}

impl JsonSchema for DurationText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 2,
            "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
            "description": "`500ms`, `2s`, `48h`, `1h30m`"
        })
    }
}

impl JsonSchema for Statuses {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Statuses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json!({"type": ["integer", "string"], "minimum": 100, "maximum": 599, "pattern": "^[1-5][0-9]{2}(\\.\\.[1-5][0-9]{2})?$"});
        json_schema!({
            "anyOf": [one, {"type": "array", "minItems": 1, "items": one}],
            "description": "`503`, `500..599`, or a list of these"
        })
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|range| format!("{}..{}", range.start(), range.end())))
    }
}

impl JsonSchema for Auth {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Auth".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"enum": ["none", "bearer", "basic", "signed"]}, generator.subschema_for::<WrittenAuth>()],
            "description": "A word, or a mapping with the kind as its only name"
        })
    }
}

impl JsonSchema for WrittenBreaker {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WrittenBreaker".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"enum": ["off", false]}, generator.subschema_for::<Breaker>()]})
    }
}

impl Serialize for WrittenBreaker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(breaker) => breaker.serialize(serializer),
            None => "off".serialize(serializer),
        }
    }
}

impl JsonSchema for WrittenVar {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WrittenVar".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": ["string", "number", "boolean"]}, generator.subschema_for::<VarSettings>()]})
    }
}

impl Serialize for WrittenVar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "pattern": "^[0-9]+ *(B|KiB|MiB)?$", "description": "`64KiB`, `1MiB`"})
    }
}

impl JsonSchema for Percent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Percent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]{1,3}(\\.[0-9]{1,4})?%$", "description": "`99.9%`"})
    }
}

impl JsonSchema for KeyField {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KeyField".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<Part>(), generator.subschema_for::<Normalized>()]})
    }
}

impl JsonSchema for Window {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Window".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<DurationText>(), generator.subschema_for::<WindowByField>()]})
    }
}

impl JsonSchema for OrderBy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OrderBy".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<Field>(), generator.subschema_for::<NormalizedOrder>()]})
    }
}

impl JsonSchema for LoggedField {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LoggedField".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<Field>(), generator.subschema_for::<NormalizedLog>()]})
    }
}

impl JsonSchema for ResultAt {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResultAt".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<AnswerPlace>(), generator.subschema_for::<WrittenResult>()]})
    }
}

impl JsonSchema for AnswerPlace {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnswerPlace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(/|\\s*\\{\\{)",
            "description": "`/id`, a JSON pointer into the body, or `{{ headers['x-id'] }}`, an expression over the answer"
        })
    }
}

impl JsonSchema for LookupPlace {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LookupPlace".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        AnswerPlace::json_schema(generator)
    }
}

impl Serialize for LookupPlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl JsonSchema for IdAt {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IdAt".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<Field>(), generator.subschema_for::<InHeader>()]})
    }
}

impl JsonSchema for KeyWindow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        DurationText::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DurationText::json_schema(generator)
    }
}

impl Serialize for KeyWindow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DurationText::serialize(&self.0, serializer)
    }
}

impl<T: JsonSchema> JsonSchema for MaybeKnown<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("MaybeKnown{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<T>(), {"const": NOT_KNOWN}]})
    }
}

impl<T: Serialize> Serialize for MaybeKnown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MaybeKnown::Is(fact) => fact.serialize(serializer),
            MaybeKnown::NotKnown => serializer.serialize_str(NOT_KNOWN),
        }
    }
}

impl DurationText {
    /// Writes a duration.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ms", duration.as_millis()))
    }
}

pub(super) fn some<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => DurationText::serialize(duration, serializer),
        None => serializer.serialize_none(),
    }
}

/// Serializes a type as its text.
macro_rules! write_as_text {
    ($($type:ty => $text:expr),* $(,)?) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text: fn(&$type) -> String = $text;
                serializer.collect_str(&text(self))
            }
        }
    )*};
}

write_as_text! {
    AnswerPlace => |place| match place {
        AnswerPlace::Pointer(pointer) => pointer.clone(),
        AnswerPlace::Expression(expression) => format!("{{{{ {} }}}}", expression.as_str()),
    },
    Field => |field| field.to_string(),
    Part => |part| match part {
        Part::Id => "$id".into(),
        Part::Field(field) => field.to_string(),
    },
    Normalizer => |normalizer| normalizer.as_str().into(),
    HourMinute => |time| time.to_string(),
    Percent => |percent| percent.to_string(),
    Layout => |layout| layout.text(),
    Split => |split| split.text(),
}

impl Serialize for KeyField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"field": self.part, "normalize": self.normalize}).serialize(serializer)
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let within = format!("{}ms", self.within.as_millis());
        match &self.field {
            Some(field) => json!({ "field": field, "within": within }).serialize(serializer),
            None => within.serialize(serializer),
        }
    }
}

impl Serialize for OrderBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"field": self.field, "normalize": self.normalize}).serialize(serializer)
    }
}

impl Serialize for LoggedField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"field": self.field, "normalize": self.normalize}).serialize(serializer)
    }
}

impl Serialize for ResultAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"at": self.at, "optional": self.optional}).serialize(serializer)
    }
}

impl Serialize for IdAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            IdAt::Field(field) => field.serialize(serializer),
            IdAt::Header { header } => json!({ "header": header }).serialize(serializer),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unit = match self.per().as_secs() {
            1 => "s",
            60 => "min",
            _ => "h",
        };
        json!({"limit": format!("{}/{unit}", self.count()), "burst": self.burst()}).serialize(serializer)
    }
}
