//! The outcome of a call, read from the partner's answer.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::base::time::Timestamp;
use crate::flows::{
    Effect, Flows, Guarantee, LookedUpCall, Lookup, Meaning, PartnerAnswer, Reading, ResultAt, UnreadableAnswer,
};
use crate::ledger::{CallError, Clue, Doubt};
use crate::limits::pressure::CallEnd;

/// The reason why no answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The request was never sent: the call surely did not happen.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The request was sent and no answer came: the call may have happened.
    #[error("no answer: {0}")]
    Lost(String),
}

/// The outcome of a call. The variant names what happens next.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// The call happened, with this result.
    Done(Value),
    /// The call may be repeated: it did not happen, or the partner lets it be repeated.
    Retryable {
        /// The cause.
        error: CallError,
        /// The delay that the partner asked for.
        retry_after: Option<Duration>,
        /// What is known of this call.
        doubt: Doubt,
        /// Whether a partner that is down would have done the same: it gave no answer, a 5xx, or one that asks to come back.
        as_if_down: bool,
    },
    /// The call did not happen, and repeating it would not help.
    Terminal(CallError),
    /// The call may have happened, and it must not be repeated.
    Unknown {
        /// The cause.
        error: CallError,
        /// What is known of this call.
        doubt: Doubt,
    },
    /// The partner did not take our credentials: it did nothing, and the event waits until they are right.
    CredentialsRejected(CallError),
}

/// Without the result: a partner wrote it.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Done(_) => f.write_str("Done"),
            Outcome::Retryable { error, doubt, .. } => write!(f, "Retryable({error:?}, {doubt:?})"),
            Outcome::Terminal(error) => write!(f, "Terminal({error:?})"),
            Outcome::Unknown { error, doubt } => write!(f, "Unknown({error:?}, {doubt:?})"),
            Outcome::CredentialsRejected(error) => write!(f, "CredentialsRejected({error:?})"),
        }
    }
}

impl Outcome {
    /// Whether the call happened, with all that it has to bring.
    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Done(_))
    }

    /// The same outcome, with what the partner said of its error.
    #[must_use]
    pub fn with_clue(mut self, clue: Option<Clue>) -> Self {
        let (Outcome::Retryable { error, .. }
        | Outcome::Terminal(error)
        | Outcome::Unknown { error, .. }
        | Outcome::CredentialsRejected(error)) = &mut self
        else {
            return self;
        };
        *error = error.clone().with_clue(clue);
        self
    }
}

/// Reads a call's outcome. `guarantee` is what the partner guarantees now.
///
/// A call that may have happened is repeated only where the partner honours our key or the request may be repeated.
pub fn classify(
    called: &Result<PartnerAnswer, NoAnswer>,
    flows: &Flows,
    effect: &Effect,
    guarantee: Guarantee,
    now: Timestamp,
) -> Outcome {
    let answer = match called {
        Ok(answer) => answer,
        Err(error @ NoAnswer::NotSent(_)) => {
            let (error, doubt) = (error.to_string().into(), Doubt::None);
            return Outcome::Retryable { error, retry_after: None, doubt, as_if_down: true };
        }
        Err(error @ NoAnswer::Lost(_)) => {
            return in_doubt(error.to_string(), None, Doubt::MayHaveHappened, true, guarantee);
        }
    };
    let reading = flows.read_answer(effect, answer);
    let error = told(answer, &reading);
    let retry_after = reading.retry_after(answer, now);
    let as_if_down = matches!(answer.status, 408 | 425 | 429 | 500..=599);
    match reading.meaning {
        Meaning::Done => match pick_result(effect, answer, &reading) {
            Ok(result) => Outcome::Done(result),
            Err(missing) => {
                in_doubt(format!("{error} without {missing}"), None, Doubt::ResultMissing, false, guarantee)
            }
        },
        Meaning::Retry => Outcome::Retryable { error: error.into(), retry_after, doubt: Doubt::None, as_if_down: true },
        Meaning::Failed => Outcome::Terminal(error.into()),
        Meaning::InDoubt => in_doubt(error, retry_after, Doubt::MayHaveHappened, as_if_down, guarantee),
        Meaning::CredentialsRejected => Outcome::CredentialsRejected(error.into()),
    }
}

