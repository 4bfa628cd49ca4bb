//! Whatever API Gateway hands over, the intake answers for it, and stores only what was signed.

use aws_lambda_events::apigw::ApiGatewayV2httpRequest;
use bolero::check;
use serde_json::{Value, json};

use super::payload::Spoiled;
use super::{Arena, each};
use crate::fixtures::{lead, lead_of, root};
use crate::memory::{BATCH, HEAD, HttpRequest, RECEIPT, RECEIPTS_TOKEN, TYPED, TYPED_HEAD};

const WORDS: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\"isBase64Encoded\": true,",
    "\\u0000",
    "\\ud83e",
    "1e999",
    "-1",
    "POST /v1/events/{source}/batch",
    "POST /v1/events/{source}/{type+}",
    "GET /v1/receipts/{id}",
    "GET /v1/events/{source}",
    "GET /v1/events/{source}/{type+}",
    HEAD,
    TYPED_HEAD,
    "../",
    "web-forms",
    "application/cloudevents+json",
    "application/x-www-form-urlencoded",
    "text/plain",
    "content-type",
    "webhook-id",
    "authorization",
    "idempotency-key",
    "traceparent",
    "00-00000000000000000000000000000000-0000000000000000-00",
    "lead.created",
    "Bearer web-forms.",
    "ce-specversion",
    "svix-id",
    "svix-signature",
    "multiValueHeaders",
];

/// Genuine requests of every route, as API Gateway writes them.
fn seeds(arena: &Arena) -> Vec<String> {
    let lead = lead().to_string();
    let batch = Value::from(vec![lead_of("evt_1", "ada@example.com")]).to_string();
    let bearer = format!("Bearer {RECEIPTS_TOKEN}");
    let requests = [
        HttpRequest::of(&arena.world, lead.as_bytes()),
        HttpRequest::of(&arena.world, lead.as_bytes()).in_base64(lead.as_bytes()),
        HttpRequest::of(&arena.world, lead.as_bytes()).to(TYPED, "type", "lead.created"),
        HttpRequest::of(&arena.world, batch.as_bytes()).to(BATCH, "source", "web-forms"),
        HttpRequest::of(&arena.world, b"").to(RECEIPT, "id", "0").with("authorization", &bearer),
    ];
    let fixture = std::fs::read_to_string(root().join("events/http/request.json")).expect("a fixture");
    requests.into_iter().map(|request| request.json().to_string()).chain([fixture]).collect()
}

/// The people of the genuine requests: a spoiled one may repeat them, and nobody else can be admitted.
const SIGNED: [&str; 2] = ["Ada.Lovelace@example.com", "ada@example.com"];

#[test]
fn target() {
    let arena = Arena::new();
    let seeds = seeds(&arena);
    each(check!(), |spoiled: &Spoiled| {
        // What is no event for the runtime never reaches the intake.
        let Ok(request) = serde_json::from_slice::<ApiGatewayV2httpRequest>(&spoiled.bytes(&seeds, WORDS)) else {
            return;
        };
        let before = arena.stored();
        let asks = request.route_key.as_deref().is_some_and(|route| [HEAD, TYPED_HEAD].contains(&route));
        let response = arena.runtime.block_on(intake::handle(&arena.world.intake, request));
        let answer = serde_json::to_value(response).expect("an answer is JSON");
        let text = answer["body"].as_str().expect("a body");
        if asks {
            assert_eq!((text, arena.stored()), ("", before), "a question without an answer");
            return;
        }
        let body: Value = serde_json::from_str(text).expect("a JSON body");
        let status = answer["statusCode"].as_i64().expect("a status");

        assert!((200..500).contains(&status), "{status}: {body}");
        if status >= 300 {
            assert_eq!(answer["headers"]["content-type"], json!("application/problem+json"));
            assert_eq!(body["status"], json!(status));
            assert_eq!(arena.stored(), before, "refused, and stored");
        }
        for message in arena.take_messages() {
            assert!(SIGNED.iter().any(|email| message.contains(email)), "nobody signed {message}");
        }
    });
}
