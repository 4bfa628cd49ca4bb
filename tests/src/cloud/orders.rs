//! The flow that the README shows, end to end: an order that Shopify says is paid, and four partners of the catalogue that
//! do as they are told. Each of them loses an answer, or says no, in the way that its own API does.

use serde_json::{Value, json};

use super::system::System;
use crate::fixtures::{by_ada, payload};

/// Somebody has paid: an order that no other test knows.
async fn pay(system: &System, change: Value) -> String {
    let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let mut order = payload("shopify-order-paid.json");
    order["id"] = json!(u64::try_from(unique).expect("before the year 2500"));
    order["name"] = json!(format!("#{unique}"));
    order["email"] = json!(format!("Jon.{unique}@example.com"));
    order.as_object_mut().expect("an object").extend(change.as_object().cloned().unwrap_or_default());
    let sent = system.send_from("shopify", Some("orders/paid"), &order.to_string(), "application/json", &[]).await;
    assert_eq!(sent.status, 202, "{}", sent.body);
    sent.id()
}

/// How often the partner did what it was asked, and how often it was asked.
async fn applied_of_posts(system: &System, partner: &str) -> (usize, usize) {
    let mut calls = system.calls_of(partner).await;
    calls.retain(|call| call["method"] == "POST");
    assert!(calls.iter().all(|call| call["authorized"] == true), "{calls:?}");
    (calls.iter().filter(|call| call["applied"] == true).count(), calls.len())
}

/// The body of the only call that this partner got.
async fn only_call(system: &System, partner: &str, path: &str, content_type: &str) -> Value {
    let calls = system.calls_of(partner).await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!((&calls[0]["path"], &calls[0]["content_type"]), (&json!(path), &json!(content_type)));
    assert_eq!(calls[0]["authorized"], true);
    calls[0]["body"].clone()
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_paid_order_reaches_all_four_partners() {
    let system = System::take().await;
    let id = pay(&system, json!({"name": "#9999", "email": "Jon@example.com"})).await;
    let page = system.until(&id, "succeeded").await;

    let event = only_call(&system, "klaviyo", "/klaviyo/events", "application/vnd.api+json").await;
    let attributes = &event["data"]["attributes"];
    assert_eq!(attributes["unique_id"], format!("{id}/klaviyo"));
    assert_eq!(attributes["value"], 398.0);
    assert_eq!(attributes["properties"]["Items"], json!(["IPod Nano - 8GB", "IPod Nano - 8GB"]));

    let form = "application/x-www-form-urlencoded";
    let sms = only_call(&system, "twilio", "/twilio/Messages.json", form).await;
    let text = "Thank you! We have your order #9999.";
    assert_eq!(sms, json!({"To": "+15555550123", "From": "+15555550100", "Body": text}));

    let contact =
        only_call(&system, "hubspot", "/hubspot/crm/v3/objects/contacts/batch/upsert", "application/json").await;
    assert_eq!(contact["inputs"][0]["id"], "jon@example.com");

    let line = only_call(&system, "slack", "/slack/chat.postMessage", form).await;
    assert_eq!((&line["channel"], &line["text"]), (&json!("C0ORDERS"), &json!("#9999 is paid: 398.00 USD")));
    for (effect, result) in [("sms", "sid"), ("hubspot", "contact_id"), ("slack", "ts")] {
        assert!(page["effects"][effect]["result"][result].is_string(), "{effect}: {page}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn nobody_without_a_phone_gets_an_sms() {
    let system = System::take().await;
    let id = pay(&system, json!({"phone": null})).await;
    let page = system.until(&id, "succeeded").await;
    assert_eq!(page["effects"]["sms"]["state"], "skipped", "{page}");
    assert_eq!(system.calls_of("twilio").await.len(), 0);
    for partner in ["klaviyo", "hubspot", "slack"] {
        assert_eq!(applied_of_posts(&system, partner).await, (1, 1), "{partner}");
    }
}

/// Klaviyo knows the event by its id, HubSpot says that somebody else is at the contact, and Twilio is asked.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn partners_that_lose_their_answers_or_are_busy_act_once() {
    let system = System::take().await;
    for partner in ["klaviyo", "twilio"] {
        system.tell(partner, json!({"mode": "hang", "apply": true, "seconds": 30, "times": 1})).await;
    }
    system.tell("hubspot", json!({"mode": "status", "status": 409, "times": 1})).await;
    let id = pay(&system, json!({})).await;
    let page = system.until(&id, "succeeded").await;

    assert_eq!(applied_of_posts(&system, "klaviyo").await, (1, 2), "the same event, under the same id");
    assert_eq!(applied_of_posts(&system, "twilio").await, (1, 1), "no second SMS");
    let twilio = system.calls_of("twilio").await;
    let asked = twilio.iter().find(|call| call["method"] == "GET").unwrap_or_else(|| panic!("{twilio:?}"));
    assert_eq!(asked["path"], "/twilio/Messages.json?PageSize=100&To=%2B15555550123");
    assert!(page["effects"]["sms"]["result"]["sid"].as_str().is_some_and(|sid| sid.starts_with("SM")), "{page}");
    assert_eq!(applied_of_posts(&system, "hubspot").await, (1, 2), "the conflict did nothing");
    assert_eq!(applied_of_posts(&system, "slack").await, (1, 1));
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn slack_says_no_with_a_200_and_the_order_waits_for_a_human() {
    let system = System::take().await;
    system.tell("slack", json!({"mode": "status", "status": 200, "apply": false, "times": 1})).await;
    let id = pay(&system, json!({})).await;
    let line = system.until_parked(&id).await;
    assert_eq!((&line["reason"], &line["effect"]), (&json!("terminal"), &json!("slack")), "{line}");
    assert!(line["error"].as_str().is_some_and(|told| told.contains("channel_not_found")), "{line}");
    assert_eq!(applied_of_posts(&system, "slack").await, (0, 1));

    system.operate(by_ada(json!({"op": "replay", "id": id}))).await;
    system.until(&id, "succeeded").await;
    assert_eq!(applied_of_posts(&system, "slack").await, (1, 2));
    for partner in ["klaviyo", "twilio", "hubspot"] {
        assert_eq!(applied_of_posts(&system, partner).await, (1, 1), "what is done stays done: {partner}");
    }
}

/// The catalogue knows how Slack is asked, but the flow trusts it with nothing: it may lack the right to read the channel.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn slack_acts_and_is_silent_and_a_human_says_what_happened() {
    let system = System::take().await;
    system.tell("slack", json!({"mode": "hang", "apply": true, "seconds": 30, "times": 1})).await;
    let id = pay(&system, json!({})).await;
    let line = system.until_parked(&id).await;
    assert_eq!((&line["reason"], &line["effect"]), (&json!("unknown_outcome"), &json!("slack")), "{line}");

    let page = system.show(&id).await;
    let verdict = json!({"happened": {"ts": "1794819600.000100"}});
    let resolve = json!({"op": "resolve", "id": id, "effect": "slack", "verdict": verdict, "version": page["version"]});
    system.operate(by_ada(resolve)).await;
    system.operate(by_ada(json!({"op": "replay", "id": id}))).await;
    system.until(&id, "succeeded").await;
    let calls = system.calls_of("slack").await;
    assert_eq!((calls.len(), &calls[0]["method"]), (1, &json!("POST")), "nobody was asked: {calls:?}");
    assert_eq!(applied_of_posts(&system, "slack").await, (1, 1));
}
