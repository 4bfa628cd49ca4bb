//! The contract of what was applied last.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::aws::DynamoLatest;
use shared::base::time::Timestamp;
use shared::model::ModelLatest;
use shared::operate::stale_guard::Latest;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelLatest {
    ModelLatest::default()
}

async fn emulator() -> DynamoLatest {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    DynamoLatest::new(&aws().await, table)
}

on_model_and_emulator!(
    nothing_is_applied_at_first,
    the_latest_stays_whatever_comes_after_it,
    entities_do_not_know_of_one_another,
    of_many_at_once_the_latest_stays,
);

fn after(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

/// An entity that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    format!("latest/contact-intake/{name}-{unique}")
}

async fn apply(latest: &impl Latest, key: &str, secs: u64) -> Option<Timestamp> {
    latest.apply(key, after(secs), after(1_000_000).secs()).await.expect("an answer")
}

async fn nothing_is_applied_at_first(latest: impl Latest) {
    assert_eq!(latest.applied(&fresh("nothing")).await, Ok(None));
}

async fn the_latest_stays_whatever_comes_after_it(latest: impl Latest) {
    let key = fresh("stays");
    for (secs, stays) in [(10, 10), (5, 10), (10, 10), (11, 11), (0, 11)] {
        let newer = Some(after(stays)).filter(|_| stays > secs);
        assert_eq!(apply(&latest, &key, secs).await, newer, "{secs}");
        assert_eq!(latest.applied(&key).await, Ok(Some(after(stays))), "{secs}");
    }
}

async fn entities_do_not_know_of_one_another(latest: impl Latest) {
    let (one, other) = (fresh("one"), fresh("other"));
    apply(&latest, &one, 10).await;
    assert_eq!(latest.applied(&other).await, Ok(None));
}

async fn of_many_at_once_the_latest_stays(latest: impl Latest) {
    let key = fresh("race");
    join_all((0..20).map(|secs| apply(&latest, &key, secs))).await;
    assert_eq!(latest.applied(&key).await, Ok(Some(after(19))));
}
