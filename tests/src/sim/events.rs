//! How the events of our flows are made, the shipped ones included.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use shared::flows::{Flow, Flows};
use sim::{EventRecipe, Fault, FaultPlan, FieldValue, ListedField, Listing};

use super::contacts::{EMAIL, SPELLINGS};
use super::seeds::SHIPPED;
use crate::fixtures::{NOW, files_below, payload, sources};

/// The recipe of each flow, by its name.
pub(super) fn recipes(flows: &Flows) -> BTreeMap<String, EventRecipe> {
    flows.all().map(|flow| (flow.name.clone(), recipe(flow))).collect()
}

/// The payload under `events/` that comes on the flow's route, or else the simulation's own, with what names the
/// event and whom it is about. Some events are worth more than others, and want an approval.
fn recipe(flow: &Flow) -> EventRecipe {
    let (source, event_type) = (flow.on.source.as_str(), flow.on.event_type.as_str());
    let own = || {
        let mut data = json!({
            "event_id": "", "entity": "", "address": "", "at": "", "variant": "", "agrees": true, "large": true
        });
        if source == BULK {
            data["text"] = json!("");
        }
        json!({"type": event_type, "data": data})
    };
    let shipped = PAYLOADS.iter().find(|(route, _)| *route == (source, event_type));
    let payload = shipped.map_or_else(own, |(_, file)| payload(file));
    let payload = if source == META { one_lead(payload) } else { payload };
    let data = if payload.get("data").is_some() { "/data" } else { "" };
    let fields = fields().map(|(name, value)| (format!("{data}/{name}"), value));
    let fields = match source {
        SHOPIFY => order_fields(),
        TYPEFORM => response_fields(),
        META => lead_fields(),
        _ => fields.collect(),
    };
    let fields = fields.into_iter().filter(|(pointer, _)| payload.pointer(pointer).is_some()).collect();
    EventRecipe { fields, delivery_id: "msg".into(), ..EventRecipe::of(payload) }
}

const BULK: &str = "bulk";
const SHOPIFY: &str = "shopify";
const TYPEFORM: &str = "typeform";
const META: &str = "meta";

/// The payloads under `events/`, by the route that they come on: the source, and the type.
const PAYLOADS: [((&str, &str), &str); 9] = [
    (("web-forms", "lead.created"), "lead-created.json"),
    (("web-forms", "contact.submitted"), "contact-submitted.json"),
    (("storefront", "cart.abandoned"), "cart-abandoned.json"),
    (("storefront", "cart.nudge.sms"), "cart-nudge-sms.json"),
    (("storefront", "cart.nudge.push"), "cart-nudge-push.json"),
    ((SHOPIFY, "orders/paid"), "shopify-order-paid.json"),
    (("slack", "block_actions"), "slack-approval.json"),
    ((TYPEFORM, "form_response"), "typeform-response.json"),
    ((META, "leadgen"), "meta-leads.json"),
];

/// What differs in Shopify's orders. They are called by names that the other payloads have for other things.
fn order_fields() -> BTreeMap<String, FieldValue> {
    let fields = [
        ("/id", FieldValue::Number { first: 820_982_911_946_154_508 }),
        ("/name", FieldValue::text("#{event}")),
        ("/email", FieldValue::Spelled(EMAIL.into())),
        ("/phone", FieldValue::Cycle(vec![json!("+15555550123"), json!(null)])),
        ("/line_items/0/title", FieldValue::Variant),
    ];
    fields.map(|(pointer, value)| (pointer.to_owned(), value)).into()
}

/// What differs in Typeform's responses: the address is in a list.
fn response_fields() -> BTreeMap<String, FieldValue> {
    let fields = [
        ("/form_response/token", FieldValue::text("token-{event}")),
        ("/form_response/answers/0/text", FieldValue::Variant),
        ("/form_response/answers/1/email", FieldValue::Spelled(EMAIL.into())),
    ];
    fields.map(|(pointer, value)| (pointer.to_owned(), value)).into()
}