/// The answer in words, without its values.
fn told(answer: &PartnerAnswer, reading: &Reading<'_>) -> String {
    let why = if reading.unreadable { ", with a body that its table cannot read" } else { "" };
    format!("answered {}{why}", answer.status)
}

/// The outcome of a call that is in doubt: to be repeated where that is harmless.
pub(super) fn in_doubt(
    error: impl Into<CallError>,
    retry_after: Option<Duration>,
    doubt: Doubt,
    as_if_down: bool,
    guarantee: Guarantee,
) -> Outcome {
    let error = error.into();
    if guarantee.allows_repetition() {
        Outcome::Retryable { error, retry_after, doubt, as_if_down }
    } else {
        Outcome::Unknown { error, doubt }
    }
}

/// The names of results that an answer lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its result `{}`", .0.join("`, `"))]
pub struct MissingResult(pub Vec<String>);

/// The part of an answer that the ledger keeps: what the effect names, and nothing else of what the partner says.
pub fn pick_result(effect: &Effect, answer: &PartnerAnswer, reading: &Reading<'_>) -> Result<Value, MissingResult> {
    pick(effect, |name, usual| reading.place(name, usual).of(answer))
}

fn pick(effect: &Effect, value: impl Fn(&str, &ResultAt) -> Option<Value>) -> Result<Value, MissingResult> {
    let mut kept = Map::new();
    let mut missing = Vec::new();
    for (name, usual) in &effect.result {
        match value(name, usual) {
            Some(value) => drop(kept.insert(name.clone(), value)),
            None if usual.optional => (),
            None => missing.push(name.clone()),
        }
    }
    if missing.is_empty() { Ok(Value::Object(kept)) } else { Err(MissingResult(missing)) }
}

/// The outcome of a lookup.
#[derive(Clone, PartialEq)]
pub enum LookupOutcome {
    /// The call happened, with this result.
    Found(Value),
    /// The call happened, but the answer lacks a result that the flow needs.
    FoundWithout(MissingResult),
    /// The call did not happen.
    Absent,
    /// The partner's answer does not say whether the call happened.
    CannotSay(CallError),
    /// The partner did not take our credentials: it said nothing, and the event waits until they are right.
    CredentialsRejected(CallError),
}

/// Without the result: a partner wrote it.
impl std::fmt::Debug for LookupOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LookupOutcome::Found(_) => f.write_str("Found"),
            LookupOutcome::FoundWithout(missing) => write!(f, "FoundWithout({missing:?})"),
            LookupOutcome::Absent => f.write_str("Absent"),
            LookupOutcome::CannotSay(error) => write!(f, "CannotSay({error:?})"),
            LookupOutcome::CredentialsRejected(error) => write!(f, "CredentialsRejected({error:?})"),
        }
    }
}

impl LookupOutcome {
    /// What the answer says of the partner's health.
    pub fn call_end(&self) -> CallEnd {
        match self {
            Self::Found(_) | Self::FoundWithout(_) | Self::Absent => CallEnd::Success,
            Self::CannotSay(_) => CallEnd::Failure,
            Self::CredentialsRejected(_) => CallEnd::CredentialsRejected,
        }
    }

    /// The same outcome, with what the partner said of its error.
    #[must_use]
    pub fn with_clue(mut self, clue: Option<Clue>) -> Self {
        if let Self::CannotSay(error) | Self::CredentialsRejected(error) = &mut self {
            *error = error.clone().with_clue(clue);
        }
        self
    }
}

