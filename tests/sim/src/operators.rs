//! Operators: they look at what is parked, say what happened where nobody knew, replay, approve, reject and drop.

use std::time::Duration;

use replay::{EffectVerdict, Failure, Operation, QuestionSeen, operate};
use serde_json::Value;
use shared::ledger::{Row, State};

use crate::containers::{InvocationEnd, LoadedFunction, REPLAY_TIMEOUT};
use crate::lane::HeldPlan;
use crate::mutation::Handling;
use crate::ports::short;
use crate::scheduler::Actor;
use crate::timeline::Who;
use crate::world::SimWorld;

/// One operator. What was begun is done again until the answer is clear.
#[derive(Default)]
pub(crate) struct SimOperator {
    rounds: u32,
    pending: Option<Operation>,
    /// How often what is pending was not answered. It asks more and more seldom.
    unanswered: u32,
    /// What it has planned, to be applied later.
    pub(crate) plan: Option<HeldPlan>,
}

/// What the operators of a run do.
#[derive(Clone, Debug)]
pub enum OperatorShift {
    /// Operators work on one event at a time.
    One,
    /// Operators work on many events at once, too, and two operators at the same moment.
    Many,
    /// Each operator does this, in order.
    Script(Vec<OperatorAct>),
}

/// Something that an operator does, if there is anything to do it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAct {
    /// Opens a batch of everything that is parked, slow enough to be stopped.
    OpenBatch,
    /// Stops a batch that goes on.
    StopBatch,
    /// Plans a replay of what is parked.
    MakePlan,
    /// Applies the plan that the operator made last.
    ApplyPlan,
    /// Says of one parked event what happened where nobody knew, or replays it.
    TakeOneOn,
    /// Drops one parked event.
    DropOne,
    /// Does what the schedule does.
    RunSchedule,
}

/// How often an operator looks, before its shift ends.
const ROUNDS: u32 = 8;

/// How often an operator gives up on what is dead.
const DROPS: f64 = 0.1;

/// After so many answers that were none an operator does something else.
const PATIENCE: u32 = 60;

/// How often another operator looks at the same moment.
const AT_ONCE: f64 = 0.2;

