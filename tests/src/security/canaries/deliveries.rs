//! What senders send in the run: plain events, batches, handshakes, forms, and deliveries of several events.

use replay::handle;
use serde_json::{Value, json};
use shared::arrival::signature::{Secret, sign};
use shared::base::machine::Clock as _;
use shared::ledger::State;

use super::{CanaryRun, EMAIL, TOKEN, cart, lead};
use crate::fixtures::{by_ada, flows, payload};
use crate::memory::{BATCH, EVENT, HANDSHAKE, HttpRequest, RECEIPT, SECRET, TYPED, World};

fn headers(request: HttpRequest) -> HttpRequest {
    let names =
        ["user-agent", "x-forwarded-for", "cookie", "referer", "traceparent", "tracestate", "x-request-id", "origin"];
    let spoiled = format!("{EMAIL}; 192.0.2.177; {TOKEN}");
    names.into_iter().fold(request, |request, name| request.with(name, &spoiled))
}

/// Deliveries that are accepted, and one of each that is not; the answers.
pub(super) async fn send_all(world: &World) -> String {
    let body = |lead: &Value| lead.to_string();
    let good = |lead: &Value| headers(HttpRequest::of(world, body(lead).as_bytes()));
    let mut broken = lead(90);
    broken["data"]["email"] = json!("zq no address");
    broken["data"]["tenant"] = json!({EMAIL: EMAIL});
    let mut untyped = lead(91);
    untyped["type"] = json!("zq.type");
    let batch = json!([lead(1), broken, lead(2)]);
    let requests = [
        good(&lead(0)),
        good(&lead(0)),
        good(&broken),
        good(&untyped),
        good(&lead(0)).with("webhook-signature", "v1,zq"),
        good(&lead(0)).with("webhook-timestamp", "zq"),
        good(&lead(0)).with("content-type", "text/zq"),
        good(&lead(0)).to(EVENT, "source", "zq-source"),
        good(&lead(0)).to(TYPED, "type", "zq-type"),
        good(&lead(0)).to(RECEIPT, "id", "zq-id").with("authorization", &format!("Bearer {TOKEN}")),
        headers(HttpRequest::of(world, format!("{{\"email\": \"{EMAIL}\"").as_bytes())),
        headers(HttpRequest::of(world, batch.to_string().as_bytes())).to(BATCH, "source", "web-forms"),
    ];
    let mut answers = String::new();
    for request in requests.into_iter().chain(of_other_shapes(world)) {
        answers += &format!("{:?}\n", request.send(world).await);
    }
    answers
}

/// Handshakes, forms and deliveries of several events: good ones, and such as no sender would send.
fn of_other_shapes(world: &World) -> Vec<HttpRequest> {
    let asked = |query: &str| {
        let bare = HttpRequest { headers: Vec::new(), body: Value::Null, ..HttpRequest::at(b"", 0) };
        headers(bare.to(HANDSHAKE, "source", "meta").called("/v1/events/meta", query))
    };
    let form = |name: &str, value: &Value| {
        let encoded: String = form_urlencoded::byte_serialize(value.to_string().as_bytes()).collect();
        format!("{name}={encoded}&zq=zq").into_bytes()
    };
    let json = |source: &str, body: &Value| posted(world, source, "application/json", body.to_string().as_bytes());
    let form_of_slack =
        |name: &str, value: &Value| posted(world, "slack", "application/x-www-form-urlencoded", &form(name, value));
    let (mut spoiled_leads, mut spoiled_press) = (leads(), press());
    spoiled_leads["entry"][0]["changes"][0]["value"]["form_id"] = json!({EMAIL: EMAIL});
    spoiled_press["actions"][0]["action_id"] = json!("zq");
    vec![
        asked("hub.mode=subscribe&hub.challenge=11&hub.verify_token=zq-wrong"),
        asked("hub.mode=subscribe&hub.verify_token=zq-t0ken-of-the-crm&zq=zq"),
        asked("zq=Zq.Ada%40canary.example"),
        json("meta", &leads()),
        json("meta", &spoiled_leads),
        json("meta", &json!({"object": EMAIL, "entry": EMAIL})),
        json("typeform", &answers()),
        json("typeform", &json!({"event_type": EMAIL, EMAIL: TOKEN})),
        form_of_slack("payload", &press()),
        form_of_slack("payload", &spoiled_press),
        form_of_slack("zq", &json!(EMAIL)),
    ]
}

/// A body as its sender signs and posts it.
fn posted(world: &World, source: &str, content_type: &str, body: &[u8]) -> HttpRequest {
    let scheme = &world.intake.flows.source(source).expect("a source").scheme;
    let signed = sign(scheme, &Secret::new(SECRET), "msg_1", world.clock.now().secs(), body).expect("a good secret");
    let bare = HttpRequest { headers: vec![("content-type".into(), content_type.into())], ..HttpRequest::at(b"", 0) };
    let bare = headers(bare.in_base64(body).to(EVENT, "source", source));
    signed.iter().fold(bare, |request, (name, value)| request.with(&name.to_lowercase(), value))
}

/// Leads of an ad, with more about their people than the flow reads.
fn leads() -> Value {
    let mut leads = payload("meta-leads.json");
    for n in 0..2 {
        let lead = &mut leads["entry"][0]["changes"][n]["value"];
        (lead["full_name"], lead["email"], lead[EMAIL]) = (json!("Zqada"), json!(EMAIL), json!(TOKEN));
    }
    leads
}

/// The answers of a person to a form.
fn answers() -> Value {
    let mut answers = payload("typeform-response.json");
    let form = &mut answers["form_response"];
    (form["answers"][0]["text"], form["answers"][1]["email"]) = (json!("Zqada"), json!(EMAIL));
    form["hidden"]["utm_campaign"] = json!("zq-campaign");
    answers
}

/// A person with a name presses each button of a question.
#[tokio::test]
async fn no_personal_data_comes_out_of_an_answer_in_slack() {
    for answer in ["approve", "reject"] {
        let run = CanaryRun::of(flows());
        let world = &run.world;
        let agreed = json!({"op": "set_contact", "tenant": "acme", "email": EMAIL, "fields": {"consent_email": true}});
        handle(&world.replay, by_ada(agreed)).await;
        world.send("storefront", Some("cart.abandoned"), &cart(1, 40), &[]).await.expect("a good cart");
        world.drain().await;
        let rows = world.ledger.rows();
        let asked = rows.iter().find_map(|row| Some((&row.id, &row.ask.as_ref()?.hash))).expect("a question");
        let mut press = press();
        press["actions"][0]["action_id"] = json!(answer);
        press["actions"][0]["value"] = json!(format!("{} {}", asked.0, asked.1));
        let form: String = form_urlencoded::byte_serialize(press.to_string().as_bytes()).collect();
        world.send_form("slack", &format!("payload={form}")).await.expect("Slack signs it");
        world.drain().await;
        run.assert_clean().await;
        let state = world.row(asked.0).await.state;
        assert_eq!(state, if answer == "approve" { State::Succeeded } else { State::Noop });
    }
}

/// A button that somebody pressed in Slack, for a question that nobody asked.
fn press() -> Value {
    let mut press = payload("slack-approval.json");
    (press["user"]["username"], press["user"]["name"]) = (json!("zqada"), json!("Zqlovelace"));
    press["actions"][0]["value"] = json!("zq zq");
    press["response_url"] = json!("https://hooks.example.com/zq-t0ken");
    press
}
