//! How long an override is believed.

use std::collections::HashMap;
use std::time::Duration;

use super::{Refused, Stored, merged};
use crate::flow::Flow;
use crate::ports::Unavailable;
use crate::retry::Policy;
use crate::time::Timestamp;

/// How long the store's answer is believed without asking again, and how long nobody asks a store
/// that did not answer. An operator's change is in force everywhere so much later, at most.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// What the store said of each flow, and when. It is handed the time and asks nobody.
///
/// While the store is down, what was known last stays in force, for as long as it takes: a policy is
/// no secret, and a flow has its own from the start.
#[derive(Debug, Default)]
pub struct Cache(HashMap<String, Known>);

/// What is known of one flow.
#[derive(Debug)]
struct Known {
    asked_at: Timestamp,
    /// The last good override and its version; none where the flow's own policy is in force.
    good: Option<(u64, Policy)>,
    /// What is wrong, if anything, so that it is told once.
    problem: Option<Problem>,
}

/// The policy to go by.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// It.
    pub policy: Policy,
    /// Where it is from.
    pub source: Source,
}

/// Where a policy is from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The flow's own.
    Flow,
    /// The override of this version.
    Override(u64),
    /// The one that was in force before. Said once for each problem, to whoever ran into it; from then
    /// on the policy is from where it is from.
    LastGood(Problem),
}

/// Why the newest override is not in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nobody knows the newest.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The flow cannot go by it.
    #[error("override {version} is refused: {why}")]
    Bad {
        /// Its version.
        version: u64,
        /// Why.
        why: Refused,
    },
}

impl Problem {
    /// Whether it goes on: the same outage, or the same bad override.
    fn is_still(&self, earlier: &Problem) -> bool {
        match (self, earlier) {
            (Problem::Unavailable(_), Problem::Unavailable(_)) => true,
            (Problem::Bad { version, .. }, Problem::Bad { version: earlier, .. }) => version == earlier,
            _ => false,
        }
    }
}

impl Cache {
    /// The policy that needs no question.
    pub fn believed(&self, flow: &Flow, now: Timestamp) -> Option<InForce> {
        let known = self.0.get(&flow.name)?;
        (now.since(known.asked_at) < FRESH_FOR).then(|| known.in_force(flow))
    }

    /// Takes in the store's answer to a question asked at `asked_at`, and says what is in force now.
    pub fn learn(&mut self, flow: &Flow, answer: Result<Option<Stored>, Unavailable>, asked_at: Timestamp) -> InForce {
        let known = self.0.entry(flow.name.clone()).or_insert(Known { asked_at, good: None, problem: None });
        known.asked_at = asked_at;
        match judged(flow, answer) {
            Ok(good) => {
                (known.good, known.problem) = (good, None);
                known.in_force(flow)
            }
            Err(problem) => {
                let told = known.problem.replace(problem.clone()).is_some_and(|earlier| problem.is_still(&earlier));
                let in_force = known.in_force(flow);
                if told { in_force } else { InForce { source: Source::LastGood(problem), ..in_force } }
            }
        }
    }
}

impl Known {
    fn in_force(&self, flow: &Flow) -> InForce {
        match &self.good {
            Some((version, policy)) => InForce { policy: policy.clone(), source: Source::Override(*version) },
            None => InForce { policy: flow.retry.clone(), source: Source::Flow },
        }
    }
}

fn judged(flow: &Flow, answer: Result<Option<Stored>, Unavailable>) -> Result<Option<(u64, Policy)>, Problem> {
    let Some(Stored { version, text }) = answer? else { return Ok(None) };
    let policy = merged(flow, &text).map_err(|why| Problem::Bad { version, why })?;
    Ok(policy.map(|policy| (version, policy)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow;
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600 + secs)
    }

    fn stored(version: u64, text: &str) -> Result<Option<Stored>, Unavailable> {
        Ok(Some(Stored { version, text: text.into() }))
    }

    fn attempts(version: u64, attempts: u32) -> Result<Option<Stored>, Unavailable> {
        stored(version, &format!(r#"{{"max_attempts": {attempts}}}"#))
    }

    fn down() -> Result<Option<Stored>, Unavailable> {
        Err(Unavailable { port: "the overrides", why: "down".into() })
    }

    /// What matters of an answer: how many attempts, and who says so.
    fn short(in_force: InForce) -> (u32, Source) {
        (in_force.policy.max_attempts, in_force.source)
    }

    #[test]
    fn an_answer_is_believed_for_five_seconds() {
        let mut cache = Cache::default();
        assert_eq!(cache.believed(&flow(), at(0)), None);
        assert_eq!(short(cache.learn(&flow(), attempts(1, 7), at(0))), (7, Source::Override(1)));
        assert_eq!(cache.believed(&flow(), at(4)).map(short), Some((7, Source::Override(1))));
        assert_eq!(cache.believed(&flow(), at(5)), None);
        let other = Flow { name: "other".into(), ..flow() };
        assert_eq!(cache.believed(&other, at(0)), None);
    }

    #[test]
    fn without_an_override_the_flow_decides() {
        let mut cache = Cache::default();
        assert_eq!(cache.learn(&flow(), Ok(None), at(0)), InForce { policy: flow().retry, source: Source::Flow });
        cache.learn(&flow(), attempts(1, 7), at(5));
        assert_eq!(short(cache.learn(&flow(), stored(2, "{}"), at(10))), (3, Source::Flow), "it was taken back");
    }

    #[test]
    fn a_bad_override_never_replaces_the_last_good_one_and_is_told_once() {
        let mut cache = Cache::default();
        cache.learn(&flow(), attempts(1, 7), at(0));
        let (kept, source) = short(cache.learn(&flow(), attempts(2, 99), at(5)));
        assert_eq!(kept, 7);
        assert!(matches!(source, Source::LastGood(Problem::Bad { version: 2, .. })), "{source:?}");
        assert_eq!(cache.believed(&flow(), at(6)).map(short), Some((7, Source::Override(1))));
        assert_eq!(short(cache.learn(&flow(), attempts(2, 99), at(10))), (7, Source::Override(1)), "it was told");
        let (_, source) = short(cache.learn(&flow(), attempts(3, 99), at(15)));
        assert!(matches!(source, Source::LastGood(Problem::Bad { version: 3, .. })), "another one: {source:?}");
    }

    #[test]
    fn an_outage_keeps_the_last_good_one_and_is_told_once() {
        let mut cache = Cache::default();
        let (own, source) = short(cache.learn(&flow(), down(), at(0)));
        assert_eq!(own, 3, "the flow's own was the last good one");
        assert!(matches!(source, Source::LastGood(Problem::Unavailable(_))), "{source:?}");
        assert_eq!(cache.believed(&flow(), at(4)).map(short), Some((3, Source::Flow)), "nobody asks meanwhile");
        cache.learn(&flow(), attempts(1, 7), at(5));
        let (kept, source) = short(cache.learn(&flow(), down(), at(10)));
        assert_eq!(kept, 7);
        assert!(matches!(source, Source::LastGood(Problem::Unavailable(_))), "another outage: {source:?}");
        assert_eq!(
            short(cache.learn(&flow(), down(), at(86_400))),
            (7, Source::Override(1)),
            "for as long as it takes"
        );
    }
}
