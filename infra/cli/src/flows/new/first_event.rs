//! The sample of a new flow, as flows read it.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use shared::flows::{BodyFormat, IdAt, Source};

/// The first event of a sample, as flows read it.
pub(super) struct FirstEvent {
    pub(super) body: Value,
    /// Whether lists in it hold one item, whatever a delivery had: its source splits them.
    is_part: bool,
    /// The place of the item that its source splits off, where that stands in a document: `entry[0].changes[0]`.
    pub(super) item: Option<String>,
}

impl FirstEvent {
    pub(super) fn of(source: &Source, sample: &Value) -> Result<Self> {
        let posted = source.as_posted(sample.clone());
        let event = source.events_in(&posted, 1).into_iter().next();
        let body = event.context("the sample has none of the lists in which its sender has events")?;
        let split = source.split.as_ref().filter(|split| !split.is_of_the_whole());
        let (is_part, item) = (split.is_some(), split.map(|split| split.text().replace("[*]", "[0]")));
        // A form has nothing but texts.
        let fields = body.as_object().filter(|_| source.format == BodyFormat::Form);
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let texts =
            fields.map(|fields| fields.iter().map(|(name, value)| (name.clone(), text(value).into())).collect());
        Ok(FirstEvent { body: texts.map_or(body.clone(), Value::Object), is_part, item })
    }

    /// Whether its sender names it by an id of its own, which is signed.
    pub(super) fn has_id(&self, source: &Source) -> bool {
        match &source.id_at {
            Some(IdAt::Header { .. }) => source.split.is_none(),
            Some(IdAt::Field(_)) => source.id_in(&self.body).is_some(),
            None => false,
        }
    }

    /// The places of all plain values that every such event has.
    pub(super) fn leaves(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect(&self.body, "", &mut found);
        found
    }

    fn collect(&self, value: &Value, above: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().filter(|(name, _)| is_field(name)).for_each(|(name, value)| {
                self.collect(value, &if above.is_empty() { name.clone() } else { format!("{above}.{name}") }, found);
            }),
            Value::Array(items) if self.is_part && items.len() == 1 => {
                self.collect(&items[0], &format!("{above}[0]"), found);
            }
            Value::Array(_) | Value::Null => (),
            _ => found.push(above.to_owned()),
        }
    }

    /// The schema that it fits.
    pub(super) fn schema(&self) -> Value {
        self.schema_of(&self.body)
    }

    fn schema_of(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let required: Vec<&String> =
                    fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name).collect();
                let properties: Map<String, Value> =
                    fields.iter().map(|(name, value)| (name.clone(), self.schema_of(value))).collect();
                json!({"type": "object", "required": required, "properties": properties})
            }
            Value::Array(items) => match &items[..] {
                [one] if self.is_part => {
                    json!({"type": "array", "minItems": 1, "maxItems": 1, "items": self.schema_of(one)})
                }
                [first, ..] => json!({"type": "array", "maxItems": 500, "items": self.schema_of(first)}),
                [] => json!({"type": "array", "maxItems": 500}),
            },
            Value::String(_) => json!({"type": "string", "maxLength": 500}),
            Value::Number(number) if number.is_f64() => json!({"type": "number"}),
            Value::Number(_) => json!({"type": "integer"}),
            Value::Bool(_) => json!({"type": "boolean"}),
            Value::Null => json!({}),
        }
    }
}

/// Whether a name can be a step of a field's path.
fn is_field(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '[', ']'])
}
