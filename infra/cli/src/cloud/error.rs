//! Why something could not be done, where it is not the user's own input that is wrong.

use serde_json::Value;

/// What went wrong beyond this machine. Each kind has an exit code of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloudError {
    /// The function said no: this is its answer.
    #[error("refused: {}", .0["error"].as_str().unwrap_or("it did not say why"))]
    Declined(Value),
    /// AWS, the function, what it works with or the local cloud was not reached, or an answer was lost.
    #[error("{0}")]
    Unreached(String),
}

impl CloudError {
    /// The answer, if it is one and not a refusal.
    ///
    /// The page of an event has an `error`, too: the last one that the event met. It also names the event's
    /// `id`, and a refusal never does.
    pub(crate) fn check(answer: Value) -> Result<Value, CloudError> {
        let refused = answer["error"].is_string() && answer["id"].is_null();
        if refused { Err(CloudError::Declined(answer)) } else { Ok(answer) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_told_from_a_page_that_tells_an_error() {
        let refused = json!({"error": "there is no event x"});
        let overtaken = json!({"error": "the plan is not true any more", "changed": [{"id": "x"}]});
        let page = json!({"id": "x", "state": "dead", "error": "answered 500"});
        assert!(matches!(CloudError::check(refused), Err(CloudError::Declined(_))));
        assert!(matches!(CloudError::check(overtaken), Err(CloudError::Declined(_))));
        assert_eq!(CloudError::check(page.clone()).ok(), Some(page));
    }
}
