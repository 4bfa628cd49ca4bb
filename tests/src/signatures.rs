//! Our signatures against the providers' own libraries, both ways.
//!
//! What a library signs we believe, and what we sign the library believes. The libraries are those in Python, or else those for
//! Node. Of providers without one, the vectors below `events/signatures` stand in the unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use local::node::NodeTools;
use local::project::Project;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::adapters::HttpPartners;
use shared::adapters::machine::SystemClock;
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::signature::{Secret, Unsigned, new_secret, receivers_secret, sign_request, verify};
use shared::base::machine::{Chance, Clock};
use shared::effects::body::RequestBody;
use shared::effects::credentials::{Credentials, Signing};
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Auth, CheckedAgainst, Source};
use shared::model::ModelChance;

use crate::fixtures::{root, sender};
use crate::security::mirror::Mirror;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";

/// Each library, and the sender of the catalogue whose deliveries it verifies.
const LIBRARIES: [(&str, &str); 12] = [
    ("stripe", "stripe"),
    ("standardwebhooks", "standard-webhooks"),
    ("svix", "standard-webhooks"),
    ("svix", "svix"),
    ("slack_sdk", "slack"),
    ("hubspot-api-client", "hubspot"),
    ("twilio", "twilio"),
    ("twilio-json", "twilio-json"),
    ("paddle-python-sdk", "paddle"),
    ("squareup", "square"),
    ("sendgrid", "sendgrid"),
    ("mailgun", "mailgun"),
];

/// The same, of libraries that are for Node alone.
const NODE_LIBRARIES: [(&str, &str); 1] = [("@shopify/shopify-api", "shopify")];

/// What the senders call, for those that sign it.
const URL: &str = "https://hooks.example.com/v1/events/provider/orders/paid";

type Fields = BTreeMap<String, String>;

/// The bodies that a sender may post: some post forms, and one puts its signature into JSON.
fn bodies_of(source: &Source) -> Vec<String> {
    let form = |value: &String| {
        form_urlencoded::Serializer::new(String::new()).append_pair("b", value).append_pair("a", "1").finish()
    };
    match (source.posts_forms(), source.scheme.reads_body()) {
        (true, _) => bodies().iter().map(form).chain(["b=2&a=1&b=1&b=2&c=".to_owned()]).collect(),
        (_, true) => bodies().iter().map(|text| json!({"event-data": {"id": text}}).to_string()).collect(),
        // Square's library believes no empty body.
        _ => bodies().into_iter().filter(|body| !body.is_empty()).collect(),
    }
}

/// Another body, of which the signature is not.
fn another(source: &Source, body: &str) -> String {
    match (source.posts_forms(), source.scheme.reads_body()) {
        (true, _) => body.to_owned() + "&d=1",
        (_, true) => {
            let mut changed: Value = serde_json::from_str(body).expect("JSON");
            changed["signature"]["token"] = json!("another");
            changed.to_string()
        }
        _ => body.to_owned() + " ",
    }
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
    agree(&LIBRARIES, ask_the_libraries);
}

fn agree(libraries: &[(&str, &str)], ask: impl Fn(&[Value]) -> Vec<Value>) {
    let now = SystemClock.now();
    let mut deliveries = Vec::new();
    for (library, sent_by) in libraries {
        let source = sender(sent_by);
        let secret = new_secret(&source.scheme, &[7; 32]);
        for body in bodies_of(&source) {
            let unsigned = Unsigned { id: ID, at: now, url: URL, body: body.as_bytes() };
            let ours = sign_request(&source.scheme, &secret, unsigned).expect("a good secret");
            let body = String::from_utf8(ours.body).expect("text");
            let headers: Fields = ours.headers.into_iter().collect();
            deliveries.push(json!({"library": library, "sender": sent_by, "secret": secret.expose(), "id": ID,
                "timestamp": now.secs(), "url": ours.url, "another": another(&source, &body), "body": body, "ours": headers}));
        }
    }
    let answers = ask(&deliveries);
    assert_eq!(answers.len(), deliveries.len());
    for (delivery, answer) in deliveries.iter().zip(&answers) {
        let what = format!("{} as {}: {:.80}", delivery["library"], delivery["sender"], delivery["body"]);
        assert_eq!((&answer["believes"], &answer["believes_another"]), (&json!(true), &json!(false)), "{what}");
        // Some libraries only verify.
        if !answer["theirs"].is_null() {
            assert!(we_believe(delivery, &answer["theirs"], "body"), "{what}");
            assert!(!we_believe(delivery, &answer["theirs"], "another"), "{what}");
        }
    }
}

/// What is told of a library.
#[derive(Deserialize)]
struct Library {
    version: String,
    /// Whether it signs, too.
    signs: bool,
}

