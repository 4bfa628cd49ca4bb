//! Malformed, hostile and borderline requests: what each is answered, and that it changes nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::machine::Clock;
use shared::flows::{File, Flows};
use shared::ledger::State;

use super::http::{BATCH, EVENT, HttpRequest, RECEIPT, TYPED};
use super::world::{RECEIPTS_TOKEN, World};
use crate::fixtures::{files, lead};

/// A lead with one place changed.
fn lead_with(pointer: &str, value: Value) -> Vec<u8> {
    let mut lead = lead();
    *lead.pointer_mut(pointer).expect("a place in the lead") = value;
    lead.to_string().into_bytes()
}

fn lead_without(field: &str) -> Vec<u8> {
    let mut lead = lead();
    lead["data"].as_object_mut().expect("an object").remove(field);
    lead.to_string().into_bytes()
}

#[tokio::test]
async fn each_is_answered_clearly_and_changes_nothing() {
    let world = World::new();
    let mut cases = signatures(&world);
    cases.extend(addresses_and_sizes(&world));
    cases.extend(bodies(&world));
    cases.extend(events(&world));
    cases.extend(envelopes(&world));
    cases.extend(receipts(&world));
    assert!(cases.len() >= 60, "{}", cases.len());
    for (name, request, status, problem) in cases {
        let answer = request.send(&world).await;
        assert_eq!((answer.status, answer.problem()), (status, problem), "{name}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{name}");
        assert_eq!(answer.body["trace_id"].as_str().map(str::len), Some(32), "{name}");
        if problem == "type-mismatch" {
            assert_eq!(answer.body["errors"], json!([{"pointer": "/type", "rule": "path"}]), "{name}");
        }
    }
    assert_eq!(world.ledger.writes(), 0, "the ledger is untouched");
    assert_eq!(world.events.depth(), 0, "the queue is untouched");
}

type Case = (&'static str, HttpRequest, i64, &'static str);

fn signatures(world: &World) -> Vec<Case> {
    let lead = lead().to_string();
    let good = || HttpRequest::of(world, lead.as_bytes());
    let now = world.clock.now().secs();
    let at = |timestamp: i64| HttpRequest::at(lead.as_bytes(), timestamp);
    let other = HttpRequest::of(world, b"{}").headers.pop().expect("a signature").1;
    let many = vec!["v1,AAAA"; 5000].join(" ");
    let cases = vec![
        ("no signature", good().without("webhook-signature")),
        ("an empty signature", good().with("webhook-signature", "")),
        ("a garbage signature", good().with("webhook-signature", "v1,///")),
        ("another body's signature", good().with("webhook-signature", &other)),
        ("an unknown version", good().with("webhook-signature", &other.replace("v1,", "v2,"))),
        ("no version", good().with("webhook-signature", &other[3..])),
        ("thousands of signatures", good().with("webhook-signature", &many)),
        ("no id", good().without("webhook-id")),
        ("another id", good().with("webhook-id", "msg_2")),
        ("no timestamp", good().without("webhook-timestamp")),
        ("another timestamp", good().with("webhook-timestamp", &(now + 1).to_string())),
        ("a timestamp in words", good().with("webhook-timestamp", "now")),
        ("a negative timestamp", at(-now)),
        ("a timestamp out of range", good().with("webhook-timestamp", "99999999999999999999")),
        ("the last timestamp of all", good().with("webhook-timestamp", &i64::MAX.to_string())),
        ("stale", at(now - 301)),
        ("from the future", at(now + 301)),
        ("a body changed on its way", HttpRequest { body: json!(lead.replace("Ada", "Eve")), ..good() }),
        ("a body with one more space", HttpRequest { body: json!(format!("{lead} ")), ..good() }),
        ("no body under a good signature", HttpRequest { body: Value::Null, ..good() }),
    ];
    cases.into_iter().map(|(name, request)| (name, request, 401, "bad-signature")).collect()
}

