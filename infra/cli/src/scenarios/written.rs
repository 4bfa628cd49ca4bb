//! A scenario file, as its author writes it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use shared::base::time::Timestamp;
use shared::flows::{Field, Guarantee};

use crate::args::parse_duration;

/// The scenarios of one flow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// The flow.
    pub flow: String,
    /// The event that scenarios deliver: its body, or the name of a file with it, relative to this one.
    #[serde(default)]
    pub event: Option<Value>,
    /// When each scenario begins. Without it, 2026-11-16T09:00:00Z.
    #[serde(default)]
    pub starts_at: Option<WrittenMoment>,
    /// Who is known as a contact when a scenario begins.
    #[serde(default)]
    pub contacts: Vec<WrittenContact>,
    /// What `flows prove` asks beside what holds for any flow.
    #[serde(default)]
    pub prove: Statements,
    /// The scenarios.
    pub scenarios: Vec<WrittenScenario>,
}

/// What the author of a flow states, so that `flows prove` can ask whether it is so.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statements {
    /// What makes two deliveries the same thing: no two of one identity may both act, and two of different ones must.
    #[serde(default)]
    pub identity: Option<Identity>,
    /// Whom the caps of a channel protect.
    #[serde(default)]
    pub protects: Vec<Protected>,
    /// How long after a delivery its sender may send it again.
    #[serde(default)]
    pub again_within: Option<WrittenSpan>,
    /// Fields that never differ between two events of the flow.
    #[serde(default)]
    pub fixed: Vec<Field>,
    /// What partners really keep, by integration, where that is less than the flow declares.
    #[serde(default)]
    pub keeps: BTreeMap<String, Keeps>,
    /// How long partners take until a lookup finds what they did, by integration.
    #[serde(default)]
    pub settles: BTreeMap<String, WrittenSpan>,
}

/// What makes two deliveries the same thing: the fields in which they agree, or these within a stretch of time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(from = "IdentityText")]
pub struct Identity {
    /// The fields.
    pub fields: Vec<Field>,
    /// How far apart the moments in two deliveries of one thing may be.
    pub within: Option<WrittenSpan>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum IdentityText {
    Fields(Vec<Field>),
    Parts(IdentityParts),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdentityParts {
    fields: Vec<Field>,
    #[serde(default)]
    within: Option<WrittenSpan>,
}

impl From<IdentityText> for Identity {
    fn from(text: IdentityText) -> Self {
        match text {
            IdentityText::Fields(fields) => Identity { fields, within: None },
            IdentityText::Parts(IdentityParts { fields, within }) => Identity { fields, within },
        }
    }
}

/// Whom the caps of a channel protect.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Protected {
    /// The channel.
    pub channel: String,
    /// The fields that name the person.
    pub who: Vec<Field>,
}

/// One scenario.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenScenario {
    /// What the flow does, as a sentence.
    pub it: String,
    /// When it begins, where that is not the file's moment.
    #[serde(default)]
    pub starts_at: Option<WrittenMoment>,
    /// Contacts beside those of the file. Of one contact, these fields go before.
    #[serde(default)]
    pub contacts: Vec<WrittenContact>,
    /// What senders and operators do, in order. Without it, the event is delivered once.
    #[serde(default)]
    pub given: Vec<Step>,
    /// What partners answer, in order, by integration. After that, and without it, they do what they are asked for.
    #[serde(default)]
    pub partners: BTreeMap<String, Vec<WrittenReaction>>,
    /// What partners really keep, by integration, where that is not what the flow declares.
    #[serde(default)]
    pub keeps: BTreeMap<String, Keeps>,
    /// Which calls of our own tables and queues go wrong.
    #[serde(default)]
    pub faults: Vec<WrittenFault>,
    /// What is expected.
    #[serde(default)]
    pub expect: Expectation,
}

/// A contact that is known.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenContact {
    /// Whose contact it is.
    pub tenant: String,
    /// The contact's address.
    pub email: String,
    /// What is known of the contact.
    #[serde(default)]
    pub fields: Map<String, Value>,
}

