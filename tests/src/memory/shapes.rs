//! What senders send that is not one JSON event of one flow: handshakes, lists of events, forms, types with slashes, and one
//! event for several flows.

use serde_json::{Value, json};
use shared::arrival::signature::{Secret, Unsigned, new_secret, receivers_secret, sign_request};
use shared::base::machine::Clock;
use shared::flows::catalog::Shelf;
use shared::flows::{File, Flows};

use super::http::{BATCH, EVENT, HANDSHAKE, HEAD, HttpAnswer, HttpRequest, TYPED, TYPED_HANDSHAKE, TYPED_HEAD};
use super::world::World;
use crate::fixtures::{payload, root, sender};

const FLOW: &str = "version: 1
schema: {type: object, required: [id], properties: {id: {type: [string, integer]}, note: {type: string}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 24h
effects: [{id: crm, integration: crm, guarantee: idempotent, request: {method: PUT, path: /a}}]
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}
";

/// A world with sources, each using its sender of the catalogue, and flows of them.
pub(super) fn world(sources: &[(&str, &str)], flows: &[(&str, String)]) -> World {
    let file = |path: String, text: String| File { path, text };
    let own = |(name, more): &(&str, &str)| {
        let rate = if more.contains("rate: ") { "" } else { ", rate: 1000/s" };
        format!("{name}: {{uses: {name}, max_body: 64KiB{rate}{more}}}\n")
    };
    let mut files = vec![
        file("sources.yaml".into(), sources.iter().map(own).collect()),
        file("integrations.yaml".into(), "crm: {base_url: https://crm.example.com, timeout: 2s}".into()),
    ];
    for (name, _) in sources {
        let path = Shelf::Sources.path(name);
        let text = std::fs::read_to_string(root().join("infra/flows").join(&path)).expect("the catalogue has it");
        files.push(file(path, text));
    }
    files.extend(flows.iter().map(|(name, text)| file(format!("flows/{name}.yaml"), format!("name: {name}\n{text}"))));
    let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    for (name, _) in sources {
        let scheme = sender(name).scheme;
        let kept = receivers_secret(&scheme, &secret(name)).expect("a secret");
        world.secrets.put(&format!("sources/{name}"), kept.expose());
        world.secrets.put(&format!("handshakes/{name}"), TOKEN);
    }
    world
}

pub(super) const TOKEN: &str = "meaty ham/hock";

fn secret(name: &str) -> Secret {
    new_secret(&sender(name).scheme, &[7; 32])
}

/// A flow of this type, with the fields of a plain event.
pub(super) fn flow(source: &str, event_type: &str) -> String {
    format!("on: {{source: {source}, type: {event_type}}}\n{FLOW}")
}

/// The shipped flow of leads, calling a partner of these tests.
fn leads() -> String {
    let text = std::fs::read_to_string(root().join("infra/flows/flows/meta-leads.yaml")).expect("the flow");
    let (_, text) = text.split_once("name: meta-leads\n").expect("its name");
    let (head, _) = text.split_once("effects:\n").expect("its effects");
    let (_, effects) = FLOW.split_once("effects: ").expect("the effects of these tests");
    format!("{head}effects: {effects}")
}

/// The address that the fixture of a request names.
const HOST: &str = "https://r3pmxmplak.execute-api.us-east-2.amazonaws.com";

/// A body as a sender of the catalogue signs and posts it to this address.
pub(super) fn posted(world: &World, source: &str, event_type: Option<&str>, body: &[u8]) -> HttpRequest {
    let path = event_type.map(|name| format!("/{name}")).unwrap_or_default();
    let path = format!("/v1/events/{source}{path}");
    let url = format!("{HOST}{path}");
    let sent_by = sender(source);
    let unsigned = Unsigned { id: "msg_1", at: world.clock.now(), url: &url, body };
    let signed = sign_request(&sent_by.scheme, &secret(source), unsigned).expect("a good secret");
    let content_type = if sent_by.posts_forms() { "application/x-www-form-urlencoded" } else { "application/json" };
    let bare = HttpRequest { headers: vec![("content-type".into(), content_type.into())], ..HttpRequest::at(b"", 0) };
    let bare = bare.in_base64(&signed.body).to(EVENT, "source", source);
    let typed = match event_type {
        Some(name) => bare.to(TYPED, "type", name),
        None => bare,
    };
    let query = signed.url.split_once('?').map_or("", |(_, query)| query);
    let headers = signed.headers.iter();
    headers.fold(typed.called(&path, query), |request, (name, value)| request.with(&name.to_lowercase(), value))
}

async fn answer(world: &World, source: &str, event_type: Option<&str>, body: &Value) -> HttpAnswer {
    posted(world, source, event_type, body.to_string().as_bytes()).send(world).await
}

pub(super) fn asked(source: &str, query: &str) -> HttpRequest {
    let bare = HttpRequest { headers: Vec::new(), ..HttpRequest::at(b"", 0) };
    HttpRequest { body: Value::Null, ..bare }.to(HANDSHAKE, "source", source).called("/v1/events/x", query)
}

pub(super) fn unchanged(world: &World) {
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0), "nothing was stored");
}