fn addresses_and_sizes(world: &World) -> Vec<Case> {
    let lead = lead().to_string();
    let good = || HttpRequest::of(world, lead.as_bytes());
    let spaces = |n: usize| HttpRequest::of(world, " ".repeat(n).as_bytes());
    vec![
        ("an unknown source", good().to(EVENT, "source", "nobody"), 404, "unknown-source"),
        ("a source that climbs", good().to(EVENT, "source", "../web-forms"), 404, "unknown-source"),
        ("no source", good().to(EVENT, "source", ""), 404, "unknown-source"),
        ("a source in capitals", good().to(EVENT, "source", "WEB-FORMS"), 404, "unknown-source"),
        ("one byte too many", spaces(128 * 1024 + 1), 413, "too-large"),
        ("as large as may be, and empty", spaces(128 * 1024), 400, "malformed"),
        ("six megabytes", spaces(6 * 1024 * 1024), 413, "too-large"),
        ("no content type", good().without("content-type"), 415, "unsupported-media-type"),
        ("text", good().with("content-type", "text/plain"), 415, "unsupported-media-type"),
        ("XML", good().with("content-type", "application/xml"), 415, "unsupported-media-type"),
        ("a picture", good().with("content-type", "image/svg+xml"), 415, "unsupported-media-type"),
        ("parts", good().with("content-type", "multipart/form-data; boundary=x"), 415, "unsupported-media-type"),
        (
            "a form from a source that sends none",
            good().with("content-type", "application/x-www-form-urlencoded").in_base64(lead.as_bytes()),
            415,
            "unsupported-media-type",
        ),
    ]
}