/// One step. It comes at its moment or, without one, when all is at rest after the steps before it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How long after the beginning.
    #[serde(default)]
    pub at: Option<WrittenSpan>,
    /// A sender delivers the event.
    #[serde(default)]
    pub deliver: Option<WrittenDelivery>,
    /// Nothing is done for so long.
    #[serde(default)]
    pub wait: Option<WrittenSpan>,
    /// An operator pauses calls.
    #[serde(default)]
    pub pause: Option<SwitchStep>,
    /// An operator resumes calls.
    #[serde(default)]
    pub resume: Option<SwitchStep>,
    /// An operator turns safe mode on.
    #[serde(default)]
    pub safe_mode: Option<SwitchStep>,
    /// An operator changes the flow's retry policy.
    #[serde(default)]
    pub policy: Option<Map<String, Value>>,
    /// An operator replays an event: the number of the event, in the order in which events were accepted.
    #[serde(default)]
    pub replay: Option<usize>,
    /// An operator approves an event.
    #[serde(default)]
    pub approve: Option<usize>,
    /// An operator rejects an event.
    #[serde(default)]
    pub reject: Option<usize>,
    /// An operator drops an event.
    #[serde(default)]
    pub drop: Option<usize>,
    /// An operator says whether an effect happened.
    #[serde(default)]
    pub resolve: Option<WrittenVerdict>,
    /// An operator sets fields of a contact.
    #[serde(default)]
    pub contact: Option<WrittenContact>,
    /// The schedule comes, as it does every ten minutes: it replays what may succeed now, and lets questions lapse.
    #[serde(default)]
    pub schedule: Option<bool>,
    /// A part of the sentence with which what the operator asks for is declined.
    #[serde(default)]
    pub declined: Option<String>,
}

/// What a sender delivers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenDelivery {
    /// Fields of the event that differ from the file's, as `data.total: 5` or `"items[0].id": x`.
    #[serde(default)]
    pub with: BTreeMap<String, Value>,
    /// Fields of the event that are left out.
    #[serde(default)]
    pub without: Vec<String>,
    /// Another body, instead of the file's event; or the name of a file with it.
    #[serde(default)]
    pub body: Option<Value>,
    /// A body that is no JSON.
    #[serde(default)]
    pub text: Option<String>,
    /// The source, where it is not the flow's.
    #[serde(default)]
    pub source: Option<String>,
    /// The type that the path names. Without it, the path names the flow's type where the body does not.
    #[serde(default, rename = "type")]
    pub event_type: Option<String>,
    /// The id of the delivery that the sender signs, where its scheme has one. Without it, `msg_1`.
    #[serde(default)]
    pub id: Option<String>,
    /// The header `Idempotency-Key`. Without it, `key-1` where the flow needs one.
    #[serde(default)]
    pub key: Option<String>,
    /// Other header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How it is signed.
    #[serde(default)]
    pub signed: SignedAs,
    /// How often it is delivered, at once. Without it, once.
    #[serde(default)]
    pub times: Option<usize>,
}

/// How a delivery is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignedAs {
    /// As its source signs.
    #[default]
    Well,
    /// So that the signature is not true.
    Badly,
    /// Not at all.
    Not,
    /// An hour before it is delivered.
    HourAgo,
}

/// Which calls an operator switches, and for how long.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchStep {
    /// The flow.
    #[serde(default)]
    pub flow: Option<String>,
    /// The integration.
    #[serde(default)]
    pub integration: Option<String>,
    /// For how long.
    #[serde(default, rename = "for")]
    pub span: Option<WrittenSpan>,
}

/// An operator's word on an effect.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenVerdict {
    /// The number of the event. Without it, the first.
    #[serde(default)]
    pub event: Option<usize>,
    /// The effect.
    pub effect: String,
    /// It happened, with this result. Without it, it did not happen.
    #[serde(default)]
    pub happened: Option<Value>,
}

