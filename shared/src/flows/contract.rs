//! A flow's contract with its senders: the schema that an event must match, and nothing beyond it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::Validator;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{FieldStep, Flow, Flows};
use crate::base::mask::mask_name;
use crate::base::suggest::suggest;
use crate::base::wrong::Wrong;

/// The compiled schemas of flows, by name and version. They are compiled once; clones share them.
#[derive(Clone, Debug)]
pub struct Contracts(Arc<BTreeMap<(String, u32), Contract>>);

impl Contracts {
    /// Compiles the schemas of parsed flows.
    ///
    /// # Panics
    /// If a schema does not compile. [`Flows::parse`] lets none through.
    pub fn of(flows: &Flows) -> Self {
        Self::compile(flows.all())
    }

    /// Compiles the schemas of one parsed flow.
    ///
    /// # Panics
    /// As [`Contracts::of`].
    pub fn of_flow(flow: &Flow) -> Self {
        Self::compile([flow])
    }

    fn compile<'f>(flows: impl IntoIterator<Item = &'f Flow>) -> Self {
        let compile = |schema| Contract::compile(schema).expect("parsed flows have good schemas");
        let of_flow = |flow: &'f Flow| {
            flow.schemas().map(move |(version, schema)| ((flow.name.clone(), version), compile(schema)))
        };
        Self(Arc::new(flows.into_iter().flat_map(of_flow).collect()))
    }

    /// The version of the schema that an event of this flow means, and what that schema lists of the event.
    pub fn admit(&self, flow: &Flow, event: Value) -> Result<(u32, Value), Misfit> {
        let contract = |version| Some((version, self.0.get(&(flow.name.clone(), version))?));
        match flow.version_of(&event).and_then(contract) {
            Some((version, contract)) => Ok((version, contract.admit(event)?)),
            None => Err(Misfit::UnknownVersion),
        }
    }
}

/// The reason why a flow does not take the shape of an event. In words it names places and rules, and no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The flow does not know the version of the schema that the event names.
    #[error("the event names a schema version that the flow does not have")]
    UnknownVersion,
    /// The event breaks its schema.
    #[error("the event does not match the schema: {}", told(.0))]
    Broken(Vec<SchemaViolation>),
}

/// The most violations that are told in words.
const MAX_TOLD: usize = 5;

/// The longest place that is told in words.
const MAX_PLACE: usize = 120;

fn told(violations: &[SchemaViolation]) -> String {
    let one = |v: &SchemaViolation| format!("{} breaks `{}`", place(&v.pointer), v.rule);
    let mut all: Vec<String> = violations.iter().take(MAX_TOLD).map(one).collect();
    if let Some(more @ 1..) = violations.len().checked_sub(MAX_TOLD) {
        all.push(format!("and {more} more"));
    }
    all.join(", ")
}

/// A place in words. A name in it may be the sender's own, and then no plain one.
fn place(pointer: &str) -> String {
    if pointer.is_empty() {
        return "the event".into();
    }
    let steps = pointer.split('/').skip(1).map(|name| format!("/{}", mask_name(name)));
    steps.collect::<String>().chars().take(MAX_PLACE).collect()
}

/// A compiled schema.
#[derive(Debug)]
pub struct Contract {
    validator: Validator,
    schema: Value,
}

/// One rule that an event broke. It names the place and the rule, never the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaViolation {
    /// A JSON pointer to the offending value.
    pub pointer: String,
    /// The schema's keyword.
    pub rule: String,
}

/// The most violations that are reported for one event.
pub const MAX_VIOLATIONS: usize = 20;

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

impl Contract {
    /// Compiles a JSON Schema 2020-12. References outside the schema are not followed.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::draft202012::new(schema).map_err(|error| error.to_string())?;
        Ok(Self { validator, schema: schema.clone() })
    }

    /// The mistake in a schema, with its place.
    pub fn check(schema: &Value) -> Option<Wrong> {
        let error = jsonschema::draft202012::new(schema).err()?;
        let at = error.instance_path().as_str();
        let written = error.instance().as_str().filter(|_| at.ends_with("/type"));
        Some(match written {
            Some(name) => Wrong::at(at, format!("`{name}` is not a type of JSON Schema")).hint(suggest(name, TYPES)),
            None => Wrong::at(at, format!("this is not JSON Schema: {error}")),
        })
    }

    /// Checks an event and drops every field that the schema does not list: data that no flow needs
    /// never enters.
    pub fn admit(&self, event: Value) -> Result<Value, Misfit> {
        let violations: Vec<SchemaViolation> =
            self.validator.iter_errors(&event).take(MAX_VIOLATIONS).map(violation).collect();
        match violations.is_empty() {
            true => Ok(trim(event, &[&self.schema], &self.schema)),
            false => Err(Misfit::Broken(violations)),
        }
    }
}

fn violation(error: jsonschema::ValidationError<'_>) -> SchemaViolation {
    SchemaViolation { pointer: error.instance_path().as_str().to_owned(), rule: error.kind().keyword().to_owned() }
}

/// The part of `value` that the schemas list, together. `root` resolves local references.
fn trim(value: Value, schemas: &[&Value], root: &Value) -> Value {
    let mut all = Vec::new();
    schemas.iter().for_each(|schema| gather(schema, root, &mut all));
    match value {
        Value::Object(fields) => Value::Object(trim_object(fields, &all, root)),
        Value::Array(items) => {
            let inner: Vec<&Value> = all.iter().filter_map(|schema| schema.get("items")).collect();
            Value::Array(items.into_iter().map(|item| trim(item, &inner, root)).collect())
        }
        plain => plain,
    }
}

