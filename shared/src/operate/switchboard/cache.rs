//! The cache of the switchboard: how long a container uses a board without reading it again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::understood::understood;
use super::{BadBoard, Board, policy};
use crate::base::document::Stored;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::flows::retry::Policy;
use crate::flows::{Flow, Flows};

/// How long a board is used without reading the store again, and how long a store that did not answer is left
/// alone. An operator's change is in force everywhere after this time, at most.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(5);

/// The board that is in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InForce {
    board: Board,
    /// The retry policies of the flows that an operator has overridden.
    policies: BTreeMap<String, Policy>,
    /// The moment when the board was read. Without one, no board was ever read.
    read_at: Option<Timestamp>,
}

impl InForce {
    /// Whether the board is one that the store had. A container that never read one does not know what is paused.
    pub fn is_known(&self) -> bool {
        self.read_at.is_some()
    }

    /// The board itself.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Whether events of a flow may wait: the board has the flow's mark, or it is too old to know. A board is, if the
    /// newest one could not be read.
    pub fn may_wait(&self, flow: &str, now: Timestamp) -> bool {
        let current = self.read_at.is_some_and(|at| now.since(at) <= FRESH_FOR);
        !current || self.board.waits().contains_key(flow)
    }

    /// The retry policy of a flow: its own, or an operator's.
    pub fn policy<'p>(&'p self, flow: &'p Flow) -> &'p Policy {
        self.policies.get(&flow.name).unwrap_or(&flow.retry)
    }
}

/// The reason why the newest board is not in force, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoardProblem {
    /// The newest board could not be read.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The newest board has a switch that this version does not know. What it names is paused here.
    #[error("version {version} of the switchboard has a switch at `{place}` that this version does not understand")]
    NotUnderstood {
        /// The board's version.
        version: u64,
        /// The place of the switch.
        place: String,
    },
    /// The newest board cannot be used with these flows.
    #[error("version {version} of the switchboard cannot be used: {why}")]
    Bad {
        /// The board's version.
        version: u64,
        /// The faults of the board.
        why: BadBoard,
    },
}

impl BoardProblem {
    /// Whether the problem is the same as an earlier one: the same outage, or the same bad board.
    fn is_still(&self, earlier: &BoardProblem) -> bool {
        matches!((self, earlier), (BoardProblem::Unavailable(_), BoardProblem::Unavailable(_))) || self == earlier
    }
}

/// The store's last answer, and its time. The cache is handed the time and does no I/O.
///
/// While the store is down, the last known board stays in force, however long that takes: a board is no
/// secret, and every flow works without one.
#[derive(Debug, Default)]
pub struct BoardCache {
    asked_at: Option<Timestamp>,
    good: Arc<InForce>,
    /// The problems of the newest board, so that each is reported once.
    problems: Vec<BoardProblem>,
}

impl BoardCache {
    /// The board, while it is fresh enough to be used without reading the store.
    pub fn believed(&self, now: Timestamp) -> Option<Arc<InForce>> {
        let fresh = self.asked_at.is_some_and(|asked_at| now.since(asked_at) < FRESH_FOR);
        fresh.then(|| self.good.clone())
    }

    /// Whether the store was asked at this moment or later.
    pub fn is_as_new_as(&self, moment: Timestamp) -> bool {
        self.asked_at.is_some_and(|asked_at| asked_at >= moment)
    }

    /// Takes in the store's answer to a read at `asked_at`, and returns the board that is in force now and
    /// the problems that are new.
    pub fn learn(
        &mut self,
        flows: &Flows,
        answer: Result<Option<Stored>, Unavailable>,
        asked_at: Timestamp,
    ) -> (Arc<InForce>, Vec<BoardProblem>) {
        self.asked_at = Some(asked_at);
        let problems = match judged(flows, answer, &self.good, asked_at) {
            Ok((good, problems)) => {
                self.good = Arc::new(good);
                problems
            }
            Err(problem) => vec![problem],
        };
        let news = |problem: &&BoardProblem| !self.problems.iter().any(|earlier| problem.is_still(earlier));
        let new = problems.iter().filter(news).cloned().collect();
        self.problems = problems;
        (self.good.clone(), new)
    }
}

