//! Every sender of the catalogue on the stage: `flows new` makes a flow of it that is good and whose scenario holds, and an
//! export of its deliveries can be rehearsed.

mod flows_folder;

use std::path::{Path, PathBuf};

use flows_folder::{flows_folder, ledgerline, told};
use serde_json::{Value, json};

/// The moment of each sample.
const AT: i64 = 1_794_819_600;

/// A delivery of each sender, and its type where the path names it.
fn samples() -> Vec<(&'static str, Option<&'static str>, Value)> {
    let plain = || json!({"id": "e-1", "created": AT, "email": "ada@example.com"});
    let typed = |field: &str| {
        let mut sample = plain();
        sample[field] = json!("thing.done");
        sample
    };
    vec![
        ("basic", Some("thing"), plain()),
        (
            "calendly",
            None,
            json!({"event": "invitee.created", "created": AT, "payload": {"uri": "https://x/1", "email": "a@x.com"}}),
        ),
        ("github", Some("push"), plain()),
        (
            "hubspot",
            None,
            json!([{"eventId": 7, "subscriptionType": "contact.creation", "created": AT, "objectId": 8}]),
        ),
        ("intercom", None, typed("topic")),
        (
            "mailgun",
            None,
            json!({"created": AT, "event-data": {"event": "failed", "id": "e-1", "recipient": "a@x.com"}}),
        ),
        (
            "meta",
            None,
            json!({"object": "page", "created": AT, "entry": [{"id": "1", "time": AT, "changes": [
                {"field": "leadgen", "value": {"leadgen_id": "7", "form_id": "9"}}]}]}),
        ),
        (
            "paddle",
            None,
            json!({"event_id": "evt_1", "event_type": "transaction.completed", "created": AT, "data": {"id": "t"}}),
        ),
        ("sendgrid", None, json!([{"sg_event_id": "s-1", "event": "bounce", "email": "a@x.com", "created": AT}])),
        ("shopify", Some("orders/paid"), plain()),
        (
            "slack",
            None,
            json!({"event_id": "Ev1", "type": "event_callback", "created": AT, "event": {"type": "message"}}),
        ),
        ("square", None, json!({"event_id": "e-1", "type": "payment.updated", "created": AT, "data": {"id": "p"}})),
        ("standard-webhooks", None, typed("type")),
        ("stripe", None, typed("type")),
        ("svix", Some("thing"), plain()),
        ("token", Some("thing"), plain()),
        ("twilio", Some("sms"), json!({"MessageSid": "SM1", "From": "+4915112345", "Body": "Hi", "created": AT})),
        ("twilio-json", Some("thing"), plain()),
        (
            "typeform",
            None,
            json!({"event_id": "e-1", "event_type": "form_response", "created": AT, "form_response": {"token": "t"}}),
        ),
        ("woocommerce", Some("order.created"), json!({"id": 7, "created": AT, "billing": {"email": "a@x.com"}})),
        (
            "zendesk",
            None,
            json!({"id": "e-1", "type": "zen:event-type:user.created", "created": AT, "detail": {"id": "7"}}),
        ),
    ]
}

fn folder(name: &str) -> PathBuf {
    let files = [("sources.yaml", "# Who may send.\n"), ("integrations.yaml", "# Whom flows call.\n")];
    flows_folder(&format!("senders-{name}"), &files)
}

#[test]
fn every_sender_of_the_catalogue_has_a_sample() {
    let files =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows/catalog/sources")).expect("a folder");
    let mut files: Vec<String> = files
        .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    files.sort();
    let names: Vec<&str> = samples().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(files, names);
}

#[test]
fn a_new_flow_of_every_sender_is_good_and_its_scenario_holds() {
    for (sender, event_type, sample) in samples() {
        let folder = folder(&format!("new-{sender}"));
        std::fs::write(folder.join("sample.json"), sample.to_string()).expect("a sample");
        let mut arguments = vec!["flows", "new", "made", "--source", sender, "--sample", "sample.json"];
        arguments.extend(["--partner", "slack.post_message", "--in", "."]);
        arguments.extend(event_type.iter().flat_map(|name| ["--type", name]));
        let made = ledgerline(&folder, &arguments);
        assert!(made.status.success(), "{sender}: {}", told(&made));
        let sources = std::fs::read_to_string(folder.join("sources.yaml")).expect("the sources");
        assert!(sources.contains(&format!("uses: {sender}")), "{sender}: {sources}");
        let unfilled = ledgerline(&folder, &["flows", "check", "."]);
        assert!(told(&unfilled).contains("this still is `CHANGE-ME`"), "{sender}: {}", told(&unfilled));
        fill_in(&folder);
        let checked = ledgerline(&folder, &["flows", "check", "."]);
        assert!(checked.status.success() && !told(&checked).contains("warning"), "{sender}: {}", told(&checked));
        let scenarios = std::fs::read_to_string(folder.join("tests/made.yaml")).expect("the scenarios");
        assert!(scenarios.contains("succeeded"), "{sender}: {scenarios}");
        assert_eq!(scenarios.matches("POST slack").count(), 1, "two deliveries, one call: {sender}: {scenarios}");
        let tested = ledgerline(&folder, &["flows", "test", "."]);
        assert!(told(&tested).contains("1 scenario, and all hold"), "{sender}: {}", told(&tested));
        rehearsed(sender, &folder, &sample);
    }
}

/// What the author does first.
fn fill_in(folder: &Path) {
    let flow = folder.join("flows/made.yaml");
    let text = std::fs::read_to_string(&flow).expect("a flow");
    std::fs::write(flow, text.replace("CHANGE-ME", "leads")).expect("a flow");
}

/// Two deliveries of one event, and a line that is none.
fn rehearsed(sender: &str, folder: &Path, sample: &Value) {
    std::fs::write(folder.join("export.jsonl"), format!("{sample}\n{sample}\n{{\"id\": \n")).expect("an export");
    let ran = ledgerline(folder, &["--json", "rehearse", "export.jsonl", "--in", ".", "--at", "created"]);
    assert!(ran.status.success(), "{sender}: {}", told(&ran));
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let counts = ["accepted", "duplicates", "succeeded"].map(|name| report[name].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1)], "{sender}: {report}");
    assert_eq!(report["rejected"], json!({"malformed": 1}), "{sender}: {report}");
}
