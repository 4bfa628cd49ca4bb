//! The answer of a function, and what it means for the effect.
//!
//! Only an answer that says so clearly is done, retried or failed. A function that raised, ran out of time or answered
//! with anything else may have acted.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::message::quotable;
use crate::effects::outcome::{LookupOutcome, Outcome, in_doubt, pick_result};
use crate::flows::{Effect, Guarantee, Meaning, PartnerAnswer, Reading};
use crate::ledger::Doubt;

/// The reason why no answer of a function came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeFailure {
    /// The function surely did not run, and may later: it is throttled, not there, or cannot start.
    #[error("the function did not run: {why}")]
    NotRun {
        /// The cause, without values.
        why: String,
        /// The delay that was asked for.
        retry_after: Option<Duration>,
    },
    /// The function surely did not run, and will not for this request.
    #[error("the function did not run: {0}")]
    NeverRuns(String),
    /// We may not invoke the function.
    #[error("the function did not run: {0}")]
    NotAllowed(String),
    /// The function may have acted: it raised, or its answer did not come, or cannot be read.
    #[error("{0}")]
    Lost(String),
}

/// What a function answers: to `do`, that it is done, that it surely did nothing, or that it does not know; to `ask`,
/// whether it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FunctionOutcome {
    /// To `do`: the effect happened.
    Done,
    /// To `do`: surely nothing happened; it is tried again, as the flow's policy says.
    Retry,
    /// To `do`: surely nothing happened, and trying again would not help.
    Failed,
    /// To `do`: it may have happened. What becomes of it is the guarantee's matter.
    InDoubt,
    /// To `ask`: the effect happened.
    Found,
    /// To `ask`: the effect did not happen, and no earlier call can still do it.
    Absent,
    /// To `ask`: nobody can say now. It is asked again later.
    CannotSay,
}

impl FunctionOutcome {
    const TO_DO: [Self; 4] = [Self::Done, Self::Retry, Self::Failed, Self::InDoubt];
    const TO_ASK: [Self; 3] = [Self::Found, Self::Absent, Self::CannotSay];

    /// The outcome's name in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Found => "found",
            Self::Absent => "absent",
            Self::CannotSay => "cannot_say",
        }
    }
}

/// The document that a function answers with.
#[derive(Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionAnswer {
    /// What happened.
    pub outcome: FunctionOutcome,
    /// The result, of which the effect's `result` keeps parts. With `done` and `found`.
    #[serde(default)]
    pub result: Map<String, Value>,
    /// How many seconds to wait before the next try. With `retry` and `in_doubt`.
    #[serde(default)]
    pub retry_after: Option<f64>,
    /// A sentence for operators: what was wrong, in 200 characters. One that quotes the event is not kept.
    #[serde(default)]
    pub message: Option<String>,
}

crate::base::masked::prints_only!(FunctionAnswer as "FunctionAnswer", outcome, retry_after);

impl FunctionAnswer {
    /// Reads an answer that may be any JSON. The error says what is wrong, and quotes nothing.
    fn read(answer: Value, among: &[FunctionOutcome]) -> Result<Self, String> {
        let Value::Object(mut answer) = answer else { return Err("it is no object".into()) };
        let named = answer.get("outcome").and_then(Value::as_str).ok_or("its `outcome` is no text")?;
        let outcome = among.iter().copied().find(|outcome| outcome.as_str() == named).ok_or_else(|| {
            let names: Vec<&str> = among.iter().map(|outcome| outcome.as_str()).collect();
            format!("its `outcome` is none of {}", names.join(", "))
        })?;
        let result = match answer.remove("result") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(result)) => result,
            Some(_) => return Err("its `result` is no object".into()),
        };
        let retry_after = match answer.remove("retry_after") {
            None | Some(Value::Null) => None,
            Some(seconds) => {
                let seconds = seconds.as_f64().filter(|seconds| *seconds >= 0.0);
                Some(seconds.ok_or("its `retry_after` is no number of seconds")?)
            }
        };
        let message = match answer.remove("message") {
            None | Some(Value::Null) => None,
            Some(Value::String(message)) => Some(message),
            Some(_) => return Err("its `message` is no text".into()),
        };
        Ok(FunctionAnswer { outcome, result, retry_after, message })
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.retry_after?;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// The answer in words, without values of the document that the function got.
    fn told(&self, document: &str) -> String {
        let message = self.message.as_ref().and_then(|message| quotable(message, document));
        let message = message.map(|message| format!(": {message}")).unwrap_or_default();
        format!("the function answered {}{message}", self.outcome.as_str())
    }

    /// The result in the form in which an effect picks its parts from a partner's answer.
    fn into_body(self) -> PartnerAnswer {
        PartnerAnswer { status: 200, body: Some(Value::Object(self.result)), ..PartnerAnswer::default() }
    }
}

