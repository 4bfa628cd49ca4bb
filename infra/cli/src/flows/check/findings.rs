//! What only a look at a whole flow shows: it parses, and an event would be parked, or an effect never be called.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::arrival::event::Event;
use shared::arrival::key::Names;
use shared::base::time::Timestamp;
use shared::base::trace::Trace;
use shared::flows::schema::schemas;
use shared::flows::{Field, File, Flow, Flows, Guarantee, KeyField, Part, Problem};

use super::promises;
use crate::flows::plan::mask::Shown;
use crate::flows::plan::of_event;
use crate::flows::prove::rank;
use crate::scenarios::folder::ReadScenarios;
use crate::scenarios::mistakes;

/// The keys and the orders that are no plain values: of such a flow no event can be made.
pub(super) fn unstable(files: &[File], flows: &Flows) -> Vec<Problem> {
    let of_flow = |flow: &Flow| {
        let file = file_of(files, flow)?;
        Some(keys(flow).into_iter().map(|(at, what)| Problem::at(file, &at, &what)).collect::<Vec<_>>())
    };
    flows.all().filter_map(of_flow).flatten().collect()
}

fn file_of<'f>(files: &'f [File], flow: &Flow) -> Option<&'f File> {
    let path = format!("flows/{}.yaml", flow.name);
    files.iter().find(|file| file.path == path)
}

/// The findings in flows that parse, and in their scenarios.
pub(super) fn of_flows(files: &[File], flows: &Flows, scenarios: &[&ReadScenarios]) -> Vec<Problem> {
    let mut found = promises::of_integrations(files);
    for flow in flows.all() {
        let Some(file) = file_of(files, flow) else { continue };
        let written: Value = serde_saphyr::from_str(&file.text).unwrap_or_default();
        let told = |(at, what): (String, String)| Problem::at(file, &at, &what);
        found.extend(guarantees(flow, flows).into_iter().map(told));
        found.extend(never_run(flow).into_iter().map(told));
        found.extend(optional_fields(flow, flows, &written).into_iter().map(told));
    }
    found.extend(scenarios.iter().flat_map(|read| of_scenarios(read, flows)));
    found
}

/// A finding: its place in the file, and what it is.
type Finding = (String, String);

/// Keys and orders must be plain values.
fn keys(flow: &Flow) -> Vec<Finding> {
    let parts = flow.key.fields.iter().enumerate().filter_map(|(index, KeyField { part, .. })| match part {
        Part::Id => None,
        Part::Field(field) => Some((format!("/key/fields/{index}"), "the key", field)),
    });
    let order = flow.order_by.iter().map(|order| ("/order_by".to_owned(), "order_by", &order.field));
    let shaped = parts.chain(order).filter_map(|(at, who, field)| {
        let schema = field.in_schema(&flow.schema);
        let kind = ["array", "object"].into_iter().find(|kind| is_only(&schema["type"], kind))?;
        let name = if kind == "array" { "a list" } else { "a mapping" };
        Some((at, format!("{who} reads `{field}`, which is {name}: only a text, a whole number or a boolean tells one event from another")))
    });
    shaped.collect()
}

fn is_only(kinds: &Value, kind: &str) -> bool {
    match kinds {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().all(|one| one == kind || one == "null"),
        _ => false,
    }
}

/// An effect must not promise more than its partner does.
fn guarantees(flow: &Flow, flows: &Flows) -> Vec<Finding> {
    let stronger = flow.effects.iter().enumerate().filter_map(|(index, effect)| {
        let named = effect.named.as_ref()?;
        let (integration, call) = named.name.split_once('.')?;
        let known = flows.integration(integration)?.calls.get(call)?;
        let lies = match effect.guarantee {
            Guarantee::Native | Guarantee::Idempotent => rank(known.guarantee) < rank(effect.guarantee),
            Guarantee::Lookup | Guarantee::None => false,
        };
        let what = format!(
            "`{}` is more than is known of `{}`, whose guarantee is `{}`: a lost call could happen twice",
            word(effect.guarantee),
            named.name,
            word(known.guarantee)
        );
        lies.then(|| (format!("/effects/{index}/guarantee"), what))
    });
    stronger.collect()
}

