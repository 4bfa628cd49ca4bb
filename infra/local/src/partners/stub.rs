//! The partner stub's state: what each integration does with a call. No I/O.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::call::{IncomingCall, PartnerCall};
use super::control::{Behaviour, Mode};
use crate::journal;

/// The behaviour of every integration, what was applied, and the log.
#[derive(Default)]
pub(super) struct PartnerStub {
    log: Vec<PartnerCall>,
    behaviours: HashMap<String, Behaviour>,
    /// The body that an applied call was answered with, by integration and key.
    recorded: HashMap<(String, String), Value>,
    applied: HashMap<String, usize>,
    /// What the last applied call to a path made, which a GET of it finds.
    made: HashMap<String, Value>,
    /// How often each method and path was called.
    calls: HashMap<(String, String), usize>,
}

/// The answer to a call. No status means no answer: the connection is closed.
#[derive(Debug, PartialEq)]
pub(super) struct StubAnswer {
    pub(super) status: Option<StatusCode>,
    /// The body. Null is none at all.
    pub(super) body: Value,
    pub(super) retry_after: Option<String>,
    pub(super) after: Duration,
    /// Whether the head goes out at once, and only the rest of the body after that time.
    pub(super) head_first: bool,
}

/// The effect of a call at the partner.
struct Effect {
    applied: bool,
    replayed: bool,
    body: Value,
}

impl Effect {
    fn none(body: Value) -> Self {
        Self { applied: false, replayed: false, body }
    }
}

impl PartnerStub {
    pub(super) fn set(&mut self, integration: String, behaviour: Behaviour) {
        self.behaviours.insert(integration, behaviour);
    }

    pub(super) fn log(&self) -> &[PartnerCall] {
        &self.log
    }

    /// Decides on a call, and logs it.
    pub(super) fn handle_call(&mut self, incoming: IncomingCall) -> (&PartnerCall, StubAnswer) {
        let behaviour = self.next_behaviour(&incoming.integration);
        let mode = self.mode(&behaviour, &incoming);
        let (answer, effect) = match (incoming.method.as_str(), applies(&mode)) {
            ("GET", _) => self.look_up(&mode, &incoming.path),
            (_, true) => {
                let effect = self.apply(&incoming, behaviour.idempotent);
                (answer(&mode, effect.body.clone()), effect)
            }
            (_, false) => {
                let effect = Effect::none(
                    json!({"error": "the partner stub was told to fail: PUT /_control/<integration> changes that"}),
                );
                (answer(&mode, effect.body.clone()), effect)
            }
        };
        self.log.push(PartnerCall {
            seq: self.log.len() + 1,
            time: journal::now(),
            integration: incoming.integration,
            method: incoming.method,
            path: incoming.path,
            idempotency_key: incoming.idempotency_key,
            traceparent: incoming.traceparent,
            authorized: incoming.authorized,
            body: incoming.body,
            status: answer.status.map(|status| status.as_u16()),
            mode: mode.name().to_owned(),
            applied: effect.applied,
            replayed: effect.replayed,
        });
        (&self.log[self.log.len() - 1], answer)
    }

    /// The behaviour for this call, which is counted. Once its calls are used up, the integration is healthy.
    fn next_behaviour(&mut self, integration: &str) -> Behaviour {
        let Some(set) = self.behaviours.get_mut(integration) else { return Behaviour::default() };
        if set.times == Some(0) {
            *set = Behaviour { idempotent: set.idempotent, ..Behaviour::default() };
        }
        set.times = set.times.map(|left| left - 1);
        set.clone()
    }

    /// The mode for this very call.
    fn mode(&mut self, behaviour: &Behaviour, incoming: &IncomingCall) -> Mode {
        let (method, path) = (&incoming.method, &incoming.path);
        let nth = self.calls.entry((method.clone(), path.clone())).or_default();
        *nth += 1;
        behaviour.chance.map_or_else(|| behaviour.mode.clone(), |chance| chance.mode(method, path, *nth))
    }

    /// Answers a GET, which changes nothing: it finds what an applied call to the same path made.
    fn look_up(&self, mode: &Mode, path: &str) -> (StubAnswer, Effect) {
        let made = self.made.get(path);
        let effect = Effect::none(made.cloned().unwrap_or_else(|| json!({})));
        let mut answer = answer(mode, effect.body.clone());
        if answer.status == Some(StatusCode::OK) && made.is_none() {
            answer.status = Some(StatusCode::NOT_FOUND);
        }
        (answer, effect)
    }

    fn apply(&mut self, incoming: &IncomingCall, idempotent: bool) -> Effect {
        let key = incoming.idempotency_key.clone().filter(|_| idempotent);
        let key = key.map(|key| (incoming.integration.clone(), key));
        if let Some(body) = key.as_ref().and_then(|key| self.recorded.get(key)) {
            return Effect { applied: false, replayed: true, body: body.clone() };
        }
        let count = self.applied.entry(incoming.integration.clone()).or_default();
        *count += 1;
        let body = json!({"id": format!("{}_{count}", incoming.integration)});
        if let Some(key) = key {
            self.recorded.insert(key, body.clone());
        }
        self.made.insert(incoming.path.clone(), body.clone());
        Effect { applied: true, replayed: false, body }
    }
}