/// A row of the table says how a sender's scheme was verified: what the libraries and the vectors that are tried here say.
/// Those for Node are tried here, too: they are installed once.
#[tokio::test]
#[ignore = "needs the providers' libraries, Node 22 or newer, and a network the first time: make test"]
async fn the_table_of_senders_tells_how_each_is_verified() {
    let text = std::fs::read_to_string(root().join("infra/docs/FLOWS.md")).expect("the page");
    let (_, section) = text.split_once("\n### Senders\n").expect("the section");
    let rows =
        section.lines().skip_while(|line| !line.starts_with("| sender")).skip(2).take_while(|l| l.starts_with('|'));
    let cell = |row: &str, at: usize| row.split('|').nth(at).unwrap_or_default().trim().to_owned();
    let name = |row: &str| cell(row, 1).trim_matches('`').to_owned();
    let rows: BTreeMap<String, (String, String)> = rows.map(|row| (name(row), (cell(row, 3), cell(row, 4)))).collect();
    let files = std::fs::read_dir(root().join("infra/flows/catalog/sources")).expect("the catalogue").flatten();
    let files: BTreeSet<String> =
        files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), files, "one row for each file of the catalogue");
    let told: BTreeMap<String, Library> =
        serde_json::from_str(&python(&["--libraries"], "")).expect("what each library does");
    let installed = node_libraries().await;
    agree(&NODE_LIBRARIES, |deliveries| {
        serde_json::from_str(&node(&installed, &[], &json!(deliveries).to_string())).expect("it answers in JSON")
    });
    let for_node: BTreeMap<String, Library> =
        serde_json::from_str(&node(&installed, &["--libraries"], "")).expect("what each library does");
    let mut wrong = Vec::new();
    for (name, (how, by)) in rows {
        let of = |library: &str| told.get(library).or(for_node.get(library)).unwrap_or_else(|| panic!("{library}"));
        let mine = LIBRARIES.iter().chain(&NODE_LIBRARIES).filter(|(_, sent_by)| *sent_by == name);
        let mine: Vec<(&str, &Library)> = mine.map(|(library, _)| (*library, of(library))).collect();
        let vector = published_vector(&name);
        let (expected, against) = match (mine.iter().any(|(_, library)| library.signs), mine.is_empty(), vector) {
            (true, ..) => ("library, both ways", CheckedAgainst::Library),
            (false, false, _) => ("library, verifies", CheckedAgainst::Library),
            (_, true, true) => ("published vector", CheckedAgainst::Vector),
            (_, true, false) => ("documentation only", CheckedAgainst::Documentation),
        };
        let package = |(library, Library { version, .. }): &(&str, &Library)| {
            format!("`{}` {version}", library.trim_end_matches("-json"))
        };
        let packages: Vec<String> = mine.iter().map(package).collect();
        let which = match (packages.is_empty(), vector) {
            (true, _) => by.clone(),
            (false, true) => format!("{}, and its vector", packages.join(", ")),
            (false, false) => packages.join(", "),
        };
        if (how.as_str(), by.as_str()) != (expected, which.as_str()) {
            wrong.push(format!("{name}: `{how} | {by}` is `{expected} | {which}`"));
        }
        let said = sender(&name).about.expect("a source of its facts").against;
        if said != against || by.is_empty() {
            wrong.push(format!("{name}: its file says {said:?}, and it is {against:?} by `{by}`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a sender has a vector that somebody else published.
fn published_vector(name: &str) -> bool {
    let text = std::fs::read_to_string(root().join(format!("events/signatures/{name}.json"))).ok();
    let vector: Option<Value> = text.map(|text| serde_json::from_str(&text).expect("a vector"));
    vector.is_some_and(|vector| !vector["from"].as_str().is_none_or(|from| from.contains("publishes no vector")))
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
        "timestamp": timestamp, "url": "", "body": wire.text(), "another": wire.text() + " ", "ours": ours,
    })]);
    assert_eq!((&answers[0]["believes"], &answers[0]["believes_another"]), (&json!(true), &json!(false)));
}

/// Whether we believe these headers of one of the delivery's bodies.
fn we_believe(delivery: &Value, headers: &Value, which: &str) -> bool {
    let text = |name: &str| delivery[name].as_str().expect("a text").to_owned();
    let headers: Fields = serde_json::from_value(headers.clone()).expect("headers");
    let received = Delivery {
        source: "provider".into(),
        event_type: None,
        headers: headers.into_iter().collect(),
        body: text(which).into_bytes(),
        called: Called::post(&text("url")),
    };
    let source = sender(&text("sender"));
    let secret = receivers_secret(&source.scheme, &Secret::new(text("secret"))).expect("a secret");
    verify(&source, &[secret], received, SystemClock.now()).is_ok()
}

fn ask_the_libraries(deliveries: &[Value]) -> Vec<Value> {
    serde_json::from_str(&python(&[], &json!(deliveries).to_string())).expect("it answers in JSON")
}

/// What the script with the libraries prints.
fn python(arguments: &[&str], input: &str) -> String {
    let python = std::env::var("LEDGERLINE_PYTHON").expect("LEDGERLINE_PYTHON is not set: run this by `make test`");
    said(Command::new(python).arg(root().join("tests/providers.py")).args(arguments), input)
}

/// What the script with the libraries for Node prints.
fn node(installed: &Path, arguments: &[&str], input: &str) -> String {
    let script = root().join("tests/providers/providers.mjs");
    said(Command::new("node").arg(script).args(arguments).current_dir(installed), input)
}

/// The folder with the libraries for Node.
async fn node_libraries() -> PathBuf {
    let folder = Project::at(&root()).state("node-providers");
    let installed = NodeTools::install(&root().join("tests/providers"), &folder).await;
    installed.unwrap_or_else(|error| panic!("{error:#}"));
    folder
}

/// What a command prints of an input.
fn said(command: &mut Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    // It reads everything before it writes anything, so neither waits for the other.
    let mut questions = child.stdin.take().expect("a pipe");
    // Where it was asked what it is, it reads nothing.
    let _ = questions.write_all(input.as_bytes());
    drop(questions);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the libraries failed");
    String::from_utf8(output.stdout).expect("text")
}