fn bodies(world: &World) -> Vec<Case> {
    let of = |body: &[u8]| HttpRequest::of(world, body).in_base64(body);
    let good = || HttpRequest::of(world, b"{}");
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let twice = lead().to_string().replacen("{", r#"{"type":"x","#, 1);
    let cases = vec![
        ("nothing", of(b"")),
        ("white space", of(b" \n\t ")),
        ("half an object", of(b"{\"type\": ")),
        ("two values", of(b"{} {}")),
        ("a comment", of(b"{} // done")),
        ("a trailing comma", of(b"{\"a\": 1,}")),
        ("invalid UTF-8", of(b"{\"type\": \"\xff\xfe\"}")),
        ("half a surrogate pair", of(br#"{"type": "\ud800"}"#)),
        ("a byte order mark", of(b"\xef\xbb\xbf{}")),
        ("UTF-16", of(b"\xff\xfe{\x00}\x00")),
        ("nested ten thousand deep", of(deep.as_bytes())),
        ("a field twice", of(twice.as_bytes())),
        ("a number beyond f64", of(br#"{"type": 1e400}"#)),
        ("not a number", of(br#"{"type": NaN}"#)),
        ("base64 that is none", HttpRequest { body: json!("***"), base64: true, ..good() }),
    ];
    cases.into_iter().map(|(name, request)| (name, request, 400, "malformed")).collect()
}

fn events(world: &World) -> Vec<Case> {
    let of = |body: &[u8]| HttpRequest::of(world, body);
    vec![
        ("a list", of(b"[]"), 422, "unknown-type"),
        ("a text", of(b"\"lead.created\""), 422, "unknown-type"),
        ("null", of(b"null"), 422, "unknown-type"),
        ("no type", of(b"{}"), 422, "unknown-type"),
        ("a type that is no text", of(&lead_with("/type", json!(["lead.created"]))), 422, "unknown-type"),
        ("another type", of(&lead_with("/type", json!("lead.deleted"))), 422, "unknown-type"),
        ("a type in capitals", of(&lead_with("/type", json!("LEAD.CREATED"))), 422, "unknown-type"),
        ("another type by path", of(&lead_with("/type", json!("x"))).to(TYPED, "type", "y"), 422, "type-mismatch"),
        (
            "our type by path, another signed",
            of(&lead_with("/type", json!("x"))).to(TYPED, "type", "lead.created"),
            422,
            "type-mismatch",
        ),
        (
            "our type signed, another by path",
            of(lead().to_string().as_bytes()).to(TYPED, "type", "x"),
            422,
            "type-mismatch",
        ),
        ("a type by header", of(&lead_with("/type", json!("x"))).with("ce-type", "lead.created"), 422, "unknown-type"),
        ("no data", of(&lead_with("/data", json!(null))), 422, "invalid-event"),
        ("no email", of(&lead_without("email")), 422, "invalid-event"),
        ("no id", of(&lead_without("event_id")), 422, "invalid-event"),
        ("an empty id", of(&lead_with("/data/event_id", json!(""))), 422, "invalid-event"),
        ("a number for an id", of(&lead_with("/data/event_id", json!(7))), 422, "invalid-event"),
        ("an email that is none", of(&lead_with("/data/email", json!("ada"))), 422, "invalid-event"),
        ("an email that is an object", of(&lead_with("/data/email", json!({"$ne": ""}))), 422, "invalid-event"),
        ("a name without end", of(&lead_with("/data/first_name", json!("x".repeat(101)))), 422, "invalid-event"),
    ]
}

fn envelopes(world: &World) -> Vec<Case> {
    let batch = |body: &str| HttpRequest::of(world, body.as_bytes()).to(BATCH, "source", "web-forms");
    let long = Value::from(vec![lead(); 101]).to_string();
    vec![
        (
            "a CloudEvent whose type only a header names",
            HttpRequest::of(world, b"{}").with("ce-specversion", "1.0").with("ce-type", "lead.created"),
            422,
            "unknown-type",
        ),
        ("a batch that is no list", batch("{}"), 400, "not-a-batch"),
        ("a batch of nothing", batch("[]"), 400, "not-a-batch"),
        ("a batch that is too long", batch(&long), 400, "not-a-batch"),
        ("a batch that is no JSON", batch("[{]"), 400, "not-a-batch"),
        ("an unsigned batch", batch("[]").without("webhook-signature"), 401, "bad-signature"),
    ]
}

fn receipts(world: &World) -> Vec<Case> {
    let id = "0".repeat(64);
    let ask = |id: &str| HttpRequest::of(world, b"").to(RECEIPT, "id", id);
    let bearer = |token: &str| ask(&id).with("authorization", &format!("Bearer {token}"));
    let close = format!("{}x", &RECEIPTS_TOKEN[..RECEIPTS_TOKEN.len() - 1]);
    vec![
        ("a receipt without a token", ask(&id), 401, "unauthorized"),
        ("a receipt by password", ask(&id).with("authorization", "Basic d2ViOmZvcm1z"), 401, "unauthorized"),
        ("a receipt with an empty token", bearer(""), 401, "unauthorized"),
        ("a receipt with a close token", bearer(&close), 401, "unauthorized"),
        ("a receipt with the token's start", bearer("web-forms."), 401, "unauthorized"),
        ("a receipt for nobody", bearer("nobody.8e03978e40d5"), 401, "unauthorized"),
        ("a receipt that is not there", bearer(RECEIPTS_TOKEN), 404, "no-receipt"),
        ("a receipt of no id", ask("").with("authorization", &format!("Bearer {RECEIPTS_TOKEN}")), 404, "no-receipt"),
        (
            "a receipt of any length",
            ask(&"0".repeat(9000)).with("authorization", &format!("Bearer {RECEIPTS_TOKEN}")),
            404,
            "no-receipt",
        ),
    ]
}

/// One captured body is one event, whatever its thief writes into the headers that no scheme signs.
#[tokio::test]
async fn headers_that_are_not_signed_make_no_second_event_of_a_body() {
    let world = World::new();
    let body = lead().to_string();
    let captured = || HttpRequest::of(&world, body.as_bytes());
    let first = captured().send(&world).await;
    assert_eq!(first.status, 202, "{}", first.body);
    for headers in [
        &[("ce-specversion", "1.0"), ("ce-id", "forged"), ("ce-type", "lead.deleted"), ("ce-source", "/x")][..],
        &[("ce-specversion", "0.3")],
        &[("content-type", "application/cloudevents+json")],
        &[("content-type", "application/cloudevents-batch+json")],
        &[("content-type", "application/vnd.acme+json"), ("ce-specversion", "1.0")],
        &[("idempotency-key", "forged")],
        &[("x-event-type", "lead.deleted"), ("x-request-id", "forged")],
    ] {
        for request in [captured(), captured().to(TYPED, "type", "lead.created")] {
            let forged = headers.iter().fold(request, |request, (name, value)| request.with(name, value));
            let answer = forged.send(&world).await;
            assert_eq!((answer.status, &answer.body["id"]), (202, &first.body["id"]), "{headers:?}: {}", answer.body);
        }
    }
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1, "it is acted on once");
}

/// What reads as a form is not read as JSON, and the other way round.
#[tokio::test]
async fn a_content_type_makes_no_form_of_a_body() {
    let mut files = files();
    files[0].text = files[0].text.replacen("type_at: type\n", "type_at: type\n  form: payload\n", 1);
    let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    let hidden: String = form_urlencoded::byte_serialize(lead().to_string().as_bytes()).collect();
    let mut lead = lead();
    lead["data"]["first_name"] = json!(format!("&payload={hidden}&"));
    let body = lead.to_string();
    let json = HttpRequest::of(&world, body.as_bytes()).send(&world).await;
    assert_eq!((json.status, json.problem()), (415, "unsupported-media-type"), "{}", json.body);
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0), "nothing is admitted");
}

/// The plain flow, with two places that may hold anything.
fn open_world() -> World {
    open_world_of(|sources| sources)
}

/// The same, with its sources changed.
fn open_world_of(sources: impl Fn(String) -> String) -> World {
    let mut files = files();
    files[0].text = sources(std::mem::take(&mut files[0].text));
    let files = files.into_iter().map(|file| {
        let text = file.text.replace("campaign: {type: string, maxLength: 100}", "campaign: {}\n        extra: {}");
        File { text, ..file }
    });
    let files: Vec<_> = files.collect();
    assert!(files.iter().any(|file| file.text.contains("extra: {}")), "the schema was not opened");
    World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

/// A lead with a place for any JSON.
fn lead_of_extra() -> Value {
    let mut lead = lead();
    lead["data"]["extra"] = json!("EXTRA");
    lead
}

/// The text of a value, with this JSON in its place, digit by digit.
fn with_extra(extra: &str, value: &Value) -> String {
    value.to_string().replace("\"EXTRA\"", extra)
}

fn lead_with_extra(extra: &str) -> Vec<u8> {
    with_extra(extra, &lead_of_extra()).into_bytes()
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

#[tokio::test]
async fn what_cannot_be_kept_as_it_is_gets_its_place_and_is_not_admitted() {
    let world = open_world();
    let numbers = format!("[{}0]", "1e15,".repeat(20_000));
    let too_deep = format!("/data/extra{}", "/0".repeat(62));
    for (name, extra, pointer, rule) in [
        ("an integer beyond 64 bits", "18446744073709551616", "/data/extra", "number"),
        ("a negative one", "[1, -9223372036854775809]", "/data/extra/1", "number"),
        ("more digits than a double holds", "[0.12345678901234567890]", "/data/extra/0", "number"),
        ("less than any double", "1e-400", "/data/extra", "number"),
        ("a character that the queue refuses", "\"a\u{fffe}b\"", "/data/extra", "character"),
        ("the same, escaped", r#"[["\uFFFF"]]"#, "/data/extra/0/0", "character"),
        ("one level too deep", &nested(63), &too_deep, "depth"),
        ("as deep as a parser goes", &nested(124), &too_deep, "depth"),
        ("numbers that grow when they are written again", &numbers, "", "size"),
    ] {
        let answer = HttpRequest::of(&world, &lead_with_extra(extra)).send(&world).await;
        assert_eq!((answer.status, answer.problem()), (422, "invalid-event"), "{name}: {}", answer.body);
        assert_eq!(answer.body["errors"], json!([{"pointer": pointer, "rule": rule}]), "{name}");
    }
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0), "nothing is admitted");
}

/// In a batch and in a CloudEvent's base64, the place is told as seen from the event.
#[tokio::test]
async fn a_place_is_told_as_seen_from_its_own_event() {
    let world = open_world();
    let bad = with_extra("18446744073709551616", &lead_of_extra());
    let batch = format!("[{}, {bad}]", lead());
    let answer = HttpRequest::of(&world, batch.as_bytes()).to(BATCH, "source", "web-forms").send(&world).await;
    assert_eq!(answer.status, 207, "{}", answer.body);
    assert_eq!(answer.body["results"][0]["http_status"], 202, "its neighbour is accepted");
    assert_eq!(answer.body["results"][1]["errors"], json!([{"pointer": "/data/extra", "rule": "number"}]));

    let world =
        open_world_of(|sources| sources.replacen("type_at: type\n", "type_at: type\n  envelope: cloudevents\n", 1));
    let too_deep = format!("/data/extra{}", "/0".repeat(62));
    for (extra, pointer, rule) in [
        ("18446744073709551616", "/data/extra", "number"),
        (&nested(63), &too_deep, "depth"),
        ("\"\u{fffe}\"", "/data/extra", "character"),
    ] {
        let data = STANDARD.encode(with_extra(extra, &lead_of_extra()["data"]));
        let event =
            json!({"specversion": "1.0", "id": "1", "source": "/s", "type": "lead.created", "data_base64": data});
        let answer = HttpRequest::of(&world, event.to_string().as_bytes()).send(&world).await;
        assert_eq!(answer.body["errors"], json!([{"pointer": pointer, "rule": rule}]), "{}", answer.body);
    }
}

/// A field that no schema lists is dropped, whatever it holds.
#[tokio::test]
async fn what_is_dropped_may_hold_anything() {
    let world = World::new();
    let answer = HttpRequest::of(&world, &lead_with_extra("[18446744073709551616, \"\u{ffff}\"]")).send(&world).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
}

/// What is at the bounds is accepted, and worked on.
#[tokio::test]
async fn what_was_accepted_can_be_worked_on() {
    for extra in [nested(62), "[1e15, 1E2, -0, 0.1, 25.0, 18446744073709551615, \"\u{10ffff}\u{fffd}\\u0000\"]".into()]
    {
        let world = open_world();
        let answer = HttpRequest::of(&world, &lead_with_extra(&extra)).send(&world).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        world.drain().await;
        let id = EventId::named(answer.body["id"].as_str().expect("an id"));
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{extra}");
    }
}
