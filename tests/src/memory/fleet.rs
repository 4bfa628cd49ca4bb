//! A thousand containers that start at the same moment, and want the same token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use serde_json::json;
use shared::adapters::AwsLcCrypto;
use shared::arrival::signature::Secret;
use shared::base::errors::Unavailable;
use shared::base::machine::{Clock, Sleep};
use shared::base::time::Timestamp;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::effects::token::{
    NoToken, NoTokenReason, TokenAccount, TokenPorts, TokenState, TokenStore, TokenSwap, Tokens,
};
use shared::flows::{Auth, PartnerAnswer};
use shared::model::{ModelChance, ModelTokens};
use tokio::time::{Instant, sleep};

use crate::fixtures::NOW;

/// Virtual time: tokio's, which goes on when every task sleeps.
#[derive(Clone, Copy)]
struct VirtualTime(Instant);

impl Clock for VirtualTime {
    fn now(&self) -> Timestamp {
        NOW + self.0.elapsed()
    }
}

#[async_trait]
impl Sleep for VirtualTime {
    async fn sleep(&self, time: Duration) {
        sleep(time).await;
    }
}

/// A token end-point that takes its time, and counts.
struct SlowIssuer {
    takes: Duration,
    fails: usize,
    fetches: AtomicUsize,
}

#[async_trait]
impl Partners for SlowIssuer {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let number = self.fetches.fetch_add(1, Ordering::SeqCst) + 1;
        sleep(self.takes.min(request.timeout)).await;
        if number <= self.fails {
            return Ok(PartnerAnswer { status: 503, ..PartnerAnswer::default() });
        }
        let body = json!({"access_token": format!("token-{number}"), "expires_in": 3600});
        Ok(PartnerAnswer { status: 200, body: Some(body), ..PartnerAnswer::default() })
    }
}

/// The shared item, some milliseconds away: others write between a look and a write.
struct Remote(ModelTokens);

#[async_trait]
impl TokenStore for Remote {
    async fn read(&self, key: &str) -> Result<Option<TokenState>, Unavailable> {
        let read = self.0.read(key).await;
        sleep(Duration::from_millis(4)).await;
        read
    }

    async fn swap(&self, key: &str, seen: u64, next: &TokenState, now: Timestamp) -> Result<TokenSwap, Unavailable> {
        sleep(Duration::from_millis(4)).await;
        self.0.swap(key, seen, next, now).await
    }
}

/// One container asks until it has a token, as its events would. Says which, and how often it was deferred.
async fn container(issuer: Arc<SlowIssuer>, store: ModelTokens, time: VirtualTime, number: u64) -> (Secret, usize) {
    let auth = "{oauth2: {token_url: 'https://login.example.com/token', client_id: me}}";
    let auth: Auth = serde_json::from_value(serde_saphyr::from_str(auth).expect("YAML")).expect("good");
    let tokens = Tokens::new(Box::new(Remote(store)), Box::new(AwsLcCrypto));
    let (secret, chance) = (Secret::new("the-client-secret"), ModelChance::seeded(number));
    let grant = auth.token_grant().expect("a grant");
    let account = TokenAccount { integration: "crm", grant, secret: &secret, timeout: Duration::from_secs(3) };
    let ports = TokenPorts { partners: &*issuer, clock: &time, sleep: &time, chance: &chance };
    for deferred in 0.. {
        match tokens.token(&account, ports).await {
            Ok(token) => return (token, deferred),
            Err(NoToken { why: NoTokenReason::Unavailable(error), .. }) => panic!("{error}"),
            Err(NoToken { after, .. }) => sleep(after).await,
        }
    }
    unreachable!("it has a token by then")
}

/// A fleet over an end-point that takes so long, and fails so often. Says how many fetches there were.
async fn fleet(takes: Duration, fails: usize) -> (usize, usize, Duration) {
    let began = Instant::now();
    let issuer = Arc::new(SlowIssuer { takes, fails, fetches: AtomicUsize::new(0) });
    let store = ModelTokens::default();
    let containers = (0..1000).map(|n| tokio::spawn(container(issuer.clone(), store.clone(), VirtualTime(began), n)));
    let got: Vec<(Secret, usize)> = join_all(containers).await.into_iter().map(|got| got.expect("a token")).collect();
    assert!(got.iter().all(|(token, _)| *token == got[0].0), "all have the same token");
    let deferred = got.iter().filter(|(_, deferred)| *deferred > 0).count();
    (issuer.fetches.load(Ordering::SeqCst), deferred, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_cold_containers_fetch_one_token() {
    let (fetches, deferred, took) = fleet(Duration::from_millis(300), 0).await;
    assert_eq!((fetches, deferred), (1, 0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn where_that_takes_long_their_events_are_deferred_and_it_is_one_token_still() {
    let (fetches, deferred, took) = fleet(Duration::from_millis(2900), 0).await;
    assert_eq!(fetches, 1);
    assert!(deferred > 900, "{deferred}");
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_end_point_is_asked_by_one_container_at_a_time() {
    let (fetches, _, took) = fleet(Duration::from_millis(300), 4).await;
    assert_eq!(fetches, 4 + 1);
    assert!(took > Duration::from_secs(1 + 2 + 4 + 8), "{took:?}: each try later than the one before");
}
