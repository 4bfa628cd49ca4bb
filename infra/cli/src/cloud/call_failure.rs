//! Why a request had no answer that counts, whether it may be repeated, and what to tell the operator.

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use shared::effects::outcome::NoAnswer;

use super::aws_client::AwsResponse;

/// Whether a request may be repeated after its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The operation changes nothing, or nothing when it is repeated.
    Always,
    /// The operation changes something: repeat it only if the function surely did not receive it.
    IfNotSent,
}

/// Why one request had no answer that counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// The function did not receive it.
    NotSent(String),
    /// The function may have received it.
    AnswerLost(String),
    /// The function received it, and the ledger or the queue gave it no answer: it may have been done.
    DependencyUnavailable(String),
    /// The function received it, and crashed or ran out of time: it may have been done.
    FunctionFailed(String),
    /// AWS denied it, and would deny it again.
    Denied(String),
}

impl From<NoAnswer> for CallFailure {
    fn from(failure: NoAnswer) -> Self {
        match failure {
            NoAnswer::NotSent(why) => CallFailure::NotSent(why),
            NoAnswer::Lost(why) => CallFailure::AnswerLost(why),
        }
    }
}

impl CallFailure {
    /// Whether the request may be sent again.
    pub(super) fn may_repeat(&self, repeat: Repeat) -> bool {
        match self {
            CallFailure::NotSent(_) => true,
            CallFailure::AnswerLost(_) | CallFailure::DependencyUnavailable(_) => repeat == Repeat::Always,
            CallFailure::FunctionFailed(_) | CallFailure::Denied(_) => false,
        }
    }

    /// The error for the operator: what happened, what it means, what to do next.
    pub(super) fn sentence(&self, destination: &str, hint: &str, next: &str) -> String {
        match self {
            CallFailure::NotSent(why) => format!("{destination} was not reached ({why}). Nothing was changed. {hint}"),
            CallFailure::AnswerLost(why) => format!("{destination} gave no answer ({why}). {next}."),
            CallFailure::DependencyUnavailable(why) => {
                format!("{destination} got no answer from the ledger or the queue ({why}). {next}.")
            }
            CallFailure::FunctionFailed(why) => {
                format!("{destination} failed: {why}. Its log has the details. {next}.")
            }
            CallFailure::Denied(why) => format!("{destination} cannot be used, and nothing was changed: {why}"),
        }
    }
}

/// The response, if it is the function's own answer.
pub(super) fn check_response(answer: AwsResponse) -> Result<AwsResponse, CallFailure> {
    let aws_message = || aws_message(&answer.body);
    Err(match answer.status {
        StatusCode::OK if answer.headers.contains_key("x-amz-function-error") => {
            CallFailure::FunctionFailed(aws_message())
        }
        status if status.is_success() => match dependency_error(&answer.body) {
            Some(why) => CallFailure::DependencyUnavailable(why),
            None => return Ok(answer),
        },
        StatusCode::TOO_MANY_REQUESTS => CallFailure::NotSent(format!("AWS throttles requests: {}", aws_message())),
        StatusCode::BAD_REQUEST if is_throttled(&answer.body) => CallFailure::NotSent(aws_message()),
        StatusCode::FORBIDDEN => CallFailure::Denied(format!(
            "{}. Check the account and the region; your role needs lambda:InvokeFunction on the replay function, \
             and cloudwatch:ListMetrics, cloudwatch:GetMetricData and, for `deploying`, cloudwatch:PutMetricData",
            aws_message()
        )),
        StatusCode::NOT_FOUND => CallFailure::Denied(format!("{}. Check --stack and --region", aws_message())),
        status if status.is_server_error() => {
            CallFailure::AnswerLost(format!("{}: {}", status.as_u16(), aws_message()))
        }
        status => CallFailure::Denied(format!("{}: {}", status.as_u16(), aws_message())),
    })
}

/// The function's error where the ledger or the queue gave it no answer.
fn dependency_error(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Unavailable {
        unavailable: bool,
        error: String,
    }
    serde_json::from_slice(body).ok().filter(|answer: &Unavailable| answer.unavailable).map(|answer| answer.error)
}

/// Whether AWS throttled the request. CloudWatch says so by the type of its error alone.
fn is_throttled(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("Throttl")
}

/// The message in an error of AWS.
fn aws_message(body: &[u8]) -> String {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = ["errorMessage", "Message", "message", "__type"].iter().find_map(|name| error[name].as_str());
    named.map_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn answer(status: u16, body: &str) -> AwsResponse {
        let status = StatusCode::from_u16(status).expect("a status");
        AwsResponse { status, headers: HeaderMap::new(), body: body.to_owned().into() }
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
            let failure = check_response(answer(status, body)).expect_err("no answer");
            assert_eq!(failure.may_repeat(Repeat::IfNotSent), unseen, "{status}");
            assert_eq!(failure.may_repeat(Repeat::Always), unseen || lost, "{status}");
        }
        for counts in ["{}", r#"{"error": "there is no event x"}"#, r#"{"applied": [{"unavailable": true}]}"#] {
            assert!(check_response(answer(200, counts)).is_ok(), "{counts}");
        }
    }

    #[test]
    fn a_function_that_failed_is_not_asked_again_and_says_what_to_look_at() {
        let mut failed = answer(200, r#"{"errorType": "X", "errorMessage": "timed out"}"#);
        failed.headers.insert("x-amz-function-error", http::HeaderValue::from_static("Unhandled"));
        let failure = check_response(failed).expect_err("it failed");
        assert!(!failure.may_repeat(Repeat::Always));
        let told = failure.sentence("the function l-replay", "", "Look at `ledgerline status`");
        assert_eq!(
            told,
            "the function l-replay failed: timed out. Its log has the details. Look at `ledgerline status`."
        );
    }
}
