//! The partner stub's state: what each integration does with a call. No I/O.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::call::{IncomingCall, PartnerCall};
use super::control::{Behaviour, Mode};
use super::form::{FormAnswer, Handled, Made};
use super::integration::StubIntegration;
use super::token_endpoint::give_token;
use crate::journal;

/// The behaviour of every integration, what was applied, and the log.
#[derive(Default)]
pub(super) struct PartnerStub {
    known: BTreeMap<String, StubIntegration>,
    log: Vec<PartnerCall>,
    behaviours: HashMap<String, Behaviour>,
    /// The answer that an applied call got, by integration and key.
    recorded: HashMap<(String, String), FormAnswer>,
    /// What the applied calls of an integration made, in order.
    made: HashMap<String, Vec<Made>>,
    /// The tokens that an integration's token end-point gave, and when each ends.
    tokens: HashMap<String, BTreeMap<String, i64>>,
    /// How often each method and path was called.
    calls: HashMap<(String, String), usize>,
}

/// The answer to a call. No status means no answer: the connection is closed.
#[derive(Debug, PartialEq)]
pub(super) struct StubAnswer {
    pub(super) status: Option<StatusCode>,
    pub(super) headers: Vec<(String, String)>,
    /// The body. Null is none at all.
    pub(super) body: Value,
    pub(super) after: Duration,
    /// Whether it waits, too, until the stub is told anything else about the integration.
    pub(super) is_held: bool,
    /// Whether the head goes out at once, and only the rest of the body after that time.
    pub(super) head_first: bool,
}

impl From<FormAnswer> for StubAnswer {
    fn from(FormAnswer { status, headers, body }: FormAnswer) -> Self {
        let status = StatusCode::from_u16(status).ok();
        StubAnswer { status, headers, body, after: Duration::ZERO, is_held: false, head_first: false }
    }
}

/// What becomes of a call.
struct Effect {
    applied: bool,
    replayed: bool,
    answer: FormAnswer,
}

impl Effect {
    fn none(answer: FormAnswer) -> Self {
        Self { applied: false, replayed: false, answer }
    }
}