/// Reads a lookup's answer: `found` says whether the call happened; 404 and 410 say that it did not, unless the
/// integration's table means something else by them; any other answer says nothing. What the table does not call done is
/// no success here either. `call` is what the lookup may read of the call.
pub fn read_lookup(
    asked: &Result<PartnerAnswer, NoAnswer>,
    flows: &Flows,
    effect: &Effect,
    lookup: &Lookup,
    call: Option<&LookedUpCall>,
) -> LookupOutcome {
    let answer = match asked {
        Ok(answer) => answer,
        Err(error) => return LookupOutcome::CannotSay(error.to_string().into()),
    };
    let reading = flows.read_lookup(effect, lookup, answer);
    match answer.status {
        404 | 410 if reading.meaning == Meaning::Failed => LookupOutcome::Absent,
        _ if reading.meaning == Meaning::CredentialsRejected => {
            LookupOutcome::CredentialsRejected(told(answer, &reading).into())
        }
        200..=299 if reading.meaning == Meaning::Done => match lookup.finds(answer, call) {
            Ok(true) => pick_found(effect, lookup, answer, call, &reading),
            Ok(false) => LookupOutcome::Absent,
            Err(UnreadableAnswer) => LookupOutcome::CannotSay("no JSON".into()),
        },
        _ => LookupOutcome::CannotSay(told(answer, &reading).into()),
    }
}

