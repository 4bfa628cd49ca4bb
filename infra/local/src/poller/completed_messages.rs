//! The messages of a batch that the function's answer completes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::lambda::InvocationOutcome;

/// The messages to delete: those that the answer completes. The others come back when their visibility ends.
///
/// A crash, a time-out or an answer that cannot be understood completes nothing: the ledger makes a second run of a
/// message safe, and nothing could make up for a lost one.
pub(super) fn completed_messages<'a>(
    messages: &'a [Value],
    outcome: &InvocationOutcome,
    reports: bool,
) -> Vec<&'a Value> {
    let InvocationOutcome::Answered(answer) = outcome else { return Vec::new() };
    if !reports {
        return messages.iter().collect();
    }
    let Some(failed) = failures(answer, messages) else { return Vec::new() };
    messages.iter().filter(|message| !failed.contains(id(message))).collect()
}

/// The ids that the function reported as failed; nothing, where the whole batch counts as failed: an answer of
/// another shape, an empty id, or one that was not in the batch.
fn failures<'a>(answer: &'a Value, batch: &[Value]) -> Option<BTreeSet<&'a str>> {
    let known: BTreeSet<&str> = batch.iter().map(id).collect();
    let reported = match answer {
        Value::Null => return Some(BTreeSet::new()),
        Value::Object(fields) => fields.get("batchItemFailures").unwrap_or(&Value::Null),
        _ => return None,
    };
    match reported {
        Value::Null => Some(BTreeSet::new()),
        Value::Array(items) => {
            items.iter().map(|item| item["itemIdentifier"].as_str().filter(|id| known.contains(id))).collect()
        }
        _ => None,
    }
}

fn id(message: &Value) -> &str {
    message["MessageId"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deleted(answer: Value) -> Vec<String> {
        let messages = [json!({"MessageId": "a"}), json!({"MessageId": "b"})];
        let done = completed_messages(&messages, &InvocationOutcome::Answered(answer), true);
        done.into_iter().map(|message| id(message).to_owned()).collect()
    }

    #[test]
    fn what_is_not_reported_is_deleted() {
        assert_eq!(deleted(json!({"batchItemFailures": [{"itemIdentifier": "a"}]})), ["b"]);
    }

    #[test]
    fn nothing_reported_is_a_complete_success() {
        for answer in [json!(null), json!({}), json!({"batchItemFailures": []}), json!({"batchItemFailures": null})] {
            assert_eq!(deleted(answer.clone()), ["a", "b"], "{answer}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_a_complete_failure() {
        for answer in [
            json!("ok"),
            json!({"batchItemFailures": "a"}),
            json!({"batchItemFailures": [{"itemIdentifier": ""}]}),
            json!({"batchItemFailures": [{"itemIdentifier": null}]}),
            json!({"batchItemFailures": [{"id": "a"}]}),
            json!({"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "stranger"}]}),
        ] {
            assert!(deleted(answer.clone()).is_empty(), "{answer}");
        }
    }

    #[test]
    fn a_failed_or_throttled_invocation_deletes_nothing() {
        let messages = [json!({"MessageId": "a"})];
        assert!(completed_messages(&messages, &InvocationOutcome::Failed(json!({})), false).is_empty());
        assert!(completed_messages(&messages, &InvocationOutcome::Throttled, true).is_empty());
    }

    #[test]
    fn a_mapping_without_reports_deletes_all_on_any_answer() {
        let messages = [json!({"MessageId": "a"})];
        let answer = InvocationOutcome::Answered(json!({"batchItemFailures": [{"itemIdentifier": "a"}]}));
        assert_eq!(completed_messages(&messages, &answer, false).len(), 1);
    }
}
