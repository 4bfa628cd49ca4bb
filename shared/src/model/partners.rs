//! Partners in memory: they do as they are told, and remember what they were asked.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;

use super::{ModelClock, locked};
use crate::base::machine::Clock;
use crate::base::time::Timestamp;
use crate::effects::outcome::{NoAnswer, PartnerAnswer};
use crate::effects::request::{PartnerRequest, Partners};

/// What a partner does with the next call.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// Answers with this status.
    Status(u16),
    /// Answers with this status and this `Retry-After`.
    RetryAfter(u16, &'static str),
    /// Takes the call's whole time-out and does not answer.
    Hang,
    /// Brings the worker down in the middle of the call.
    Panic,
}

/// All partners.
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

    /// What to do with the next calls, before everything is well again.
    pub fn script(&self, script: impl IntoIterator<Item = Script>) {
        locked(&self.state).script.extend(script);
    }

    /// Fails the first call to each of these paths with 503.
    pub fn fail_paths(&self, paths: &[&str]) {
        locked(&self.state).failing.extend(paths.iter().map(|path| (*path).to_owned()));
    }

    /// Every call so far, and when it came.
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