/// The usable part of the store's answer. A flow whose new policy is bad keeps its last good one.
fn judged(
    flows: &Flows,
    answer: Result<Option<Stored>, Unavailable>,
    last: &InForce,
    asked_at: Timestamp,
) -> Result<(InForce, Vec<BoardProblem>), BoardProblem> {
    let Some(Stored { version, text, .. }) = answer? else {
        return Ok((InForce { read_at: Some(asked_at), ..InForce::default() }, Vec::new()));
    };
    let bad = |why| BoardProblem::Bad { version, why };
    let (board, unknown) = understood(&text).map_err(bad)?;
    let mut policies = BTreeMap::new();
    let mut problems: Vec<BoardProblem> =
        unknown.into_iter().map(|place| BoardProblem::NotUnderstood { version, place }).collect();
    for flow in flows.all() {
        let Some(change) = board.retry(&flow.name) else { continue };
        let policy = policy::merged(flow, change).unwrap_or_else(|why| {
            problems.push(bad(why));
            last.policies.get(&flow.name).cloned()
        });
        policies.extend(policy.map(|policy| (flow.name.clone(), policy)));
    }
    Ok((InForce { board, policies, read_at: Some(asked_at) }, problems))
}

#[cfg(test)]
mod tests {
    use super::super::policy::tests::flows;
    use super::*;
    use crate::base::format::FORMAT;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600 + secs)
    }

    fn stored(version: u64, text: &str) -> Result<Option<Stored>, Unavailable> {
        Ok(Some(Stored { version, format: FORMAT, text: text.into() }))
    }

    fn attempts(version: u64, attempts: u32) -> Result<Option<Stored>, Unavailable> {
        stored(version, &format!(r#"{{"flows": {{"lead-routing": {{"retry": {{"max_attempts": {attempts}}}}}}}}}"#))
    }

    fn down() -> Result<Option<Stored>, Unavailable> {
        Err(Unavailable { port: "the switchboard", why: "down".into() })
    }

    /// The attempts of the policy in force, and the number of new problems.
    fn short((in_force, problems): (Arc<InForce>, Vec<BoardProblem>)) -> (u32, usize) {
        let flows = flows();
        (in_force.policy(flows.flow("lead-routing").expect("the flow")).max_attempts, problems.len())
    }

    #[test]
    fn an_answer_is_believed_for_five_seconds() {
        let mut cache = BoardCache::default();
        assert_eq!(cache.believed(at(0)), None);
        assert_eq!(short(cache.learn(&flows(), attempts(1, 7), at(0))), (7, 0));
        assert!(cache.believed(at(4)).is_some());
        assert_eq!(cache.believed(at(5)), None);
    }

    #[test]
    fn without_a_board_the_flow_decides() {
        let mut cache = BoardCache::default();
        assert_eq!(short(cache.learn(&flows(), Ok(None), at(0))), (3, 0));
        cache.learn(&flows(), attempts(1, 7), at(5));
        assert_eq!(short(cache.learn(&flows(), stored(2, "{}"), at(10))), (3, 0), "it was taken back");
    }

    #[test]
    fn a_bad_policy_never_replaces_the_last_good_one_and_is_told_once() {
        let mut cache = BoardCache::default();
        cache.learn(&flows(), attempts(1, 7), at(0));
        assert_eq!(short(cache.learn(&flows(), attempts(2, 99), at(5))), (7, 1));
        assert_eq!(short(cache.learn(&flows(), attempts(2, 99), at(10))), (7, 0), "it was told");
        assert_eq!(short(cache.learn(&flows(), attempts(3, 99), at(15))), (7, 1), "another one");
    }

    #[test]
    fn a_bad_policy_leaves_the_switches_alone() {
        let mut cache = BoardCache::default();
        let text = r#"{"flows": {"lead-routing": {"retry": {"max_attempts": 99},
            "paused": {"since": 0, "by": "ada", "why": "x"}}}}"#;
        let (in_force, problems) = cache.learn(&flows(), stored(1, text), at(0));
        assert_eq!(problems.len(), 1);
        assert!(in_force.board().paused_flow("lead-routing", at(0)).is_some());
    }

    #[test]
    fn a_scribble_or_an_outage_keeps_the_last_good_board_and_is_told_once() {
        let mut cache = BoardCache::default();
        assert_eq!(short(cache.learn(&flows(), down(), at(0))), (3, 1), "the flow's own was the last good one");
        assert!(cache.believed(at(4)).is_some(), "nobody asks meanwhile");
        cache.learn(&flows(), attempts(1, 7), at(5));
        assert_eq!(short(cache.learn(&flows(), stored(2, "max_attempts = 9"), at(10))), (7, 1));
        assert_eq!(short(cache.learn(&flows(), down(), at(15))), (7, 1));
        assert_eq!(short(cache.learn(&flows(), down(), at(86_400))), (7, 0), "for as long as it takes");
    }
}