/// What a partner really keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keeps {
    /// What it does with a call that comes again: `native`: nothing new, while it knows our key; `idempotent`: nothing new;
    /// `lookup` and `none`: it does it once more.
    pub guarantee: KeptGuarantee,
    /// How long it knows our key. Without it, as long as the integration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_window: Option<WrittenSpan>,
}

/// A guarantee that a partner really keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptGuarantee {
    /// It honours our key.
    Native,
    /// It may get the request again.
    Idempotent,
    /// It can be asked.
    Lookup,
    /// It promises nothing.
    None,
}

impl From<Guarantee> for KeptGuarantee {
    fn from(declared: Guarantee) -> Self {
        match declared {
            Guarantee::Native => KeptGuarantee::Native,
            Guarantee::Idempotent => KeptGuarantee::Idempotent,
            Guarantee::Lookup => KeptGuarantee::Lookup,
            Guarantee::None => KeptGuarantee::None,
        }
    }
}

/// What a partner does with one call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenReaction {
    /// Only calls of this effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Whether it is about a question: whether a call happened. Without it, about any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<bool>,
    /// The status of the answer. Without it, 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The body of the answer. Without it, a 2xx has all that the flow needs. `null`: none.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Header fields of the answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How long it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<WrittenSpan>,
    /// Whether it does what it is asked for. Without it, where it answers with a 2xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted: Option<bool>,
    /// How long it takes until a lookup finds what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_after: Option<WrittenSpan>,
    /// What comes in the place of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// For how many calls. Without it, one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<usize>,
    /// For this and every later call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

/// What comes in the place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Nothing, until the call's time is over.
    Silence,
    /// The connection is lost.
    Reset,
    /// No connection comes about.
    Unreachable,
    /// The processor goes down.
    Crash,
}

/// A call of ours that goes wrong.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenFault {
    /// The function and its call, as the timeline names them: `processor record`.
    pub at: String,
    /// Which of these calls, counted from 1. Without it, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<usize>,
    /// What goes wrong.
    pub fault: FaultKind,
}

/// What goes wrong with a call of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The function goes down before the call.
    CrashBefore,
    /// The function goes down after it.
    CrashAfter,
    /// It times out, and did not happen.
    TimeOutUndone,
    /// It times out, and did happen.
    TimeOutDone,
    /// It is refused at once.
    Throttle,
    /// It happens, and once more later.
    Again,
}

/// What is expected. What is not said is not looked at.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The answers to the deliveries, in order.
    #[serde(default)]
    pub answers: Option<Vec<ExpectedAnswer>>,
    /// All calls of partners and functions, in order.
    #[serde(default)]
    pub calls: Option<Vec<ExpectedCall>>,
    /// How often partners really did what each effect asks for, over all events.
    #[serde(default)]
    pub acted: Option<BTreeMap<String, usize>>,
    /// The ends of the events, in the order in which they were accepted.
    #[serde(default)]
    pub ends: Option<Vec<ExpectedEnd>>,
}

impl Expectation {
    /// Whether it would hold whatever happens.
    pub fn says_nothing(&self) -> bool {
        let counts_nothing = self.acted.as_ref().is_none_or(BTreeMap::is_empty);
        self.answers.is_none() && self.calls.is_none() && counts_nothing && self.ends.is_none()
    }
}

