//! The contract of the tokens that containers share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::aws::DynamoTokens;
use shared::effects::token::{SealedToken, TokenState, TokenStore, TokenSwap};
use shared::model::ModelTokens;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelTokens {
    ModelTokens::default()
}

async fn emulator() -> DynamoTokens {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    DynamoTokens::new(&aws().await, table)
}

on_model_and_emulator!(
    a_token_that_nobody_wrote_is_unknown,
    a_state_comes_back_as_it_was_written,
    a_swap_of_a_state_that_moved_on_is_refused_and_shows_it,
    a_swap_that_lands_twice_is_written,
    of_many_who_would_fetch_one_does,
    accounts_do_not_know_of_one_another,
);

/// A key that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    format!("token/{name}/{unique}")
}

/// The state in which a container fetches.
fn leased(version: u64) -> TokenState {
    TokenState { version, lease_until: NOW + Duration::from_secs(8), ..TokenState::default() }
}

/// A state that has everything.
fn whole(version: u64) -> TokenState {
    let token = SealedToken { sealed: "c2VhbGVk".into(), fetched_at: NOW, ends_at: NOW + Duration::from_secs(3600) };
    let (failures, retry_at, rejected_at) = (3, NOW + Duration::from_millis(4001), NOW);
    TokenState { token: Some(token), failures, retry_at, denied: true, rejected_at, ..leased(version) }
}

async fn swap(tokens: &impl TokenStore, key: &str, seen: u64, next: &TokenState) -> TokenSwap {
    tokens.swap(key, seen, next, NOW).await.expect("an answer")
}

async fn a_token_that_nobody_wrote_is_unknown(tokens: impl TokenStore) {
    assert_eq!(tokens.read(&fresh("unknown")).await, Ok(None));
    let refused = swap(&tokens, &fresh("never"), 7, &leased(8)).await;
    assert_eq!(refused, TokenSwap::Moved(None), "nothing is written in the place of what is not there");
}

async fn a_state_comes_back_as_it_was_written(tokens: impl TokenStore) {
    let key = fresh("whole");
    for (seen, state) in [(0, leased(u64::MAX)), (u64::MAX, whole(1)), (1, leased(2))] {
        assert_eq!(swap(&tokens, &key, seen, &state).await, TokenSwap::Written);
        assert_eq!(tokens.read(&key).await, Ok(Some(state)));
    }
}

async fn a_swap_of_a_state_that_moved_on_is_refused_and_shows_it(tokens: impl TokenStore) {
    let key = fresh("moved");
    assert_eq!(swap(&tokens, &key, 0, &leased(1)).await, TokenSwap::Written);
    assert_eq!(swap(&tokens, &key, 1, &whole(2)).await, TokenSwap::Written);
    for seen in [0, 1, 3] {
        assert_eq!(swap(&tokens, &key, seen, &leased(9)).await, TokenSwap::Moved(Some(whole(2))), "{seen}");
    }
    assert_eq!(tokens.read(&key).await, Ok(Some(whole(2))));
}

async fn a_swap_that_lands_twice_is_written(tokens: impl TokenStore) {
    let key = fresh("twice");
    for _ in 0..2 {
        assert_eq!(swap(&tokens, &key, 0, &leased(1)).await, TokenSwap::Written);
    }
}

async fn of_many_who_would_fetch_one_does(tokens: impl TokenStore) {
    let key = fresh("race");
    let states: Vec<TokenState> = (1..=30).map(leased).collect();
    let swaps = join_all(states.iter().map(|state| swap(&tokens, &key, 0, state))).await;
    assert_eq!(swaps.iter().filter(|swap| **swap == TokenSwap::Written).count(), 1);
    let stored = tokens.read(&key).await.expect("an answer");
    assert!(swaps.iter().all(|swap| matches!(swap, TokenSwap::Written) || *swap == TokenSwap::Moved(stored.clone())));
}

async fn accounts_do_not_know_of_one_another(tokens: impl TokenStore) {
    let (one, other) = (fresh("one"), fresh("other"));
    assert_eq!(swap(&tokens, &one, 0, &whole(1)).await, TokenSwap::Written);
    assert_eq!(tokens.read(&other).await, Ok(None));
}
