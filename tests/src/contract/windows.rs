//! The contract of the anchors.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::aws::DynamoWindows;
use shared::arrival::window::{Anchors, MAX_ANCHORS, NotAnchored, Placement, Sighting, Windows, anchor};
use shared::base::time::Timestamp;
use shared::model::ModelWindows;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelWindows {
    ModelWindows::default()
}

async fn emulator() -> DynamoWindows {
    let table = std::env::var("LEDGERLINE_LEDGER_TABLE").expect("make test names the table");
    DynamoWindows::new(&aws().await, table)
}

on_model_and_emulator!(
    the_first_is_written_and_the_next_sees_it,
    what_is_close_has_one_anchor_in_either_order,
    exactly_the_window_apart_is_close,
    what_lies_between_is_written_under_the_version_that_was_seen,
    a_repeated_write_changes_nothing,
    of_many_at_the_same_moment_all_have_one_anchor,
    a_storm_leaves_no_two_anchors_that_are_close,
    a_full_key_forgets_its_oldest,
    keys_do_not_know_of_one_another,
);

const WITHIN: Duration = Duration::from_secs(300);

/// A key that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    format!("{name}-{unique}")
}

fn at(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

fn sighting(key: &str, secs: u64) -> Sighting {
    Sighting { key: key.into(), moment: at(secs), within: WITHIN, expires_at: at(1_000_000).secs() }
}

async fn anchored(windows: &impl Windows, key: &str, secs: u64) -> Timestamp {
    anchor(windows, &sighting(key, secs), at(1_000_000)).await.expect("an anchor")
}

/// The anchors of a key, as a write sees them that must fail.
async fn seen(windows: &impl Windows, key: &str) -> Anchors {
    windows.append(&sighting(key, 0)).await.expect("an answer").expect_err("it is not behind all")
}

async fn the_first_is_written_and_the_next_sees_it(windows: impl Windows) {
    let key = fresh("first");
    assert_eq!(windows.append(&sighting(&key, 1000)).await, Ok(Ok(())));
    let expected = Anchors { moments: vec![at(1000)], forgotten: None, version: 1 };
    assert_eq!(windows.append(&sighting(&key, 1000)).await, Ok(Err(expected)));
    assert_eq!(windows.append(&sighting(&key, 1301)).await, Ok(Ok(())), "behind all");
    let expected = Anchors { moments: vec![at(1000), at(1301)], forgotten: None, version: 2 };
    assert_eq!(seen(&windows, &key).await, expected);
}

async fn what_is_close_has_one_anchor_in_either_order(windows: impl Windows) {
    for (name, first, second) in [("in-order", 299, 301), ("out-of-order", 301, 299), ("same", 300, 300)] {
        let key = fresh(name);
        assert_eq!(anchored(&windows, &key, first).await, at(first));
        assert_eq!(anchored(&windows, &key, second).await, at(first), "{name}");
        assert_eq!(seen(&windows, &key).await.moments, [at(first)], "{name}");
    }
}

async fn exactly_the_window_apart_is_close(windows: impl Windows) {
    let key = fresh("exactly");
    assert_eq!(anchored(&windows, &key, 1000).await, at(1000));
    for (secs, own) in [(1300, false), (700, false), (1301, true), (699, true)] {
        assert_eq!(anchored(&windows, &key, secs).await, at(if own { secs } else { 1000 }), "{secs}");
    }
}

async fn what_lies_between_is_written_under_the_version_that_was_seen(windows: impl Windows) {
    let key = fresh("between");
    for secs in [0, 2000] {
        anchored(&windows, &key, secs).await;
    }
    let between = sighting(&key, 1000);
    let Placement::New(next) = seen(&windows, &key).await.place(&between) else { panic!("it is new") };
    assert_eq!(anchored(&windows, &key, 3000).await, at(3000), "another is faster");
    let now = windows.replace(&between, &next).await.expect("an answer").expect_err("the anchors have changed");
    assert_eq!(now.moments, [at(0), at(2000), at(3000)]);
    let Placement::New(next) = now.place(&between) else { panic!("it is new") };
    assert_eq!(windows.replace(&between, &next).await, Ok(Ok(())));
    assert_eq!(seen(&windows, &key).await, next);
}

async fn a_repeated_write_changes_nothing(windows: impl Windows) {
    let key = fresh("repeated");
    anchored(&windows, &key, 2000).await;
    let before = sighting(&key, 1000);
    let Placement::New(next) = seen(&windows, &key).await.place(&before) else { panic!("it is new") };
    assert_eq!(windows.replace(&before, &next).await, Ok(Ok(())));
    assert_eq!(windows.replace(&before, &next).await, Ok(Err(next.clone())));
    assert_eq!(next.place(&before), Placement::Of(at(1000)), "its own anchor");
}

async fn of_many_at_the_same_moment_all_have_one_anchor(windows: impl Windows) {
    let key = fresh("same");
    let anchors: BTreeSet<_> = join_all((0..30).map(|_| anchored(&windows, &key, 1000))).await.into_iter().collect();
    assert_eq!(anchors.into_iter().collect::<Vec<_>>(), [at(1000)]);
    assert_eq!(seen(&windows, &key).await.version, 1);
}

/// Whoever had to give up tries again, as its sender would.
async fn a_storm_leaves_no_two_anchors_that_are_close(windows: impl Windows) {
    let key = fresh("storm");
    let moments: Vec<u64> = (0..60).map(|n| n * 7919 % 3001).collect();
    let until_anchored = async |secs: u64| loop {
        match anchor(&windows, &sighting(&key, secs), at(1_000_000)).await {
            Ok(anchor) => return (secs, anchor),
            Err(NotAnchored::Unavailable(_)) => (),
            Err(other) => panic!("{other:?}"),
        }
    };
    let anchored = join_all(moments.into_iter().map(until_anchored)).await;
    let kept = seen(&windows, &key).await.moments;
    assert!(kept.windows(2).all(|two| two[1].since(two[0]) > WITHIN), "{kept:?}");
    for (secs, anchor) in anchored {
        assert!(kept.contains(&anchor), "{secs}");
        assert!(at(secs).since(anchor) <= WITHIN && anchor.since(at(secs)) <= WITHIN, "{secs} is of {anchor}");
    }
}

async fn a_full_key_forgets_its_oldest(windows: impl Windows) {
    let key = fresh("full");
    for n in 0..=MAX_ANCHORS as u64 {
        assert_eq!(anchored(&windows, &key, n * 1000).await, at(n * 1000));
    }
    let kept = seen(&windows, &key).await;
    assert_eq!((kept.moments.len(), kept.forgotten), (MAX_ANCHORS / 2, Some(at(32_000))));
    let forgotten = anchor(&windows, &sighting(&key, 5000), at(1_000_000)).await;
    assert_eq!(forgotten, Err(NotAnchored::Forgotten));
    assert_eq!(anchored(&windows, &key, 90_000).await, at(90_000), "and goes on");
}

async fn keys_do_not_know_of_one_another(windows: impl Windows) {
    let (one, other) = (fresh("one"), fresh("other"));
    assert_eq!(anchored(&windows, &one, 1000).await, at(1000));
    assert_eq!(anchored(&windows, &other, 1001).await, at(1001));
}
