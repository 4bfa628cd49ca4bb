//! Partners in memory: they follow a script, and remember their calls.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;

use super::{ModelClock, locked};
use crate::base::machine::Clock;
use crate::base::time::Timestamp;
use crate::effects::outcome::{NoAnswer, PartnerAnswer};
use crate::effects::request::{PartnerRequest, Partners};

/// A partner's reaction to the next call.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// The partner answers with this status.
    Status(u16),
    /// The partner answers with this status and this `Retry-After`.
    RetryAfter(u16, &'static str),
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
            let fails = state.failing.remove(&request.path);
            state.calls.push((self.clock.now(), request));
            let script = if fails { Some(Script::Status(503)) } else { state.script.pop_front() };
            (script.unwrap_or(Script::Status(200)), state.calls.len())
        };
        let answer = |status, retry_after: Option<&str>| {
            Ok(PartnerAnswer {
                status,
                retry_after: retry_after.map(str::to_owned),
                body: json!({"ok": true, "id": format!("id_{number}")}),
            })
        };
        match script {
            Script::Status(status) => answer(status, None),
            Script::RetryAfter(status, after) => answer(status, Some(after)),
            Script::Hang => {
                self.clock.advance(timeout);
                Err(NoAnswer::Lost(format!("timed out after {} ms", timeout.as_millis())))
            }
            Script::Panic => panic!("the worker went down in the middle of the call"),
        }
    }
}
