//! Partners in memory: they follow a script, and remember their calls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{ModelClock, locked};
use crate::base::machine::Clock;
use crate::base::time::Timestamp;
use crate::effects::outcome::NoAnswer;
use crate::effects::request::{PartnerRequest, Partners};
use crate::flows::PartnerAnswer;

/// A partner's reaction to the next call.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// The partner answers with this status.
    Status(u16),
    /// The partner answers with this status and this `Retry-After`.
    RetryAfter(u16, &'static str),
    /// The partner answers with this status and this body, or without one.
    Body(u16, Option<Value>),
    /// No connection comes about.
    Refused,
    /// The partner takes the call's whole timeout and does not answer.
    Hang,
    /// The worker panics in the middle of the call.
    Panic,
}

/// The partners, all of them.
#[derive(Clone, Debug)]
pub struct ModelPartners {
    clock: ModelClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Script>,
    failing: BTreeSet<String>,
    never_taken: BTreeSet<String>,
    down: Option<Script>,
    calls: Vec<(Timestamp, PartnerRequest)>,
}

impl ModelPartners {
    /// Partners that answer every call with 200.
    pub fn new(clock: ModelClock) -> Self {
        Self { clock, state: Arc::default() }
    }

    /// Sets the reactions to the next calls. After them, every call is answered with 200.
    pub fn script(&self, script: impl IntoIterator<Item = Script>) {
        locked(&self.state).script.extend(script);
    }

    /// Fails the first call to each of these paths with 503.
    pub fn fail_paths(&self, paths: &[&str]) {
        locked(&self.state).failing.extend(paths.iter().map(|path| (*path).to_owned()));
    }

    /// Fails every call to this path with 503.
    pub fn never_take(&self, path: &str) {
        locked(&self.state).never_taken.insert(path.to_owned());
    }

    /// Lets every call fail with 503, or no call any more.
    pub fn set_down(&self, down: bool) {
        self.fail_with(down.then_some(Script::Status(503)));
    }

    /// Lets every call end so, or no call any more.
    pub fn fail_with(&self, down: Option<Script>) {
        locked(&self.state).down = down;
    }

    /// The calls so far, each with its time.
    pub fn calls(&self) -> Vec<(Timestamp, PartnerRequest)> {
        locked(&self.state).calls.clone()
    }
}

#[async_trait]
impl Partners for ModelPartners {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let timeout = request.timeout;
        let (script, number) = {
            let mut state = locked(&self.state);
            let once = state.failing.remove(&request.path);
            let fails = once || state.never_taken.contains(&request.path);
            state.calls.push((self.clock.now(), request));
            let down = state.down.clone().or(fails.then_some(Script::Status(503)));
            let script = down.or_else(|| state.script.pop_front());
            (script.unwrap_or(Script::Status(200)), state.calls.len())
        };
        let answer = |status| {
            let body = Some(json!({"ok": true, "id": format!("id_{number}")}));
            PartnerAnswer { status, headers: BTreeMap::new(), body }
        };
        match script {
            Script::Status(status) => Ok(answer(status)),
            Script::Body(status, body) => Ok(PartnerAnswer { body, ..answer(status) }),
            Script::RetryAfter(status, after) => {
                let headers = [("retry-after".to_owned(), after.to_owned())].into();
                Ok(PartnerAnswer { headers, ..answer(status) })
            }
            Script::Refused => Err(NoAnswer::NotSent("the connection was refused".into())),
            Script::Hang => {
                self.clock.advance(timeout);
                Err(NoAnswer::Lost(format!("timed out after {} ms", timeout.as_millis())))
            }
            Script::Panic => panic!("the worker went down in the middle of the call"),
        }
    }
}