impl SimWorld {
    pub(crate) fn operate(&mut self, number: usize) {
        let operator = &self.operators[number];
        if operator.pending.is_none() && operator.rounds >= self.rounds() && !self.closes(number) {
            return;
        }
        let Some(operation) = operator.pending.clone().or_else(|| self.set_out(number)) else {
            return self.look_again(number);
        };
        let Some((who, LoadedFunction::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.later(Duration::from_secs(1), Actor::Operator(number));
        };
        self.scheduler.note(Who::Operator(number), "asks", &who.to_string(), &describe(&operation), None);
        self.operators[number].pending = Some(operation.clone());
        let understood = self.as_understood(operation.clone());
        let work = async move { InvocationEnd::Operated(number, operation, operate(&replay, understood).await) };
        self.invoke(who, REPLAY_TIMEOUT, Some(Actor::Operator(number)), work);
    }

    /// An operator asks for what is to be done at this moment.
    pub(crate) fn order(&mut self, number: usize) {
        let Some((who, LoadedFunction::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.later(Duration::from_secs(1), Actor::Order(number));
        };
        let operation: Operation = serde_json::from_value(self.setup.orders[number].1.clone()).expect("an operation");
        self.scheduler.note(Who::Cloud, "order", &who.to_string(), &describe(&operation), None);
        let work = async move { InvocationEnd::Scheduled(operate(&replay, operation).await) };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
    }

    /// What an operator does next.
    fn set_out(&self, number: usize) -> Option<Operation> {
        match &self.setup.shift {
            _ if self.closes(number) => self.choose(true),
            OperatorShift::Script(acts) => self.perform(acts[self.operators[number].rounds as usize], number),
            OperatorShift::One => self.change_something().or_else(|| self.choose(false)),
            OperatorShift::Many => {
                self.change_something().or_else(|| self.work_on_many(number)).or_else(|| self.choose(false))
            }
        }
    }

    /// Something that is about no event.
    fn change_something(&self) -> Option<Operation> {
        self.turn_a_switch().or_else(|| self.change_a_contact())
    }

    fn rounds(&self) -> u32 {
        match &self.setup.shift {
            OperatorShift::Script(acts) => u32::try_from(acts.len()).unwrap_or(u32::MAX),
            OperatorShift::One | OperatorShift::Many => ROUNDS,
        }
    }

    pub(crate) fn operated(&mut self, number: usize, operation: Operation, answer: Result<Value, Failure>) {
        if let Err(Failure::Unavailable(_)) = answer {
            let operator = &mut self.operators[number];
            operator.unanswered += 1;
            if operator.unanswered > PATIENCE {
                (operator.unanswered, operator.pending) = (0, None);
                return self.look_again(number);
            }
            let longer = 1 << operator.unanswered.saturating_sub(2).min(6);
            let again = self.scheduler.between(Duration::from_secs(2), Duration::from_secs(10));
            return self.later(again * longer, Actor::Operator(number));
        }
        self.operators[number].unanswered = 0;
        if let (Operation::Plan { .. }, Ok(plan)) = (&operation, &answer) {
            self.planned(number, plan);
        }
        let heard = answer.map_or_else(|failure| failure.to_string(), |answer| heard(&answer));
        self.scheduler.note(Who::Operator(number), "hears", "", &heard, None);
        self.operators[number].pending = None;
        self.look_again(number);
    }

    /// The last operator comes when all else is at rest, and answers whatever still waits for a human. Whatever
    /// else waits, the schedule drives on.
    pub(crate) fn close(&mut self) -> bool {
        let waits = self.models.ledger.rows().iter().any(|row| waits(row) && !self.scheduler.is_broken(&row.id));
        if waits {
            self.later(Duration::from_secs(1), Actor::Operator(self.operators.len() - 1));
        }
        waits || self.schedule_once_more()
    }

    fn closes(&self, number: usize) -> bool {
        number + 1 == self.operators.len()
    }

    fn look_again(&mut self, number: usize) {
        self.operators[number].rounds += 1;
        if !self.closes(number) {
            let hurries = matches!(self.setup.shift, OperatorShift::Script(_)) || self.running().next().is_some();
            let least = Duration::from_secs(5);
            let next = self.scheduler.between(least, if hurries { least } else { self.setup.pace.looks });
            self.later(next, Actor::Operator(number));
            if matches!(self.setup.shift, OperatorShift::Many) && self.scheduler.happens(AT_ONCE) {
                let other = self.scheduler.below(self.setup.operators as u64);
                self.later(next, Actor::Operator(usize::try_from(other).unwrap_or_default()));
            }
        }
    }

    /// Something that is parked, and what is best done about it.
    fn choose(&self, closes: bool) -> Option<Operation> {
        let now = self.scheduler.now();
        // An operator does not look into a partner's records before they are settled.
        let is_settled = |row: &Row, at| at + self.models.partner.settles(&row.flow) <= now;
        let settled = |row: &Row| {
            !self.scheduler.is_broken(&row.id)
                && row.listed_at.is_some_and(|at| is_settled(row, at))
                && (!closes || waits(row))
        };
        let parked: Vec<Row> = self.models.ledger.rows().into_iter().filter(settled).collect();
        let chosen = usize::try_from(self.scheduler.below(parked.len() as u64)).unwrap_or_default();
        let row = parked.into_iter().nth(chosen)?;
        match row.state {
            State::AwaitingApproval => self.answer(&row, closes),
            State::Dead | State::Waiting if self.scheduler.happens(DROPS) => Some(drop_it(&row)),
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

    pub(crate) fn take_on(&self, row: &Row) -> Operation {
        let (id, by, reason) = (row.id.clone(), "ada".to_owned(), "looked".to_owned());
        match row.effects.iter().find(|(_, entry)| row.state == State::Dead && entry.in_doubt()) {
            Some((effect, _)) => {
                let happened = !self.models.partner.applied(&id, effect).is_empty();
                let stated = self.oracle.stated(&row.flow, effect);
                let verdict =
                    if happened { EffectVerdict::Happened(stated.into()) } else { EffectVerdict::DidNotHappen };
                let version = format!("{}.{}", row.epoch, row.step);
                Operation::Resolve { id, effect: effect.clone(), verdict, by, reason, version }
            }
            None => Operation::Replay { id, by, reason, version: None, with_new: false },
        }
    }

    /// The operation as the product takes it. What a human approves is told to the oracle as it was seen.
    fn as_understood(&self, mut operation: Operation) -> Operation {
        if let (Operation::Apply { events, by, reason, .. }, Handling::AnyPlan) =
            (&operation, self.setup.mutation.handling)
        {
            let (id, by, reason) = (events[0].id.clone(), by.clone(), reason.clone());
            return Operation::Replay { id, by, reason, version: None, with_new: false };
        }
        if let Operation::Approve { questions, .. } = &mut operation {
            for question in questions {
                self.oracle.said_yes(&question.id, &question.hash);
                question.hash = self.understood(&question.id, &question.hash);
            }
        }
        operation
    }
}

/// Whether an event waits for a human.
fn waits(row: &Row) -> bool {
    row.state == State::AwaitingApproval
}

pub(crate) fn drop_it(row: &Row) -> Operation {
    Operation::Drop { id: row.id.clone(), by: "ada".into(), reason: "not worth it".into(), version: None }
}

fn heard(answer: &Value) -> String {
    let refused = [answer, &answer["answered"][0], &answer["applied"][0]].into_iter().find_map(|a| a["error"].as_str());
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
