//! The shipped flows and the switches, end to end through the local cloud.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::answers::DoubtfulEvent;
use super::new_lead;
use super::system::{SWITCHED, System, TRIES};
use crate::fixtures::{by_ada, lead_of, payload};

fn unique() -> String {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos().to_string()
}

/// A time zone where it is about noon: nobody is asleep there.
fn noon(now: i64) -> String {
    let hour = now / 3600 % 24;
    let offset = 12 - hour;
    // These are named the other way round: `Etc/GMT-3` is three hours ahead.
    if offset >= 0 { format!("Etc/GMT-{offset}") } else { format!("Etc/GMT+{}", -offset) }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_handshake_is_answered_to_whoever_has_its_token() {
    let system = System::take().await;
    let answer = system.handshake(None).await;
    assert_eq!((answer.status, answer.body), (200, json!(1_158_201_444)));
    assert_eq!(system.handshake(Some("guessed")).await.status, 401);
}

/// A contact that agrees to everything and is awake.
pub(super) async fn contact(system: &System) -> String {
    let email = format!("{}@example.com", unique());
    let mut form = payload("contact-submitted.json");
    form["data"]["email"] = json!(email);
    form["data"]["time_zone"] = json!(noon(system.now()));
    let key = [("idempotency-key", unique())];
    let id = system.send_from("web-forms", None, &form.to_string(), "application/json", &key).await.id();
    let page = system.until(&id, "succeeded").await;
    assert_eq!(page["effects"]["contact"]["result"]["created"], true, "{page}");
    email
}

pub(super) async fn cart(system: &System, email: &str, change: Value) -> String {
    let mut cart = payload("cart-abandoned.json");
    cart["email"] = json!(email);
    cart["customer_id"] = json!(unique());
    cart.as_object_mut().expect("an object").extend(change.as_object().cloned().unwrap_or_default());
    let cart = cart.to_string();
    system.send_from("storefront", Some("cart.abandoned"), &cart, "application/json", &[]).await.id()
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn every_flow_of_the_shop_runs_end_to_end() {
    let system = System::take().await;
    let email = contact(&system).await;

    let lead = system.post(&new_lead("shipped")).await.id();
    system.until(&lead, "succeeded").await;
    assert_eq!((system.calls_of("crm").await.len(), system.calls_of("analytics").await.len()), (1, 1));

    let cart = cart(&system, &email, json!({})).await;
    let page = system.until(&cart, "succeeded").await;
    let emails = system.calls_of("email").await;
    assert_eq!((system.calls_of("discounts").await.len(), emails.len()), (1, 1));
    assert_eq!(emails[0]["body"]["data"]["code"], page["effects"]["discount"]["result"]["code"]);

    for channel in ["sms", "push"] {
        let mut nudge = payload(&format!("cart-nudge-{channel}.json"));
        nudge["email"] = json!(email);
        nudge["cart_id"] = json!(unique());
        let kind = format!("cart.nudge.{channel}");
        let sent = system.send_from("storefront", Some(&kind), &nudge.to_string(), "application/json", &[]).await;
        system.until(&sent.id(), "succeeded").await;
        assert_eq!(system.calls_of(channel).await.len(), 1, "{channel}");
    }
}

/// 09:04:59 and 09:05:01, in both orders and all at once: the incident that this product comes from.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_cart_on_both_sides_of_an_edge_makes_one_code() {
    let system = System::take().await;
    let (before, after) = ("2026-11-16T09:04:59Z", "2026-11-16T09:05:01Z");
    for moments in [vec![before, after], vec![after, before], vec![before; 2]] {
        let (email, customer, codes) = (contact(&system).await, unique(), system.calls_of("discounts").await.len());
        let mut ids = BTreeSet::new();
        for at in &moments {
            let change = json!({"customer_id": customer, "cart_id": unique(), "abandoned_at": at});
            ids.insert(cart(&system, &email, change).await);
        }
        assert_eq!(ids.len(), 1, "{moments:?}");
        system.until(&ids.pop_first().expect("an id"), "succeeded").await;
        assert_eq!(system.calls_of("discounts").await.len(), codes + 1, "{moments:?}");
    }

    let (email, customer, codes) = (contact(&system).await, unique(), system.calls_of("discounts").await.len());
    let one = |n: usize| {
        let at = if n.is_multiple_of(2) { before } else { after };
        json!({"customer_id": customer, "cart_id": unique(), "abandoned_at": at})
    };
    let ids: BTreeSet<String> = join_all((0..20).map(|n| cart(&system, &email, one(n)))).await.into_iter().collect();
    assert_eq!(ids.len(), 1, "all at once");
    system.until(ids.first().expect("an id"), "succeeded").await;
    assert_eq!(system.calls_of("discounts").await.len(), codes + 1, "all at once");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn nobody_is_written_to_who_never_agreed() {
    let system = System::take().await;
    let id = cart(&system, &format!("{}@example.com", unique()), json!({})).await;
    let page = system.until(&id, "noop").await;
    assert_eq!(page["noop"], json!({"guard": "consent", "facts": {"channel": "email", "contact": "unknown"}}));
    assert_eq!(system.calls_of("email").await.len(), 0);
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_large_discount_waits_for_a_button_in_slack() {
    let system = System::take().await;
    let email = contact(&system).await;
    let id = cart(&system, &email, json!({"discount_percent": 40})).await;
    let page = system.until(&id, "awaiting_approval").await;
    assert_eq!(system.calls_of("slack").await.len(), 1, "one question");
    assert_eq!(system.calls_of("discounts").await.len(), 0);

    let hash = page["ask"]["hash"].as_str().expect("a hash");
    let mut press = payload("slack-approval.json");
    press["trigger_id"] = json!(unique());
    press["actions"][0]["value"] = json!(format!("{id} {hash}"));
    let form: String = form_urlencoded::byte_serialize(press.to_string().as_bytes()).collect();
    let pressed =
        system.send_from("slack", None, &format!("payload={form}"), "application/x-www-form-urlencoded", &[]).await;
    assert_eq!(pressed.status, 202, "{}", pressed.body);
    let page = system.until(&id, "succeeded").await;
    assert!(page["history"].to_string().contains("approved by slack:U0ADA"), "{page}");
    assert_eq!((system.calls_of("discounts").await.len(), system.calls_of("email").await.len()), (1, 1));
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn switches_are_in_force_within_seconds_with_no_deploy_and_no_restart() {
    let system = System::take().await;
    // Every container has read the board before it changes.
    let warm = system.post(&new_lead("warm")).await.id();
    system.until(&warm, "succeeded").await;

    system.operate(by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    let policy = json!({"op": "policy", "flow": "doubts", "retry": {"max_attempts": 1}});
    system.operate(by_ada(policy)).await;
    let careful = json!({"op": "safe_mode", "flow": "cart-recovery", "for": "10m"});
    let status = system.operate(by_ada(careful)).await;
    assert_eq!(status["board"]["flows"]["cart-recovery"]["safe_mode"]["by"], "ada", "{status}");
    sleep(SWITCHED).await;

    let paused = system.post(&new_lead("paused")).await.id();
    let page = system.until(&paused, "waiting").await;
    assert!(page["history"].to_string().contains("paused"), "{page}");
    assert_eq!(system.calls_of("crm").await.len(), 1, "the one before the pause");

    let email = contact(&system).await;
    let id = cart(&system, &email, json!({})).await;
    system.until(&id, "succeeded").await;
    let emails = system.calls_of("email").await;
    assert_eq!((emails.len(), &emails[0]["body"]["template"]), (1, &json!("cart-reminder")));
    assert_eq!(system.calls_of("discounts").await.len(), 0, "no codes in safe mode");

    system.operate(by_ada(json!({"op": "resume", "flow": "lead-routing"}))).await;
    system.until(&paused, "succeeded").await;

    system.tell("doubt-native", json!({"mode": "status", "status": 429})).await;
    let throttled = DoubtfulEvent::post(&system, "plain", "native").await;
    let line = system.until_parked(&throttled.id).await;
    assert_eq!((&line["reason"], &line["attempts"]), (&json!("attempts_spent"), &json!(1)), "the policy is in force");

    system.operate(by_ada(json!({"op": "policy", "flow": "doubts", "retry": {}}))).await;
    let off = system.operate(by_ada(json!({"op": "safe_mode", "flow": "cart-recovery", "for": "0s"}))).await;
    let newest = &off["board"]["turned"][0];
    assert_eq!((&newest["what"], &newest["by"]), (&json!("safe mode off"), &json!("ada")), "{off}");
    let left: Vec<&str> =
        ["all", "flows", "integrations"].into_iter().filter(|of| !off["board"][of].is_null()).collect();
    assert!(left.is_empty(), "nothing is left on: {off}");
    sleep(SWITCHED).await;
}

/// How many people have events while their flow is paused, and how many each of them has.
const PEOPLE: usize = 10;
const EACH: usize = 4;
const ALL: u64 = (PEOPLE * EACH) as u64;

/// A paused flow holds back many events in the ledger, and they go on at once, each person's in order.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn paused_events_leave_the_queue_and_go_on_in_order() {
    let system = System::take().await;
    system.operate(by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    futures::join!(sleep(SWITCHED), system.let_messages_return_soon());
    let name = unique();
    let emails: Vec<String> = (0..PEOPLE).map(|person| format!("{name}.{person}@example.com")).collect();
    let posted = join_all(emails.iter().map(|email| leads_of(&system, email))).await;
    for id in posted.iter().flatten() {
        system.until(id, "waiting").await;
    }
    assert_eq!(system.calls_of("crm").await.len(), 0);
    let resume = by_ada(json!({"op": "resume", "flow": "lead-routing"}));
    let mut woken = system.operate(resume).await["woken"].as_u64().expect("a count");
    assert!(woken <= ALL, "each once: {woken}");
    // A tick takes no longer than it may, and what it did not come to is the next one's.
    for _ in 0..TRIES {
        if woken < ALL {
            woken += system.operate(json!({"op": "wake"})).await["woken"].as_u64().expect("a count");
        }
    }
    assert!(woken >= ALL, "{woken}");
    for id in posted.iter().flatten() {
        system.until(id, "succeeded").await;
    }
    let calls = system.calls_of("crm").await;
    for email in &emails {
        let of_person = calls.iter().filter(|call| call["body"]["email"] == *email && call["applied"] == true);
        let numbers: Vec<&str> = of_person.filter_map(|call| call["body"]["company"].as_str()).collect();
        assert_eq!(numbers, ["0", "1", "2", "3"], "{email}");
    }
}

/// The ids of the leads of one person, posted one after the other.
async fn leads_of(system: &System, email: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..EACH {
        let mut lead = lead_of(&format!("evt_{email}_{number}"), email);
        lead["data"]["company"] = json!(number.to_string());
        ids.push(system.post(&lead).await.id());
    }
    ids
}

/// The flow of abandoned carts parks what its schema does not take.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_cart_in_another_shape_is_acknowledged_and_parked_with_the_places() {
    let system = System::take().await;
    let email = format!("{}@example.com", unique());
    let id = cart(&system, &email, json!({"total": "84.00"})).await;
    let again = cart(&system, &email, json!({"total": "84.00"})).await;
    assert_ne!(id, again, "another customer id, another body");
    let line = system.until_parked(&id).await;
    assert_eq!(line["reason"], "invalid", "{line}");
    assert_eq!(line["error"], "the event does not match the schema: /total breaks `type`", "{line}");
    let page = system.show(&id).await;
    assert!(page["preview"].to_string().contains("cart_id") && !page.to_string().contains(&email), "{page}");

    let declined = system.operate(by_ada(json!({"op": "replay", "id": id}))).await;
    assert!(declined["error"].as_str().is_some_and(|why| why.contains("/total breaks `type`")), "{declined}");
    for id in [id, again] {
        let dropped = system.operate(by_ada(json!({"op": "drop", "id": id}))).await;
        assert_eq!(dropped["state"], "dropped", "{dropped}");
    }
}