pub(super) fn word(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::None => "none",
        Guarantee::Lookup => "lookup",
        Guarantee::Idempotent => "idempotent",
        Guarantee::Native => "native",
    }
}

/// A condition that holds for no event leaves its effect undone for ever.
fn never_run(flow: &Flow) -> Vec<Finding> {
    let never = flow.effects.iter().enumerate().filter_map(|(index, effect)| {
        let when = effect.when.as_ref()?.as_str();
        let why =
            is_false(when).then(|| "is false whatever happens".to_owned()).or_else(|| unlisted(when, &flow.schema))?;
        Some((
            format!("/effects/{index}/when"),
            format!("the effect `{}` can never run: its condition {why}", effect.id),
        ))
    });
    never.collect()
}

fn is_false(when: &str) -> bool {
    let bare = when.trim().trim_start_matches("{{").trim_end_matches("}}").trim().to_ascii_lowercase();
    ["false", "none", "0", "not true", "''", "[]", "{}"].contains(&bare.as_str())
}

/// The value that a condition asks for as a whole, and that the schema does not list.
fn unlisted(when: &str, schema: &Value) -> Option<String> {
    let bare = when.trim().trim_start_matches("{{").trim_end_matches("}}").trim();
    let (field, value) = bare.strip_prefix("event.")?.split_once("==")?;
    let (field, value) = (field.trim(), value.trim());
    let plain = field.chars().all(|c| c.is_ascii_alphanumeric() || "_.[]".contains(c));
    let text = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).filter(|text| !text.contains('\''))?;
    let place: Field = field.parse().ok().filter(|_| plain)?;
    let listed = place.in_schema(schema)["enum"].as_array()?;
    (!listed.iter().any(|one| one == text))
        .then(|| format!("asks for `{text}`, and the schema does not list it for `{field}`"))
}

/// An effect whose request reads a field that need not be there, without a default.
fn optional_fields(flow: &Flow, flows: &Flows, written: &Value) -> Vec<Finding> {
    let whole = sample(&flow.schema, "");
    let Some(good) = made(flow, flows, &whole) else { return Vec::new() };
    let mut optional = Vec::new();
    not_required(&flow.schema, "", &mut optional);
    let mut found = Vec::new();
    for field in optional {
        let mut without = whole.clone();
        remove(&mut without, &field);
        let Some(made) = made(flow, flows, &without) else { continue };
        for (index, effect) in flow.effects.iter().enumerate() {
            if good.contains(&effect.id) && !made.contains(&effect.id) {
                let at = place(&written["effects"][index], &field).unwrap_or_default();
                let what = format!(
                    "the effect `{}` reads `{field}`, which an event need not have, without a default: such an event would be parked",
                    effect.id
                );
                found.push((format!("/effects/{index}{at}"), what));
            }
        }
    }
    found
}

/// The effects of which a request can be made from this payload.
fn made(flow: &Flow, flows: &Flows, payload: &Value) -> Option<BTreeSet<String>> {
    let names = Names { id: Some("id"), idempotency_key: Some("key"), in_batch: None };
    let at = Timestamp::from_secs(1_794_819_600);
    let event = Event::new(flow, flow.version, payload.clone(), names, at, Trace::start(0, 0, 0)).ok()?;
    let plan = of_event(event, flow, flows, Shown::Masked);
    Some(plan.effects.into_iter().filter(|effect| effect.does.is_ok()).map(|effect| effect.effect).collect())
}

/// A payload with every field that a schema lists.
fn sample(schema: &Value, name: &str) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let kind = kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null");
    match kind {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, inner)| (name.clone(), sample(inner, name))).collect::<Map<_, _>>())
        }
        Some("array") => json!([sample(&schema["items"], name)]),
        Some("integer" | "number") => schema["minimum"].as_i64().map_or(json!(1), |least| json!(least)),
        Some("boolean") => json!(true),
        _ => json!(text(schema, name)),
    }
}

