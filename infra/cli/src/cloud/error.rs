//! The errors of operating a cloud: the function declined, or there was no answer.

use serde_json::Value;

/// What went wrong beyond this machine. Each kind has an exit code of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloudError {
    /// The replay function declined the operation: this is its answer.
    #[error("declined, and nothing was changed: {}", .0["error"].as_str().unwrap_or("the function gave no reason"))]
    Declined(Value),
    /// AWS, the function, something that it needs, or the local cloud did not answer.
    #[error("{0}")]
    Unreached(String),
}

impl CloudError {
    /// The answer, unless the function declined.
    ///
    /// The page of an event has an `error`, too: the last one that the event met. It also has the event's `id`,
    /// and an answer that declines never does.
    pub(crate) fn check(answer: Value) -> Result<Value, CloudError> {
        let declined = answer["error"].is_string() && answer["id"].is_null();
        if declined { Err(CloudError::Declined(answer)) } else { Ok(answer) }
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
