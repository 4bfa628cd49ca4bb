//! An event that a flow takes, made from its schema: for flows that have no sample.

use anyhow::{Result, bail};
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};
use shared::flows::contract::Contracts;
use shared::flows::{Flow, Flows, IdAt};

/// The deepest that an example goes, where a schema refers to itself.
const MAX_DEPTH: usize = 20;

/// The longest text that an example has.
const MAX_TEXT: u64 = 10_000;

/// The smallest event that the schema of a flow lets through, with the type and the id where its source reads them.
pub(crate) fn event(flows: &Flows, flow: &Flow) -> Result<Value> {
    let mut event = instance(&flow.schema, &flow.schema, 0);
    if let Some(source) = flows.source(&flow.on.source) {
        if let Some(at) = &source.type_at {
            put(&mut event, &at.pointer(), json!(flow.on.event_type));
        }
        if let Some(IdAt::Field(at)) = &source.id_at
            && at.of(&event).is_none()
        {
            put(&mut event, &at.pointer(), json!("evt_example_1"));
        }
    }
    if let Some(at) = flow.key.window.as_ref().and_then(|window| window.field.as_ref()) {
        put(&mut event, &at.pointer(), json!(moment()));
    }
    match Contracts::of_flow(flow).admit(flow, event.clone()) {
        Ok(_) => Ok(event),
        Err(_) => bail!(
            "no example can be made for the flow {} from its schema: save an event of it as a file, and name that with --event",
            flow.name
        ),
    }
}

/// Puts a value at a pointer, with objects around it where there are none.
fn put(event: &mut Value, pointer: &str, new: Value) {
    let mut place = event;
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        if place.is_null() {
            *place = json!({});
        }
        place = match place {
            Value::Array(items) => match name.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                Some(item) => item,
                None => return,
            },
            Value::Object(fields) => fields.entry(name).or_insert(Value::Null),
            _ => return,
        };
    }
    *place = new;
}

fn instance(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    if let Some(given) = given(schema) {
        return given;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|at| root.pointer(at.strip_prefix('#')?)) {
        return instance(target, root, depth + 1);
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(first) = schema[several].get(0) {
            return merged(kind(schema, root, depth), instance(first, root, depth + 1));
        }
    }
    let all = schema["allOf"].as_array().into_iter().flatten();
    all.fold(kind(schema, root, depth), |made, part| merged(made, instance(part, root, depth + 1)))
}

/// A value that the schema names itself.
fn given(schema: &Value) -> Option<Value> {
    let first = |name: &str| schema[name].get(0);
    schema
        .get("const")
        .or_else(|| first("enum"))
        .or_else(|| first("examples"))
        .or_else(|| schema.get("default"))
        .cloned()
}

fn kind(schema: &Value, root: &Value, depth: usize) -> Value {
    let named = match &schema["type"] {
        Value::Array(types) => types.iter().find(|name| *name != "null").and_then(Value::as_str),
        name => name.as_str(),
    };
    let looks =
        if schema.get("properties").is_some() || schema.get("required").is_some() { "object" } else { "string" };
    match named.unwrap_or(looks) {
        "object" => object(schema, root, depth),
        "array" => array(schema, root, depth),
        "integer" | "number" => {
            let above = schema["exclusiveMinimum"].as_f64().map(|least| least + 1.0);
            let least = above.or(schema["minimum"].as_f64()).unwrap_or(1.0);
            if least.fract() == 0.0 { json!(least as i64) } else { json!(least) }
        }
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => json!(text(schema)),
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let field = |name: &str| (name.to_owned(), instance(&schema["properties"][name], root, depth + 1));
    Value::Object(required.map(field).collect::<Map<_, _>>())
}

fn array(schema: &Value, root: &Value, depth: usize) -> Value {
    let item = || instance(schema.get("items").unwrap_or(&json!({})), root, depth + 1);
    let mut items: Vec<Value> = (0..schema["minItems"].as_u64().unwrap_or_default().min(100)).map(|_| item()).collect();
    if let Some(contained) = schema.get("contains") {
        // What it must have, in the form that every item has.
        let own = instance(contained, root, depth + 1);
        let formed = filled(own, &schema["items"], root, depth + 1);
        match items.first_mut() {
            Some(first) => *first = formed,
            None => items.push(formed),
        }
    }
    Value::Array(items)
}

/// An object whose fields are made by another schema where this one says nothing of them.
fn filled(value: Value, schema: &Value, root: &Value, depth: usize) -> Value {
    let Value::Object(fields) = value else { return value };
    let field = |(name, value): (String, Value)| {
        let listed = &schema["properties"][&name];
        let made = if value.is_object() { filled(value, listed, root, depth) } else { value };
        // A text without a rule of its own follows that of the list.
        let made = if made == json!("text") && !listed.is_null() { instance(listed, root, depth + 1) } else { made };
        (name, made)
    };
    Value::Object(fields.into_iter().map(field).collect())
}

fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            one.extend(other);
            Value::Object(one)
        }
        (Value::Object(one), _) if !one.is_empty() => Value::Object(one),
        (_, other) => other,
    }
}