#[tokio::test]
async fn metas_handshake_is_answered_with_its_challenge_as_text() {
    let world = world(&[("meta", "")], &[]);
    let query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meaty+ham%2Fhock";
    let answer = asked("meta", query).send(&world).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(1_158_201_444)));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    unchanged(&world);
}

/// Meta and Intercom are given one address, and one whose path names a type is asked first, too.
#[tokio::test]
async fn a_handshake_is_answered_where_the_path_names_a_type() {
    let world = world(&[("meta", ""), ("intercom", "")], &[("messages", flow("meta", "messages"))]);
    let query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meaty+ham%2Fhock";
    let typed = |query: &str| asked("meta", query).to(TYPED_HANDSHAKE, "type", "messages");
    let answer = typed(query).send(&world).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(1_158_201_444)));
    assert_eq!(typed(&query.replace("hock", "hocks")).send(&world).await.problem(), "bad-handshake");
    let head = |source: &str| HttpRequest { body: Value::Null, ..asked(source, "") }.to(TYPED_HEAD, "type", "a/b");
    for (source, status) in [("intercom", 200), ("meta", 404)] {
        let raw = head(source).raw(&world).await;
        assert_eq!((raw["statusCode"].as_i64(), raw["body"].as_str()), (Some(status), Some("")), "{source}");
    }
    unchanged(&world);
}

#[tokio::test]
async fn a_sender_that_asks_whether_anybody_is_there_is_told_nothing_but_that() {
    let world = world(&[("intercom", ""), ("meta", ""), ("stripe", "")], &[]);
    let head = |source: &str| HttpRequest { body: Value::Null, ..asked(source, "a=c4n4ry") }.to(HEAD, "source", source);
    for (source, status) in [("intercom", 200), ("meta", 404), ("stripe", 404), ("nobody", 404), ("", 404)] {
        let raw = head(source).with("x-canary", CANARY).raw(&world).await;
        assert_eq!((raw["statusCode"].as_i64(), raw["body"].as_str()), (Some(status), Some("")), "{source}");
        assert!(!raw.to_string().contains(CANARY), "{source}");
    }
    assert_eq!(asked("intercom", "").send(&world).await.problem(), "unknown-source", "a GET is another question");
    unchanged(&world);
}

#[tokio::test]
async fn slacks_handshake_is_signed_and_answered_with_its_challenge() {
    let world = world(&[("slack", "")], &[("mention", flow("slack", "app_mention"))]);
    let body = json!({"token": "x", "challenge": "3eZbrw1aB10FEMAGAZd4FyFQ", "type": "url_verification"});
    let request = posted(&world, "slack", None, body.to_string().as_bytes());
    let raw = request.clone().raw(&world).await;
    assert_eq!((raw["statusCode"].as_i64(), raw["body"].as_str()), (Some(200), Some("3eZbrw1aB10FEMAGAZd4FyFQ")));
    assert_eq!(request.with("x-slack-signature", "v0=00").send(&world).await.problem(), "bad-signature");
    unchanged(&world);
}

