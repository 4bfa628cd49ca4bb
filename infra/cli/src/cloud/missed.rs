//! What an answer without the answer means, and what to do about it.

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use shared::effects::outcome::NoAnswer;

use super::signed::Answer;

/// Whether something may be asked again after its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing.
    Always,
    /// It changes something: only if it surely was not seen.
    IfUnseen,
}

/// Why one try had no answer that counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// It was not seen.
    Unseen(String),
    /// It may have been seen.
    Lost(String),
    /// The function saw it, and what it works with gave it no answer: it may have got somewhere.
    Within(String),
    /// The function saw it, and failed: it may have got somewhere.
    Failed(String),
    /// It was turned away, and will be again.
    Barred(String),
}

impl From<NoAnswer> for Missed {
    fn from(missed: NoAnswer) -> Self {
        match missed {
            NoAnswer::NotSent(why) => Missed::Unseen(why),
            NoAnswer::Lost(why) => Missed::Lost(why),
        }
    }
}

impl Missed {
    pub(super) fn may_repeat(&self, repeat: Repeat) -> bool {
        match self {
            Missed::Unseen(_) => true,
            Missed::Lost(_) | Missed::Within(_) => repeat == Repeat::Always,
            Missed::Failed(_) | Missed::Barred(_) => false,
        }
    }

    /// A sentence for the operator: what happened, and what to do next.
    pub(super) fn tell(&self, asked: &str, hint: &str, next: &str) -> String {
        match self {
            Missed::Unseen(why) => format!("{asked} was not reached ({why}): {hint} Nothing was changed."),
            Missed::Lost(why) => format!("{asked} gave no answer ({why}). {next}."),
            Missed::Within(why) => format!("{asked} was reached, but not all that it needs: {why}. {next}."),
            Missed::Failed(why) => format!("{asked} failed: {why}. Its log says more. {next}."),
            Missed::Barred(why) => format!("{asked} cannot be used: {why}"),
        }
    }
}

/// The answer, if it is one that counts.
pub(super) fn judge(answer: Answer) -> Result<Answer, Missed> {
    let said = || said(&answer.body);
    Err(match answer.status {
        StatusCode::OK if answer.headers.contains_key("x-amz-function-error") => Missed::Failed(said()),
        status if status.is_success() => match unavailable(&answer.body) {
            Some(why) => Missed::Within(why),
            None => return Ok(answer),
        },
        StatusCode::TOO_MANY_REQUESTS => Missed::Unseen(format!("too many requests: {}", said())),
        StatusCode::BAD_REQUEST if throttled(&answer.body) => Missed::Unseen(said()),
        StatusCode::FORBIDDEN => Missed::Barred(format!(
            "{}. Are these the right account and region? The role needs lambda:InvokeFunction on the replay \
             function, and cloudwatch:ListMetrics and GetMetricData",
            said()
        )),
        StatusCode::NOT_FOUND => Missed::Barred(format!("{}. Are --stack and --region right?", said())),
        status if status.is_server_error() => Missed::Lost(format!("{}: {}", status.as_u16(), said())),
        status => Missed::Barred(format!("{}: {}", status.as_u16(), said())),
    })
}

/// What the function says where the ledger or the queue gave it no answer.
fn unavailable(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Told {
        unavailable: bool,
        error: String,
    }
    serde_json::from_slice(body).ok().filter(|told: &Told| told.unavailable).map(|told| told.error)
}

/// CloudWatch says so by the kind of its error alone.
fn throttled(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("Throttl")
}

/// What AWS says in an error.
fn said(body: &[u8]) -> String {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = ["errorMessage", "Message", "message", "__type"].iter().find_map(|name| error[name].as_str());
    named.map_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).expect("a status");
        Answer { status, headers: HeaderMap::new(), body: body.to_owned().into() }
    }

    #[test]
    fn a_change_is_asked_again_only_if_nobody_saw_it() {
        for (status, body, unseen, lost) in [
            (429, r#"{"Message": "Rate Exceeded."}"#, true, false),
            (400, r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#, true, false),
            (400, r#"{"__type": "ValidationError", "message": "no such thing"}"#, false, false),
            (502, "", false, true),
            (200, r#"{"error": "the ledger is unavailable", "unavailable": true}"#, false, true),
            (403, r#"{"Message": "no"}"#, false, false),
            (404, r#"{"Message": "no function"}"#, false, false),
        ] {
            let missed = judge(answer(status, body)).expect_err("no answer");
            assert_eq!(missed.may_repeat(Repeat::IfUnseen), unseen, "{status}");
            assert_eq!(missed.may_repeat(Repeat::Always), unseen || lost, "{status}");
        }
        for counts in ["{}", r#"{"error": "there is no event x"}"#, r#"{"applied": [{"unavailable": true}]}"#] {
            assert!(judge(answer(200, counts)).is_ok(), "{counts}");
        }
    }

    #[test]
    fn a_function_that_failed_is_not_asked_again_and_says_what_to_look_at() {
        let mut failed = answer(200, r#"{"errorType": "X", "errorMessage": "timed out"}"#);
        failed.headers.insert("x-amz-function-error", http::HeaderValue::from_static("Unhandled"));
        let missed = judge(failed).expect_err("it failed");
        assert!(!missed.may_repeat(Repeat::Always));
        let told = missed.tell("the function l-replay", "", "Look at `ledgerline status`");
        assert_eq!(told, "the function l-replay failed: timed out. Its log says more. Look at `ledgerline status`.");
    }
}
