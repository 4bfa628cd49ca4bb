//! What holds for every flow and every event.

use proptest::prelude::*;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::arrival::key::{self, Names};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::base::trace::{SpanId, Trace};
use shared::effects::credentials::Credentials;
use shared::effects::request::{PartnerRequest, RequestParts, SecretVars};
use shared::flows::template::TemplateError;
use shared::flows::{Action, File, Flow, Flows};
use shared::ledger::Row;

const SOURCES: &str = include_str!("broken/_good/sources.yaml");
const INTEGRATIONS: &str = include_str!("broken/_good/integrations.yaml");
const FLOW: &str = include_str!("broken/_good/flows/leads.yaml");

fn flows(flow: &str) -> Flows {
    let files = [("sources.yaml", SOURCES), ("integrations.yaml", INTEGRATIONS), ("flows/leads.yaml", flow)];
    let files = files.map(|(path, text)| File { path: path.into(), text: text.into() });
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

fn leads(flows: &Flows) -> &Flow {
    flows.flow("leads").expect("the flow")
}

/// The request that the first effect sends for an event with these values, if it sends one.
fn request(flows: &Flows, id: &str, email: &str, company: &str) -> Result<PartnerRequest, TemplateError> {
    let (flow, now) = (leads(flows), Timestamp::from_secs(0));
    let payload = json!({"id": id, "at": "2026-11-16T09:00:00Z", "data": {"email": email, "company": company}});
    let event = Event::new(flow, flow.version, payload, Names::default(), now, Trace::start(1, 2, 3)).expect("a key");
    let (effect, row) = (&flow.effects[0], Row::admitted(&event, now));
    let Action::Call(call) = &effect.action else { panic!("it calls a partner") };
    let integration = flows.partner_of(effect).expect("a partner");
    let (credentials, secret_vars) = (Credentials::None, SecretVars::new());
    RequestParts { effect, call, integration, event: &event, row: &row, span: SpanId::new(1), credentials, secret_vars }
        .request()
}

/// All that is not a value: method, host, steps of the path, names of the headers, the tree of the body.
fn shape(request: &PartnerRequest) -> Value {
    let steps: Vec<bool> = request.path.split('/').map(|step| step == "leads").collect();
    let headers: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    let clean = request.path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/%-._~".contains(&byte));
    json!([request.method, request.base_url, steps, clean, headers, request.json().as_ref().map(tree)])
}

fn tree(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), tree(value))).collect(),
        Value::Array(items) => items.iter().map(tree).collect(),
        _ => json!("value"),
    }
}

/// What somebody would try who wants out of a value's place, and everything else.
fn hostile() -> impl Strategy<Value = String> {
    let known =
        ["..", "../../admin", "a/b", "?x=1", "#", "%2e%2e", "{{ 7 * 7 }}", "\r\nX-Evil: 1", "\"}, {\"", "\u{0}"];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), "(?s).+"]
}

fn key_of(fields: &[String; 2]) -> EventId {
    let flows = flows(&FLOW.replace(", normalize: [trim, lower]", ", normalize: []"));
    let payload = json!({"id": fields[0], "data": {"email": fields[1]}});
    key::derive(leads(&flows), &payload, Names::default(), Timestamp::from_secs(0)).expect("a key")
}

/// Guards, enrichment, approval, safe mode: the shipped flows have all that there is.
#[test]
fn every_shipped_flow_that_is_written_and_read_again_is_the_same() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows");
    let files = shared::adapters::machine::read_files(&folder).expect("the shipped files");
    let first = Flows::parse(&files).expect("they are good");
    let rewrite = |file: &File| match first.all().find(|flow| file.path == format!("flows/{}.yaml", flow.name)) {
        Some(flow) => File { text: serde_json::to_string(flow).expect("it can be written"), ..file.clone() },
        None => file.clone(),
    };
    let second = Flows::parse(&files.iter().map(rewrite).collect::<Vec<_>>());
    let second = second.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

/// What a key may say of time.
const TIMES: [&str; 4] =
    ["", "  bucket: {field: at, every: 5m}\n", "  window: {field: at, within: 5m}\n", "  window: 30s\n"];

/// A flow file with these parts in place of its own.
fn variant(ttl: u64, attempts: u32, normalize: &[&str], guarantee: &str, needs: Option<bool>, time: &str) -> String {
    let time = format!("{time}  fields:");
    let needs = match needs {
        Some(true) => "    needs: [crm]\n    when: event.data.email != ''\n",
        Some(false) => "    needs: [crm]\n",
        None => "",
    };
    FLOW.replace("ttl: 24h", &format!("ttl: {ttl}s"))
        .replace("max_attempts: 3", &format!("max_attempts: {attempts}"))
        .replace("[trim, lower]", &format!("[{}]", normalize.join(", ")))
        .replace("guarantee: native", &format!("guarantee: {guarantee}"))
        .replace("    needs: [crm]\n", needs)
        .replace("  fields:", &time)
}

proptest! {
    #[test]
    fn no_value_changes_the_shape_of_a_request(id in hostile(), email in hostile(), company in hostile()) {
        let flows = flows(FLOW);
        let plain = request(&flows, "evt1", "ada@example.com", "Analytical Engines").expect("it renders");
        // What would climb in the path is refused, and nothing is sent at all.
        let Ok(request) = request(&flows, &id, &email, &company) else { return Ok(()) };
        prop_assert_eq!(shape(&request), shape(&plain));
    }

    #[test]
    fn different_fields_never_share_a_key(one: [String; 2], other: [String; 2]) {
        prop_assert_eq!(one == other, key_of(&one) == key_of(&other));
    }

    #[test]
    fn fields_that_only_join_alike_never_share_a_key(text in ".{1,12}", cut in any::<prop::sample::Index>(), again in any::<prop::sample::Index>()) {
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let split = |at: usize| [text[..at].to_owned(), text[at..].to_owned()];
        let (one, other) = (split(*cut.get(&cuts)), split(*again.get(&cuts)));
        prop_assert_eq!(one == other, key_of(&one) == key_of(&other));
    }

    #[test]
    fn a_flow_that_is_written_and_read_again_is_the_same(
        ttl in 3600u64..200_000,
        attempts in 1u32..8,
        normalize in prop::sample::subsequence(vec!["trim", "lower", "sha256"], 0..=3),
        guarantee in prop::sample::select(vec!["native", "none"]),
        needs in any::<Option<bool>>(),
        time in prop::sample::select(TIMES.to_vec()),
    ) {
        let first = flows(&variant(ttl, attempts, &normalize, guarantee, needs, time));
        let written = serde_json::to_string(leads(&first)).expect("it can be written");
        let second = flows(&written);
        prop_assert_eq!(format!("{:?}", leads(&first)), format!("{:?}", leads(&second)));
    }
}
