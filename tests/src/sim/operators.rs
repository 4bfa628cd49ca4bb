//! Operators: they look at what is parked, say what happened where nobody knew, replay, approve, reject and drop.

use std::time::Duration;

use replay::{Failure, Operation, QuestionSeen, Verdict, operate};
use serde_json::Value;
use shared::ledger::{Row, State};

use super::containers::{Ended, Function, REPLAY_TIMEOUT};
use super::ports::short;
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

/// How often an operator gives up on what is dead.
const DROPS: f64 = 0.1;

/// An operator does not look into a partner's records before they are settled.
const SETTLED: Duration = Duration::from_secs(15);

impl World {
    pub(super) fn operate(&mut self, number: usize) {
        let (operator, closes) = (&self.operators[number], self.closes(number));
        if operator.pending.is_none() && operator.rounds >= ROUNDS && !closes {
            return;
        }
        let pending = operator.pending.clone();
        let switch = || if closes { None } else { self.turn_a_switch() };
        let Some(operation) = pending.or_else(switch).or_else(|| self.choose(closes)) else {
            return self.look_again(number);
        };
        let Some((who, Function::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.later(Duration::from_secs(1), Actor::Operator(number));
        };
        self.scheduler.note(Who::Operator(number), "asks", &who.to_string(), &describe(&operation), None);
        self.operators[number].pending = Some(operation.clone());
        let operation = self.as_understood(operation);
        let work = async move { Ended::Operated(number, operate(&replay, operation).await) };
        self.invoke(who, REPLAY_TIMEOUT, Some(Actor::Operator(number)), work);
    }

    pub(super) fn operated(&mut self, number: usize, answer: Result<Value, Failure>) {
        if let Err(Failure::Unavailable(_)) = answer {
            let again = self.scheduler.between(Duration::from_secs(2), Duration::from_secs(10));
            return self.later(again, Actor::Operator(number));
        }
        let heard = answer.map_or_else(|failure| failure.to_string(), |answer| heard(&answer));
        self.scheduler.note(Who::Operator(number), "hears", "", &heard, None);
        self.operators[number].pending = None;
        self.look_again(number);
    }

    /// The last operator comes when all else is at rest, and answers whatever still waits for a human.
    pub(super) fn close(&mut self) -> bool {
        let waits = self.models.ledger.rows().iter().any(waits);
        if waits {
            self.later(Duration::from_secs(1), Actor::Operator(self.operators.len() - 1));
        }
        waits
    }

    fn closes(&self, number: usize) -> bool {
        number + 1 == self.operators.len()
    }

    fn look_again(&mut self, number: usize) {
        self.operators[number].rounds += 1;
        if !self.closes(number) {
            let next = self.scheduler.between(Duration::from_secs(5), Duration::from_secs(400));
            self.later(next, Actor::Operator(number));
        }
    }

    /// Something that is parked, and what is best done about it.
    fn choose(&self, closes: bool) -> Option<Operation> {
        let now = self.scheduler.now();
        let settled = |row: &Row| row.parked_at.is_some_and(|at| at + SETTLED <= now) && (!closes || waits(row));
        let parked: Vec<Row> = self.models.ledger.rows().into_iter().filter(settled).collect();
        let chosen = usize::try_from(self.scheduler.below(parked.len() as u64)).unwrap_or_default();
        let row = parked.into_iter().nth(chosen)?;
        match row.state {
            State::AwaitingApproval => self.answer(&row, closes),
            State::Dead if self.scheduler.happens(DROPS) => Some(drop_it(&row)),
            _ => Some(self.take_on(&row)),
        }
    }

    /// Says yes or no to what waits for it, or looks away. What nobody may answer any more is dropped.
    fn answer(&self, row: &Row, closes: bool) -> Option<Operation> {
        let ask = row.ask.as_ref()?;
        let questions = vec![QuestionSeen { id: row.id.clone(), hash: ask.hash.clone() }];
        let (by, reason) = ("ada".to_owned(), "looked".to_owned());
        match self.scheduler.below(8) {
            _ if ask.until <= self.scheduler.now() => Some(drop_it(row)),
            0 | 1 => Some(Operation::Reject { questions, by, reason }),
            2 => Some(drop_it(row)),
            3 if !closes => None,
            _ => Some(Operation::Approve { questions, by, reason }),
        }
    }

    fn take_on(&self, row: &Row) -> Operation {
        let (id, by, reason) = (row.id.clone(), "ada".to_owned(), "looked".to_owned());
        match row.effects.iter().find(|(_, entry)| entry.in_doubt()) {
            Some((effect, _)) => {
                let happened = !self.models.partner.applied(&id, effect).is_empty();
                let stated = self.oracle.stated(&row.flow, effect);
                let verdict = if happened { Verdict::Happened(stated) } else { Verdict::DidNotHappen };
                Operation::Resolve { id, effect: effect.clone(), verdict, by, reason, version: None }
            }
            None => Operation::Replay { id, by, reason, version: None },
        }
    }

    /// The operation as the product takes it. What a human approves is told to the oracle as it was seen.
    fn as_understood(&self, mut operation: Operation) -> Operation {
        if let Operation::Approve { questions, .. } = &mut operation {
            for question in questions {
                self.oracle.said_yes(&question.id, &question.hash);
                question.hash = self.understood(&question.id, &question.hash);
            }
        }
        operation
    }
}

/// Whether an event waits for a human, or was sent on by one who did not get to the end.
fn waits(row: &Row) -> bool {
    row.state == State::AwaitingApproval || (row.state == State::Queued && row.parked.is_some())
}

fn drop_it(row: &Row) -> Operation {
    Operation::Drop { id: row.id.clone(), by: "ada".into(), reason: "not worth it".into(), version: None }
}

fn heard(answer: &Value) -> String {
    let refused = answer["answered"][0]["error"].as_str();
    refused.map_or_else(|| "done".into(), str::to_owned)
}

fn describe(operation: &Operation) -> String {
    let about = |questions: &[QuestionSeen]| -> Vec<String> {
        questions.iter().map(|seen| format!("{} {}", short(seen.id.as_str()), short(&seen.hash))).collect()
    };
    match operation {
        Operation::Replay { id, .. } => format!("replay {}", short(id.as_str())),
        Operation::Drop { id, .. } => format!("drop {}", short(id.as_str())),
        Operation::Approve { questions, .. } => format!("approve {}", about(questions).join(", ")),
        Operation::Reject { questions, .. } => format!("reject {}", about(questions).join(", ")),
        Operation::Resolve { id, effect, verdict, .. } => {
            format!("resolve {} {effect}: {verdict:?}", short(id.as_str()))
        }
        other => format!("{other:?}"),
    }
}
