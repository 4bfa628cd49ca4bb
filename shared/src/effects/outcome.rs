//! What a partner's answer means.

use std::time::Duration;

use serde_json::Value;

use crate::base::time::Timestamp;
use crate::flows::Guarantee;

/// What a partner answered.
#[derive(Clone, Debug, PartialEq)]
pub struct PartnerAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The header `Retry-After`, as it came.
    pub retry_after: Option<String>,
    /// The body, if it is JSON; `null` otherwise.
    pub body: Value,
}

/// No answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The request never left: it surely did not happen.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The request left and nothing came back: it may have happened.
    #[error("no answer: {0}")]
    Lost(String),
}

/// What a call came to. The variant names what happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It happened. The answer's body, for the result.
    Done(Value),
    /// It did not happen, or may be repeated all the same; it may happen the next time.
    Retryable {
        /// Why, without values.
        error: String,
        /// What the partner asked us to wait.
        retry_after: Option<Duration>,
        /// Whether it may have happened all the same: it is harmless to repeat only while the partner
        /// remembers our key.
        doubtful: bool,
    },
    /// It did not happen and will not.
    Terminal(String),
    /// Nobody can know whether it happened.
    Unknown(String),
}

/// Reads a call's outcome. 429, 5xx and time-outs are retryable, other errors are terminal.
///
/// Unless the partner honours our key, a retry is safe only where it surely did nothing. A time-out and
/// most 5xx do not say so; 429, 503 and a connection that never came about do.
pub fn classify(called: Result<PartnerAnswer, NoAnswer>, guarantee: Guarantee, now: Timestamp) -> Outcome {
    let answer = match called {
        Ok(answer) => answer,
        Err(error @ NoAnswer::NotSent(_)) => {
            return Outcome::Retryable { error: error.to_string(), retry_after: None, doubtful: false };
        }
        Err(error @ NoAnswer::Lost(_)) => return doubtful(error.to_string(), None, guarantee),
    };
    let error = format!("answered {}", answer.status);
    let retry_after = answer.retry_after.as_deref().and_then(|value| retry_after(value, now));
    match answer.status {
        200..=299 => Outcome::Done(answer.body),
        429 | 503 => Outcome::Retryable { error, retry_after, doubtful: false },
        500..=599 => doubtful(error, retry_after, guarantee),
        _ => Outcome::Terminal(error),
    }
}

/// What a lookup came to.
#[derive(Clone, Debug, PartialEq)]
pub enum LookupOutcome {
    /// It happened. The answer's body, for the result.
    Found(Value),
    /// It did not happen.
    Absent,
    /// The partner cannot say, now.
    CannotSay(String),
}

/// Reads a lookup's answer: something at `found` says that it happened; 404, or nothing there, says that
/// it did not; anything else says nothing.
pub fn read_lookup(asked: Result<PartnerAnswer, NoAnswer>, found: &str) -> LookupOutcome {
    match asked {
        Ok(PartnerAnswer { status: 200..=299, body, .. })
            if body.pointer(found).is_some_and(|value| !value.is_null()) =>
        {
            LookupOutcome::Found(body)
        }
        // An answer that is not JSON says nothing about anything.
        Ok(PartnerAnswer { status: 200..=299, body: Value::Null, .. }) => LookupOutcome::CannotSay("no JSON".into()),
        Ok(PartnerAnswer { status: 200..=299 | 404 | 410, .. }) => LookupOutcome::Absent,
        Ok(PartnerAnswer { status, .. }) => LookupOutcome::CannotSay(format!("answered {status}")),
        Err(error) => LookupOutcome::CannotSay(error.to_string()),
    }
}

/// A call that may have happened: harmless to repeat where the partner honours our key.
fn doubtful(error: String, retry_after: Option<Duration>, guarantee: Guarantee) -> Outcome {
    match guarantee {
        Guarantee::Native => Outcome::Retryable { error, retry_after, doubtful: true },
        Guarantee::Lookup | Guarantee::None => Outcome::Unknown(error),
    }
}

/// `Retry-After` in seconds or as an HTTP date.
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

    const NOW: Timestamp = Timestamp::from_secs(784_111_770);

    fn answered(status: u16, guarantee: Guarantee) -> Outcome {
        classify(Ok(PartnerAnswer { status, retry_after: None, body: json!({"id": 1}) }), guarantee, NOW)
    }

    fn kind(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Done(_) => "done",
            Outcome::Retryable { .. } => "retryable",
            Outcome::Terminal(_) => "terminal",
            Outcome::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn the_table() {
        for (status, native, none) in [
            (200, "done", "done"),
            (201, "done", "done"),
            (204, "done", "done"),
            (301, "terminal", "terminal"),
            (400, "terminal", "terminal"),
            (401, "terminal", "terminal"),
            (404, "terminal", "terminal"),
            (409, "terminal", "terminal"),
            (429, "retryable", "retryable"),
            (500, "retryable", "unknown"),
            (502, "retryable", "unknown"),
            (503, "retryable", "retryable"),
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
        assert_eq!(kind(&classify(lost(), Guarantee::None, NOW)), "unknown");
        assert_eq!(kind(&classify(lost(), Guarantee::Native, NOW)), "retryable");
        assert_eq!(kind(&classify(unsent(), Guarantee::None, NOW)), "retryable");
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
