//! Contacts: consent that does not come back, and what operators do with contacts.

use std::time::Duration;

use replay::handle;
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::ledger::{Reason, Row, State};

use super::flows::cart;
use super::world::World;
use crate::fixtures::{NOW, flows, payload};

/// A form that gives or withdraws consent, a minute after what was sent before.
async fn form(world: &World, key: &str, email: &str, agrees: bool) -> EventId {
    world.clock.advance(Duration::from_secs(60));
    let mut form = payload("contact-submitted.json");
    form["data"]["email"] = json!(email);
    form["data"]["consent_email"] = json!(agrees);
    world.send("web-forms", None, &form, &[("idempotency-key", key)]).await.expect("a good form").id
}

async fn ask(world: &World, operation: Value) -> Value {
    handle(&world.replay, operation).await
}

async fn is_mailed(world: &World, change: Value) -> bool {
    let id = cart(world, change).await;
    world.drain().await;
    let row = world.row(&id).await;
    let mails = world.partners.calls().len();
    match row.state {
        State::Noop => assert_eq!((row.noop.expect("a guard").guard.as_str(), mails), ("consent", 0)),
        state => assert_eq!(state, State::Succeeded),
    }
    mails > 0
}

fn reason(row: &Row) -> Option<Reason> {
    row.death.as_ref().map(|death| death.reason)
}

#[tokio::test]
async fn consent_that_a_later_spelling_withdrew_does_not_come_back_by_a_retry() {
    let world = World::with(flows());
    world.contacts.down(true);
    let given = form(&world, "given", "Ada@Example.com", true).await;
    world.poll().await;
    assert_eq!(world.row(&given).await.state, State::Retrying);
    world.contacts.down(false);
    let withdrawn = form(&world, "withdrawn", "ada@example.com", false).await;
    world.drain().await;
    for id in [given, withdrawn] {
        assert_eq!(world.row(&id).await.state, State::Succeeded);
    }
    assert_eq!(world.contacts.count(), 1, "however it is spelled");
    assert!(!is_mailed(&world, json!({})).await);
}

#[tokio::test]
async fn consent_that_a_later_spelling_withdrew_does_not_come_back_by_a_replay() {
    let world = World::with(flows());
    world.contacts.down(true);
    let given = form(&world, "given", "ADA@example.com", true).await;
    world.drain().await;
    world.park().await;
    assert_eq!(reason(&world.row(&given).await), Some(Reason::Expired));
    world.contacts.down(false);
    form(&world, "withdrawn", "ada@example.com", false).await;
    world.drain().await;

    ask(&world, json!({"op": "replay", "id": given, "by": "ada", "reason": "the table is back"})).await;
    world.drain().await;
    assert_eq!(world.row(&given).await.state, State::Succeeded);
    assert!(!is_mailed(&world, json!({})).await);

    form(&world, "given-again", "aDa@example.com", true).await;
    world.drain().await;
    assert!(is_mailed(&world, json!({"abandoned_at": "2026-11-16T10:00:00Z", "email": "ADA@EXAMPLE.COM"})).await);
}

/// No read and no second write where nothing is newer.
#[tokio::test]
async fn an_upsert_is_one_write() {
    let world = World::with(flows());
    form(&world, "one", "ada@example.com", true).await;
    world.drain().await;
    assert_eq!(world.contacts.writes(), 1);
}

fn row(line: u64, email: &str, at: &str, fields: Value) -> Value {
    json!({"line": line, "tenant": "acme", "email": email, "at": at, "fields": fields})
}

async fn import(world: &World, rows: Value, dry_run: bool) -> Vec<String> {
    let request =
        json!({"op": "import_contacts", "rows": rows, "dry_run": dry_run, "by": "ada", "reason": "the old CRM"});
    let answer = ask(world, request).await;
    let rows = answer["rows"].as_array().unwrap_or_else(|| panic!("{answer}"));
    rows.iter().map(|row| format!("{} {}", row["line"], row["outcome"].as_str().expect("an outcome"))).collect()
}

