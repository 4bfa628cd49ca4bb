//! One try of a container to get a token that it does not have.

use std::time::Duration;

use super::container_tokens::{NoToken, NoTokenReason, Token, TokenAccount, TokenPorts, View, locked};
use super::crypto::TokenCrypto;
use super::fetch::{self, FetchFailure};
use super::seal::SealKeys;
use super::state::{SealedToken, TokenLife, TokenState, TokenStep, TokenStore, TokenSwap};
use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::effects::credentials::Credentials;

/// How long an event waits for a token that another container fetches, before it is deferred.
const PATIENCE: Duration = Duration::from_secs(2);

/// The first pause between two looks at a token that another container fetches. Each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The deferral of an event whose patience is over.
const AWAITED_AGAIN: Duration = Duration::from_secs(1);

/// The time around a fetch: writes, and clocks that differ. After it, a lease's holder has crashed.
const AROUND_A_FETCH: Duration = Duration::from_secs(5);

/// The number of tries to take the lease while other containers write the item.
const MAX_TRIES: usize = 4;

/// One try to get a token, while the view's turn is held.
pub(super) struct Obtaining<'o> {
    pub(super) store: &'o dyn TokenStore,
    pub(super) crypto: &'o dyn TokenCrypto,
    pub(super) view: &'o View,
    pub(super) account: &'o TokenAccount<'o>,
    pub(super) ports: TokenPorts<'o>,
    /// The token that the partner rejected, as it was shown to it.
    pub(super) rejected: Option<&'o Credentials>,
}

