//! The limits' contract.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::aws::DynamoLimits;
use shared::base::time::Timestamp;
use shared::limits::rates::{Draw, Drawn, Limits, Rate, RateVerdict, Tat, decide};
use shared::model::ModelLimits;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelLimits {
    ModelLimits::default()
}

async fn emulator() -> DynamoLimits {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    DynamoLimits::new(&aws().await, table)
}

on_model_and_emulator!(
    a_bucket_that_nobody_knows_is_full,
    a_draw_moves_the_bucket_as_was_decided,
    a_draw_from_a_full_bucket_is_refused_once_it_is_not_full,
    a_draw_from_the_rest_is_refused_once_there_is_too_little,
    a_draw_from_the_rest_of_a_full_or_unknown_bucket_is_refused,
    draws_at_once_all_land_while_there_is_enough,
    of_many_at_once_no_more_land_than_there_are_tokens,
    buckets_do_not_know_of_one_another,
);

/// Ten tokens, one more each 100 ms.
fn rate() -> Rate {
    Rate::new(10, Duration::from_secs(1), 10).expect("a good rate")
}

/// A bucket that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    rate().bucket(&format!("{name}-{unique}"))
}

fn full(tokens: u32, now: Timestamp) -> Draw {
    Draw::of(Tat::LONG_AGO, &rate(), tokens, now)
}

fn rest(tokens: u32, now: Timestamp) -> Draw {
    Draw::from_rest(&rate(), tokens, now)
}

/// The bucket that is short of so many tokens at this moment.
fn short_of(tokens: u32, now: Timestamp) -> Tat {
    Tat::from_micros((now.millis() + i64::from(tokens) * 100) * 1000)
}

async fn a_bucket_that_nobody_knows_is_full(limits: impl Limits) {
    let drawn = limits.draw(&fresh("unknown"), &full(10, NOW)).await;
    assert_eq!(drawn, Ok(Drawn::Taken(short_of(10, NOW))));
}

async fn a_draw_moves_the_bucket_as_was_decided(limits: impl Limits) {
    let bucket = fresh("moves");
    let mut tat = Tat::LONG_AGO;
    for (millis, want) in [(0, 3), (0, 4), (150, 1), (150, 9), (650, 2), (5000, 20), (5100, 1), (5100, 1)] {
        let now = NOW + Duration::from_millis(millis);
        let RateVerdict::Granted { tokens, tat: next } = decide(tat, &rate(), want, now) else { continue };
        let drawn = limits.draw(&bucket, &Draw::of(tat, &rate(), tokens, now)).await;
        assert_eq!(drawn, Ok(Drawn::Taken(next)), "{tokens} at {millis} ms");
        tat = next;
    }
}

async fn a_draw_from_a_full_bucket_is_refused_once_it_is_not_full(limits: impl Limits) {
    let bucket = fresh("full");
    let found = short_of(2, NOW);
    assert_eq!(limits.draw(&bucket, &full(2, NOW)).await, Ok(Drawn::Taken(found)));
    for millis in [0, 199] {
        let drawn = limits.draw(&bucket, &full(1, NOW + Duration::from_millis(millis))).await;
        assert_eq!(drawn, Ok(Drawn::Moved(Some(found))), "{millis}");
    }
    let later = NOW + Duration::from_millis(200);
    assert_eq!(limits.draw(&bucket, &full(1, later)).await, Ok(Drawn::Taken(short_of(1, later))));
}

async fn a_draw_from_the_rest_is_refused_once_there_is_too_little(limits: impl Limits) {
    let bucket = fresh("rest");
    limits.draw(&bucket, &full(4, NOW)).await.expect("an answer");
    assert_eq!(limits.draw(&bucket, &rest(7, NOW)).await, Ok(Drawn::Moved(Some(short_of(4, NOW)))));
    assert_eq!(limits.draw(&bucket, &rest(6, NOW)).await, Ok(Drawn::Taken(short_of(10, NOW))));
    assert_eq!(limits.draw(&bucket, &rest(1, NOW)).await, Ok(Drawn::Moved(Some(short_of(10, NOW)))));
    let later = NOW + Duration::from_millis(100);
    assert_eq!(limits.draw(&bucket, &rest(1, later)).await, Ok(Drawn::Taken(short_of(10, later))));
}

async fn a_draw_from_the_rest_of_a_full_or_unknown_bucket_is_refused(limits: impl Limits) {
    let bucket = fresh("no-rest");
    assert_eq!(limits.draw(&bucket, &rest(1, NOW)).await, Ok(Drawn::Moved(None)), "nothing is written either");
    let tat = short_of(1, NOW);
    assert_eq!(limits.draw(&bucket, &full(1, NOW)).await, Ok(Drawn::Taken(tat)));
    let later = NOW + Duration::from_millis(100);
    assert_eq!(limits.draw(&bucket, &rest(1, later)).await, Ok(Drawn::Moved(Some(tat))));
}

async fn draws_at_once_all_land_while_there_is_enough(limits: impl Limits) {
    let bucket = fresh("enough");
    limits.draw(&bucket, &full(1, NOW)).await.expect("an answer");
    let draw = rest(1, NOW);
    let drawn = join_all((0..9).map(|_| limits.draw(&bucket, &draw))).await;
    let mut taken: Vec<Tat> = drawn.into_iter().map(taken).collect();
    taken.sort();
    assert_eq!(taken, (2..=10).map(|tokens| short_of(tokens, NOW)).collect::<Vec<_>>());
}

async fn of_many_at_once_no_more_land_than_there_are_tokens(limits: impl Limits) {
    let bucket = fresh("race");
    let draws: Vec<Draw> = (0..30).map(|n| if n % 2 == 0 { full(1, NOW) } else { rest(2, NOW) }).collect();
    let drawn = join_all(draws.iter().map(|draw| limits.draw(&bucket, draw))).await;
    let landed = drawn.iter().zip(&draws).filter(|(drawn, _)| matches!(drawn, Ok(Drawn::Taken(_))));
    let (fulls, rests): (Vec<_>, Vec<_>) = landed.partition(|(_, draw)| matches!(draw, Draw::Full { .. }));
    assert_eq!(fulls.len(), 1, "the bucket is full once");
    assert!(rests.len() <= 4, "{} of two tokens each", rests.len());
    assert!(drawn.iter().all(Result::is_ok));
}

async fn buckets_do_not_know_of_one_another(limits: impl Limits) {
    let (one, other) = (fresh("one"), fresh("other"));
    limits.draw(&one, &full(10, NOW)).await.expect("an answer");
    assert_eq!(limits.draw(&other, &full(1, NOW)).await, Ok(Drawn::Taken(short_of(1, NOW))));
}

fn taken(drawn: Result<Drawn, shared::base::errors::Unavailable>) -> Tat {
    match drawn {
        Ok(Drawn::Taken(tat)) => tat,
        other => panic!("not taken: {other:?}"),
    }
}
