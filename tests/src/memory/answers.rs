//! What a partner's answer means: the defaults, what a table declares, and credentials that a partner does not take.

use std::time::Duration;

use shared::flows::Flows;
use shared::ledger::{Reason, State};
use shared::model::Script;

use super::effects::{accepted, asked, reason, replace_effects};
use super::world::World;
use crate::fixtures::files;

/// A world of one effect with these lines, at a partner with these.
fn world(effect: &str, integration: &str) -> World {
    let mut files = files();
    files[1].text.push_str(integration);
    files[2].text = replace_effects(&files[2].text, &[("a", effect)]);
    World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

/// Statuses of which only the partner knows whether it had acted.
const DOUBTFUL: [u16; 7] = [303, 408, 409, 423, 500, 503, 504];

#[tokio::test]
async fn a_doubtful_status_is_repeated_under_one_key_where_the_partner_honours_it() {
    for status in DOUBTFUL {
        let world = world("guarantee: native", "");
        world.partners.script([Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        let calls = world.partners.calls();
        let keys: Vec<_> = calls
            .iter()
            .filter_map(|(_, call)| call.headers.iter().find(|(name, _)| name == "Idempotency-Key"))
            .collect();
        assert_eq!(keys.len(), 2, "{status}");
        assert_eq!(keys[0], keys[1], "{status}: the same key");
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{status}");
    }
}

#[tokio::test]
async fn a_doubtful_status_is_parked_where_nobody_can_know() {
    for status in DOUBTFUL {
        let world = world("guarantee: none", "");
        world.partners.script([Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world).len(), 1, "{status}");
        assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome), "{status}");
    }
}

/// Stripe replays a saved 500 under the same key: repeating may never clear it up.
#[tokio::test]
async fn attempts_that_are_spent_in_doubt_park_as_unknown() {
    let world = world("guarantee: native", "");
    world.partners.script(vec![Script::Status(500); 10]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
    assert!(world.row(&id).await.may_replay().is_ok(), "the same key again is harmless while the partner knows it");
}

/// A later answer speaks for itself alone.
#[tokio::test]
async fn a_clear_failure_after_a_doubt_does_not_clear_the_doubt() {
    let world = world("guarantee: native", "");
    world.partners.script([Script::Status(503), Script::Status(422)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
}

#[tokio::test]
async fn a_clear_failure_is_one() {
    for status in [400, 404, 405, 410, 413, 415, 422] {
        let world = world("guarantee: none", "");
        world.partners.script([Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!((asked(&world).len(), reason(&world, &id).await), (1, Some(Reason::Terminal)), "{status}");
    }
}

#[tokio::test]
async fn who_knows_the_partner_better_declares_what_its_answers_mean() {
    let partner = "  answers: [{status: 503, means: retry}, {status: 409, means: failed}]\n";
    for (effect, script, calls, end) in [
        ("guarantee: none", 503, 2, (State::Succeeded, None)),
        ("guarantee: none", 409, 1, (State::Dead, Some(Reason::Terminal))),
        ("guarantee: none, answers: [{status: 409, means: done}]", 409, 1, (State::Succeeded, None)),
        ("guarantee: none, answers: [{status: 400..499, means: retry}]", 401, 2, (State::Succeeded, None)),
        (
            "guarantee: none, answers: [{status: 200..299, means: in_doubt}]",
            202,
            1,
            (State::Dead, Some(Reason::UnknownOutcome)),
        ),
    ] {
        let world = world(effect, partner);
        world.partners.script([Script::Status(script)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world).len(), calls, "{effect}: {script}");
        assert_eq!((world.row(&id).await.state, reason(&world, &id).await), end, "{effect}: {script}");
    }
}

/// A rotated key is our own fault: it buries no traffic, and spends no attempt.
#[tokio::test]
async fn credentials_that_a_partner_does_not_take_make_events_wait() {
    for status in [401, 403] {
        for guarantee in ["native", "none"] {
            let world = world(&format!("guarantee: {guarantee}"), "");
            // More than the policy's attempts.
            world.partners.script(vec![Script::Status(status); 8]);
            let id = accepted(&world).await;
            world.drain().await;
            let row = world.row(&id).await;
            assert_eq!(row.state, State::Succeeded, "{status} {guarantee}: {:?}", row.death);
            assert_eq!(row.effects["a"].attempts, 1, "{status} {guarantee}: waiting is no attempt");
            let told = row.history.iter().filter(|moment| moment.what.contains("credentials rejected")).count();
            assert!(told > 0, "{:?}", row.history);
        }
    }
}

#[tokio::test]
async fn rejected_credentials_open_the_breaker_at_once() {
    let breaker = "  breaker: {window: 30s, min_calls: 100, error_rate: 0.5, open_for: 5m, probes: 1}\n";
    let world = world("guarantee: none", breaker);
    world.partners.script([Script::Status(401)]);
    accepted(&world).await;
    world.poll().await;
    let began = asked(&world).len();
    world.clock.advance(Duration::from_secs(120));
    world.poll().await;
    assert_eq!((began, asked(&world).len()), (1, 1), "the breaker holds the second call back");
}
