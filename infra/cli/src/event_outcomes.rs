//! What became of each of several events that an operator named.

use serde_json::{Value, json};

use crate::cloud::CloudError;
use crate::{CommandExit, output};

/// What became of one of them.
#[derive(Debug)]
pub(crate) enum EventOutcome {
    /// It was done: the function's answer.
    Done(Value),
    /// The function said no, for this reason.
    Declined(String),
    /// The function was not reached, or what it works with; or an answer was lost.
    Unreached(String),
}

impl EventOutcome {
    /// What an answer, or the lack of one, means. Errors that are not about the cloud stay errors.
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

/// What became of all of them, in the order in which they were named.
#[derive(Debug, Default)]
pub(crate) struct EventOutcomes(Vec<(String, EventOutcome)>);

impl EventOutcomes {
    /// Does something for each, one after the other. One that is refused does not hold back the others; once
    /// the cloud is out of reach, the rest is left alone.
    pub(crate) async fn of_each<T>(
        all: &[T],
        id: impl Fn(&T) -> &str,
        work: impl AsyncFn(&T) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Self> {
        let mut outcomes = EventOutcomes::default();
        for one in all {
            let fate = EventOutcome::of(work(one).await)?;
            let lost = matches!(fate, EventOutcome::Unreached(_));
            outcomes.0.push((id(one).to_owned(), fate));
            if lost {
                break;
            }
        }
        Ok(outcomes)
    }

    /// Reads the list of an answer in which each event has its own fate.
    pub(crate) fn read(answers: &Value) -> Self {
        let one = |answer: &Value| {
            let id = answer["id"].as_str().unwrap_or_default().to_owned();
            let fate = match answer["error"].as_str() {
                Some(why) if answer["unavailable"] == true => EventOutcome::Unreached(why.to_owned()),
                Some(why) => EventOutcome::Declined(why.to_owned()),
                None => EventOutcome::Done(answer.clone()),
            };
            (id, fate)
        };
        EventOutcomes(answers.as_array().into_iter().flatten().map(one).collect())
    }

    /// For scripts: each event's answer, or its id and an error, as the function tells them.
    pub(crate) fn as_json(&self) -> Value {
        let one = |(id, fate): &(String, EventOutcome)| match fate {
            EventOutcome::Done(answer) => answer.clone(),
            EventOutcome::Declined(why) => json!({"id": id, "error": why}),
            EventOutcome::Unreached(why) => json!({"id": id, "error": why, "unavailable": true}),
        };
        self.0.iter().map(one).collect()
    }

    /// For people: a line each.
    pub(crate) fn as_text(&self, done: &str) -> String {
        let one = |(id, fate): &(String, EventOutcome)| match fate {
            EventOutcome::Done(_) => format!("{} {id}\n", output::styled(output::GOOD, done)),
            EventOutcome::Declined(why) => {
                format!("{} {id}: {}\n", output::styled(output::BAD, "refused"), output::printable(why))
            }
            EventOutcome::Unreached(why) => {
                format!("{} {id}: {}\n", output::styled(output::BAD, "not reached"), output::printable(why))
            }
        };
        self.0.iter().map(one).collect()
    }

    pub(crate) fn verdict(&self) -> CommandExit {
        let any = |met: fn(&EventOutcome) -> bool| self.0.iter().any(|(_, fate)| met(fate));
        let (done, refused) =
            (any(|fate| matches!(fate, EventOutcome::Done(_))), any(|fate| matches!(fate, EventOutcome::Declined(_))));
        match (done, refused) {
            _ if any(|fate| matches!(fate, EventOutcome::Unreached(_))) => CommandExit::Unreached,
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
        let fates = |answers: Value| EventOutcomes::read(&answers).verdict();
        assert_eq!(fates(json!([{"id": "a", "state": "queued"}])), CommandExit::Success);
        assert_eq!(fates(json!([{"id": "a", "error": "no"}])), CommandExit::Declined);
        assert_eq!(fates(json!([{"id": "a", "state": "queued"}, {"id": "b", "error": "no"}])), CommandExit::PartlyDone);
        let lost = json!([{"id": "a", "state": "queued"}, {"id": "b", "error": "gone", "unavailable": true}]);
        assert_eq!(fates(lost.clone()), CommandExit::Unreached);
        assert_eq!(EventOutcomes::read(&lost).as_json(), lost);
    }
}