/// The answer to a delivery: its status, or more of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(from = "AnswerText")]
pub struct ExpectedAnswer {
    /// The status.
    pub status: u16,
    /// The name of the problem, as `invalid-event`.
    pub problem: Option<String>,
    /// Whether the event was known before.
    pub replayed: Option<bool>,
    /// Parts of the body.
    pub body: Option<Value>,
    /// Header fields.
    pub headers: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum AnswerText {
    Status(u16),
    Parts(AnswerParts),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerParts {
    status: u16,
    #[serde(default)]
    problem: Option<String>,
    #[serde(default)]
    replayed: Option<bool>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl From<AnswerText> for ExpectedAnswer {
    fn from(text: AnswerText) -> Self {
        match text {
            AnswerText::Status(status) => ExpectedAnswer { status, ..ExpectedAnswer::default() },
            AnswerText::Parts(AnswerParts { status, problem, replayed, body, headers }) => {
                ExpectedAnswer { status, problem, replayed, body, headers }
            }
        }
    }
}

/// A call: `POST email /messages`, or more of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(from = "CallText")]
pub struct ExpectedCall {
    /// The method, the integration and the path.
    pub call: String,
    /// How long after the beginning.
    pub at: Option<WrittenSpan>,
    /// Header fields.
    pub headers: BTreeMap<String, String>,
    /// Parts of the body.
    pub body: Option<Value>,
    /// The whole body.
    pub exactly: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum CallText {
    Line(String),
    Parts(CallParts),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallParts {
    call: String,
    #[serde(default)]
    at: Option<WrittenSpan>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    exactly: Option<Value>,
}

impl From<CallText> for ExpectedCall {
    fn from(text: CallText) -> Self {
        match text {
            CallText::Line(call) => ExpectedCall { call, ..ExpectedCall::default() },
            CallText::Parts(CallParts { call, at, headers, body, exactly }) => {
                ExpectedCall { call, at, headers, body, exactly }
            }
        }
    }
}

/// The end of an event: its state, or more of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(from = "EndText")]
pub struct ExpectedEnd {
    /// The state.
    pub state: String,
    /// Of a no-op, the guard.
    pub guard: Option<String>,
    /// Of a dead event, the reason.
    pub reason: Option<String>,
    /// Of a dead event, the effect that failed.
    pub effect: Option<String>,
    /// How far each effect got: `done`, `skipped`, `failed`, `unknown`, `intent`.
    pub effects: BTreeMap<String, String>,
    /// Lines of the history, in this order.
    pub history: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum EndText {
    State(String),
    Parts(EndParts),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EndParts {
    state: String,
    #[serde(default)]
    guard: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    effect: Option<String>,
    #[serde(default)]
    effects: BTreeMap<String, String>,
    #[serde(default)]
    history: Option<Vec<String>>,
}

impl From<EndText> for ExpectedEnd {
    fn from(text: EndText) -> Self {
        match text {
            EndText::State(state) => ExpectedEnd { state, ..ExpectedEnd::default() },
            EndText::Parts(EndParts { state, guard, reason, effect, effects, history }) => {
                ExpectedEnd { state, guard, reason, effect, effects, history }
            }
        }
    }
}

/// A stretch of time, as flow files write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenSpan(pub Duration);

impl<'de> Deserialize<'de> for WrittenSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_duration(&String::deserialize(deserializer)?).map(WrittenSpan).map_err(D::Error::custom)
    }
}

impl Serialize for WrittenSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for WrittenSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut left, mut told) = (self.0.as_millis(), false);
        for (unit, millis) in [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
            let count = left / millis;
            left %= millis;
            if count > 0 || (unit == "ms" && !told) {
                write!(f, "{count}{unit}")?;
                told = true;
            }
        }
        Ok(())
    }
}

impl JsonSchema for WrittenSpan {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WrittenSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 2, "pattern": "^([0-9]+d|([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$"})
    }
}

/// A moment in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenMoment(pub Timestamp);

impl<'de> Deserialize<'de> for WrittenMoment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = Timestamp::parse(&text).filter(|_| text.contains('T')).map(WrittenMoment);
        moment.ok_or_else(|| D::Error::custom(format!("`{text}` is no moment; write `2026-11-16T09:00:00Z`")))
    }
}

impl JsonSchema for WrittenMoment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WrittenMoment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"})
    }
}

/// A value that is there, also where it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_what_it_writes() {
        for text in ["0ms", "500ms", "1s500ms", "24h", "1h30m", "2s"] {
            let span = WrittenSpan(parse_duration(text).expect(text));
            assert_eq!(span.to_string(), text);
        }
    }
}