fn applies(mode: &Mode) -> bool {
    match mode {
        Mode::Ok | Mode::Slow { .. } | Mode::SlowBody { .. } => true,
        Mode::Status { apply, .. } | Mode::Hang { apply, .. } | Mode::Reset { apply } => *apply,
    }
}

fn answer(mode: &Mode, body: Value) -> StubAnswer {
    let ok =
        StubAnswer { status: Some(StatusCode::OK), body, retry_after: None, after: Duration::ZERO, head_first: false };
    match mode {
        Mode::Ok => ok,
        Mode::Slow { time } => StubAnswer { after: *time, ..ok },
        Mode::SlowBody { time } => StubAnswer { after: *time, head_first: true, ..ok },
        Mode::Hang { time, .. } => StubAnswer { status: None, after: *time, ..ok },
        Mode::Reset { .. } => StubAnswer { status: None, ..ok },
        Mode::Status { status, retry_after, body, .. } => StubAnswer {
            status: StatusCode::from_u16(*status).ok(),
            retry_after: retry_after.clone(),
            body: body.clone().unwrap_or(ok.body),
            ..ok
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(key: Option<&str>) -> IncomingCall {
        IncomingCall {
            integration: "crm".into(),
            method: "POST".into(),
            path: "/crm/contacts".into(),
            idempotency_key: key.map(str::to_owned),
            traceparent: None,
            authorized: true,
            body: Value::Null,
        }
    }

    fn stub_with(mode: Mode, times: Option<u32>) -> PartnerStub {
        let mut stub = PartnerStub::default();
        stub.set("crm".into(), Behaviour { mode, times, ..Behaviour::default() });
        stub
    }

    #[test]
    fn a_repeated_key_gets_the_recorded_answer_and_no_second_effect() {
        let mut stub = PartnerStub::default();
        let first = stub.handle_call(incoming(Some("k"))).1;
        let (call, second) = stub.handle_call(incoming(Some("k")));
        assert_eq!(first, second);
        assert!(!call.applied && call.replayed);
    }

    #[test]
    fn without_a_key_or_without_honouring_it_every_call_is_applied() {
        let mut stub = PartnerStub::default();
        stub.set("crm".into(), Behaviour { idempotent: false, ..Behaviour::default() });
        let bodies = [Some("k"), Some("k"), None].map(|key| stub.handle_call(incoming(key)).1.body);
        assert_eq!(bodies, [json!({"id": "crm_1"}), json!({"id": "crm_2"}), json!({"id": "crm_3"})]);
    }

    #[test]
    fn a_limited_failure_heals_by_itself() {
        let mut stub = stub_with(Mode::Status { status: 500, retry_after: None, apply: false, body: None }, Some(2));
        let statuses = [(); 4].map(|()| stub.handle_call(incoming(Some("k"))).0.status);
        assert_eq!(statuses, [Some(500), Some(500), Some(200), Some(200)]);
        let applied: Vec<bool> = stub.log().iter().map(|call| call.applied).collect();
        assert_eq!(applied, [false, false, true, false]);
    }

    #[test]
    fn a_question_finds_what_was_applied_and_changes_nothing() {
        let ask = || IncomingCall { method: "GET".into(), ..incoming(None) };
        let mut stub = PartnerStub::default();
        assert_eq!(stub.handle_call(ask()).1.status, Some(StatusCode::NOT_FOUND));
        stub.set("crm".into(), Behaviour { mode: Mode::Reset { apply: true }, times: Some(1), ..Behaviour::default() });
        stub.handle_call(incoming(None));
        let found = stub.handle_call(ask()).1;
        assert_eq!((found.status, found.body), (Some(StatusCode::OK), json!({"id": "crm_1"})));
        assert_eq!(stub.log().iter().filter(|call| call.applied).count(), 1);
    }

    #[test]
    fn an_answer_can_be_lost_after_the_effect() {
        let mut stub = stub_with(Mode::Status { status: 502, retry_after: None, apply: true, body: None }, Some(1));
        let (call, answer) = stub.handle_call(incoming(None));
        assert_eq!((call.applied, answer.status), (true, Some(StatusCode::BAD_GATEWAY)));
        assert_eq!(call.fault().as_deref(), Some("502 after the effect"));
    }

    #[test]
    fn a_hang_that_applies_is_replayed_to_the_next_call_with_the_key() {
        let mut stub = stub_with(Mode::Hang { apply: true, time: Duration::from_secs(30) }, Some(1));
        let (call, answer) = stub.handle_call(incoming(Some("k")));
        assert!(call.applied && answer.status.is_none());
        let (call, answer) = stub.handle_call(incoming(Some("k")));
        assert!(call.replayed && answer.body == json!({"id": "crm_1"}));
    }
}
