//! How the events of our flows are made, the shipped ones included.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};
use shared::flows::{Flow, Flows};
use sim::{EventRecipe, FieldValue};

use super::contacts::{EMAIL, SPELLINGS};
use crate::fixtures::{NOW, root, sources};

/// The recipe of each flow, by its name.
pub(super) fn recipes(flows: &Flows) -> BTreeMap<String, EventRecipe> {
    flows.all().map(|flow| (flow.name.clone(), recipe(flow))).collect()
}

/// The simulation's own payload, or else the one under `events/` that has the flow's type, with what names the
/// event and whom it is about. Some events are worth more than others, and want an approval.
fn recipe(flow: &Flow) -> EventRecipe {
    let event_type = &flow.on.event_type;
    let own = || {
        let data = json!({
            "event_id": "", "entity": "", "address": "", "at": "", "variant": "", "agrees": true, "large": true
        });
        json!({"type": event_type, "data": data})
    };
    let payload = SHIPPED_PAYLOADS.get(event_type.as_str()).cloned().unwrap_or_else(own);
    let data = if payload.get("data").is_some() { "/data" } else { "" };
    let fields = fields().map(|(name, value)| (format!("{data}/{name}"), value));
    let fields = fields.filter(|(pointer, _)| payload.pointer(pointer).is_some()).collect();
    EventRecipe { fields, delivery_id: "msg".into(), ..EventRecipe::of(payload) }
}

/// Whatever a payload of ours may hold that differs from event to event.
fn fields() -> impl Iterator<Item = (&'static str, FieldValue)> {
    let cycle = |values: &[Value]| FieldValue::Cycle(values.to_vec());
    let consent = [json!(false), json!(true), json!(true)];
    let agrees = [json!(null), json!(true), json!(false), json!(true), json!(null)];
    let total = [[84; 6].as_slice(), &[10]].concat().into_iter().map(Value::from).collect();
    let fields = [
        ("event_id", FieldValue::text("evt-{event}")),
        ("cart_id", FieldValue::text("cart-{event}")),
        ("trigger_id", FieldValue::text("press-{event}")),
        ("customer_id", FieldValue::text(EMAIL)),
        ("entity", FieldValue::Spelled(EMAIL.into())),
        ("variant", FieldValue::Variant),
        ("email", FieldValue::Spelled(EMAIL.into())),
        ("at", FieldValue::Cycle(close_moments())),
        ("abandoned_at", FieldValue::Moment { apart: Duration::from_secs(600) }),
        ("total", FieldValue::Cycle(total)),
        ("discount_percent", cycle(&[json!(40), json!(10)])),
        ("large", cycle(&[json!(true), json!(false)])),
        ("address", cycle(&SPELLINGS.map(Value::from))),
        ("agrees", cycle(&agrees)),
        ("consent_email", cycle(&consent)),
        ("actions/0/value", FieldValue::Question),
        ("actions/0/action_id", FieldValue::Decision { yes: json!("approve"), no: json!("reject") }),
    ];
    fields.into_iter()
}

/// Moments on both sides of the edges of a grid of five minutes, and of the windows that the first of them open. They do
/// not come in this order: senders send when they like.
fn close_moments() -> Vec<Value> {
    let seconds = [299, 301, 301, 1, 600, 0, 602, 899, 298, 1200];
    seconds.map(|seconds| json!((NOW + Duration::from_secs(seconds)).to_string())).to_vec()
}

/// The payloads under `events/`, by the type that they say or that their file is called by.
static SHIPPED_PAYLOADS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let files = std::fs::read_dir(root().join("events")).expect("the folder of payloads").flatten();
    let named = files.filter_map(|file| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let payload = serde_json::from_str::<Value>(&text).ok()?;
        let called = file.path().file_stem()?.to_string_lossy().replace('-', ".");
        Some((payload["type"].as_str().map_or(called, str::to_owned), payload))
    });
    named.collect()
});

#[test]
fn the_library_knows_no_field_of_ours() {
    let sources = sources("tests/sim/src").into_iter().filter(|(path, _)| !path.ends_with("tests.rs"));
    let sources: Vec<_> = sources.collect();
    assert!(sources.len() > 30, "the library was not read");
    for (field, _) in fields() {
        let names = |text: &str| text.contains(&format!("\"{field}\"")) || text.contains(&format!("/{field}\""));
        let known = sources.iter().find(|(_, text)| names(text)).map(|(path, _)| path);
        assert_eq!(known, None, "`{field}` stands in the library");
    }
}
