//! Tokens, from one container's side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::lock::Mutex as AsyncMutex;

use super::crypto::TokenCrypto;
use super::obtain::Obtaining;
use super::state::{TokenLife, TokenStore};
use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;
use crate::base::machine::{Chance, Clock, Sleep};
use crate::base::time::Timestamp;
use crate::effects::credentials::Credentials;
use crate::effects::request::Partners;
use crate::flows::TokenGrant;

/// Whose token is wanted, and by what it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct TokenAccount<'a> {
    /// The integration's name.
    pub integration: &'a str,
    /// How the token is asked for.
    pub grant: TokenGrant<'a>,
    /// The client's secret, or the key that signs.
    pub secret: &'a Secret,
    /// The longest time of a fetch.
    pub timeout: Duration,
}

impl TokenAccount<'_> {
    /// The token as it is shown to the partner.
    pub fn shows(&self, token: &Secret) -> Credentials {
        Credentials::of_token(self.grant, token)
    }
}

/// The ports that a fetch needs.
#[derive(Clone, Copy)]
pub struct TokenPorts<'p> {
    /// The token end-points are reached as the partners' APIs are.
    pub partners: &'p dyn Partners,
    /// The clock.
    pub clock: &'p dyn Clock,
    /// Short sleeps, while another container fetches.
    pub sleep: &'p dyn Sleep,
    /// Random numbers, for versions and pauses.
    pub chance: &'p dyn Chance,
}

/// There is no token now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoToken {
    /// The delay before it is worth another try.
    pub after: Duration,
    /// Why there is none.
    pub why: NoTokenReason,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTokenReason {
    /// Another container fetches it.
    Awaited,
    /// The token end-point fails. So many fetches in a row have failed; the error is that of a fetch just now.
    Failing {
        /// How many fetches in a row have failed.
        failures: u32,
        /// What happened, if this container fetched just now.
        error: Option<String>,
    },
    /// The token end-point rejects our credentials, or the partner every token; the error is that of a fetch just now.
    Denied {
        /// What happened, if this container fetched just now.
        error: Option<String>,
    },
    /// The shared tokens did not answer.
    Unavailable(Unavailable),
    /// The secret is none to ask for a token with.
    BadSecret(String),
}

impl NoTokenReason {
    /// The reason as the next event hears it, which did not fetch itself.
    fn without_error(&self) -> Self {
        match self {
            NoTokenReason::Failing { failures, .. } => NoTokenReason::Failing { failures: *failures, error: None },
            NoTokenReason::Denied { .. } => NoTokenReason::Denied { error: None },
            other => other.clone(),
        }
    }
}

/// The tokens as one container has them.
pub struct Tokens {
    store: Box<dyn TokenStore>,
    crypto: Box<dyn TokenCrypto>,
    /// By integration; integrations are configured, so there are few.
    views: Mutex<HashMap<String, Arc<View>>>,
}

/// One container's view of an integration's token.
#[derive(Default)]
pub(super) struct View {
    pub(super) known: Mutex<Known>,
    /// Held while the store or the end-point is asked: a second event meanwhile waits for the answer instead of asking,
    /// too, or goes on with a token that is still good.
    turn: AsyncMutex<()>,
}

#[derive(Default)]
pub(super) struct Known {
    /// The secret that the rest belongs to.
    secret: Option<Secret>,
    token: Option<Token>,
    /// The moment before which a good token is not renewed: another container does, or the last try failed.
    renew_at: Option<Timestamp>,
    /// There is no token until then, for this reason. Nobody asks before.
    none_until: Option<(Timestamp, NoTokenReason)>,
}

#[derive(Clone)]
pub(super) struct Token {
    pub(super) text: Secret,
    pub(super) life: TokenLife,
}

impl Tokens {
    /// The tokens in this store, none of them known yet.
    pub fn new(store: Box<dyn TokenStore>, crypto: Box<dyn TokenCrypto>) -> Self {
        Self { store, crypto, views: Mutex::default() }
    }

    /// Whether this container has a token that needs no question.
    pub fn holds(&self, integration: &str, now: Timestamp) -> bool {
        locked(&self.view(integration).known).fresh(now).is_some()
    }

