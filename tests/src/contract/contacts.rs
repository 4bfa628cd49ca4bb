//! The contacts' contract.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use serde_json::{Value, json};
use shared::adapters::aws::DynamoContacts;
use shared::base::id::EventId;
use shared::effects::contact::{Contact, ContactUpsert, Contacts, Scalar, Upserted};
use shared::ledger::SignOff;
use shared::model::ModelContacts;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelContacts {
    ModelContacts::default()
}

async fn emulator() -> DynamoContacts {
    let table = std::env::var("LEDGERLINE_CONTACTS_TABLE").expect("make test names the table");
    DynamoContacts::new(&aws().await, table)
}

on_model_and_emulator!(
    a_contact_is_created_once,
    the_same_upsert_again_changes_nothing_and_says_the_same,
    fields_are_merged_left_alone_and_removed,
    every_kind_of_value_comes_back_as_it_was,
    a_field_may_be_called_as_a_reserved_word,
    of_many_at_once_one_creates_and_all_are_merged,
    tenants_do_not_share_contacts,
    an_older_event_changes_only_what_no_newer_one_has,
    what_a_newer_event_removed_stays_removed,
    of_two_events_of_one_moment_the_same_wins_in_either_order,
    of_many_at_once_the_newest_stands,
    an_operators_sign_off_is_kept,
);

/// An email that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    format!("{name}-{unique}@example.com")
}

fn upsert(email: &str, fields: Value) -> ContactUpsert {
    ContactUpsert::new("acme", email, fields.as_object().expect("an object")).expect("a contact")
}

async fn upserted(contacts: &impl Contacts, email: &str, event: &str, fields: Value) -> Upserted {
    received(contacts, email, event, 0, fields).await
}

/// An upsert by an event that was received so many seconds after the first.
async fn received(contacts: &impl Contacts, email: &str, event: &str, secs: u64, fields: Value) -> Upserted {
    let at = NOW + Duration::from_secs(secs);
    contacts.upsert(&upsert(email, fields), &EventId::named(event), at).await.expect("an answer")
}

async fn known(contacts: &impl Contacts, email: &str) -> Contact {
    contacts.read(upsert(email, json!({})).id()).await.expect("an answer").expect("a contact")
}

/// The fields as JSON: a failed test shows only invented people.
fn json_of(fields: &BTreeMap<String, Scalar>) -> Value {
    fields.iter().map(|(name, value)| (name.clone(), value.into())).collect::<serde_json::Map<_, _>>().into()
}

async fn a_contact_is_created_once(contacts: impl Contacts) {
    let email = fresh("once");
    let first = upserted(&contacts, &email, "evt_1", json!({})).await;
    let second = upserted(&contacts, &format!(" {} ", email.to_uppercase()), "evt_2", json!({})).await;
    assert_eq!((first.created, second.created), (true, false));
    assert_eq!(first.id, second.id, "however the email is written");
}

async fn the_same_upsert_again_changes_nothing_and_says_the_same(contacts: impl Contacts) {
    let email = fresh("again");
    let fields = json!({"first_name": "Ada", "phone": null});
    let first = upserted(&contacts, &email, "evt_1", fields.clone()).await;
    let again = upserted(&contacts, &email, "evt_1", fields).await;
    assert_eq!(first, again);
    assert!(again.created, "a repetition of the write that created it created it");
}

async fn fields_are_merged_left_alone_and_removed(contacts: impl Contacts) {
    let email = fresh("merge");
    upserted(&contacts, &email, "evt_1", json!({"first_name": "Ada", "company": "Acme", "phone": "1"})).await;
    let merged = upserted(&contacts, &email, "evt_2", json!({"company": "Globex", "phone": null, "vip": true})).await;
    assert_eq!(json_of(&merged.fields), json!({"first_name": "Ada", "company": "Globex", "vip": true}));
    let untouched = upserted(&contacts, &email, "evt_3", json!({"never_was": null})).await;
    assert_eq!(json_of(&merged.fields), json_of(&untouched.fields));
}

async fn every_kind_of_value_comes_back_as_it_was(contacts: impl Contacts) {
    let fields =
        json!({"text": "Zoë 🦀", "empty": "", "whole": -7, "large": u64::MAX, "part": 1.5, "yes": true, "no": false});
    let kept = upserted(&contacts, &fresh("kinds"), "evt_1", fields.clone()).await;
    assert_eq!(json_of(&kept.fields), fields);
}

async fn a_field_may_be_called_as_a_reserved_word(contacts: impl Contacts) {
    let fields = json!({"name": "a", "status": "b", "at": "c", "by": "d", "at_": "e", "slot": "f", "size": 1});
    let kept = upserted(&contacts, &fresh("reserved"), "evt_1", fields.clone()).await;
    assert_eq!(json_of(&kept.fields), fields);
}