impl Obtaining<'_> {
    /// The token that all share, or a new one; else the one that this container has, while it is good.
    pub(super) async fn obtain(&self) -> Result<Secret, NoToken> {
        let none = locked(&self.view.known).none(self.now());
        if let Some(none) = none {
            return Err(none);
        }
        let keys = SealKeys::of(self.account.integration, self.account.grant, self.account.secret, self.crypto);
        let obtained = self.find_or_fetch(&keys).await;
        obtained.or_else(|none| locked(&self.view.known).settle(none, self.now()))
    }

    async fn find_or_fetch(&self, keys: &SealKeys<'_>) -> Result<Secret, NoToken> {
        let mut state = self.read(keys).await?;
        let (mut tries, mut patience) = (0, Patience::new(self.now()));
        loop {
            let now = self.now();
            if let Some(token) = self.adopt(keys, &state, now) {
                return Ok(token);
            }
            match state.step(now) {
                TokenStep::Fetch if self.rejected.is_some() && !state.may_renew_rejected(now) => {
                    return Err(none(NoTokenReason::Denied { error: None }, Duration::ZERO));
                }
                TokenStep::Fetch if tries < MAX_TRIES => match self.lease_and_fetch(keys, &state, now).await? {
                    Ok(token) => return Ok(token),
                    Err(moved) => (state, tries) = (moved, tries + 1),
                },
                TokenStep::BackOff(left) => return Err(none(reason(&state, None), left)),
                TokenStep::Await(left) if locked(&self.view.known).usable(now).is_none() => {
                    let Some(pause) = patience.next(self.ports.chance.unit(), now) else {
                        return Err(none(NoTokenReason::Awaited, AWAITED_AGAIN));
                    };
                    self.ports.sleep.sleep(pause.min(left)).await;
                    state = self.read(keys).await?;
                }
                TokenStep::Fetch | TokenStep::Await(_) => return Err(none(NoTokenReason::Awaited, AWAITED_AGAIN)),
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    fn version(&self) -> u64 {
        self.ports.chance.bits().max(1)
    }

    async fn read(&self, keys: &SealKeys<'_>) -> Result<TokenState, NoToken> {
        self.store.read(&keys.item).await.map(Option::unwrap_or_default).map_err(unavailable)
    }

    /// Takes over the token that all share, if it is usable. One that is near its end is to be renewed.
    fn adopt(&self, keys: &SealKeys<'_>, state: &TokenState, now: Timestamp) -> Option<Secret> {
        let SealedToken { sealed, fetched_at, ends_at } = state.token.as_ref()?;
        let life = TokenLife { fetched_at: *fetched_at, ends_at: *ends_at };
        let is_rejected = |text: &Secret| self.rejected.is_some_and(|rejected| self.account.shows(text) == *rejected);
        let text = keys.open(sealed).filter(|text| life.is_usable(now) && !is_rejected(text))?;
        let mut known = locked(&self.view.known);
        known.learn(Token { text, life });
        known.fresh(now)
    }

    /// Takes the lease, and fetches. The inner error is the state that another container wrote first.
    async fn lease_and_fetch(
        &self,
        keys: &SealKeys<'_>,
        state: &TokenState,
        now: Timestamp,
    ) -> Result<Result<Secret, TokenState>, NoToken> {
        // Before the lease: a secret that cannot ask for a token keeps nobody else from one.
        let request = fetch::request(self.account, self.crypto, now)
            .map_err(|error| none(NoTokenReason::BadSecret(error.to_string()), Duration::ZERO))?;
        let until = now + self.account.timeout + AROUND_A_FETCH;
        let leased = state.leased(until, self.rejected.is_some(), self.version(), now);
        match self.store.swap(&keys.item, state.version, &leased, now).await.map_err(unavailable)? {
            TokenSwap::Written => (),
            TokenSwap::Moved(found) => return Ok(Err(found.unwrap_or_default())),
        }
        let answer = self.ports.partners.call(request).await;
        match fetch::read(answer, self.now()) {
            Ok(fetched) => {
                let life = TokenLife { fetched_at: now, ends_at: now + fetched.life };
                self.share(keys, &leased, &fetched.token, life).await;
                Ok(Ok(fetched.token))
            }
            Err(failure) => Err(self.tell_failure(keys, &leased, &failure).await),
        }
    }

    /// Keeps a new token, and shares it. A write that is lost costs the others a fetch of their own.
    async fn share(&self, keys: &SealKeys<'_>, leased: &TokenState, text: &Secret, life: TokenLife) {
        locked(&self.view.known).learn(Token { text: text.clone(), life });
        if let Some(sealed) = keys.seal(text) {
            let sealed = SealedToken { sealed, fetched_at: life.fetched_at, ends_at: life.ends_at };
            let next = leased.fetched(sealed, self.version());
            self.store.swap(&keys.item, leased.version, &next, self.now()).await.ok();
        }
    }

    /// Tells all containers that a fetch failed. A write that is lost lets them wait until the lease is over.
    async fn tell_failure(&self, keys: &SealKeys<'_>, leased: &TokenState, failure: &FetchFailure) -> NoToken {
        let now = self.now();
        let next = leased.failed(failure, self.version(), now);
        self.store.swap(&keys.item, leased.version, &next, now).await.ok();
        none(reason(&next, Some(failure.why.clone())), next.retry_at.since(now))
    }
}

/// The pauses of a container that waits for another one's fetch.
struct Patience {
    began: Timestamp,
    pause: Duration,
}

impl Patience {
    fn new(began: Timestamp) -> Self {
        Patience { began, pause: FIRST_PAUSE }
    }

    /// The next pause, unless it is better to defer the event. A random part keeps containers from asking all at once.
    fn next(&mut self, chance: f64, now: Timestamp) -> Option<Duration> {
        let pause = self.pause.mul_f64(0.5 + chance);
        self.pause *= 2;
        (now.since(self.began) + pause <= PATIENCE).then_some(pause)
    }
}

/// Why there is no token after fetches that failed.
fn reason(state: &TokenState, error: Option<String>) -> NoTokenReason {
    match state.denied {
        true => NoTokenReason::Denied { error },
        false => NoTokenReason::Failing { failures: state.failures, error },
    }
}

fn none(why: NoTokenReason, after: Duration) -> NoToken {
    NoToken { after, why }
}

fn unavailable(unavailable: Unavailable) -> NoToken {
    none(NoTokenReason::Unavailable(unavailable), Unavailable::BACK_OFF)
}
