//! What each integration does with a call: the stub's state, with no I/O.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::call::{Call, Incoming};
use super::control::{Behaviour, Mode};
use crate::journal;

/// Every integration's behaviour, what was applied, and the log.
#[derive(Default)]
pub(super) struct Desk {
    log: Vec<Call>,
    behaviours: HashMap<String, Behaviour>,
    /// The body that an applied call was answered with, by integration and key.
    recorded: HashMap<(String, String), Value>,
    applied: HashMap<String, usize>,
}

/// What goes back to the caller. No status means no answer: the connection is closed.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: Option<StatusCode>,
    pub(super) body: Value,
    pub(super) retry_after: Option<String>,
    pub(super) after: Duration,
}

/// What a call did at the partner.
struct Effect {
    applied: bool,
    replayed: bool,
    body: Value,
}

impl Desk {
    pub(super) fn set(&mut self, integration: String, behaviour: Behaviour) {
        self.behaviours.insert(integration, behaviour);
    }

    pub(super) fn log(&self) -> &[Call] {
        &self.log
    }

    /// Decide one call and log it.
    pub(super) fn take(&mut self, incoming: Incoming) -> (&Call, Answer) {
        let behaviour = self.next_behaviour(&incoming.integration);
        let effect = if applies(&behaviour.mode) {
            self.apply(&incoming, behaviour.idempotent)
        } else {
            Effect { applied: false, replayed: false, body: json!({"error": "told to fail"}) }
        };
        let (applied, replayed) = (effect.applied, effect.replayed);
        let answer = answer(&behaviour.mode, effect.body);
        self.log.push(Call {
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
            mode: behaviour.mode.name().to_owned(),
            applied,
            replayed,
        });
        (&self.log[self.log.len() - 1], answer)
    }

    /// The behaviour for this call, counted off; spent ones leave a healthy integration behind.
    fn next_behaviour(&mut self, integration: &str) -> Behaviour {
        let Some(set) = self.behaviours.get_mut(integration) else { return Behaviour::default() };
        if set.times == Some(0) {
            *set = Behaviour { idempotent: set.idempotent, ..Behaviour::default() };
        }
        set.times = set.times.map(|left| left - 1);
        set.clone()
    }

    fn apply(&mut self, incoming: &Incoming, idempotent: bool) -> Effect {
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
        Effect { applied: true, replayed: false, body }
    }
}

fn applies(mode: &Mode) -> bool {
    match mode {
        Mode::Ok | Mode::Slow { .. } => true,
        Mode::Status { status, .. } => (200..300).contains(status),
        Mode::Hang { apply, .. } | Mode::Reset { apply } => *apply,
    }
}

fn answer(mode: &Mode, body: Value) -> Answer {
    let ok = Answer { status: Some(StatusCode::OK), body, retry_after: None, after: Duration::ZERO };
    match mode {
        Mode::Ok => ok,
        Mode::Slow { time } => Answer { after: *time, ..ok },
        Mode::Hang { time, .. } => Answer { status: None, after: *time, ..ok },
        Mode::Reset { .. } => Answer { status: None, ..ok },
        Mode::Status { status, retry_after } => {
            Answer { status: StatusCode::from_u16(*status).ok(), retry_after: retry_after.clone(), ..ok }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(key: Option<&str>) -> Incoming {
        Incoming {
            integration: "crm".into(),
            method: "POST".into(),
            path: "/crm/contacts".into(),
            idempotency_key: key.map(str::to_owned),
            traceparent: None,
            authorized: true,
            body: Value::Null,
        }
    }

    fn told(mode: Mode, times: Option<u32>) -> Desk {
        let mut desk = Desk::default();
        desk.set("crm".into(), Behaviour { mode, times, idempotent: true });
        desk
    }

    #[test]
    fn a_repeated_key_gets_the_recorded_answer_and_no_second_effect() {
        let mut desk = Desk::default();
        let first = desk.take(incoming(Some("k"))).1;
        let (call, second) = desk.take(incoming(Some("k")));
        assert_eq!(first, second);
        assert!(!call.applied && call.replayed);
    }

    #[test]
    fn without_a_key_or_without_honouring_it_every_call_is_applied() {
        let mut desk = Desk::default();
        desk.set("crm".into(), Behaviour { idempotent: false, ..Behaviour::default() });
        let bodies = [Some("k"), Some("k"), None].map(|key| desk.take(incoming(key)).1.body);
        assert_eq!(bodies, [json!({"id": "crm_1"}), json!({"id": "crm_2"}), json!({"id": "crm_3"})]);
    }

    #[test]
    fn a_limited_failure_heals_by_itself() {
        let mut desk = told(Mode::Status { status: 500, retry_after: None }, Some(2));
        let statuses = [(); 4].map(|()| desk.take(incoming(Some("k"))).0.status);
        assert_eq!(statuses, [Some(500), Some(500), Some(200), Some(200)]);
        let applied: Vec<bool> = desk.log().iter().map(|call| call.applied).collect();
        assert_eq!(applied, [false, false, true, false]);
    }

    #[test]
    fn a_hang_that_applies_is_replayed_to_the_next_call_with_the_key() {
        let mut desk = told(Mode::Hang { apply: true, time: Duration::from_secs(30) }, Some(1));
        let (call, answer) = desk.take(incoming(Some("k")));
        assert!(call.applied && answer.status.is_none());
        let (call, answer) = desk.take(incoming(Some("k")));
        assert!(call.replayed && answer.body == json!({"id": "crm_1"}));
    }
}
