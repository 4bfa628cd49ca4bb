//! Whatever a genuine sender wraps its event in, what is accepted is what was sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bolero::{TypeGenerator, check};
use serde_json::{Value, json};
use shared::arrival::event::Event;

use super::payload::Spoiled;
use super::{Arena, each};
use crate::fixtures::lead;
use crate::memory::{BATCH, EVENT, HttpAnswer, HttpRequest, TYPED};

/// A spoiled body, signed as it is, under one of the forms and routes.
#[derive(Clone, Debug, TypeGenerator)]
struct Envelope {
    body: Spoiled,
    form: u8,
    route: u8,
    binary: bool,
}

const FORMS: [&str; 5] = [
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/x-www-form-urlencoded",
    "application/vnd.acme+json; charset=utf-8",
];

const WORDS: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-0",
    "1e15",
    "1E400",
    "18446744073709551615",
    "0.1",
    "\"type\":\"x\",",
    "\"data_base64\":\"e30=\",",
    "\"data\":{},",
    "\"specversion\":\"1.0\",",
    "\"specversion\":\"0.3\",",
    "payload=",
    "&payload=%7B%7D",
    "%",
    "%00",
    "+",
    "\\u0000",
    "\\ud800",
    "\\ud83e\\udd84",
    "lead.created",
    "\u{feff}",
    "[",
    "]",
    "evt_2",
    "@",
    "\"event_id\":\"evt_9\",",
];

fn seeds() -> Vec<String> {
    let lead = lead();
    let mut event = json!({"specversion": "1.0", "id": "1", "source": "/forms", "type": "lead.created"});
    let mut encoded = event.clone();
    encoded["data_base64"] = json!(STANDARD.encode(lead["data"].to_string()));
    event["data"] = lead["data"].clone();
    let form: String =
        form_urlencoded::Serializer::new(String::new()).append_pair("payload", &lead.to_string()).finish();
    let batches = [json!([lead]), json!([event, event])].map(|batch| batch.to_string());
    [lead.to_string(), event.to_string(), encoded.to_string(), form, lead["data"].to_string()]
        .into_iter()
        .chain(batches)
        .collect()
}

impl Envelope {
    fn request(&self, arena: &Arena, body: &[u8]) -> HttpRequest {
        let request = HttpRequest::of(&arena.world, body)
            .in_base64(body)
            .with("content-type", FORMS[usize::from(self.form) % FORMS.len()]);
        let request = if self.binary { request.with("ce-specversion", "1.0") } else { request };
        match self.route % 4 {
            0 => request.to(BATCH, "source", "web-forms"),
            1 => request.to(TYPED, "type", "lead.created"),
            _ => request.to(EVENT, "source", "web-forms"),
        }
    }
}

/// Every leaf of the event stands in what was sent, byte for byte or in base64.
fn assert_sent(payload: &Value, sent: &[u8]) {
    let decoded = form_urlencoded::parse(sent).map(|(_, value)| value.into_owned()).collect::<Vec<_>>();
    let texts = decoded.iter().filter_map(|text| serde_json::from_str(text).ok());
    let sent: Vec<Value> = serde_json::from_slice(sent).into_iter().chain(texts).collect();
    let mut known = Vec::new();
    sent.iter().for_each(|value| leaves(value, &mut known));
    let mut found = Vec::new();
    leaves(payload, &mut found);
    let unknown: Vec<_> = found.iter().filter(|leaf| !known.contains(leaf) && **leaf != "lead.created").collect();
    assert!(unknown.is_empty(), "nobody sent {unknown:?}");
}

fn leaves(value: &Value, into: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Value::Object(fields) => {
            let data = fields.get("data_base64").and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok());
            let inner = data.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            inner.iter().chain(fields.values()).for_each(|field| leaves(field, into));
        }
        leaf => into.push(leaf.clone()),
    }
}

/// The statuses of the events of an answer, and their ids.
fn results(answer: &HttpAnswer) -> Vec<(i64, Value)> {
    match answer.body["results"].as_array() {
        Some(items) => {
            items.iter().map(|item| (item["http_status"].as_i64().unwrap_or(0), item["id"].clone())).collect()
        }
        None => vec![(answer.status, answer.body["id"].clone())],
    }
}

#[test]
fn target() {
    let arena = Arena::new();
    let seeds = seeds();
    each(check!(), |envelope: &Envelope| {
        let body = envelope.body.bytes(&seeds, WORDS);
        let before = arena.stored();
        let answer = arena.runtime.block_on(envelope.request(&arena, &body).send(&arena.world));
        let results = results(&answer);
        assert!(results.iter().all(|(status, _)| (200..500).contains(status)), "{}", answer.body);
        if results.iter().all(|(status, _)| *status != 202) {
            assert_eq!(arena.stored(), before, "refused, and stored");
            return;
        }

        for message in arena.take_messages() {
            let event: Event = serde_json::from_str(&message).expect("an event");
            assert_eq!(serde_json::to_string(&event).expect("JSON"), message, "it does not round-trip");
            assert_sent(&event.payload, &body);
        }
        let again = arena.runtime.block_on(envelope.request(&arena, &body).send(&arena.world));
        assert_eq!(results, self::results(&again), "the same delivery, another answer");
        arena.take_messages();
    });
}