#[tokio::test]
async fn an_import_is_repeatable_and_undoes_no_newer_consent() {
    let world = World::with(flows());
    form(&world, "withdrawn", "ada@example.com", false).await;
    world.drain().await;
    let before = "2026-11-01T00:00:00Z";
    let rows = json!([
        row(2, "Ada@Example.com", before, json!({"consent_email": true})),
        row(3, "ADA@example.com", before, json!({"consent_email": true, "city": "London"})),
        row(4, "bob@example.com", before, json!({"consent_email": true})),
        row(5, "nobody", before, json!({"consent_email": true})),
        row(6, "eve@example.com", "2999-01-01T00:00:00Z", json!({"consent_email": true})),
        row(7, "eve@example.com", before, json!({"Consent": true})),
    ]);
    let first = ["2 newer", "3 changed", "4 created", "5 rejected", "6 rejected", "7 rejected"];
    assert_eq!(import(&world, rows.clone(), true).await, first, "a dry run");
    assert_eq!(world.contacts.count(), 1, "a dry run writes nothing");
    assert_eq!(import(&world, rows.clone(), false).await, first);
    let writes = world.contacts.writes();
    let again = ["2 newer", "3 newer", "4 unchanged", "5 rejected", "6 rejected", "7 rejected"];
    assert_eq!(import(&world, rows, false).await, again);
    assert_eq!(world.contacts.writes(), writes, "the same import again writes nothing");
    assert!(!is_mailed(&world, json!({})).await);
    assert!(is_mailed(&world, json!({"abandoned_at": "2026-11-16T10:00:00Z", "email": "bob@example.com"})).await);
}

#[tokio::test]
async fn an_operator_sets_a_field_which_older_events_do_not_undo() {
    let world = World::with(flows());
    let given = form(&world, "given", "ada@example.com", true).await;
    world.clock.advance(Duration::from_secs(1));
    let set = json!({"op": "set_contact", "tenant": "acme", "email": " ADA@example.com", "by": "ada",
                     "reason": "she called us", "fields": {"consent_email": false, "phone": null}});
    assert_eq!(ask(&world, set).await["created"], true);
    world.drain().await;
    assert_eq!(world.row(&given).await.state, State::Succeeded);

    let shown = ask(&world, json!({"op": "show_contact", "tenant": "acme", "email": "ada@example.com"})).await;
    let set_at = (NOW + Duration::from_secs(61)).to_string();
    assert_eq!(shown["fields"]["consent_email"], json!({"value": false, "at": set_at}));
    assert_eq!(shown["fields"]["phone"], json!({"removed": true, "at": set_at}));
    assert_eq!(shown["fields"]["first_name"]["value"], "***");
    assert_eq!(shown["signed_off"], format!("{set_at} by ada: she called us"));
    for secret in ["Lovelace", "example.com"] {
        assert!(!shown.to_string().contains(secret), "{shown}");
    }
    assert!(!is_mailed(&world, json!({})).await);
}

#[tokio::test]
async fn what_is_no_change_of_a_contact_is_declined_and_changes_nothing() {
    let world = World::with(flows());
    let base = json!({"op": "set_contact", "tenant": "acme", "email": "ada@example.com", "by": "ada", "reason": "r",
                      "fields": {"vip": true}});
    let many: Vec<Value> = (0..101).map(|n| row(n, "ada@example.com", "2026-11-01T00:00:00Z", json!({}))).collect();
    let bad = [
        ("email", json!("ada")),
        ("tenant", json!("")),
        ("fields", json!({})),
        ("fields", json!({"pk": "x"})),
        ("fields", json!({"vip": [1]})),
        ("by", json!(" ")),
        ("reason", json!("")),
    ];
    let mut requests: Vec<Value> = bad
        .into_iter()
        .map(|(name, value)| {
            let mut request = base.clone();
            request[name] = value;
            request
        })
        .collect();
    requests.push(json!({"op": "import_contacts", "rows": many, "by": "ada", "reason": "r"}));
    requests.push(json!({"op": "import_contacts", "rows": [], "by": "ada", "reason": "r"}));
    requests.push(json!({"op": "show_contact", "tenant": "acme", "email": "ada@example.com"}));
    for request in requests {
        let answer = ask(&world, request.clone()).await;
        let told = answer["error"].as_str().unwrap_or_else(|| panic!("{request}: {answer}"));
        assert!(!told.contains("ada@"), "{told}");
    }
    assert_eq!(world.contacts.count(), 0);
}