fn pick_found(
    effect: &Effect,
    lookup: &Lookup,
    answer: &PartnerAnswer,
    call: Option<&LookedUpCall>,
    reading: &Reading<'_>,
) -> LookupOutcome {
    let place = |name: &str, usual: &ResultAt| lookup.pick(name, reading.place(name, usual), answer, call);
    pick(effect, place).map_or_else(LookupOutcome::FoundWithout, LookupOutcome::Found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flows::File;

    const NOW: Timestamp = Timestamp::from_secs(784_111_770);

    const SOURCES: &str = "web: {scheme: github, max_body: 64KiB, rate: 50/s, type_at: type}";
    const FLOW: &str = "
name: leads
version: 1
on: {source: web, type: lead}
schema: {required: [id], properties: {id: {}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 24h
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}
";

    /// A flow with one effect. `more` goes into the effect, `answers` into its integration.
    fn flows(more: &str, answers: &str) -> Flows {
        let integration = format!("crm: {{base_url: https://crm.example.com, timeout: 2s, answers: [{answers}]}}");
        let effect = format!("effects: [{{id: crm, integration: crm, request: {{method: POST, path: /x}}{more}}}]");
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let flow = format!("{FLOW}{effect}");
        let files =
            [file("sources.yaml", SOURCES), file("integrations.yaml", &integration), file("flows/leads.yaml", &flow)];
        Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn effect(flows: &Flows) -> &Effect {
        &flows.flow("leads").expect("the flow").effects[0]
    }

    fn outcome(flows: &Flows, called: Result<PartnerAnswer, NoAnswer>, guarantee: Guarantee) -> Outcome {
        classify(&called, flows, effect(flows), guarantee, NOW)
    }

    fn answer(status: u16, body: Option<Value>) -> Result<PartnerAnswer, NoAnswer> {
        Ok(PartnerAnswer { status, body, ..PartnerAnswer::default() })
    }

    fn kind(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Done(_) => "done",
            Outcome::Retryable { .. } => "retryable",
            Outcome::Terminal(_) => "terminal",
            Outcome::Unknown { .. } => "unknown",
            Outcome::CredentialsRejected(_) => "credentials",
        }
    }

    #[test]
    fn the_table() {
        let flows = flows("", "");
        for (status, repeatable, none) in [
            (200, "done", "done"),
            (201, "done", "done"),
            (204, "done", "done"),
            (301, "retryable", "unknown"),
            (400, "terminal", "terminal"),
            (401, "credentials", "credentials"),
            (404, "terminal", "terminal"),
            (409, "retryable", "unknown"),
            (429, "retryable", "retryable"),
            (500, "retryable", "unknown"),
            (502, "retryable", "unknown"),
            (503, "retryable", "unknown"),
            (504, "retryable", "unknown"),
        ] {
            for (guarantee, is) in [
                (Guarantee::Native, repeatable),
                (Guarantee::Idempotent, repeatable),
                (Guarantee::Lookup, none),
                (Guarantee::None, none),
            ] {
                assert_eq!(kind(&outcome(&flows, answer(status, None), guarantee)), is, "{status} {guarantee:?}");
            }
        }
    }

    #[test]
    fn silence_is_unknown_unless_the_request_never_left() {
        let flows = flows("", "");
        let lost = || Err(NoAnswer::Lost("timed out".into()));
        let unsent = || Err(NoAnswer::NotSent("refused".into()));
        assert_eq!(kind(&outcome(&flows, lost(), Guarantee::None)), "unknown");
        assert_eq!(kind(&outcome(&flows, lost(), Guarantee::Native)), "retryable");
        assert_eq!(kind(&outcome(&flows, unsent(), Guarantee::None)), "retryable");
    }

    /// Slack says in its body whether it did what it was asked for.
    #[test]
    fn a_200_that_says_no_is_no_success() {
        let table = "{status: 200, when: body.error == 'ratelimited', means: retry, retry_after: {body: /after}}, \
                     {status: 200, when: body.ok == false, means: failed}, {status: 200, when: body.ok, means: done}";
        let flows = flows("", table);
        let read = |body| outcome(&flows, answer(200, body), Guarantee::None);
        assert_eq!(kind(&read(Some(json!({"ok": true})))), "done");
        assert_eq!(kind(&read(Some(json!({"ok": false, "error": "no_channel"})))), "terminal");
        let limited = read(Some(json!({"ok": false, "error": "ratelimited", "after": 1.5})));
        let after = Some(Duration::from_millis(1500));
        let error = "answered 200".into();
        assert_eq!(limited, Outcome::Retryable { error, retry_after: after, doubt: Doubt::None, as_if_down: true });
        for strange in [Some(json!({})), Some(json!([])), Some(json!(null))] {
            assert_eq!(kind(&read(strange.clone())), "unknown", "no row calls {strange:?} done");
        }
        let cut = read(None);
        assert!(matches!(&cut, Outcome::Unknown { error, .. } if error.told().contains("cannot read")), "{cut:?}");
        assert_eq!(kind(&outcome(&flows, answer(500, None), Guarantee::None)), "unknown", "other statuses as before");
        assert_eq!(kind(&outcome(&flows, answer(400, None), Guarantee::None)), "terminal");
    }

    /// HubSpot answers 409 to a contact that exists, and names it in a sentence.
    #[test]
    fn a_conflict_may_be_done_with_its_id_in_the_body() {
        let conflict = "{status: 409, when: body.category == 'CONFLICT', means: done, \
                        result: {id: \"{{ body.message | split('Existing ID: ') | last }}\"}}";
        let flows = flows(&format!(", result: {{id: /id}}, answers: [{conflict}]"), "");
        let read = |status, body| outcome(&flows, answer(status, Some(body)), Guarantee::None);
        assert_eq!(read(201, json!({"id": "7"})), Outcome::Done(json!({"id": "7"})));
        let exists = json!({"category": "CONFLICT", "message": "Contact already exists. Existing ID: 51"});
        assert_eq!(read(409, exists), Outcome::Done(json!({"id": "51"})));
        assert_eq!(kind(&read(409, json!({"category": "OTHER"}))), "unknown");
    }

    #[test]
    fn an_effects_rows_go_before_its_integrations() {
        let flows = flows(
            ", answers: [{status: 409, means: failed}]",
            "{status: 409, means: done}, {status: 503, means: retry}",
        );
        assert_eq!(kind(&outcome(&flows, answer(409, None), Guarantee::None)), "terminal");
        assert_eq!(kind(&outcome(&flows, answer(503, None), Guarantee::None)), "retryable");
    }

    #[test]
    fn a_success_without_its_result_is_not_done() {
        let flows =
            flows(", result: {code: /id, note: {at: /note, optional: true}, by: \"{{ headers['x-by'] }}\"}", "");
        let by = |answer: Result<PartnerAnswer, NoAnswer>| {
            answer.map(|answer| PartnerAnswer { headers: [("x-by".into(), "ada".into())].into(), ..answer })
        };
        let done = outcome(&flows, by(answer(200, Some(json!({"id": 7})))), Guarantee::None);
        assert_eq!(done, Outcome::Done(json!({"code": 7, "by": "ada"})));
        let long = json!({"id": "x".repeat(600)});
        for (body, told) in [(None, "`code`"), (Some(json!({"id": null})), "`code`"), (Some(long), "`code`")] {
            let missing = outcome(&flows, by(answer(200, body)), Guarantee::None);
            let Outcome::Unknown { error, doubt: Doubt::ResultMissing } = &missing else { panic!("{missing:?}") };
            assert!(error.told().contains(told), "{error}");
        }
        let asked_again = outcome(&flows, answer(200, Some(json!({"id": 7}))), Guarantee::Native);
        assert!(matches!(asked_again, Outcome::Retryable { doubt: Doubt::ResultMissing, .. }), "{asked_again:?}");
    }

    #[test]
    fn a_lookup_finds_misses_or_cannot_say() {
        let more = ", guarantee: lookup, lookup: {after: 1s, request: {path: /x}, found: /items/0/id}, \
                    result: {id: /items/0/id, kind: {at: /kind, optional: true}}";
        let flows =
            flows(more, "{status: 200..299, when: body.ok == false, means: in_doubt}, {status: 200, means: done}");
        let lookup = effect(&flows).lookup.as_ref().expect("a lookup");
        let ask = |status, body| read_lookup(&answer(status, body), &flows, effect(&flows), lookup, None);
        assert_eq!(ask(200, Some(json!({"items": [{"id": 1}]}))), LookupOutcome::Found(json!({"id": 1})));
        assert_eq!(ask(200, Some(json!({"items": []}))), LookupOutcome::Absent);
        assert_eq!(ask(200, Some(json!({"items": [{"id": null}]}))), LookupOutcome::Absent);
        assert_eq!(ask(404, None), LookupOutcome::Absent);
        for (status, body) in [
            (200, None),
            (200, Some(json!({"ok": false, "error": "ratelimited"}))),
            (429, Some(json!({}))),
            (500, Some(json!({}))),
            (302, Some(json!({}))),
        ] {
            assert!(matches!(ask(status, body), LookupOutcome::CannotSay(_)), "{status}");
        }
        let lost = read_lookup(&Err(NoAnswer::Lost("x".into())), &flows, effect(&flows), lookup, None);
        assert!(matches!(lost, LookupOutcome::CannotSay(_)));
        for status in [401, 403] {
            assert!(matches!(ask(status, Some(json!({}))), LookupOutcome::CredentialsRejected(_)), "{status}");
        }
    }

    #[test]
    fn a_lookup_is_read_by_the_declared_rows_first() {
        let more = ", guarantee: lookup, lookup: {after: 1s, request: {path: /x}, found: /id}";
        for (row, status, absent) in [
            ("{status: 500, means: retry}", 404, true),
            ("{status: 404, means: failed}", 404, true),
            ("{status: 404, means: in_doubt}", 404, false),
            ("{status: 404..410, means: retry}", 410, false),
            ("{status: 404, means: done}", 404, false),
            ("{status: 404, when: body.there == false, means: failed}", 404, false),
        ] {
            let flows = flows(more, row);
            let lookup = effect(&flows).lookup.as_ref().expect("a lookup");
            let read = read_lookup(&answer(status, None), &flows, effect(&flows), lookup, None);
            assert_eq!(read == LookupOutcome::Absent, absent, "{row}: {read:?}");
            assert!(absent || matches!(read, LookupOutcome::CannotSay(_)), "{row}: {read:?}");
        }
        let flows = flows(more, "{status: 403, means: in_doubt}");
        let lookup = effect(&flows).lookup.as_ref().expect("a lookup");
        let read = read_lookup(&answer(403, None), &flows, effect(&flows), lookup, None);
        assert!(matches!(read, LookupOutcome::CannotSay(_)), "{read:?}");
    }
}