/// Now, as most senders write it.
fn moment() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn text(schema: &Value) -> String {
    let matching = schema["pattern"].as_str().and_then(|pattern| regex_syntax::parse(pattern).ok());
    let mut text = match (&matching, schema["format"].as_str()) {
        (Some(pattern), _) => shortest(pattern),
        (None, Some("date-time")) => moment(),
        (None, Some("email")) => "ada@example.com".into(),
        (None, Some("uuid")) => "00000000-0000-4000-8000-000000000001".into(),
        _ => "text".into(),
    };
    while matching.is_none() && (text.chars().count() as u64) < schema["minLength"].as_u64().unwrap_or(0).min(MAX_TEXT)
    {
        text.push('x');
    }
    match schema["maxLength"].as_u64() {
        Some(most) if matching.is_none() => text.chars().take(usize::try_from(most).unwrap_or(usize::MAX)).collect(),
        _ => text,
    }
}

/// A short text that a pattern matches.
fn shortest(pattern: &Hir) -> String {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).into_owned(),
        HirKind::Class(class) => one_of(class).to_string(),
        HirKind::Repetition(repetition) => shortest(&repetition.sub).repeat(repetition.min.min(1000) as usize),
        HirKind::Capture(capture) => shortest(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(shortest).collect(),
        HirKind::Alternation(parts) => parts.iter().map(shortest).min_by_key(String::len).unwrap_or_default(),
    }
}

/// A character of a class: one that people can read, if there is one.
fn one_of(class: &Class) -> char {
    let Class::Unicode(class) = class else { return 'a' };
    let has = |wanted: &char| class.iter().any(|range| (range.start()..=range.end()).contains(wanted));
    let readable = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain('!'..='~').find(has);
    readable.or_else(|| class.iter().next().map(|range| range.start())).unwrap_or('a')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shared::adapters::machine::read_flows;

    use super::*;

    #[test]
    fn every_shipped_flow_has_an_example() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let flows = read_flows(&root.join("infra/flows")).expect("the flows are good");
        assert!(flows.all().count() >= 9);
        for flow in flows.all() {
            let event = event(&flows, flow).unwrap_or_else(|error| panic!("{error}"));
            let source = flows.source(&flow.on.source).expect("a source");
            if source.type_at.is_some() {
                assert_eq!(source.type_of(&event), Some(flow.on.event_type.as_str()), "{}", flow.name);
            }
            if let Some(at) = flow.key.window.as_ref().and_then(|window| window.field.as_ref()) {
                let moment = at.of(&event).and_then(Value::as_str).map(str::parse::<jiff::Timestamp>);
                assert!(matches!(moment, Some(Ok(_))), "{}: {event}", flow.name);
            }
        }
    }

    #[test]
    fn an_example_matches_its_pattern() {
        for pattern in
            ["^[^@\\s]+@[^@\\s]+$", "^[0-9]+(\\.[0-9]+)?$", "^(sms|push)$", "^#[0-9]{4}$", "^\\+[1-9]\\d{6,14}$"]
        {
            let schema = json!({"type": "string", "pattern": pattern});
            let made = instance(&schema, &schema, 0);
            let contract = shared::flows::contract::Contract::compile(&schema).expect("a schema");
            assert!(contract.admit(made.clone()).is_ok(), "{pattern}: {made}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}}});
        assert!(instance(&schema, &schema, 0).is_object());
    }
}
