//! Partners that take a token, and what their token end-points do to events: they delay them, and lose none.

use std::time::Duration;

use serde_json::json;
use shared::adapters::AwsLcCrypto;
use shared::arrival::signature::Secret;
use shared::base::id::EventId;
use shared::effects::token::Tokens;
use shared::flows::Flows;
use shared::ledger::State;

use super::issuer::{Fetch, Issuer};
use super::world::World;
use crate::fixtures::{files, lead_of};

const OAUTH2: &str = "auth: {oauth2: {token_url: 'https://login.example.com/token', client_id: me, scope: leads}}";

/// The plain flow, to a partner that takes a token; with this more in its integration, and its effect changed.
fn flows(more: &str, change: impl Fn(String) -> String) -> Flows {
    let mut files = files();
    files[1].text = files[1].text.replace("auth: bearer", &format!("{OAUTH2}\n  {more}"));
    files[2].text = change(std::mem::take(&mut files[2].text));
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A world whose partner is an issuer.
fn world_of(flows: Flows) -> (World, Issuer) {
    let mut world = World::with(flows);
    let issuer = Issuer::new(world.clock.clone());
    world.processor.partners = Box::new(issuer.clone());
    (world, issuer)
}

fn world() -> (World, Issuer) {
    world_of(flows("", |yaml| yaml))
}

async fn post(world: &World, n: usize) -> EventId {
    world.post(&lead_of(&format!("evt_{n}"), &format!("ada{n}@example.com"))).await.expect("a good lead").id
}

async fn state(world: &World, id: &EventId) -> State {
    world.row(id).await.state
}

/// The attempts of the only effect.
async fn attempts(world: &World, id: &EventId) -> u32 {
    world.row(id).await.effects["crm"].attempts
}

#[tokio::test]
async fn one_token_serves_all_events_and_is_asked_for_once() {
    let (world, issuer) = world();
    for n in 0..20 {
        post(&world, n).await;
    }
    world.drain().await;
    assert_eq!((issuer.fetches().len(), issuer.calls().len()), (1, 20));
    assert_eq!(world.tokens.asked(), 3, "a look, the lease, the token");
}

/// A container that has a token intends the first effects with the claim, as with a secret.
#[tokio::test]
async fn with_a_token_at_hand_an_event_costs_what_it_costs_with_a_secret() {
    let (world, _) = world();
    post(&world, 0).await;
    world.drain().await;
    let (before, asked) = (world.ledger.writes(), world.tokens.asked());
    post(&world, 1).await;
    world.drain().await;
    assert_eq!(world.ledger.writes() - before, 1 + 2, "the admission, the claim, the outcome");
    assert_eq!(world.tokens.asked(), asked);
}

#[tokio::test]
async fn a_partner_with_a_secret_pays_nothing_for_tokens() {
    let world = World::new();
    post(&world, 0).await;
    world.drain().await;
    assert_eq!((world.ledger.writes(), world.tokens.asked(), world.partners.calls().len()), (3, 0, 1));
}

#[tokio::test]
async fn containers_share_a_token_that_only_who_has_the_secret_can_read() {
    let (mut world, issuer) = world();
    for n in 0..3 {
        world.processor.tokens = Tokens::new(Box::new(world.tokens.clone()), Box::new(AwsLcCrypto));
        post(&world, n).await;
        world.drain().await;
    }
    assert_eq!((issuer.fetches().len(), issuer.calls().len()), (1, 3));
    let items = world.tokens.items();
    assert_eq!(items.len(), 1);
    assert!(!format!("{items:?}").contains("canary"), "{items:?}");
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let (world, issuer) = world();
    for (n, secs) in [(0, 0), (1, 3400), (2, 3500), (3, 3595), (4, 6900)] {
        world.clock.advance(Duration::from_secs(secs).saturating_sub(elapsed(&world)));
        let id = post(&world, n).await;
        world.poll().await;
        assert_eq!(state(&world, &id).await, State::Succeeded, "{secs}");
    }
    let fetched: Vec<u64> = issuer.fetches().iter().map(|(at, _)| at.since(crate::fixtures::NOW).as_secs()).collect();
    assert_eq!(fetched, [0, 3500], "two minutes before its end, with the first event after that");
    assert!(issuer.calls().len() == 5, "and no call was rejected");
}

fn elapsed(world: &World) -> Duration {
    use shared::base::machine::Clock as _;
    world.clock.now().since(crate::fixtures::NOW)
}

#[tokio::test]
async fn a_renewal_that_fails_delays_nobody_while_the_token_is_good() {
    let (world, issuer) = world();
    post(&world, 0).await;
    world.drain().await;
    world.clock.advance(Duration::from_secs(3490));
    issuer.always(Some(Fetch::Answer(503, None)));
    for n in 1..10 {
        let id = post(&world, n).await;
        world.poll().await;
        assert_eq!(state(&world, &id).await, State::Succeeded);
        world.clock.advance(Duration::from_secs(5));
    }
    let fetches = issuer.fetches().len();
    assert!((4..=6).contains(&fetches), "{fetches}: each try is later than the one before");
}

/// Slow, down, failing, and whatever else is no token: the event waits, and it is no attempt.
#[tokio::test]
async fn whatever_a_token_end_point_does_delays_an_event_and_loses_none() {
    let html = Fetch::Answer(200, None);
    let error = |error: &str| Some(json!({"error": error, "error_description": "canary"}));
    for fetch in [
        Fetch::Hang,
        Fetch::Unreachable,
        Fetch::Answer(500, None),
        Fetch::Answer(429, None),
        Fetch::Answer(302, None),
        html,
        Fetch::Answer(200, Some(json!({}))),
        Fetch::Answer(200, Some(json!([1]))),
        Fetch::Answer(200, error("server_error")),
        Fetch::Answer(200, error("invalid_client")),
        Fetch::Answer(400, error("invalid_grant")),
        Fetch::Answer(401, None),
        Fetch::Answer(200, Some(json!({"access_token": "a\nb"}))),
    ] {
        for times in [1, 5] {
            let (world, issuer) = world();
            issuer.script(vec![fetch.clone(); times]);
            let ids = [post(&world, 0).await, post(&world, 1).await];
            world.drain().await;
            for id in &ids {
                assert_eq!(state(&world, id).await, State::Succeeded, "{fetch:?}");
                assert_eq!(attempts(&world, id).await, 1, "{fetch:?}");
            }
            assert_eq!((issuer.fetches().len(), issuer.calls().len()), (times + 1, 2), "{fetch:?}");
            assert_eq!(world.dead_letters.depth(), 0, "{fetch:?}");
        }
    }
}

#[tokio::test]
async fn a_token_of_which_nobody_says_how_long_it_lives_is_used_for_some_minutes() {
    for expires_in in [json!(null), json!(0), json!("soon"), json!(-5)] {
        let (world, issuer) = world();
        issuer.always(Some(Fetch::Expires(expires_in.clone())));
        for n in 0..10 {
            post(&world, n).await;
            world.drain().await;
            world.clock.advance(Duration::from_secs(100));
        }
        assert_eq!((issuer.fetches().len(), issuer.calls().len()), (2, 10), "{expires_in}");
    }
}

/// An hour without tokens, with an event each minute.
#[tokio::test]
async fn a_dead_token_end_point_is_not_hammered_and_no_event_is_lost() {
    let (world, issuer) = world();
    issuer.always(Some(Fetch::Hang));
    let mut ids = Vec::new();
    for n in 0..60 {
        ids.push(post(&world, n).await);
        for _ in 0..6 {
            world.poll().await;
            world.clock.advance(Duration::from_secs(10));
        }
        world.wake().await;
    }
    let fetches = issuer.fetches().len();
    assert!(fetches < 130, "{fetches} in more than an hour");
    assert!(issuer.calls().is_empty());
    let on_queue = world.events.depth();
    assert!(on_queue < 10, "{on_queue} of 60 wait on the queue, the others in the ledger");
    issuer.always(None);
    world.drain().await;
    for id in &ids {
        assert_eq!((state(&world, id).await, attempts(&world, id).await), (State::Succeeded, 1));
    }
    assert_eq!((issuer.fetches().len(), issuer.calls().len()), (fetches + 1, 60));
}

#[tokio::test]
async fn a_rejected_secret_waits_for_a_human_and_rotates_without_a_deploy() {
    let (world, issuer) = world();
    issuer.always(Some(Fetch::Answer(401, Some(json!({"error": "invalid_client"})))));
    let id = post(&world, 0).await;
    for _ in 0..20 {
        world.poll().await;
        world.wake().await;
        world.clock.advance(Duration::from_secs(30));
    }
    assert!(issuer.calls().is_empty());
    assert!(world.story(&id).await.iter().any(|line| line.contains("credentials rejected")));
    issuer.always(None);
    world.secrets.put("integrations/crm", "the-new-secret");
    world.drain().await;
    assert_eq!((state(&world, &id).await, attempts(&world, &id).await), (State::Succeeded, 1));
}

#[tokio::test]
async fn a_new_secret_has_a_token_of_its_own_within_minutes() {
    let (world, issuer) = world();
    post(&world, 0).await;
    world.drain().await;
    world.secrets.put("integrations/crm", "the-new-secret");
    world.clock.advance(Duration::from_secs(301));
    post(&world, 1).await;
    world.drain().await;
    let shown: Vec<_> = issuer.fetches().into_iter().map(|(_, request)| request.credentials).collect();
    assert!(shown.len() == 2 && shown[0] != shown[1], "{shown:?}");
    assert_eq!(world.tokens.items().len(), 2, "containers with the old secret go on with its token");
}

/// Secrets that are shown themselves, and secret variables, rotate within five minutes, too.
#[tokio::test]
async fn a_rotated_secret_reaches_the_partner_within_minutes() {
    let mut files = files();
    let fields =
        "auth: {header: {name: X-Key}}\n  vars: {hook: {secret: true}}\n  headers: {X-Hook: \"{{ vars.hook }}\"}";
    files[1].text = files[1].text.replace("auth: bearer", fields);
    let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    world.secrets.put("integrations/crm/vars/hook", "hook-1");
    for n in 0..2 {
        post(&world, n).await;
        world.drain().await;
        world.secrets.put("integrations/crm", "token-2");
        world.secrets.put("integrations/crm/vars/hook", "hook-2");
        world.clock.advance(Duration::from_secs(300));
    }
    let sent: Vec<_> = world.partners.calls().into_iter().map(|(_, request)| request).collect();
    let keys: Vec<Vec<Secret>> = sent.iter().map(|request| request.credentials.secrets()).collect();
    assert!(keys[0].contains(&Secret::new("token")) && keys[1].contains(&Secret::new("token-2")));
    let hooks = sent.iter().map(|request| request.headers.iter().find(|(name, _)| name == "X-Hook"));
    let hooks: Vec<&str> = hooks.flatten().map(|(_, value)| value.as_str()).collect();
    assert_eq!(hooks, ["hook-1", "hook-2"]);
}

#[tokio::test]
async fn a_rejected_token_is_renewed_and_the_call_repeated_once() {
    let (world, issuer) = world();
    post(&world, 0).await;
    world.drain().await;
    issuer.revoke_all();
    let id = post(&world, 1).await;
    world.poll().await;
    assert_eq!((state(&world, &id).await, attempts(&world, &id).await), (State::Succeeded, 1));
    assert_eq!((issuer.fetches().len(), issuer.calls().len()), (2, 3));
    let keys: Vec<_> = issuer.calls()[1..].iter().map(|(_, request)| request.headers[0].clone()).collect();
    assert_eq!(keys[0], keys[1], "under the same key");
}

/// Ten events find the token ended: one of them renews it, and the others use that one.
#[tokio::test]
async fn only_the_token_that_was_rejected_is_renewed() {
    let (world, issuer) = world();
    post(&world, 0).await;
    world.drain().await;
    issuer.revoke_all();
    for n in 1..=10 {
        post(&world, n).await;
    }
    world.poll().await;
    assert_eq!(issuer.fetches().len(), 2);
    assert!(world.ledger.rows().iter().all(|row| row.state == State::Succeeded));
}

#[tokio::test]
async fn a_partner_that_rejects_every_token_is_left_alone_and_the_event_waits() {
    let (world, issuer) = world();
    issuer.reject_all(true);
    let id = post(&world, 0).await;
    for _ in 0..60 {
        world.poll().await;
        world.wake().await;
        world.clock.advance(Duration::from_secs(10));
    }
    let (fetches, calls) = (issuer.fetches().len(), issuer.calls().len());
    assert!(fetches <= 12, "{fetches} in ten minutes: no more than one a minute, and the first");
    assert!(calls <= 40, "{calls}");
    assert!(world.story(&id).await.iter().any(|line| line.contains("credentials rejected")));
    issuer.reject_all(false);
    world.drain().await;
    assert_eq!((state(&world, &id).await, attempts(&world, &id).await), (State::Succeeded, 1));
}

/// The flow's author says that a 401 of this partner is something else. Then nothing surely did not happen.
#[tokio::test]
async fn a_declared_meaning_of_401_goes_before() {
    let (world, issuer) = world_of(flows("answers: [{status: 401, means: failed}]", |yaml| yaml));
    issuer.reject_all(true);
    let id = post(&world, 0).await;
    world.drain().await;
    assert_eq!((issuer.fetches().len(), issuer.calls().len()), (1, 1));
    assert_eq!(state(&world, &id).await, State::Dead);
}

/// The fetch comes before the intent: a worker that goes down in it leaves nothing unknown.
#[tokio::test]
async fn a_crash_in_a_fetch_leaves_no_doubt() {
    let (world, issuer) = world_of(flows("", |yaml| yaml.replace("guarantee: native", "guarantee: none")));
    issuer.script([Fetch::Panic]);
    let id = post(&world, 0).await;
    world.drain().await;
    assert_eq!((state(&world, &id).await, attempts(&world, &id).await), (State::Succeeded, 1));
    assert_eq!((issuer.fetches().len(), issuer.calls().len()), (2, 1));
}

#[tokio::test]
async fn a_store_that_does_not_answer_delays_events() {
    let (world, issuer) = world();
    world.tokens.down(true);
    let id = post(&world, 0).await;
    world.poll().await;
    assert!(issuer.fetches().is_empty(), "nobody fetches for himself alone");
    world.tokens.down(false);
    world.drain().await;
    assert_eq!((state(&world, &id).await, attempts(&world, &id).await), (State::Succeeded, 1));
}

#[tokio::test]
async fn an_assertion_is_asked_for_with_a_key_that_must_be_one() {
    let jwt = "auth: {jwt_bearer: {token_url: 'https://login.example.com/token', issuer: me}}";
    let mut files = files();
    files[1].text = files[1].text.replace("auth: bearer", jwt);
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let (world, issuer) = world_of(flows);
    let id = post(&world, 0).await;
    world.poll().await;
    let (row, story) = (world.row(&id).await, world.story(&id).await);
    assert_eq!((row.state, row.effects.len()), (State::Retrying, 0), "`token` is no private key");
    assert!(story.iter().any(|what| what.contains("no private key as PEM")), "{story:?}");
    assert!(issuer.fetches().is_empty() && issuer.calls().is_empty());
}
