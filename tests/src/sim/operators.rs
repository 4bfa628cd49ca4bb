//! Operators: they look at what is parked, say what happened where nobody knew, and replay.

use std::time::Duration;

use replay::{Failure, Operation, Verdict, operate};
use serde_json::{Value, json};
use shared::ledger::{Progress, Row};

use super::containers::{Ended, Function, REPLAY_TIMEOUT};
use super::oracle::stated;
use super::scheduler::Actor;
use super::timeline::Who;
use super::world::World;

/// One operator. What was begun is done again until the answer is clear.
#[derive(Default)]
pub(super) struct Operator {
    rounds: u32,
    pending: Option<Operation>,
}

/// How often an operator looks, before its shift ends.
const ROUNDS: u32 = 8;

/// How often an operator turns a switch instead.
const SWITCHES: f64 = 0.15;

/// An operator does not look into a partner's records before they are settled.
const SETTLED: Duration = Duration::from_secs(15);

impl World {
    pub(super) fn operate(&mut self, number: usize) {
        let operator = &self.operators[number];
        if operator.pending.is_none() && operator.rounds >= ROUNDS {
            return;
        }
        let Some(operation) = operator.pending.clone().or_else(|| self.turn_a_switch()).or_else(|| self.choose())
        else {
            return self.look_again(number);
        };
        let Some((who, Function::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.later(Duration::from_secs(1), Actor::Operator(number));
        };
        self.scheduler.note(Who::Operator(number), "asks", &who.to_string(), &describe(&operation), None);
        self.operators[number].pending = Some(operation.clone());
        let work = async move { Ended::Operated(number, operate(&replay, operation).await) };
        self.invoke(who, REPLAY_TIMEOUT, Some(Actor::Operator(number)), work);
    }

    pub(super) fn operated(&mut self, number: usize, answer: Result<Value, Failure>) {
        if let Err(Failure::Unavailable(_)) = answer {
            let again = self.scheduler.between(Duration::from_secs(2), Duration::from_secs(10));
            return self.later(again, Actor::Operator(number));
        }
        let heard = answer.map_or_else(|failure| failure.to_string(), |_| "done".into());
        self.scheduler.note(Who::Operator(number), "hears", "", &heard, None);
        self.operators[number].pending = None;
        self.look_again(number);
    }

    fn look_again(&mut self, number: usize) {
        self.operators[number].rounds += 1;
        let next = self.scheduler.between(Duration::from_secs(5), Duration::from_secs(400));
        self.later(next, Actor::Operator(number));
    }

    /// Now and then an operator pauses everything for a while, or lets it go on.
    fn turn_a_switch(&self) -> Option<Operation> {
        if self.scheduler.healed() || !self.scheduler.happens(SWITCHES) {
            return None;
        }
        let pause = json!({"op": "pause", "for": "2m", "by": "ada", "reason": "maintenance"});
        let resume = json!({"op": "resume", "by": "ada", "reason": "it is over"});
        let operation = if self.scheduler.happens(0.5) { pause } else { resume };
        Some(serde_json::from_value(operation).expect("an operation"))
    }

    /// Something that is parked, and what is best done about it.
    fn choose(&self) -> Option<Operation> {
        let now = self.scheduler.now();
        let settled = |row: &Row| row.parked_at.is_some_and(|at| at + SETTLED <= now);
        let parked: Vec<Row> = self.models.ledger.rows().into_iter().filter(settled).collect();
        let chosen = usize::try_from(self.scheduler.below(parked.len() as u64)).unwrap_or_default();
        let row = parked.into_iter().nth(chosen)?;
        let (id, by, reason) = (row.id.clone(), "ada".to_owned(), "looked".to_owned());
        let doubtful = |progress: &Progress| matches!(progress, Progress::Unknown { .. } | Progress::Intent);
        match row.effects.iter().find(|(_, entry)| doubtful(&entry.progress)) {
            Some((effect, _)) => {
                let happened = !self.models.partner.applied(&id, effect).is_empty();
                let verdict = if happened { Verdict::Happened(stated()) } else { Verdict::DidNotHappen };
                Some(Operation::Resolve { id, effect: effect.clone(), verdict, by, reason, version: None })
            }
            None => Some(Operation::Replay { id, by, reason, version: None }),
        }
    }
}

fn describe(operation: &Operation) -> String {
    match operation {
        Operation::Replay { id, .. } => format!("replay {}", super::ports::short(id.as_str())),
        Operation::Resolve { id, effect, verdict, .. } => {
            format!("resolve {} {effect}: {verdict:?}", super::ports::short(id.as_str()))
        }
        other => format!("{other:?}"),
    }
}
