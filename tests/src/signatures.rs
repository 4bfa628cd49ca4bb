//! Our signatures against the providers' own libraries, both ways.
//!
//! What a library signs we believe, and what we sign the library believes. GitHub and Shopify publish no
//! library that signs: their published vectors stand in the unit tests.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use shared::adapters::HttpPartners;
use shared::adapters::machine::SystemClock;
use shared::arrival::delivery::Delivery;
use shared::arrival::signature::{Secret, sign, verify};
use shared::base::machine::{Chance, Clock};
use shared::effects::body::RequestBody;
use shared::effects::credentials::{Credentials, Signing};
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Auth, Source};
use shared::model::ModelChance;

use crate::fixtures::root;
use crate::security::mirror::Mirror;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";

/// Each library and our scheme for it.
const LIBRARIES: [(&str, &str); 4] = [
    ("stripe", "stripe"),
    ("standardwebhooks", "standard-webhooks"),
    ("svix", "standard-webhooks"),
    ("slack_sdk", "slack"),
];

type Fields = BTreeMap<String, String>;

fn source(scheme: &str) -> Source {
    let source = json!({"scheme": scheme, "max_body": "64KiB", "rate": "10/s", "type_at": "type"});
    serde_json::from_value(source).expect("a good source")
}

/// Bodies that a careless implementation joins, decodes or cuts wrongly, and random ones.
fn bodies() -> Vec<String> {
    let chance = ModelChance::seeded(7);
    let random = |length: usize| -> String {
        let characters = (0..length).map(|_| char::from_u32((chance.bits() % 0x11_0000) as u32).unwrap_or('\u{fffd}'));
        characters.collect()
    };
    let awkward =
        ["", "\n", "{}", "{\"a\": 1}\r\n", ".", "1614265330.", "zażółć 🦄 \u{0}", "\u{feff}{}", "a,v1=b v1,c"];
    let mut bodies: Vec<String> = awkward.map(str::to_owned).into();
    bodies.extend((0..50).map(|n| random(n * 7)));
    bodies.extend(["x".repeat(100 * 1024), random(25 * 1024)]);
    bodies
}

#[test]
#[ignore = "needs the providers' libraries: make test"]
fn we_agree_with_the_providers_libraries() {
    let now = SystemClock.now().secs();
    let mut deliveries = Vec::new();
    for (library, scheme) in LIBRARIES {
        for body in bodies() {
            let ours = sign(&source(scheme).scheme, &Secret::new(SECRET), ID, now, body.as_bytes());
            let ours: Fields = ours.expect("a good secret").into_iter().collect();
            let delivery = json!({"library": library, "scheme": scheme, "secret": SECRET, "id": ID, "timestamp": now,
                "body": body, "ours": ours});
            deliveries.push(delivery);
        }
    }
    let answers = ask_the_libraries(&deliveries);
    assert_eq!(answers.len(), deliveries.len());
    for (delivery, answer) in deliveries.iter().zip(&answers) {
        let what = format!("{}: {:.80}", delivery["library"], delivery["body"]);
        assert_eq!((&answer["believes"], &answer["believes_another"]), (&json!(true), &json!(false)), "{what}");
        assert!(we_believe(delivery, &answer["theirs"], ""), "{what}");
        assert!(!we_believe(delivery, &answer["theirs"], " "), "{what}");
    }
}

/// As an integration with `auth: signed` sends it: the header names are those of the wire, the body its bytes.
#[tokio::test]
#[ignore = "needs the providers' libraries: make test"]
async fn the_library_believes_a_request_of_ours() {
    let (partner, mut asked) = Mirror { status: 200, token_status: 200, token: "" }.serve().await;
    let signing = Signing { id: "64d0f134/crm".into(), at: SystemClock.now() };
    let request = PartnerRequest {
        method: "POST",
        integration: "crm".into(),
        base_url: partner,
        path: "/leads".into(),
        headers: Vec::new(),
        credentials: Credentials::of_secret(&Auth::Signed, &Secret::new(SECRET), signing),
        body: Some(RequestBody::of_json(&json!({"name": "zażółć 🦄"}))),
        timeout: Duration::from_secs(10),
    };
    HttpPartners::new(None).call(request).await.expect("an answer");
    let wire = asked.recv().await.expect("it was asked");
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let ours: Fields = names.map(|name| (name.to_owned(), wire.header(name).expect(name).to_owned())).into();
    let timestamp: i64 = ours["webhook-timestamp"].parse().expect("seconds");
    let answers = ask_the_libraries(&[json!({
        "library": "standardwebhooks", "scheme": "standard-webhooks", "secret": SECRET, "id": ours["webhook-id"],
        "timestamp": timestamp, "body": wire.text(), "ours": ours,
    })]);
    assert_eq!((&answers[0]["believes"], &answers[0]["believes_another"]), (&json!(true), &json!(false)));
}

/// Whether we believe these headers of the delivery's body with `more` behind it.
fn we_believe(delivery: &Value, headers: &Value, more: &str) -> bool {
    let text = |name: &str| delivery[name].as_str().expect("a text").to_owned();
    let headers: Fields = serde_json::from_value(headers.clone()).expect("headers");
    let received = Delivery {
        source: "provider".into(),
        event_type: None,
        headers: headers.into_iter().collect(),
        body: (text("body") + more).into_bytes(),
    };
    verify(&source(&text("scheme")), &[Secret::new(SECRET)], received, SystemClock.now()).is_ok()
}

fn ask_the_libraries(deliveries: &[Value]) -> Vec<Value> {
    let python = std::env::var("LEDGERLINE_PYTHON").expect("LEDGERLINE_PYTHON is not set: run this by `make test`");
    let mut child = Command::new(python)
        .arg(root().join("tests/providers.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the project's Python starts");
    // It reads everything before it writes anything, so neither waits for the other.
    let mut questions = child.stdin.take().expect("a pipe");
    questions.write_all(json!(deliveries).to_string().as_bytes()).expect("it reads");
    drop(questions);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the libraries failed");
    serde_json::from_slice(&output.stdout).expect("it answers in JSON")
}