impl PartnerStub {
    /// A stub for these integrations, and no other.
    pub(super) fn new(known: BTreeMap<String, StubIntegration>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The same stub, as it was at its start.
    pub(super) fn forget(&mut self) {
        *self = Self::new(std::mem::take(&mut self.known));
    }

    /// Whether the integration's answers are held now.
    pub(super) fn holds(&self, integration: &str) -> bool {
        self.behaviours.get(integration).is_some_and(|set| set.mode == Mode::Hold)
    }

    pub(super) fn set(&mut self, integration: String, behaviour: Behaviour) {
        self.behaviours.insert(integration, behaviour);
    }

    pub(super) fn log(&self) -> &[PartnerCall] {
        &self.log
    }

    /// The sentence for whoever calls or controls an integration that the flows folder does not have.
    pub(super) fn stranger(&self, integration: &str) -> Option<String> {
        if self.known.contains_key(integration) {
            return None;
        }
        let known: Vec<&str> = self.known.keys().map(String::as_str).collect();
        Some(format!(
            "The partner stub knows no integration `{integration}`: integrations.yaml has {}. A new one is known after the next start.",
            known.join(", ")
        ))
    }

    /// Decides on a call, and logs it.
    pub(super) fn handle_call(&mut self, incoming: IncomingCall) -> (&PartnerCall, StubAnswer) {
        let partner = self.known.get(&incoming.integration).cloned().unwrap_or_default();
        let tokens = self.tokens.entry(incoming.integration.clone()).or_default();
        if incoming.asks_for_token() {
            return self.handle_token(&partner, incoming);
        }
        let authorized = partner.takes(&incoming, tokens);
        let (mode, effect, answer) = if authorized {
            let behaviour = self.next_behaviour(&incoming.integration);
            let mode = self.mode(&behaviour, &incoming);
            let effect = self.handle(&partner, &incoming, &mode, behaviour.idempotent);
            let answer = answer(&mode, effect.answer.clone());
            (mode.name(), effect, answer)
        } else {
            let declined = FormAnswer { status: 401, headers: Vec::new(), body: partner.form.error(401) };
            ("unauthorized", Effect::none(declined.clone()), declined.into())
        };
        let shown = partner.without_secrets(&incoming);
        self.log.push(PartnerCall {
            seq: self.log.len() + 1,
            time: journal::now(),
            integration: incoming.integration,
            method: incoming.method,
            path: shown.path,
            idempotency_key: incoming.idempotency_key,
            traceparent: incoming.traceparent,
            authorized,
            content_type: incoming.headers.get("content-type").cloned(),
            body: shown.body,
            status: answer.status.map(|status| status.as_u16()),
            mode: mode.to_owned(),
            applied: effect.applied,
            replayed: effect.replayed,
            open: incoming.open,
        });
        (&self.log[self.log.len() - 1], answer)
    }

    /// Decides on a request for a token, which is told how to behave under a name of its own. Nothing of its body is
    /// logged but the grant: the rest is secret.
    fn handle_token(&mut self, partner: &StubIntegration, incoming: IncomingCall) -> (&PartnerCall, StubAnswer) {
        let name = format!("{}/token", incoming.integration);
        let mode = self.next_behaviour(&name).mode;
        let tokens = self.tokens.entry(incoming.integration.clone()).or_default();
        let told = match applies(&mode) {
            true => give_token(partner, &incoming, tokens),
            false => FormAnswer { status: 500, headers: Vec::new(), body: json!({"error": "server_error"}) },
        };
        let authorized = told.status == 200;
        let answer = answer(&mode, told);
        self.log.push(PartnerCall {
            seq: self.log.len() + 1,
            time: journal::now(),
            integration: name,
            method: incoming.method.clone(),
            path: partner.without_secrets(&incoming).path,
            idempotency_key: None,
            traceparent: incoming.traceparent.clone(),
            authorized,
            content_type: incoming.headers.get("content-type").cloned(),
            body: json!({"grant_type": incoming.body["grant_type"]}),
            status: answer.status.map(|status| status.as_u16()),
            mode: mode.name().to_owned(),
            applied: false,
            replayed: false,
            open: incoming.open,
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

    /// Applies the call as its partner would, unless the mode says that nothing happens.
    fn handle(&mut self, partner: &StubIntegration, incoming: &IncomingCall, mode: &Mode, idempotent: bool) -> Effect {
        let made = self.made.entry(incoming.integration.clone()).or_default();
        let key = partner.form.key(incoming).filter(|_| idempotent && incoming.method != "GET");
        let key = key.map(|key| (incoming.integration.clone(), key));
        if let Some(answer) = key.as_ref().filter(|_| applies(mode)).and_then(|key| self.recorded.get(key)) {
            return Effect { applied: false, replayed: true, answer: answer.clone() };
        }
        match partner.form.handle(incoming, made.len() + 1, made) {
            Handled::Tells(answer) => Effect::none(answer),
            Handled::Does(..) if !applies(mode) => {
                let status = if let Mode::Status { status, .. } = mode { *status } else { 500 };
                Effect::none(FormAnswer { status, headers: Vec::new(), body: partner.form.error(status) })
            }
            Handled::Does(record, answer) => {
                made.push(Made { path: incoming.path.clone(), sent: incoming.body.clone(), record });
                if let Some(key) = key {
                    self.recorded.insert(key, answer.clone());
                }
                Effect { applied: true, replayed: false, answer }
            }
        }
    }
}

fn applies(mode: &Mode) -> bool {
    match mode {
        Mode::Ok | Mode::Hold | Mode::Slow { .. } | Mode::SlowBody { .. } => true,
        Mode::Status { apply, .. } | Mode::Hang { apply, .. } | Mode::Reset { apply } => *apply,
    }
}

/// The answer that is given for what the partner would say.
fn answer(mode: &Mode, usual: FormAnswer) -> StubAnswer {
    let usual = StubAnswer::from(usual);
    // Whatever the stub is told, a question about something that is not there is not answered with a success.
    if usual.status == Some(StatusCode::NOT_FOUND) && matches!(mode, Mode::Status { status: 200..=299, .. }) {
        return usual;
    }
    match mode {
        Mode::Ok => usual,
        Mode::Hold => StubAnswer { is_held: true, ..usual },
        Mode::Slow { time } => StubAnswer { after: *time, ..usual },
        Mode::SlowBody { time } => StubAnswer { after: *time, head_first: true, ..usual },
        Mode::Hang { time, .. } => StubAnswer { status: None, after: *time, ..usual },
        Mode::Reset { .. } => StubAnswer { status: None, ..usual },
        Mode::Status { status, retry_after, body, headers, time, .. } => StubAnswer {
            status: StatusCode::from_u16(*status).ok(),
            headers: told_headers(&usual, headers, retry_after.as_ref()),
            body: body.clone().unwrap_or(usual.body),
            after: *time,
            is_held: false,
            head_first: false,
        },
    }
}

fn told_headers(usual: &StubAnswer, told: &[(String, String)], retry_after: Option<&String>) -> Vec<(String, String)> {
    let retry_after = retry_after.map(|value| ("retry-after".to_owned(), value.clone()));
    usual.headers.iter().chain(told).cloned().chain(retry_after).collect()
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
            ..IncomingCall::default()
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
        let mut stub = stub_with(Mode::status(500, false), Some(2));
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
        let mut stub = stub_with(Mode::status(502, true), Some(1));
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