/// Two leads and something that no flow takes, in one delivery.
#[tokio::test]
async fn each_event_of_a_delivery_is_its_own_and_a_repetition_harms_none() {
    let world = world(&[("meta", "")], &[("meta-leads", leads())]);
    let delivery = payload("meta-leads.json");
    let first = answer(&world, "meta", None, &delivery).await;
    assert_eq!(first.status, 200, "Meta wants 200: {}", first.body);
    let statuses: Vec<_> = (0..3).map(|at| first.body["results"][at]["status"].as_str().unwrap_or_default()).collect();
    assert_eq!(statuses, ["accepted", "accepted", "ignored"]);
    assert_ne!(first.body["results"][0]["id"], first.body["results"][1]["id"]);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 2);

    let again = answer(&world, "meta", None, &delivery).await;
    assert_eq!(again.status, 200);
    assert!((0..2).all(|at| again.body["results"][at]["replayed"] == true
        && again.body["results"][at]["id"] == first.body["results"][at]["id"]));
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 2, "all again, without harm");
}

/// One change of a delivery of Meta's.
fn lead() -> Value {
    json!({"field": "leadgen", "value": {"leadgen_id": "1", "form_id": "2"}})
}

/// A page's app gets leads and messages at its one address, in one delivery or in two.
#[tokio::test]
async fn an_entry_without_changes_loses_no_lead_beside_it() {
    let world = world(&[("meta", "")], &[("meta-leads", leads())]);
    let (leads, messages) = (json!({"id": 1, "changes": [lead()]}), json!({"id": 1, "messaging": [{"text": CANARY}]}));
    for entries in [json!([leads, messages]), json!([messages, leads])] {
        let mixed = answer(&world, "meta", None, &json!({"object": "page", "entry": entries})).await;
        let results = mixed.body["results"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!((mixed.status, results.len()), (200, 1), "{}", mixed.body);
        assert_eq!(results[0]["status"], "accepted");
    }
    assert_eq!(world.ledger.rows().len(), 1);
    let rows = world.ledger.writes();
    for entries in [json!([messages]), json!([{"id": 1, "changes": []}]), json!([{"changes": null}]), json!([])] {
        let delivery = json!({"object": "page", "entry": entries});
        let other = answer(&world, "meta", None, &delivery).await;
        assert_eq!((other.status, &other.body), (200, &json!({"status": "ignored"})), "{delivery}");
    }
    assert_eq!(world.ledger.writes(), rows, "nothing more was stored");
}

/// A source that does not let other types go by is told of what it holds besides: nobody here knows what it was.
#[tokio::test]
async fn an_entry_without_changes_is_rejected_alone_where_others_are_not_ignored() {
    let world = world(&[("meta", ", other_types: reject")], &[("meta-leads", leads())]);
    let delivery = |entries: Value| json!({"object": "page", "entry": entries});
    let (leads, messages) = (json!({"changes": [lead()]}), json!({"messaging": [{"text": CANARY}]}));
    for entries in [json!([messages]), json!([{"changes": []}]), json!([])] {
        let refused = answer(&world, "meta", None, &delivery(entries)).await;
        assert_eq!((refused.status, refused.problem()), (422, "no-events"), "{}", refused.body);
    }
    unchanged(&world);
    let mixed = answer(&world, "meta", None, &delivery(json!([messages, leads]))).await;
    assert_eq!((mixed.status, mixed.problem()), (422, "no-events"), "{}", mixed.body);
    assert_eq!(mixed.body["results"][0]["type"], "urn:ledgerline:problem:no-events");
    assert_eq!(mixed.body["results"][1]["status"], "accepted");
    assert!(!mixed.body.to_string().contains(CANARY));
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1, "the lead is acted on");
}

