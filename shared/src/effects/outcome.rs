//! The outcome of a call, read from the partner's answer.

use std::time::Duration;

use serde_json::Value;

use crate::base::time::Timestamp;
use crate::flows::{Guarantee, Meaning};

/// A partner's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PartnerAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The header `Retry-After`, as it came.
    pub retry_after: Option<String>,
    /// The body, if it is JSON; `null` otherwise.
    pub body: Value,
}

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
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The call happened; this is the answer's body, for the result.
    Done(Value),
    /// The call may be repeated: it did not happen, or the partner honours our key.
    Retryable {
        /// The cause, without values.
        error: String,
        /// The delay that the partner asked for.
        retry_after: Option<Duration>,
        /// Whether the call may have happened: then it is harmless to repeat only while the partner
        /// remembers our key.
        doubtful: bool,
    },
    /// The call did not happen, and repeating it would not help.
    Terminal(String),
    /// The call may have happened, and it must not be repeated.
    Unknown(String),
    /// The partner did not take our credentials: it did nothing, and the event waits until they are right.
    CredentialsRejected(String),
}

/// Reads a call's outcome. `meaning` says what a status means for this effect.
///
/// A call that may have happened is repeated only where the partner honours our key.
pub fn classify(
    called: Result<PartnerAnswer, NoAnswer>,
    meaning: impl FnOnce(u16) -> Meaning,
    guarantee: Guarantee,
    now: Timestamp,
) -> Outcome {
    let answer = match called {
        Ok(answer) => answer,
        Err(error @ NoAnswer::NotSent(_)) => {
            return Outcome::Retryable { error: error.to_string(), retry_after: None, doubtful: false };
        }
        Err(error @ NoAnswer::Lost(_)) => return doubtful(error.to_string(), None, guarantee),
    };
    let error = format!("answered {}", answer.status);
    let retry_after = answer.retry_after.as_deref().and_then(|value| retry_after(value, now));
    match meaning(answer.status) {
        Meaning::Done => Outcome::Done(answer.body),
        Meaning::Retry => Outcome::Retryable { error, retry_after, doubtful: false },
        Meaning::Failed => Outcome::Terminal(error),
        Meaning::InDoubt => doubtful(error, retry_after, guarantee),
        Meaning::CredentialsRejected => Outcome::CredentialsRejected(error),
    }
}

/// The outcome of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum LookupOutcome {
    /// The call happened; this is the answer's body, for the result.
    Found(Value),
    /// The call did not happen.
    Absent,
    /// The partner's answer does not say whether the call happened.
    CannotSay(String),
}

/// Reads a lookup's answer: a value at `found` says that the call happened; 404, or no value there, says that
/// it did not; any other answer says nothing.
pub fn read_lookup(asked: Result<PartnerAnswer, NoAnswer>, found: &str) -> LookupOutcome {
    match asked {
        Ok(PartnerAnswer { status: 200..=299, body, .. })
            if body.pointer(found).is_some_and(|value| !value.is_null()) =>
        {
            LookupOutcome::Found(body)
        }
        // An answer that is not JSON says nothing.
        Ok(PartnerAnswer { status: 200..=299, body: Value::Null, .. }) => LookupOutcome::CannotSay("no JSON".into()),
        Ok(PartnerAnswer { status: 200..=299 | 404 | 410, .. }) => LookupOutcome::Absent,
        Ok(PartnerAnswer { status, .. }) => LookupOutcome::CannotSay(format!("answered {status}")),
        Err(error) => LookupOutcome::CannotSay(error.to_string()),
    }
}

/// The outcome of a call that may have happened: harmless to repeat where the partner honours our key.
fn doubtful(error: String, retry_after: Option<Duration>, guarantee: Guarantee) -> Outcome {
    match guarantee {
        Guarantee::Native => Outcome::Retryable { error, retry_after, doubtful: true },
        Guarantee::Lookup | Guarantee::None => Outcome::Unknown(error),
    }
}

/// The delay in a `Retry-After` header, in seconds or as an HTTP date.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Timestamp::from_millis(date.as_millisecond()).since(now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flows::default_meaning;

    const NOW: Timestamp = Timestamp::from_secs(784_111_770);

    fn answered(status: u16, guarantee: Guarantee) -> Outcome {
        let answer = PartnerAnswer { status, retry_after: None, body: json!({"id": 1}) };
        classify(Ok(answer), default_meaning, guarantee, NOW)
    }

    fn kind(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Done(_) => "done",
            Outcome::Retryable { .. } => "retryable",
            Outcome::Terminal(_) => "terminal",
            Outcome::Unknown(_) => "unknown",
            Outcome::CredentialsRejected(_) => "credentials",
        }
    }

    #[test]
    fn the_table() {
        for (status, native, none) in [
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
            assert_eq!(kind(&answered(status, Guarantee::Native)), native, "{status} native");
            assert_eq!(kind(&answered(status, Guarantee::None)), none, "{status} none");
        }
    }

    #[test]
    fn silence_is_unknown_unless_the_request_never_left() {
        let lost = || Err(NoAnswer::Lost("timed out".into()));
        let unsent = || Err(NoAnswer::NotSent("refused".into()));
        assert_eq!(kind(&classify(lost(), default_meaning, Guarantee::None, NOW)), "unknown");
        assert_eq!(kind(&classify(lost(), default_meaning, Guarantee::Native, NOW)), "retryable");
        assert_eq!(kind(&classify(unsent(), default_meaning, Guarantee::None, NOW)), "retryable");
    }

    #[test]
    fn a_lookup_finds_misses_or_cannot_say() {
        let ask = |status, body| read_lookup(Ok(PartnerAnswer { status, retry_after: None, body }), "/items/0/id");
        assert_eq!(ask(200, json!({"items": [{"id": 1}]})), LookupOutcome::Found(json!({"items": [{"id": 1}]})));
        assert_eq!(ask(200, json!({"items": []})), LookupOutcome::Absent);
        assert_eq!(ask(200, json!({"items": [{"id": null}]})), LookupOutcome::Absent);
        assert_eq!(ask(404, json!({})), LookupOutcome::Absent);
        for (status, body) in
            [(200, Value::Null), (401, json!({})), (429, json!({})), (500, json!({})), (302, json!({}))]
        {
            assert!(matches!(ask(status, body), LookupOutcome::CannotSay(_)), "{status}");
        }
        assert!(matches!(read_lookup(Err(NoAnswer::Lost("x".into())), "/id"), LookupOutcome::CannotSay(_)));
    }

    #[test]
    fn retry_after_comes_as_seconds_or_as_a_date() {
        assert_eq!(retry_after("7", NOW), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(" 120 ", NOW), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", NOW), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:20 GMT", NOW), Some(Duration::ZERO));
        for bad in ["", "-1", "soon", "1.5", "99999999999999999999999"] {
            assert_eq!(retry_after(bad, NOW), None, "{bad}");
        }
    }
}