async fn of_many_at_once_one_creates_and_all_are_merged(contacts: impl Contacts) {
    let email = fresh("race");
    let events: Vec<String> = (0..20).map(|n| format!("evt_{n}")).collect();
    let all = join_all((0..).zip(&events).map(|(n, event)| upserted(&contacts, &email, event, field(n)))).await;
    assert_eq!(all.iter().filter(|upserted| upserted.created).count(), 1);
    let last = upserted(&contacts, &email, "evt_last", json!({})).await;
    assert_eq!(last.fields.len(), 20, "no field was lost");
}

async fn tenants_do_not_share_contacts(contacts: impl Contacts) {
    let email = fresh("tenants");
    upserted(&contacts, &email, "evt_1", json!({"first_name": "Ada"})).await;
    let other = ContactUpsert::new("globex", &email, &serde_json::Map::new()).expect("a contact");
    let later = NOW + Duration::from_secs(1);
    let other = contacts.upsert(&other, &EventId::named("evt_2"), later).await.expect("an answer");
    assert!(other.created && other.fields.is_empty());
}

async fn an_older_event_changes_only_what_no_newer_one_has(contacts: impl Contacts) {
    let email = fresh("older");
    received(&contacts, &email, "evt_2", 2, json!({"consent_email": false, "company": "Globex"})).await;
    let older = json!({"consent_email": true, "company": "Acme", "first_name": "Ada"});
    let respelled = format!(" {}", email.to_uppercase());
    for _ in 0..2 {
        let late = received(&contacts, &respelled, "evt_1", 1, older.clone()).await;
        let stands = json!({"consent_email": false, "company": "Globex", "first_name": "Ada"});
        assert_eq!(json_of(&late.fields), stands);
        assert_eq!(late.overtaken.iter().collect::<Vec<_>>(), ["company", "consent_email"]);
    }
    let none_left = received(&contacts, &email, "evt_0", 0, json!({"first_name": "Eve"})).await;
    assert_eq!(json_of(&none_left.fields)["first_name"], "Ada");
    let newest = received(&contacts, &email, "evt_3", 3, json!({"consent_email": true})).await;
    assert_eq!((newest.overtaken.len(), &json_of(&newest.fields)["consent_email"]), (0, &json!(true)));
}

async fn what_a_newer_event_removed_stays_removed(contacts: impl Contacts) {
    let email = fresh("removed");
    received(&contacts, &email, "evt_2", 2, json!({"consent_email": null})).await;
    let late = received(&contacts, &email, "evt_1", 1, json!({"consent_email": true, "vip": true})).await;
    assert_eq!(json_of(&late.fields), json!({"vip": true}));
    let contact = known(&contacts, &email).await;
    assert_eq!(contact.changed_at("consent_email"), Some(NOW + Duration::from_secs(2)));
}

async fn of_two_events_of_one_moment_the_same_wins_in_either_order(contacts: impl Contacts) {
    for order in [["evt_a", "evt_b"], ["evt_b", "evt_a"]] {
        let email = fresh("tie");
        for event in order {
            received(&contacts, &email, event, 1, json!({"by_event": event})).await;
        }
        assert_eq!(json_of(&known(&contacts, &email).await.fields), json!({"by_event": "evt_b"}));
    }
}

async fn of_many_at_once_the_newest_stands(contacts: impl Contacts) {
    let email = fresh("newest");
    let events: Vec<(String, Value)> = (0..12)
        .map(|n| (format!("evt_{n}"), json!({"shared": n, "also_shared": n, format!("own_{}", n % 3): n})))
        .collect();
    let writes = (0..).zip(&events).map(|(n, (event, fields))| received(&contacts, &email, event, n, fields.clone()));
    join_all(writes).await;
    let stands = json!({"shared": 11, "also_shared": 11, "own_0": 9, "own_1": 10, "own_2": 11});
    assert_eq!(json_of(&known(&contacts, &email).await.fields), stands);
}

async fn an_operators_sign_off_is_kept(contacts: impl Contacts) {
    let email = fresh("signed");
    let sign_off = SignOff::new("ada", "she called us").expect("a sign-off");
    let signed = upsert(&email, json!({"consent_email": false})).signed(sign_off, NOW);
    contacts.upsert(&signed, &signed.change_id(NOW), NOW).await.expect("an answer");
    received(&contacts, &email, "evt_1", 1, json!({"vip": true})).await;
    let contact = known(&contacts, &email).await;
    assert_eq!(contact.signed_off.as_deref(), Some(format!("{NOW} by ada: she called us").as_str()));
    assert_eq!(json_of(&contact.fields), json!({"consent_email": false, "vip": true}));
}

fn field(n: u32) -> Value {
    [(format!("f{n}"), json!(n))].into_iter().collect::<serde_json::Map<_, _>>().into()
}