/// A sender that reads nothing but the status has to send all again, so that nothing is lost.
#[tokio::test]
async fn a_delivery_is_a_success_only_if_all_of_it_is_accepted() {
    let world = world(&[("sendgrid", "")], &[("bounces", flow("sendgrid", "bounce").replace("[id]", "[id, note]"))]);
    let event =
        |id: u64, note: Option<&str>| json!({"event": "bounce", "id": id, "note": note.unwrap_or_default(), "at": 1});
    let (good, mut bad) = (event(1, Some("x")), event(2, None));
    bad.as_object_mut().expect("an object").remove("note");
    let refused = answer(&world, "sendgrid", None, &json!([good, bad])).await;
    assert_eq!((refused.status, refused.problem()), (422, "invalid-event"), "{}", refused.body);
    assert_eq!(refused.body["results"][0]["status"], "accepted");
    assert_eq!(refused.body["results"][1]["http_status"], 422);
    let repaired = answer(&world, "sendgrid", None, &json!([good, event(2, Some("y"))])).await;
    assert_eq!((repaired.status, repaired.body["results"][0]["replayed"].as_bool()), (202, Some(true)));
}

#[tokio::test]
async fn a_type_may_have_slashes_in_the_path_and_in_the_content() {
    let world = world(
        &[("shopify", ""), ("stripe", "")],
        &[("by-path", flow("shopify", "orders/paid")), ("by-content", flow("stripe", "orders/paid"))],
    );
    let by_path = answer(&world, "shopify", Some("orders/paid"), &json!({"id": 1})).await;
    let by_content = answer(&world, "stripe", None, &json!({"id": "evt_1", "type": "orders/paid"})).await;
    assert_eq!((by_path.status, by_content.status), (202, 202), "{} {}", by_path.body, by_content.body);
    for other in ["orders", "orders/paid/", "/orders/paid", "orders//paid", "ORDERS/PAID"] {
        let answer = answer(&world, "shopify", Some(other), &json!({"id": 1})).await;
        assert_eq!(answer.problem(), "unknown-type", "{other}");
    }
}