/// The first name of a path that no schema lists, and the names that are listed in its place.
pub(crate) fn unlisted<'s>(schema: &'s Value, steps: &'s [FieldStep]) -> Option<(&'s str, Vec<&'s str>)> {
    let mut here = vec![schema];
    for step in steps {
        let mut all = Vec::new();
        here.iter().for_each(|inner| gather(inner, schema, &mut all));
        let listed = || all.iter().filter_map(|inner| inner.get("properties")?.as_object());
        let found: Vec<&Value> = match step {
            FieldStep::Name(name) => listed().filter_map(|fields| fields.get(name)).collect(),
            FieldStep::Item(index) => all.iter().filter_map(|inner| items(inner, *index)).collect(),
        };
        if let (FieldStep::Name(name), true) = (step, found.is_empty()) {
            return Some((name, listed().flat_map(|fields| fields.keys().map(String::as_str)).collect()));
        }
        here = found;
    }
    None
}

/// What a schema says of an item of a list.
fn items(schema: &Value, index: usize) -> Option<&Value> {
    schema.get("prefixItems").and_then(|own| own.get(index)).or_else(|| schema.get("items"))
}

fn trim_object(fields: Map<String, Value>, schemas: &[&Value], root: &Value) -> Map<String, Value> {
    let listed =
        |name: &str| -> Vec<&Value> { schemas.iter().filter_map(|s| s.get("properties")?.get(name)).collect() };
    fields
        .into_iter()
        .filter_map(|(name, value)| {
            let inner = listed(&name);
            (!inner.is_empty()).then(|| (name, trim(value, &inner, root)))
        })
        .collect()
}

/// The schema, and every subschema for the same place.
fn gather<'s>(schema: &'s Value, root: &'s Value, all: &mut Vec<&'s Value>) {
    // A schema that refers to itself adds nothing the second time.
    if all.iter().any(|known| std::ptr::eq(*known, schema)) {
        return;
    }
    all.push(schema);
    if let Some(target) = schema["$ref"].as_str().and_then(|r| root.pointer(r.strip_prefix('#')?)) {
        gather(target, root, all);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        schema[keyword].as_array().into_iter().flatten().for_each(|inner| gather(inner, root, all));
    }
    for keyword in ["then", "else"] {
        schema.get(keyword).into_iter().for_each(|inner| gather(inner, root, all));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn contract(schema: Value) -> Contract {
        Contract::compile(&schema).expect("a valid schema")
    }

    #[test]
    fn drops_what_the_schema_does_not_list() {
        let contract = contract(json!({
            "properties": {
                "id": {"type": "string"},
                "who": {"properties": {"name": {}}},
                "lines": {"type": "array", "items": {"properties": {"sku": {}}}}
            }
        }));
        let event = json!({
            "id": "1", "ssn": "078-05-1120",
            "who": {"name": "Ada", "dob": "1815"},
            "lines": [{"sku": "a", "note": "secret"}]
        });
        assert_eq!(contract.admit(event), Ok(json!({"id": "1", "who": {"name": "Ada"}, "lines": [{"sku": "a"}]})));
    }

    #[test]
    fn an_object_with_nothing_listed_becomes_empty() {
        let contract = contract(json!({"properties": {"meta": {"type": "object"}}}));
        assert_eq!(contract.admit(json!({"meta": {"a": 1}})), Ok(json!({"meta": {}})));
    }

    #[test]
    fn references_and_alternatives_list_too() {
        let contract = contract(json!({
            "$defs": {"tree": {"properties": {"v": {}, "next": {"$ref": "#/$defs/tree"}}}},
            "allOf": [{"properties": {"a": {}}}],
            "anyOf": [{"properties": {"b": {}}}, {"properties": {"tree": {"$ref": "#/$defs/tree"}}}]
        }));
        let event = json!({"a": 1, "b": 2, "c": 3, "tree": {"v": 1, "x": 2, "next": {"v": 3, "x": 4}}});
        assert_eq!(contract.admit(event), Ok(json!({"a": 1, "b": 2, "tree": {"v": 1, "next": {"v": 3}}})));
    }

    #[test]
    fn a_violation_names_place_and_rule_and_no_value() {
        let contract = contract(json!({
            "required": ["id"],
            "properties": {"email": {"pattern": "@"}, "n": {"type": "integer"}}
        }));
        let event = json!({"email": "hunter2", "n": "three"});
        let why = contract.admit(event).expect_err("broken rules");
        let Misfit::Broken(violations) = why else { panic!("{why}") };
        let mut found: Vec<_> = violations.iter().map(|v| (v.pointer.as_str(), v.rule.as_str())).collect();
        found.sort_unstable();
        assert_eq!(found, [("", "required"), ("/email", "pattern"), ("/n", "type")]);
    }

    #[test]
    fn in_words_a_violation_names_no_name_that_only_the_sender_knows() {
        let contract = contract(json!({"additionalProperties": {"type": "integer"}}));
        let event: Map<String, Value> =
            (0..7).map(|n| (format!("ada{n}@example.com"), json!("x"))).chain([("plain".into(), json!(1))]).collect();
        let told = contract.admit(Value::Object(event)).expect_err("broken rules").to_string();
        assert!(told.starts_with("the event does not match the schema: /a*** breaks `type`, "), "{told}");
        assert!(told.ends_with(", and 2 more") && !told.contains("example.com"), "{told}");
        let deep = Misfit::Broken(vec![SchemaViolation { pointer: "/name".repeat(500), rule: "type".into() }]);
        assert!(deep.to_string().len() < 200, "{deep}");
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        assert!(Contract::compile(&json!({"type": "strnig"})).is_err());
        assert!(Contract::compile(&json!({"$ref": "https://example.com/schema.json"})).is_err());
    }
}