    /// The token: the one that this container has, or the one that all share, or a new one.
    pub async fn token(&self, account: &TokenAccount<'_>, ports: TokenPorts<'_>) -> Result<Secret, NoToken> {
        let view = self.view(account.integration);
        let now = ports.clock.now();
        if let Some(token) = locked(&view.known).of(account.secret).fresh(now) {
            return Ok(token);
        }
        let usable = locked(&view.known).usable(now);
        let _turn = match (view.turn.try_lock(), usable) {
            (Some(turn), _) => turn,
            (None, Some(token)) => return Ok(token),
            (None, None) => view.turn.lock().await,
        };
        if let Some(token) = locked(&view.known).of(account.secret).fresh(ports.clock.now()) {
            return Ok(token);
        }
        self.obtain(&view, account, ports, None).await
    }

    /// Another token than the one that the partner rejected, as it was shown to it.
    pub async fn renewed(
        &self,
        account: &TokenAccount<'_>,
        ports: TokenPorts<'_>,
        rejected: &Credentials,
    ) -> Result<Secret, NoToken> {
        let view = self.view(account.integration);
        let _turn = view.turn.lock().await;
        let is_rejected = |token: &Secret| account.shows(token) == *rejected;
        let other = locked(&view.known).of(account.secret).unless(is_rejected, ports.clock.now());
        if let Some(token) = other {
            return Ok(token);
        }
        self.obtain(&view, account, ports, Some(rejected)).await
    }

    async fn obtain(
        &self,
        view: &View,
        account: &TokenAccount<'_>,
        ports: TokenPorts<'_>,
        rejected: Option<&Credentials>,
    ) -> Result<Secret, NoToken> {
        Obtaining { store: &*self.store, crypto: &*self.crypto, view, account, ports, rejected }.obtain().await
    }

    fn view(&self, integration: &str) -> Arc<View> {
        Arc::clone(locked(&self.views).entry(integration.to_owned()).or_default())
    }
}

/// Every change is whole, so a panic elsewhere leaves nothing half done.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Known {
    /// What is known of this secret's tokens: nothing, if it is another one than before.
    fn of(&mut self, secret: &Secret) -> &mut Self {
        if self.secret.as_ref() != Some(secret) {
            *self = Known { secret: Some(secret.clone()), ..Known::default() };
        }
        self
    }

    pub(super) fn usable(&self, now: Timestamp) -> Option<Secret> {
        self.token.as_ref().filter(|token| token.life.is_usable(now)).map(|token| token.text.clone())
    }

    /// The token, if it is good and needs no renewal now.
    pub(super) fn fresh(&self, now: Timestamp) -> Option<Secret> {
        let due = self.token.as_ref().is_some_and(|token| token.life.is_due(now));
        let waits = self.renew_at.is_some_and(|at| now < at);
        self.usable(now).filter(|_| !due || waits)
    }

    /// Takes over a token. Whatever hindered is over.
    pub(super) fn learn(&mut self, token: Token) {
        *self = Known { secret: self.secret.take(), token: Some(token), ..Known::default() };
    }

    /// The token that is still good; else that there is none, which nobody asks about again for as long.
    pub(super) fn settle(&mut self, none: NoToken, now: Timestamp) -> Result<Secret, NoToken> {
        if let Some(usable) = self.usable(now) {
            self.renew_at = Some(now + none.after);
            return Ok(usable);
        }
        self.none_until = Some((now + none.after, none.why.without_error()));
        Err(none)
    }

    /// That there is no token, if this container found out a moment ago.
    pub(super) fn none(&self, now: Timestamp) -> Option<NoToken> {
        let (until, why) = self.none_until.as_ref().filter(|(until, _)| now < *until)?;
        Some(NoToken { after: until.since(now), why: why.clone() })
    }

    /// The token, if it is good. One that was rejected is forgotten.
    fn unless(&mut self, is_rejected: impl Fn(&Secret) -> bool, now: Timestamp) -> Option<Secret> {
        self.token.take_if(|token| is_rejected(&token.text));
        self.usable(now)
    }
}
