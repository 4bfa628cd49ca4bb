//! The team's own functions in memory: they follow a script, and remember their invocations.
//!
//! What they cannot do that Lambda can: run on after their caller has gone, two at once, and answer late.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{ModelClock, locked};
use crate::base::machine::Clock;
use crate::base::time::Timestamp;
use crate::effects::invocation::{FunctionRequest, InvokeFailure, TeamFunctions};

/// A function's reaction to the next invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionScript {
    /// The function answers with this.
    Answer(Value),
    /// No answer of the function comes, for this reason.
    Fail(InvokeFailure),
    /// The function takes the whole timeout and does not answer.
    Hang,
    /// The worker panics in the middle of the invocation.
    Panic,
}

/// The functions, all of them.
#[derive(Clone, Debug)]
pub struct ModelFunctions {
    clock: ModelClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<FunctionScript>,
    invocations: Vec<(Timestamp, FunctionRequest)>,
}

impl ModelFunctions {
    /// Functions that do all that they are asked for, with the result `{"id": "id_<n>"}`, and find all that they are
    /// asked about.
    pub fn new(clock: ModelClock) -> Self {
        Self { clock, state: Arc::default() }
    }

    /// Sets the reactions to the next invocations.
    pub fn script(&self, script: impl IntoIterator<Item = FunctionScript>) {
        locked(&self.state).script.extend(script);
    }

    /// The invocations so far, each with its time.
    pub fn invocations(&self) -> Vec<(Timestamp, FunctionRequest)> {
        locked(&self.state).invocations.clone()
    }

    /// The documents of the invocations so far.
    pub fn documents(&self) -> Vec<Value> {
        let invocations = self.invocations().into_iter();
        invocations.map(|(_, request)| serde_json::from_str(&request.document).expect("a document")).collect()
    }
}

#[async_trait]
impl TeamFunctions for ModelFunctions {
    async fn invoke(&self, request: FunctionRequest) -> Result<Value, InvokeFailure> {
        let (timeout, asks) = (request.timeout, request.document.contains(r#""operation":"ask""#));
        let (script, number) = {
            let mut state = locked(&self.state);
            state.invocations.push((self.clock.now(), request));
            (state.script.pop_front(), state.invocations.len())
        };
        let outcome = if asks { "found" } else { "done" };
        match script {
            None => Ok(json!({"outcome": outcome, "result": {"id": format!("id_{number}")}})),
            Some(FunctionScript::Answer(answer)) => Ok(answer),
            Some(FunctionScript::Fail(failure)) => Err(failure),
            Some(FunctionScript::Hang) => {
                self.clock.advance(timeout);
                Err(InvokeFailure::Lost(format!("timed out after {} ms", timeout.as_millis())))
            }
            Some(FunctionScript::Panic) => panic!("the worker went down in the middle of the invocation"),
        }
    }
}