/// Reads the outcome of an effect from its function's answer to this document. `guarantee` is what the function
/// guarantees now.
pub fn read_answer(
    invoked: Result<Value, InvokeFailure>,
    document: &str,
    effect: &Effect,
    guarantee: Guarantee,
) -> Outcome {
    let answer = match invoked {
        Ok(answer) => answer,
        Err(failure) => return read_failure(failure, guarantee),
    };
    let answer = match FunctionAnswer::read(answer, &FunctionOutcome::TO_DO) {
        Ok(answer) => answer,
        Err(wrong) => {
            let error = format!("the function's answer is no valid one: {wrong}");
            return in_doubt(error, None, Doubt::MayHaveHappened, false, guarantee);
        }
    };
    let (error, retry_after) = (answer.told(document), answer.retry_after());
    match answer.outcome {
        FunctionOutcome::Done => match pick_result(effect, &answer.into_body(), &Reading::stated(Meaning::Done)) {
            Ok(result) => Outcome::Done(result),
            Err(missing) => {
                in_doubt(format!("{error} without {missing}"), None, Doubt::ResultMissing, false, guarantee)
            }
        },
        FunctionOutcome::Retry => {
            Outcome::Retryable { error: error.into(), retry_after, doubt: Doubt::None, as_if_down: true }
        }
        FunctionOutcome::Failed => Outcome::Terminal(error.into()),
        _ => in_doubt(error, retry_after, Doubt::MayHaveHappened, true, guarantee),
    }
}

fn read_failure(failure: InvokeFailure, guarantee: Guarantee) -> Outcome {
    let error = failure.to_string();
    match failure {
        InvokeFailure::NotRun { retry_after, .. } => {
            Outcome::Retryable { error: error.into(), retry_after, doubt: Doubt::None, as_if_down: true }
        }
        InvokeFailure::NeverRuns(_) => Outcome::Terminal(error.into()),
        InvokeFailure::NotAllowed(_) => Outcome::CredentialsRejected(error.into()),
        InvokeFailure::Lost(_) => in_doubt(error, None, Doubt::MayHaveHappened, true, guarantee),
    }
}

/// Reads the answer to the question in this document, whether an effect happened. Whatever is no clear answer says
/// nothing.
pub fn read_ask(invoked: Result<Value, InvokeFailure>, document: &str, effect: &Effect) -> LookupOutcome {
    if let Err(error @ InvokeFailure::NotAllowed(_)) = &invoked {
        return LookupOutcome::CredentialsRejected(error.to_string().into());
    }
    let read = invoked.map_err(|failure| failure.to_string());
    let read = read.and_then(|answer| {
        FunctionAnswer::read(answer, &FunctionOutcome::TO_ASK).map_err(|wrong| format!("no valid answer: {wrong}"))
    });
    match read {
        Err(error) => LookupOutcome::CannotSay(error.into()),
        Ok(answer) => match answer.outcome {
            FunctionOutcome::Found => pick_result(effect, &answer.into_body(), &Reading::stated(Meaning::Done))
                .map_or_else(LookupOutcome::FoundWithout, LookupOutcome::Found),
            FunctionOutcome::Absent => LookupOutcome::Absent,
            _ => LookupOutcome::CannotSay(answer.told(document).into()),
        },
    }
}
