//! How the intake keeps up with its senders' secrets, and does without their store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use intake::{Receipt, Rejection};
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::secrets::{CachedSecrets, SecretStore, Secrets as _};
use shared::arrival::signature::{Rejected, Secret, sign};
use shared::base::errors::Unavailable;
use shared::base::machine::Clock;

use super::world::{SECRET, World};
use crate::fixtures::{flows, lead_of};

const PATH: &str = "sources/web-forms";
const ROTATED: &str = "whsec_cm90YXRlZCBhIG1vbWVudCBhZ28=";
const FORGED: &str = "whsec_Zm9yZ2Vk";

/// A lead that is signed with this secret, now.
async fn post(world: &World, event_id: &str, secret: &str) -> Result<Receipt, Rejection> {
    let body = lead_of(event_id, "ada@example.com").to_string().into_bytes();
    let flows = flows();
    let scheme = &flows.source("web-forms").expect("it is shipped").scheme;
    let signed = sign(scheme, &Secret::new(secret), "msg_1", world.clock.now().secs(), &body).expect("a good secret");
    let headers = signed.into_iter().chain([("content-type".into(), "application/json".into())]).collect();
    world
        .deliver(Delivery { source: "web-forms".into(), event_type: None, headers, body, called: Called::default() })
        .await
}

fn refused() -> Result<Receipt, Rejection> {
    Err(Rejection::BadSignature(Rejected))
}

fn is_unavailable(answer: Result<Receipt, Rejection>) -> bool {
    matches!(answer, Err(Rejection::Unavailable(_)))
}

fn pass(world: &World, secs: u64) {
    world.clock.advance(Duration::from_secs(secs));
}

#[tokio::test]
async fn many_events_cost_one_read() {
    let world = World::new();
    for n in 0..20 {
        post(&world, &format!("evt_{n}"), SECRET).await.expect("a good lead");
        pass(&world, 10);
    }
    assert_eq!(world.secrets.reads(), 1);
}

/// A store that ten callers wait for at once, as the messages of a cold processor's first batch do.
#[tokio::test]
async fn callers_that_need_one_secret_at_once_cost_one_read() {
    struct SlowStore(Arc<AtomicUsize>);

    #[async_trait]
    impl SecretStore for SlowStore {
        async fn read(&self, _: &str) -> Result<Vec<Secret>, Unavailable> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(vec![Secret::new(SECRET)])
        }
    }

    let reads = Arc::new(AtomicUsize::new(0));
    let secrets = CachedSecrets::new(SlowStore(reads.clone()), World::new().clock);
    let all = join_all((0..10).map(|_| secrets.live(PATH))).await;
    assert!(all.iter().all(|live| live.as_ref().is_ok_and(|live| live.len() == 1)));
    assert_eq!(reads.load(Ordering::Relaxed), 1);
    secrets.live("sources/storefront").await.expect("another path is another read");
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_rotated_secret_is_picked_up_at_once_and_the_old_one_goes_on() {
    let world = World::new();
    post(&world, "evt_1", SECRET).await.expect("a good lead");
    world.secrets.put(PATH, ROTATED);
    post(&world, "evt_2", ROTATED).await.expect("the sender has rotated");
    post(&world, "evt_3", SECRET).await.expect("both are live");
    assert_eq!(world.secrets.reads(), 2);
}

#[tokio::test]
async fn a_secret_that_was_taken_away_is_refused_within_minutes() {
    let world = World::new();
    post(&world, "evt_1", SECRET).await.expect("a good lead");
    world.secrets.remove(PATH);
    world.secrets.put(PATH, ROTATED);
    pass(&world, 300);
    assert_eq!(post(&world, "evt_2", SECRET).await, refused());
    post(&world, "evt_3", ROTATED).await.expect("a good lead");
}

#[tokio::test]
async fn a_flood_of_forgeries_causes_one_refresh_a_minute() {
    let world = World::new();
    post(&world, "evt_1", SECRET).await.expect("a good lead");
    for _ in 0..4 {
        for _ in 0..50 {
            assert_eq!(post(&world, "evt_2", FORGED).await, refused());
            world.clock.advance(Duration::from_millis(1200));
        }
    }
    assert_eq!(world.secrets.reads(), 1 + 4);
    assert_eq!((world.ledger.writes(), world.events.depth()), (1, 1), "nothing but the good lead");
}

#[tokio::test]
async fn a_source_without_a_secret_believes_nobody_and_hardly_asks() {
    let world = World::new();
    world.secrets.remove(PATH);
    for _ in 0..20 {
        assert_eq!(post(&world, "evt_1", SECRET).await, refused());
    }
    assert_eq!(world.secrets.reads(), 1);
    world.secrets.put(PATH, SECRET);
    pass(&world, 60);
    post(&world, "evt_1", SECRET).await.expect("its first secret is there");
}

#[tokio::test]
async fn an_outage_of_the_store_is_survived_for_an_hour_and_never_with_a_forgery() {
    let world = World::new();
    post(&world, "evt_0", SECRET).await.expect("a good lead");
    world.secrets.set_down(true);
    for minute in 1..60 {
        pass(&world, 60);
        post(&world, &format!("evt_{minute}"), SECRET).await.expect("known secrets go on");
        assert!(post(&world, "evt_forged", FORGED).await.is_err());
    }
    let written = world.ledger.writes();

    pass(&world, 60);
    assert!(is_unavailable(post(&world, "evt_60", SECRET).await));
    assert_eq!((world.ledger.writes(), world.events.depth()), (written, 60), "nothing was stored");

    world.secrets.set_down(false);
    post(&world, "evt_60", SECRET).await.expect("the sender tries again");
}

/// Nobody can know whether the sender has rotated its secret, so nobody says that it is wrong.
#[tokio::test]
async fn a_refresh_that_fails_is_no_refusal_but_a_request_to_try_again() {
    let world = World::new();
    post(&world, "evt_1", SECRET).await.expect("a good lead");
    world.secrets.put(PATH, ROTATED);
    world.secrets.set_down(true);
    for _ in 0..20 {
        assert!(is_unavailable(post(&world, "evt_2", ROTATED).await));
    }
    assert_eq!(world.secrets.reads(), 2, "nor does anybody wait for the store over and over");

    world.secrets.set_down(false);
    pass(&world, 60);
    post(&world, "evt_2", ROTATED).await.expect("the store is back");
}

#[tokio::test]
async fn an_intake_that_never_read_a_secret_accepts_nothing_in_an_outage() {
    let world = World::new();
    world.secrets.set_down(true);
    for secret in [SECRET, FORGED] {
        assert!(is_unavailable(post(&world, "evt_1", secret).await));
    }
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0));
}
