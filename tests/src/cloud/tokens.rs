//! Partners that give tokens, over the stub: it checks the client's secret and the signature of an assertion, and its API
//! takes the tokens that it gave, and no others.

use serde_json::{Value, json};

use super::system::System;

async fn post(system: &System, effect: &str) -> String {
    let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let event = json!({"type": "token.needed", "data": {"event_id": format!("{effect}-{unique}"), "effect": effect}});
    system.post(&event).await.id()
}

/// The statuses of all calls to a partner, in order.
async fn statuses(system: &System, partner: &str) -> Vec<Value> {
    system.calls_of(partner).await.iter().map(|call| call["status"].clone()).collect()
}

/// A token is fetched after an end-point that fails, shared by two events, and fetched anew when the partner has forgotten it.
async fn takes_tokens(partner: &str, grant: &str) {
    let system = System::take().await;
    let token = format!("{partner}/token");
    system.tell(&token, json!({"mode": "status", "status": 503, "times": 1})).await;
    let first = post(&system, partner).await;
    let page = system.until(&first, "succeeded").await;
    assert_eq!(page["effects"][partner]["attempts"], 1, "an end-point that fails is no attempt: {page}");
    let second = post(&system, partner).await;
    system.until(&second, "succeeded").await;
    assert_eq!(statuses(&system, partner).await, [200, 200]);
    let fetched = system.calls_of(&token).await;
    assert_eq!(fetched.iter().map(|call| call["status"].clone()).collect::<Vec<_>>(), [503, 200], "{fetched:?}");
    assert!(fetched.iter().all(|call| call["body"] == json!({"grant_type": grant})), "{fetched:?}");

    system.forget_partners().await;
    let third = post(&system, partner).await;
    let page = system.until(&third, "succeeded").await;
    assert_eq!(statuses(&system, partner).await, [401, 200], "it surely did nothing, and the token was renewed");
    assert_eq!((statuses(&system, &token).await, &page["effects"][partner]["attempts"]), (vec![json!(200)], &json!(1)));
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn client_credentials_are_exchanged_for_a_token() {
    takes_tokens("token-oauth2", "client_credentials").await;
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_signed_assertion_is_exchanged_for_a_token() {
    takes_tokens("token-jwt-bearer", "urn:ietf:params:oauth:grant-type:jwt-bearer").await;
}