/// Shopify's topic stands in a header that nobody signed.
#[tokio::test]
async fn a_header_that_nobody_signed_chooses_nothing() {
    let world = world(
        &[("shopify", "")],
        &[("paid", flow("shopify", "orders/paid")), ("gone", flow("shopify", "orders/deleted"))],
    );
    let request =
        posted(&world, "shopify", Some("orders/paid"), br#"{"id": 1}"#).with("x-shopify-topic", "orders/deleted");
    let answer = request.send(&world).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(world.ledger.rows()[0].flow, "paid");
}

#[tokio::test]
async fn a_forms_fields_are_the_event_and_its_url_is_signed() {
    let text = flow("twilio", "sms")
        .replace("id: {type: [string, integer]}", "MessageSid: {type: string}")
        .replace("[id]", "[MessageSid]")
        .replace("order_by: id", "order_by: MessageSid");
    let world = world(&[("twilio", "")], &[("sms", text)]);
    let form = b"MessageSid=SM1&Body=Hi+there&To=%2B1555";
    let good = posted(&world, "twilio", Some("sms"), form);
    assert_eq!(good.clone().send(&world).await.status, 202);
    // What the sender called is not what a header says.
    let forged = good.clone().with("host", "evil.example.com").with("x-forwarded-host", "evil.example.com");
    assert_eq!(forged.send(&world).await.status, 202, "these headers are not read");
    assert_eq!(good.clone().called("/v1/events/twilio/other", "").send(&world).await.problem(), "bad-signature");
    assert_eq!(good.called("/v1/events/twilio/sms", "a=1").send(&world).await.problem(), "bad-signature");
}

/// Where a proxy or a custom domain stands before the API, the deployment says what senders call.
#[tokio::test]
async fn the_configured_url_is_the_one_that_a_signature_must_be_over() {
    let mut world = world(&[("square", "")], &[("paid", flow("square", "payment.updated"))]);
    let body = json!({"id": 1, "type": "payment.updated"}).to_string();
    let request = posted(&world, "square", None, body.as_bytes());
    assert_eq!(request.clone().send(&world).await.status, 202);
    world.intake.public_url = Some("https://hooks.example.com/in".into());
    assert_eq!(request.clone().send(&world).await.problem(), "bad-signature", "signed for the API's own domain");
    let url = "https://hooks.example.com/in/v1/events/square";
    let unsigned = Unsigned { id: "", at: world.clock.now(), url, body: body.as_bytes() };
    let signed = sign_request(&sender("square").scheme, &secret("square"), unsigned).expect("a good secret");
    let again = request.with("x-square-hmacsha256-signature", &signed.headers[0].1);
    assert_eq!(again.send(&world).await.status, 202);
}

#[tokio::test]
async fn one_event_goes_to_every_flow_that_takes_it() {
    let world = world(&[("stripe", "")], &[("crm", flow("stripe", "paid")), ("mail", flow("stripe", "paid"))]);
    let body = json!({"id": "evt_1", "type": "paid"});
    let first = answer(&world, "stripe", None, &body).await;
    assert_eq!(first.status, 202, "{}", first.body);
    let ids = ["crm", "mail"].map(|flow| first.body["flows"][flow]["id"].as_str().expect("an id").to_owned());
    assert_ne!(ids[0], ids[1]);
    assert_eq!(world.ledger.rows().len(), 2, "a row of its own for each");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 2);
    let again = answer(&world, "stripe", None, &body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(["crm", "mail"].map(|flow| again.body["flows"][flow]["id"].as_str().expect("an id").to_owned()), ids);
}

#[tokio::test]
async fn what_one_flow_rejects_no_flow_gets() {
    let strict = flow("stripe", "paid").replace("required: [id]", "required: [id, note]");
    let world = world(&[("stripe", "")], &[("crm", flow("stripe", "paid")), ("mail", strict)]);
    let refused = answer(&world, "stripe", None, &json!({"id": "evt_1", "type": "paid"})).await;
    assert_eq!((refused.status, refused.problem()), (422, "invalid-event"));
    unchanged(&world);
}

/// Senders on Svix may use the older names of the headers alone.
#[tokio::test]
async fn the_id_of_a_delivery_is_the_one_that_was_verified_under_whichever_name() {
    let by_id = flow("standard-webhooks", "paid").replace("fields: [id]", "fields: [$id]");
    let world = world(&[("standard-webhooks", "")], &[("paid", by_id)]);
    let request = |name: &str| {
        let mut request = posted(&world, "standard-webhooks", None, br#"{"id": 1, "type": "paid"}"#);
        for (header, _) in &mut request.headers {
            *header = header.replace("webhook-", name);
        }
        request
    };
    let (first, second) = (request("webhook-").send(&world).await, request("svix-").send(&world).await);
    assert_eq!((first.status, second.status), (202, 202), "{} {}", first.body, second.body);
    assert_eq!(second.body["id"], first.body["id"], "one delivery");
    // The other name is not read where the first one stands.
    let forged = request("webhook-").with("svix-id", "msg_2").send(&world).await;
    assert_eq!(forged.body["id"], first.body["id"]);
}

#[tokio::test]
async fn a_token_proves_its_sender_and_no_other_does() {
    let world = world(
        &[("token", ", type_at: type"), ("basic", ", type_at: type")],
        &[("by-token", flow("token", "a")), ("by-password", flow("basic", "a"))],
    );
    for source in ["token", "basic"] {
        let good = posted(&world, source, None, br#"{"id": 1, "type": "a"}"#);
        assert_eq!(good.clone().send(&world).await.status, 202, "{source}");
        for bad in ["", "Bearer", "Bearer ", "Basic ", "Basic dTpw", "bearer x", "Bearer whsec_"] {
            let answer = good.clone().with("authorization", bad).send(&world).await;
            assert_eq!(answer.problem(), "bad-signature", "{source}: {bad}");
        }
    }
}

/// One hostile request: what it is, and how it is answered.
type Case = (&'static str, HttpRequest, i64, &'static str);

#[tokio::test]
async fn hostile_handshakes_splits_and_forms_are_answered_clearly_and_change_nothing() {
    let form = flow("twilio", "sms").replace("id: {type: [string, integer]}", "MessageSid: {type: string}");
    let form = form.replace("[id]", "[MessageSid]").replace("order_by: id", "order_by: MessageSid");
    let world = world(
        &[("meta", ""), ("slack", ""), ("sendgrid", ""), ("twilio", ""), ("stripe", "")],
        &[
            ("leads", leads()),
            ("mention", flow("slack", "app_mention")),
            ("bounces", flow("sendgrid", "bounce")),
            ("sms", form),
            ("paid", flow("stripe", "paid")),
            ("paid-noted", flow("stripe", "paid").replace("required: [id]", "required: [id, note]")),
            ("paid-keyed", flow("stripe", "paid").replace("fields: [id]", "header: preferred, fields: [id]")),
        ],
    );
    let cases =
        handshakes(&world).into_iter().chain(splits(&world)).chain(forms(&world)).chain(of_several_flows(&world));
    let cases: Vec<Case> = cases.collect();
    assert!(cases.len() >= 60, "{}", cases.len());
    for (name, request, status, problem) in cases {
        let loud = ["x-request-id", "user-agent", "origin", "referer", "x-forwarded-host", "cookie"];
        let answer = loud.iter().fold(request, |request, name| request.with(name, CANARY)).send(&world).await;
        assert_eq!((answer.status, answer.problem()), (status, problem), "{name}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{name}");
        assert!(!format!("{answer:?}").contains(CANARY), "{name}: it is reflected");
    }
    unchanged(&world);
}

/// What must not come back.
const CANARY: &str = "c4n4ry";

fn handshakes(world: &World) -> Vec<Case> {
    let good = "hub.mode=subscribe&hub.challenge=c4n4ry&hub.verify_token=meaty+ham%2Fhock";
    let query = |query: &str| asked("meta", query);
    let token = |token: &str| query(&format!("hub.mode=subscribe&hub.challenge=c4n4ry&hub.verify_token={token}"));
    let challenge =
        |text: &str| query(&format!("hub.mode=subscribe&hub.verify_token=meaty+ham%2Fhock&hub.challenge={text}"));
    let long = "1".repeat(257);
    let slack = |body: Value| posted(world, "slack", None, body.to_string().as_bytes());
    let verification = |challenge: Value| json!({"type": "url_verification", "challenge": challenge});
    vec![
        ("no source", asked("", good), 404, "unknown-source"),
        ("an unknown source", asked("nobody", good), 404, "unknown-source"),
        ("a source that climbs", asked("../meta", good), 404, "unknown-source"),
        ("a source without a handshake", asked("stripe", good), 404, "unknown-source"),
        ("a source whose handshake is a POST", asked("slack", good), 404, "unknown-source"),
        ("no query", query(""), 404, "unknown-source"),
        ("no mode", query("hub.challenge=c4n4ry&hub.verify_token=meaty+ham%2Fhock"), 404, "unknown-source"),
        ("another mode", query(&good.replace("subscribe", "unsubscribe")), 404, "unknown-source"),
        ("the mode twice", query(&format!("{good}&hub.mode=subscribe")), 404, "unknown-source"),
        ("no token", query("hub.mode=subscribe&hub.challenge=c4n4ry"), 401, "bad-handshake"),
        ("an empty token", token(""), 401, "bad-handshake"),
        ("a wrong token", token("meaty"), 401, "bad-handshake"),
        ("the beginning of the token", token("meaty+ham%2Fhoc"), 401, "bad-handshake"),
        ("the token and more", token("meaty+ham%2Fhocks"), 401, "bad-handshake"),
        ("a long token", token(&"a".repeat(10_000)), 401, "bad-handshake"),
        ("the token twice", query(&format!("{good}&hub.verify_token=x")), 401, "bad-handshake"),
        ("the signing secret as a token", token(secret("meta").expose()), 401, "bad-handshake"),
        (
            "a wrong token and a script",
            query("hub.mode=subscribe&hub.verify_token=x&hub.challenge=<script>c4n4ry"),
            401,
            "bad-handshake",
        ),
        ("no challenge", query("hub.mode=subscribe&hub.verify_token=meaty+ham%2Fhock"), 400, "malformed"),
        ("an empty challenge", challenge(""), 400, "malformed"),
        ("a script as a challenge", challenge("%3Cscript%3Ec4n4ry%3C/script%3E"), 400, "malformed"),
        ("a header in a challenge", challenge("c4n4ry%0d%0aSet-Cookie:%20a=b"), 400, "malformed"),
        ("a challenge that is not ASCII", challenge("c4n4ry%F0%9F%A6%84"), 400, "malformed"),
        ("a long challenge", challenge(&long), 400, "malformed"),
        ("the challenge twice", query(&format!("{good}&hub.challenge=c4n4ry")), 400, "malformed"),
        (
            "an unsigned verification",
            slack(verification(json!("c4n4ry"))).without("x-slack-signature"),
            401,
            "bad-signature",
        ),
        (
            "a verification of another secret",
            slack(verification(json!("c4n4ry"))).with("x-slack-signature", "v0=c4n4ry"),
            401,
            "bad-signature",
        ),
        ("a script in a verification", slack(verification(json!("<c4n4ry>"))), 400, "malformed"),
        ("a verification without a challenge", slack(json!({"type": "url_verification"})), 400, "malformed"),
        ("a list as a challenge", slack(verification(json!(["c4n4ry"]))), 400, "malformed"),
    ]
}

fn splits(world: &World) -> Vec<Case> {
    let meta = |body: Value| posted(world, "meta", None, body.to_string().as_bytes());
    let mail = |body: &[u8]| posted(world, "sendgrid", None, body);
    let many = json!({"entry": [{"changes": vec![json!({"field": "leadgen"}); 1001]}]});
    let beside = |entry: Value| meta(json!({"object": "page", "entry": [{"changes": [lead()]}, entry]}));
    let batch =
        |name: &str, items: Value| posted(world, name, None, items.to_string().as_bytes()).to(BATCH, "source", name);
    vec![
        ("no entries", meta(json!({"object": "page", "note": CANARY})), 422, "no-events"),
        ("null for a list", meta(json!({"entry": null, "note": CANARY})), 422, "no-events"),
        ("another name for the list", meta(json!({"entries": [{"changes": [lead()]}]})), 422, "no-events"),
        ("a list that is none", meta(json!({"entry": {"0": {"changes": []}}})), 422, "no-events"),
        ("a list inside of a text", meta(json!({"entry": ["changes"]})), 422, "no-events"),
        ("an object for changes, beside a lead", beside(json!({"changes": {"0": CANARY}})), 422, "no-events"),
        ("a text for changes, beside a lead", beside(json!({"changes": CANARY})), 422, "no-events"),
        ("a text for an entry, beside a lead", beside(json!(CANARY)), 422, "no-events"),
        ("a list for an entry, beside a lead", beside(json!([{"changes": [lead()]}])), 422, "no-events"),
        ("too many events", meta(many), 422, "no-events"),
        ("too many entries without events", meta(json!({"entry": vec![json!({}); 1001]})), 422, "no-events"),
        ("a batch of deliveries", batch("meta", json!([payload("meta-leads.json")])), 422, "no-batches"),
        ("a batch of events", batch("sendgrid", json!([{"event": "bounce", "id": 1}])), 422, "no-batches"),
        ("an unsigned batch", batch("meta", json!([])).without("x-hub-signature-256"), 401, "bad-signature"),
        ("an object where a list is", mail(b"{}"), 422, "no-events"),
        ("nothing", mail(b""), 400, "malformed"),
        ("a list that does not end", mail(b"[{\"event\": \"bounce\""), 400, "malformed"),
        ("a field twice in an event", mail(br#"[{"event": "bounce", "id": 1, "id": 2}]"#), 400, "malformed"),
        ("an event without its key", mail(br#"[{"event": "bounce", "note": "c4n4ry"}]"#), 422, "invalid-event"),
        ("an event without a type", mail(br#"[{"id": 1}]"#), 422, "unknown-type"),
        ("lists in lists without end", mail("[".repeat(10_000).as_bytes()), 400, "malformed"),
        (
            "a depth bomb in an event",
            mail(format!(r#"[{{"event": "bounce", "id": {}}}]"#, deep(60)).as_bytes()),
            422,
            "invalid-event",
        ),
        (
            "a depth bomb that no reader takes",
            mail(format!(r#"[{{"event": "bounce", "id": {}}}]"#, deep(5000)).as_bytes()),
            400,
            "malformed",
        ),
        (
            "a depth bomb for a list",
            posted(world, "meta", None, format!(r#"{{"entry": {}}}"#, deep(60)).as_bytes()),
            422,
            "no-events",
        ),
    ]
}

fn deep(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

/// What one of several flows rejects.
fn of_several_flows(world: &World) -> Vec<Case> {
    let paid = |body: Value| posted(world, "stripe", None, body.to_string().as_bytes());
    let good = || paid(json!({"id": "evt_1", "type": "paid", "note": "x"}));
    vec![
        ("an event that one of its flows rejects", paid(json!({"id": "c4n4ry", "type": "paid"})), 422, "invalid-event"),
        ("an event that none takes", paid(json!({"id": ["c4n4ry"], "type": "paid"})), 422, "invalid-event"),
        ("a key that one of its flows reads", good().with("idempotency-key", "c4n4ry key"), 400, "key-malformed"),
        ("a long key", good().with("idempotency-key", &"k".repeat(256)), 400, "key-malformed"),
    ]
}

fn forms(world: &World) -> Vec<Case> {
    let form = |body: &[u8]| posted(world, "twilio", Some("sms"), body);
    let many: String = (0..1001).map(|at| format!("f{at}=1&")).collect();
    vec![
        ("no form", form(b""), 400, "malformed"),
        (
            "JSON as a form",
            form(b"MessageSid=1").with("content-type", "application/json"),
            415,
            "unsupported-media-type",
        ),
        (
            "parts",
            form(b"MessageSid=1").with("content-type", "multipart/form-data; boundary=x"),
            415,
            "unsupported-media-type",
        ),
        ("a name twice", form(b"MessageSid=1&MessageSid=c4n4ry"), 400, "malformed"),
        ("bytes that are no text", form(b"MessageSid=\xff\xfe"), 400, "malformed"),
        ("too many fields", form(many.as_bytes()), 400, "malformed"),
        ("a form without its key", form(b"Body=c4n4ry"), 422, "invalid-event"),
        (
            "a form at another address",
            form(b"MessageSid=1").called("/v1/events/twilio/other", ""),
            401,
            "bad-signature",
        ),
    ]
}

/// The weakness of Twilio's scheme: nothing stands between names and values. A flow that requires its fields is not fooled.
#[tokio::test]
async fn a_moved_border_in_a_form_makes_no_event_of_it() {
    let form = flow("twilio", "sms").replace("id: {type: [string, integer]}", "MessageSid: {type: string}");
    let form = form.replace("[id]", "[MessageSid]").replace("order_by: id", "order_by: MessageSid");
    let world = world(&[("twilio", "")], &[("sms", form)]);
    let moved = posted(&world, "twilio", Some("sms"), b"MessageSid=SM1").in_base64(b"Message=SidSM1");
    assert_eq!(moved.send(&world).await.problem(), "invalid-event");
    unchanged(&world);
}
