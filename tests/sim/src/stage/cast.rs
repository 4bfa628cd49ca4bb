//! The partners of a play: what a call asks, and what comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::{AnswerPlace, Effect, Flows, PartnerAnswer};

use crate::partner::plant;

/// A call that reached a partner or a function of the team's own.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeCall {
    /// Its place among all calls, from 1.
    pub number: usize,
    /// When it was made.
    pub at: Timestamp,
    /// The integration.
    pub integration: String,
    /// The method; of an invocation, `INVOKE`.
    pub method: String,
    /// The path with its query, encoded; of an invocation, the function.
    pub path: String,
    /// The header fields that the flow sets, under lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body: JSON, a form as a mapping, or else a text.
    pub body: Option<Value>,
    /// What it is about, where that is an effect of an event.
    pub purpose: Option<CallPurpose>,
    /// The longest that its caller waits.
    pub timeout: Duration,
    /// What came of it.
    pub reaction: Option<Reaction>,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPurpose {
    /// The event.
    pub event: EventId,
    /// The flow.
    pub flow: String,
    /// The effect.
    pub effect: String,
    /// Whether it asks if the effect happened.
    pub asks: bool,
}

/// What a partner does with a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reaction {
    /// Whether it does what it is asked for.
    pub acts: bool,
    /// How long it takes.
    pub after: Duration,
    /// How it ends for the caller.
    pub end: CastEnd,
}

/// How a call ends for its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum CastEnd {
    /// With an answer.
    Answer(PartnerAnswer),
    /// With none, until the caller gives up.
    Silence,
    /// With a connection that is lost.
    Reset,
    /// Before it began: no connection came about.
    Unreachable,
    /// The caller goes down.
    Crash,
}

impl Reaction {
    /// The partner does it, and answers with a 200.
    pub fn success(body: Value) -> Self {
        let answer = PartnerAnswer { status: 200, headers: BTreeMap::new(), body: Some(body) };
        Reaction { acts: true, after: Duration::ZERO, end: CastEnd::Answer(answer) }
    }
}

/// All partners and functions.
pub trait Cast: Send + Sync {
    /// What they do with a call.
    fn react(&self, call: &MadeCall, flows: &Flows) -> Reaction;
}

/// The body of a success: with something wherever an effect looks for a result.
pub fn success_body(flows: &Flows, integration: &str, number: usize) -> Value {
    let id = format!("{integration}-{number}");
    let mut body = json!({"ok": true});
    for effect in effects(flows, integration) {
        for result in effect.result.values() {
            if let AnswerPlace::Pointer(pointer) = &result.at {
                plant(&mut body, pointer, &id);
            }
        }
    }
    body
}

fn effects<'f>(flows: &'f Flows, integration: &'f str) -> impl Iterator<Item = &'f Effect> {
    flows.all().flat_map(|flow| &flow.effects).filter(move |effect| effect.integration() == Some(integration))
}
