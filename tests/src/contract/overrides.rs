//! The overrides' contract.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::{DynamoOverrides, aws};
use shared::flow::Flow;
use shared::model::ModelOverrides;
use shared::overrides::{Accepted, Policies, Problem, Source, Stored, accept};
use shared::ports::{Overrides, WriteError};

use super::on_model_and_emulator;
use crate::fixtures::{NOW, lead_routing};

fn model() -> ModelOverrides {
    ModelOverrides::default()
}

async fn emulator() -> DynamoOverrides {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    DynamoOverrides::new(&aws().await, table)
}

on_model_and_emulator!(
    what_was_put_is_read_with_its_version,
    a_version_that_moved_on_is_not_replaced,
    a_repeated_write_is_harmless,
    of_many_at_once_one_is_written,
    a_change_is_in_force_within_seconds_and_can_be_taken_back,
);

/// A flow that no other test and no earlier run knows.
fn fresh(name: &str) -> Flow {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    Flow { name: format!("{name}-{unique}"), ..lead_routing() }
}

fn attempts(flow: &Flow, attempts: u32) -> Accepted {
    accept(flow, &format!(r#"{{"max_attempts": {attempts}}}"#)).expect("a good override")
}

async fn what_was_put_is_read_with_its_version(overrides: impl Overrides) {
    let flow = fresh("read");
    assert_eq!(overrides.read(&flow.name).await, Ok(None));
    for version in 1..=3 {
        let accepted = attempts(&flow, version);
        assert_eq!(overrides.put(&accepted, u64::from(version) - 1).await, Ok(u64::from(version)));
        let stored = Stored { version: version.into(), text: accepted.text().into() };
        assert_eq!(overrides.read(&flow.name).await, Ok(Some(stored)));
    }
}

async fn a_version_that_moved_on_is_not_replaced(overrides: impl Overrides) {
    let flow = fresh("moved-on");
    assert_eq!(overrides.put(&attempts(&flow, 5), 1).await, Err(WriteError::Fenced), "there is none yet");
    overrides.put(&attempts(&flow, 5), 0).await.expect("the first");
    overrides.put(&attempts(&flow, 6), 1).await.expect("the second");
    assert_eq!(overrides.put(&attempts(&flow, 7), 0).await, Err(WriteError::Fenced));
    assert_eq!(overrides.put(&attempts(&flow, 7), 1).await, Err(WriteError::Fenced));
    assert_eq!(overrides.read(&flow.name).await.expect("an answer").map(|stored| stored.version), Some(2));
}

async fn a_repeated_write_is_harmless(overrides: impl Overrides) {
    let flow = fresh("repeated");
    for seen in [0, 0, 1, 1] {
        assert_eq!(overrides.put(&attempts(&flow, 5), seen).await, Ok(seen + 1));
    }
}

async fn of_many_at_once_one_is_written(overrides: impl Overrides) {
    let flow = fresh("race");
    let changes: Vec<Accepted> = (1..=20).map(|n| attempts(&flow, n)).collect();
    let written = join_all(changes.iter().map(|change| overrides.put(change, 0))).await;
    assert_eq!(written.iter().filter(|written| **written == Ok(1)).count(), 1);
    assert!(written.iter().all(|written| matches!(written, Ok(1) | Err(WriteError::Fenced))));
}

async fn a_change_is_in_force_within_seconds_and_can_be_taken_back<O>(overrides: O)
where
    O: Overrides + Clone + 'static,
{
    let flow = fresh("in-force");
    let policies = Policies::new(Box::new(overrides.clone()));
    let at = |secs| NOW + Duration::from_secs(secs);
    assert_eq!(policies.in_force(&flow, at(0)).await.source, Source::Flow);
    overrides.put(&attempts(&flow, 7), 0).await.expect("an answer");
    assert_eq!(policies.in_force(&flow, at(4)).await.source, Source::Flow);
    let changed = policies.in_force(&flow, at(5)).await;
    assert_eq!((changed.policy.max_attempts, changed.source), (7, Source::Override(1)));
    overrides.put(&accept(&flow, "{}").expect("nothing"), 1).await.expect("an answer");
    let back = policies.in_force(&flow, at(10)).await;
    assert_eq!((back.policy, back.source), (flow.retry, Source::Flow));
}

#[tokio::test]
async fn a_crowd_asks_the_store_once_a_period() {
    let (overrides, flow) = (model(), fresh("crowd"));
    overrides.put(&attempts(&flow, 7), 0).await.expect("an answer");
    let policies = Policies::new(Box::new(overrides.clone()));
    let crowd = join_all((0..50).map(|_| policies.in_force(&flow, NOW))).await;
    assert!(crowd.iter().all(|in_force| in_force.source == Source::Override(1)), "nobody goes by less");
    assert_eq!(overrides.reads(), 1);
}

#[tokio::test]
async fn a_scribble_or_an_outage_keeps_the_last_good_one() {
    let (overrides, flow) = (model(), fresh("scribble"));
    overrides.put(&attempts(&flow, 7), 0).await.expect("an answer");
    let policies = Policies::new(Box::new(overrides.clone()));
    let at = |secs| NOW + Duration::from_secs(secs);
    assert_eq!(policies.in_force(&flow, at(0)).await.source, Source::Override(1));
    overrides.scribble(&flow.name, 2, "max_attempts = 99");
    let kept = policies.in_force(&flow, at(5)).await;
    assert!(matches!(kept.source, Source::LastGood(Problem::Bad { version: 2, .. })), "{:?}", kept.source);
    overrides.down(true);
    let kept = policies.in_force(&flow, at(10)).await;
    assert!(matches!(kept.source, Source::LastGood(Problem::Unavailable(_))), "{:?}", kept.source);
    assert_eq!(kept.policy.max_attempts, 7);
}