/// What differs in Meta's deliveries.
fn lead_fields() -> BTreeMap<String, FieldValue> {
    [("/entry/0/changes/0/value/leadgen_id".to_owned(), FieldValue::text("lead-{event}"))].into()
}

/// A delivery of Meta's with one lead: the simulation knows an event by its delivery.
fn one_lead(mut delivery: Value) -> Value {
    let entries = delivery["entry"].as_array_mut().expect("entries");
    entries.truncate(1);
    entries[0]["changes"].as_array_mut().expect("changes").truncate(1);
    delivery
}

/// What partners list of the messages that they sent: Twilio's is known by its text, Slack's by our key in its metadata.
pub(super) fn listings() -> BTreeMap<String, Listing> {
    let messages = |fields: Vec<(&str, ListedField)>| {
        let fields = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
        Listing { list: "messages".into(), fields }
    };
    let sent = |name: &str| ListedField::Sent(name.to_owned());
    let of_twilio = vec![("body", sent("Body")), ("date_created", ListedField::At), ("sid", ListedField::Id)];
    let of_slack = vec![("metadata", ListedField::SentJson("metadata".into())), ("ts", ListedField::Id)];
    [("twilio".to_owned(), messages(of_twilio)), ("slack".to_owned(), messages(of_slack))].into()
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
        ("text", FieldValue::Cycle(texts())),
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

/// Texts that a queue takes, and some that it does not: a control character, one that is no character, and too many. Few
/// are long: each step with one takes its time.
fn texts() -> Vec<Value> {
    let long = |length: usize| "x".repeat(length);
    let texts = ["plain", "a tab\tand a line\n", "bad \u{1}", "gr\u{fc}\u{df} \u{1f600}", "bad \u{fffe}", "plain"]
        .map(str::to_owned);
    texts.into_iter().chain([long(236 * 1024), long(252 * 1024)]).map(Value::from).collect()
}

/// Moments on both sides of the edges of a grid of five minutes, and of the windows that the first of them open. They do
/// not come in this order: senders send when they like.
fn close_moments() -> Vec<Value> {
    let seconds = [299, 301, 301, 1, 600, 0, 602, 899, 298, 1200];
    seconds.map(|seconds| json!((NOW + Duration::from_secs(seconds)).to_string())).to_vec()
}

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

/// Every payload under `events/` has a route, and every shipped flow a payload: without one, its events would be parked
/// for their shape, and nothing of the flow would be simulated.
#[test]
fn every_shipped_flow_has_its_payload() {
    let flows = SHIPPED.scenario().versions[0].flows();
    let routes: BTreeSet<(&str, &str)> =
        flows.all().map(|flow| (flow.on.source.as_str(), flow.on.event_type.as_str())).collect();
    assert_eq!(PAYLOADS.iter().map(|(route, _)| *route).collect::<BTreeSet<_>>(), routes);
    let name = |path: &std::path::PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let files = files_below("events", "json")
        .iter()
        .filter(|path| path.parent().is_some_and(|it| it.ends_with("events")))
        .filter_map(name)
        .collect::<BTreeSet<_>>();
    assert_eq!(files, PAYLOADS.iter().map(|(_, file)| (*file).to_owned()).collect());
}

/// Whatever is left out here is swept by no fault.
#[test]
fn every_shipped_flow_reaches_each_of_its_effects() {
    for flow in SHIPPED.scenario().versions[0].flows().all() {
        let nothing = FaultPlan::Once { call: usize::MAX, fault: Fault::Throttle };
        let report = SHIPPED.calm(&flow.name, nothing).expect("every flow has a recipe").run();
        assert_eq!(report.violation, None, "{}: {}", flow.name, report.timeline);
        let effects: BTreeSet<String> = flow.effects.iter().map(|effect| effect.id.clone()).collect();
        assert_eq!(report.done.get(&flow.name), Some(&effects), "{}: {}", flow.name, report.timeline);
    }
}
