//! Line breaks in values that have a place in a header: none of them makes another header, on the wire or anywhere else.

use std::time::Duration;

use serde_json::json;
use shared::adapters::HttpPartners;
use shared::base::machine::Clock;
use shared::flows::{File, Flows};
use shared::ledger::{Reason, State};

use super::mirror::{Mirror, OnTheWire};
use crate::fixtures::{files, lead_of};
use crate::memory::{Log, World};

const WELL: Mirror = Mirror { status: 200, token_status: 200, token: "canary-access-token" };

/// A value that would be a header of its own.
const BREAK: &str = "canary\r\nX-Admin: yes";

/// A world whose CRM uses a partner of the catalogue, with these fields there and these of its own.
async fn world(catalog: &str, own: &str) -> (World, tokio::sync::mpsc::UnboundedReceiver<OnTheWire>) {
    let (endpoint, asked) = WELL.serve().await;
    let mut files = files_without_result();
    files[1].text = format!("crm: {{uses: partner{own}}}");
    let text = format!("{{base_url: https://api.crm.example.com, timeout: 3s, auth: bearer{catalog}}}");
    files.push(File { path: "catalog/partners/partner.yaml".into(), text });
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let mut world = World::with(flows);
    world.processor.partners = Box::new(HttpPartners::new(Some(endpoint)));
    (world, asked)
}

/// The plain flow, which keeps nothing of an answer.
fn files_without_result() -> Vec<File> {
    let mut files = files();
    let kept = files[2].text.replace("    result:\n      crm_id: /id\n", "");
    assert_ne!(kept, files[2].text);
    files[2].text = kept;
    files
}

/// JSON is YAML, and writes a line break as people would.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

#[tokio::test]
async fn a_line_break_in_a_plain_value_is_not_sent_and_not_told() {
    let reads = |template: &str| format!(", headers: {{X-Value: {}}}", quoted(template));
    let vars = format!(", vars: {{v: {}}}", quoted(BREAK));
    for (what, catalog, own) in [
        ("a plain variable", reads("{{ vars.v }}"), vars.as_str()),
        ("a header of the catalogue", reads(BREAK), ""),
        ("a header of the catalogue that quotes one", reads("a {{ 'canary\r\nX-Admin: yes' }}"), ""),
    ] {
        let (log, (world, mut asked)) = (Log::capture(), world(&catalog, own).await);
        let id = world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead").id;
        world.drain().await;
        assert!(asked.try_recv().is_err(), "{what}: nothing was sent");
        let row = world.row(&id).await;
        let death = row.death.as_ref().unwrap_or_else(|| panic!("{what}: {:?}", row.history));
        assert_eq!(death.reason, Reason::Template, "{what}");
        assert!(death.error.contains("`X-Value` has a control character"), "{what}: {}", death.error);
        let seen = format!("{} {}", serde_json::to_string(&row).expect("JSON"), log.text());
        assert!(!seen.contains("canary") && !seen.contains("X-Admin"), "{what}: {seen}");
    }
}

/// What an event says has no way into another header either, and only that event is parked.
#[tokio::test]
async fn a_line_break_of_an_event_parks_that_event_alone() {
    let mut files = files_without_result();
    files[2].text = files[2]
        .text
        .replace("      body:\n", "      headers: {X-Name: \"{{ event.data.first_name }}\"}\n      body:\n");
    let (endpoint, mut asked) = WELL.serve().await;
    let mut world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    world.processor.partners = Box::new(HttpPartners::new(Some(endpoint)));
    let mut bad = lead_of("evt_1", "eve@example.com");
    bad["data"]["first_name"] = json!(BREAK);
    let bad = world.post(&bad).await.expect("the intake takes any text").id;
    world.post(&lead_of("evt_2", "ada@example.com")).await.expect("a good lead");
    world.drain().await;
    let death = world.row(&bad).await.death.expect("it is dead");
    assert!(death.reason == Reason::Template && !death.error.contains("canary"), "{}", death.error);
    let wire = asked.try_recv().expect("the good one was sent");
    assert!(asked.try_recv().is_err() && !wire.head.contains("X-Admin"), "{}", wire.head);
}

/// The secret is wrong, and no event is: it waits until somebody has put the secret right.
#[tokio::test]
async fn a_line_break_in_a_secret_variable_makes_events_wait_and_buries_none() {
    let log = Log::capture();
    let own = ", vars: {v: {secret: true}}";
    let (world, mut asked) = world(", headers: {X-Value: \"{{ vars.v }}\"}", own).await;
    world.secrets.put("integrations/crm/vars/v", BREAK);
    let id = world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead").id;
    for _ in 0..10 {
        world.poll().await;
        world.wake().await;
        world.clock.advance(Duration::from_secs(120));
    }
    let row = world.row(&id).await;
    assert!(matches!(row.state, State::Waiting | State::Queued), "{:?}", row.history);
    let told = "crm 1: the secret variable `v` of `crm` has a line break or a control character in it";
    assert!(row.history.iter().any(|moment| moment.what == told), "{:?}", row.history);
    let seen = format!("{} {}", serde_json::to_string(&row).expect("JSON"), log.text());
    assert!(!seen.contains("canary") && !seen.contains("X-Admin") && asked.try_recv().is_err(), "{seen}");

    world.secrets.remove("integrations/crm/vars/v");
    world.secrets.put("integrations/crm/vars/v", "one line");
    world.clock.advance(Duration::from_secs(6 * 3600));
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded, "at {}", world.clock.now());
    assert_eq!(asked.try_recv().expect("it was sent").header("x-value"), Some("one line"));
}
