//! A partner with a token end-point: it knows which of its tokens are good, and misbehaves as it is told.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::arrival::signature::Secret;
use shared::base::machine::Clock;
use shared::base::time::Timestamp;
use shared::effects::credentials::Credentials;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::PartnerAnswer;
use shared::model::ModelClock;

/// What the token end-point does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Fetch {
    /// It gives a token that lives for an hour.
    Token,
    /// It gives a token whose `expires_in` is this.
    Expires(Value),
    /// It answers with this status and this body, if it is JSON.
    Answer(u16, Option<Value>),
    /// It takes the whole time, and does not answer.
    Hang,
    /// It cannot be reached.
    Unreachable,
    /// The worker goes down in the middle of the request.
    Panic,
}

/// The partner.
#[derive(Clone)]
pub(crate) struct Issuer {
    clock: ModelClock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Fetch>,
    otherwise: Option<Fetch>,
    good: BTreeSet<String>,
    rejects_all: bool,
    fetches: Vec<(Timestamp, PartnerRequest)>,
    calls: Vec<(Timestamp, PartnerRequest)>,
}

impl Issuer {
    pub(crate) fn new(clock: ModelClock) -> Self {
        Self { clock, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panicked with it")
    }

    /// What the token end-point does with the next requests. Afterwards it gives tokens.
    pub(crate) fn script(&self, script: impl IntoIterator<Item = Fetch>) {
        self.state().script.extend(script);
    }

    /// What the token end-point does with every request that is in no script, from now on.
    pub(crate) fn always(&self, fetch: Option<Fetch>) {
        self.state().otherwise = fetch;
    }

    /// Ends every token that was given so far.
    pub(crate) fn revoke_all(&self) {
        self.state().good.clear();
    }

    /// Lets the API reject every token, or none any more.
    pub(crate) fn reject_all(&self, rejects: bool) {
        self.state().rejects_all = rejects;
    }

    /// The requests for tokens so far.
    pub(crate) fn fetches(&self) -> Vec<(Timestamp, PartnerRequest)> {
        self.state().fetches.clone()
    }

    /// The calls of the API so far.
    pub(crate) fn calls(&self) -> Vec<(Timestamp, PartnerRequest)> {
        self.state().calls.clone()
    }

    fn fetch(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let timeout = request.timeout;
        let mut state = self.state();
        state.fetches.push((self.clock.now(), request));
        let next = state.script.pop_front().or_else(|| state.otherwise.clone()).unwrap_or(Fetch::Token);
        let token = format!("canary-token-{}", state.fetches.len());
        let mut issue = |expires_in: Value| {
            state.good.insert(token.clone());
            answer(200, Some(json!({"access_token": token, "token_type": "Bearer", "expires_in": expires_in})))
        };
        match next {
            Fetch::Token => issue(json!(3600)),
            Fetch::Expires(expires_in) => issue(expires_in),
            Fetch::Answer(status, body) => answer(status, body),
            Fetch::Unreachable => Err(NoAnswer::NotSent("cannot connect".into())),
            Fetch::Hang => {
                self.clock.advance(timeout);
                Err(NoAnswer::Lost(format!("timed out after {} ms", timeout.as_millis())))
            }
            Fetch::Panic => {
                drop(state);
                panic!("the worker went down in the middle of a fetch")
            }
        }
    }

    fn serve(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let mut state = self.state();
        let mut good = state.good.iter().map(|token| Credentials::bearer(&Secret::new(token.as_str())));
        let known = good.any(|good| good == request.credentials) && !state.rejects_all;
        state.calls.push((self.clock.now(), request));
        let id = format!("id_{}", state.calls.len());
        if known { answer(200, Some(json!({ "id": id }))) } else { answer(401, Some(json!({"error": "canary"}))) }
    }
}

fn answer(status: u16, body: Option<Value>) -> Result<PartnerAnswer, NoAnswer> {
    Ok(PartnerAnswer { status, body, ..PartnerAnswer::default() })
}

#[async_trait]
impl Partners for Issuer {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        if request.integration.ends_with("/_token") { self.fetch(request) } else { self.serve(request) }
    }
}
