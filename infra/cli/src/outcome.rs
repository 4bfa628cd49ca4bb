//! What became of each of several events that an operator named.

use serde_json::{Value, json};

use crate::trouble::Trouble;
use crate::{Verdict, output};

/// What became of one of them.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It was done: the function's answer.
    Done(Value),
    /// The function said no, for this reason.
    Refused(String),
    /// The function was not reached, or what it works with; or an answer was lost.
    Unreached(String),
}

impl Fate {
    /// What an answer, or the lack of one, means. Errors that are not about the cloud stay errors.
    pub(crate) fn of(answer: anyhow::Result<Value>) -> anyhow::Result<Self> {
        let error = match answer {
            Ok(answer) => return Ok(Fate::Done(answer)),
            Err(error) => error,
        };
        match error.downcast::<Trouble>()? {
            Trouble::Refused(answer) => Ok(Fate::Refused(answer["error"].as_str().unwrap_or_default().to_owned())),
            Trouble::Unreached(why) => Ok(Fate::Unreached(why)),
        }
    }
}

/// What became of all of them, in the order in which they were named.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(Vec<(String, Fate)>);

impl Outcomes {
    /// Does something for each, one after the other. One that is refused does not hold back the others; once
    /// the cloud is out of reach, the rest is left alone.
    pub(crate) async fn of_each<T>(
        all: &[T],
        id: impl Fn(&T) -> &str,
        work: impl AsyncFn(&T) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Self> {
        let mut outcomes = Outcomes::default();
        for one in all {
            let fate = Fate::of(work(one).await)?;
            let lost = matches!(fate, Fate::Unreached(_));
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
                Some(why) if answer["unavailable"] == true => Fate::Unreached(why.to_owned()),
                Some(why) => Fate::Refused(why.to_owned()),
                None => Fate::Done(answer.clone()),
            };
            (id, fate)
        };
        Outcomes(answers.as_array().into_iter().flatten().map(one).collect())
    }

    /// For scripts: each event's answer, or its id and an error, as the function tells them.
    pub(crate) fn as_json(&self) -> Value {
        let one = |(id, fate): &(String, Fate)| match fate {
            Fate::Done(answer) => answer.clone(),
            Fate::Refused(why) => json!({"id": id, "error": why}),
            Fate::Unreached(why) => json!({"id": id, "error": why, "unavailable": true}),
        };
        self.0.iter().map(one).collect()
    }

    /// For people: a line each.
    pub(crate) fn as_text(&self, done: &str) -> String {
        let one = |(id, fate): &(String, Fate)| match fate {
            Fate::Done(_) => format!("{} {id}\n", output::styled(output::GOOD, done)),
            Fate::Refused(why) => format!("{} {id}: {}\n", output::styled(output::BAD, "refused"), output::plain(why)),
            Fate::Unreached(why) => {
                format!("{} {id}: {}\n", output::styled(output::BAD, "not reached"), output::plain(why))
            }
        };
        self.0.iter().map(one).collect()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let any = |met: fn(&Fate) -> bool| self.0.iter().any(|(_, fate)| met(fate));
        let (done, refused) = (any(|fate| matches!(fate, Fate::Done(_))), any(|fate| matches!(fate, Fate::Refused(_))));
        match (done, refused) {
            _ if any(|fate| matches!(fate, Fate::Unreached(_))) => Verdict::Unreached,
            (true, true) => Verdict::Partly,
            (false, true) => Verdict::Refused,
            (_, false) => Verdict::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_all_from_some_from_none() {
        let fates = |answers: Value| Outcomes::read(&answers).verdict();
        assert_eq!(fates(json!([{"id": "a", "state": "queued"}])), Verdict::Fine);
        assert_eq!(fates(json!([{"id": "a", "error": "no"}])), Verdict::Refused);
        assert_eq!(fates(json!([{"id": "a", "state": "queued"}, {"id": "b", "error": "no"}])), Verdict::Partly);
        let lost = json!([{"id": "a", "state": "queued"}, {"id": "b", "error": "gone", "unavailable": true}]);
        assert_eq!(fates(lost.clone()), Verdict::Unreached);
        assert_eq!(Outcomes::read(&lost).as_json(), lost);
    }
}