fn text(schema: &Value, name: &str) -> String {
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    let text = if pattern.contains('@') || name.contains("mail") {
        "ada@example.com"
    } else if ["_at", "time", "date"].iter().any(|part| name.contains(part)) {
        "2026-11-16T09:00:00Z"
    } else if pattern.contains("0-9") {
        "1"
    } else {
        "x"
    };
    let least = schema["minLength"].as_u64().and_then(|least| usize::try_from(least).ok()).unwrap_or_default();
    if text.len() < least { text.repeat(least.min(64).div_ceil(text.len())) } else { text.to_owned() }
}

/// The fields that an event need not have, below those that it has.
fn not_required(schema: &Value, above: &str, found: &mut Vec<String>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let field = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        if !required.contains(&name.as_str()) {
            found.push(field.clone());
        }
        not_required(inner, &field, found);
    }
    if schema["items"].is_object() {
        not_required(&schema["items"], &format!("{above}[0]"), found);
    }
}

fn remove(payload: &mut Value, field: &str) {
    if let Ok(field) = field.parse::<Field>() {
        field.remove(payload);
    }
}

/// Where a text below a value reads a field.
fn place(value: &Value, field: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains(&format!("event.{field}")).then(String::new),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let step = name.replace('~', "~0").replace('/', "~1");
            Some(format!("/{step}{}", place(value, field)?))
        }),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, value)| Some(format!("/{index}{}", place(value, field)?)))
        }
        _ => None,
    }
}

/// The mistakes in scenarios that a look at their flow shows.
fn of_scenarios(read: &ReadScenarios, flows: &Flows) -> Vec<Problem> {
    let file = &read.file;
    let Some(flow) = flows.flow(&read.written.flow) else {
        return vec![Problem::at(file, "/flow", &format!("there is no flow `{}`", read.written.flow))];
    };
    let written = &read.written;
    let scenarios = written.scenarios.iter().enumerate().flat_map(|(number, scenario)| {
        let found = mistakes::of_scenario(flows, flow, scenario).into_iter();
        found.map(move |(at, what)| (format!("/scenarios/{number}{at}"), what))
    });
    let event = written.event.as_ref().and_then(|event| read.event(event).ok()).unwrap_or_default();
    let stated = mistakes::of_statements(flows, flow, &event, &written.prove);
    stated.into_iter().chain(scenarios).map(|(at, what)| Problem::at(file, &at, &what)).collect()
}

/// The other mistakes in the shape of files of which the parser has told the first: what an editor would underline.
pub(super) fn of_shapes(files: &[File], told: &[Problem]) -> Vec<Problem> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| told.iter().any(|problem| problem.file == file.path)) {
        let Ok(written) = serde_saphyr::from_str::<Value>(&file.text) else { continue };
        let kind = match file.path.as_str() {
            "sources.yaml" => "sources.json",
            "integrations.yaml" => "integrations.json",
            path if path.starts_with("catalog/sources/") => "sender.json",
            path if path.starts_with("catalog/") => "partner.json",
            path if path.starts_with("flows/") => "flow.json",
            _ => continue,
        };
        let Some((_, schema)) = schemas().into_iter().find(|(name, _)| *name == kind) else { continue };
        let Ok(validator) = jsonschema::draft202012::new(&schema) else { continue };
        for error in validator.iter_errors(&written) {
            let problem = Problem::at(file, &error.instance_path().to_string(), &in_words(&error));
            let known = |other: &Problem| other.file == problem.file && other.place.line == problem.place.line;
            if !told.iter().chain(&found).any(known) {
                found.push(problem);
            }
        }
    }
    found
}

fn in_words(error: &jsonschema::ValidationError<'_>) -> String {
    use jsonschema::error::ValidationErrorKind;
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("there is no field {} here", quoted(unexpected))
        }
        ValidationErrorKind::Required { property } => {
            format!("the field `{}` is missing here", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            "this is none of the forms that are taken here".to_owned()
        }
        _ => format!("this does not fit here: {error}"),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
