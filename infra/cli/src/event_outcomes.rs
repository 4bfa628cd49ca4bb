//! The outcome of an operation for each of several events that an operator named.

use serde_json::{Value, json};

use crate::cloud::CloudError;
use crate::{CommandExit, output};

/// The outcome for one event.
#[derive(Debug)]
pub(crate) enum EventOutcome {
    /// The function did it: this is its answer.
    Done(Value),
    /// The function declined, for this reason.
    Declined(String),
    /// The function, or something that it needs, did not answer: it may have been done.
    Unreached(String),
}

impl EventOutcome {
    /// The outcome by the function's answer. Errors that are not about the cloud stay errors.
    pub(crate) fn of(answer: anyhow::Result<Value>) -> anyhow::Result<Self> {
        let error = match answer {
            Ok(answer) => return Ok(EventOutcome::Done(answer)),
            Err(error) => error,
        };
        match error.downcast::<CloudError>()? {
            CloudError::Declined(answer) => {
                Ok(EventOutcome::Declined(answer["error"].as_str().unwrap_or_default().to_owned()))
            }
            CloudError::Unreached(why) => Ok(EventOutcome::Unreached(why)),
        }
    }
}

/// The outcomes for all events, in the order in which they were named.
#[derive(Debug, Default)]
pub(crate) struct EventOutcomes(Vec<(String, EventOutcome)>);

impl EventOutcomes {
    /// Does the work for each event, one after the other. A declined one does not hold back the others; once the
    /// cloud does not answer, the rest is not tried.
    pub(crate) async fn of_each<T>(
        all: &[T],
        id: impl Fn(&T) -> &str,
        work: impl AsyncFn(&T) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Self> {
        let mut outcomes = EventOutcomes::default();
        for one in all {
            let outcome = EventOutcome::of(work(one).await)?;
            let lost = matches!(outcome, EventOutcome::Unreached(_));
            outcomes.0.push((id(one).to_owned(), outcome));
            if lost {
                break;
            }
        }
        Ok(outcomes)
    }

    /// Reads the outcomes from an answer that has a list with an entry for each event.
    pub(crate) fn read(answers: &Value) -> Self {
        let one = |answer: &Value| {
            let id = answer["id"].as_str().unwrap_or_default().to_owned();
            let outcome = match answer["error"].as_str() {
                Some(why) if answer["unavailable"] == true => EventOutcome::Unreached(why.to_owned()),
                Some(why) => EventOutcome::Declined(why.to_owned()),
                None => EventOutcome::Done(answer.clone()),
            };
            (id, outcome)
        };
        EventOutcomes(answers.as_array().into_iter().flatten().map(one).collect())
    }

    /// The outcomes for scripts: each event's answer, or its id and an error, as the function writes them.
    pub(crate) fn as_json(&self) -> Value {
        let one = |(id, outcome): &(String, EventOutcome)| match outcome {
            EventOutcome::Done(answer) => answer.clone(),
            EventOutcome::Declined(why) => json!({"id": id, "error": why}),
            EventOutcome::Unreached(why) => json!({"id": id, "error": why, "unavailable": true}),
        };
        self.0.iter().map(one).collect()
    }

    /// The outcomes for people, a line for each event.
    pub(crate) fn as_text(&self, done: &str) -> String {
        let one = |(id, outcome): &(String, EventOutcome)| match outcome {
            EventOutcome::Done(answer) => {
                let other = answer["replayed_as"].as_str().map(|other| format!(" as {}", output::printable(other)));
                format!("{} {id}{}\n", output::styled(output::GOOD, done), other.unwrap_or_default())
            }
            EventOutcome::Declined(why) => {
                format!("{} {id}: {}\n", output::styled(output::BAD, "declined"), output::printable(why))
            }
            EventOutcome::Unreached(why) => {
                format!("{} {id}: {}\n", output::styled(output::BAD, "no answer for"), output::printable(why))
            }
        };
        self.0.iter().map(one).collect()
    }

    pub(crate) fn exit(&self) -> CommandExit {
        let any = |met: fn(&EventOutcome) -> bool| self.0.iter().any(|(_, outcome)| met(outcome));
        let (done, declined) = (
            any(|outcome| matches!(outcome, EventOutcome::Done(_))),
            any(|outcome| matches!(outcome, EventOutcome::Declined(_))),
        );
        match (done, declined) {
            _ if any(|outcome| matches!(outcome, EventOutcome::Unreached(_))) => CommandExit::Unreached,
            (true, true) => CommandExit::PartlyDone,
            (false, true) => CommandExit::Declined,
            (_, false) => CommandExit::Success,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_all_from_some_from_none() {
        let exit = |answers: Value| EventOutcomes::read(&answers).exit();
        assert_eq!(exit(json!([{"id": "a", "state": "queued"}])), CommandExit::Success);
        assert_eq!(exit(json!([{"id": "a", "error": "no"}])), CommandExit::Declined);
        assert_eq!(exit(json!([{"id": "a", "state": "queued"}, {"id": "b", "error": "no"}])), CommandExit::PartlyDone);
        let lost = json!([{"id": "a", "state": "queued"}, {"id": "b", "error": "gone", "unavailable": true}]);
        assert_eq!(exit(lost.clone()), CommandExit::Unreached);
        assert_eq!(EventOutcomes::read(&lost).as_json(), lost);
    }
}
