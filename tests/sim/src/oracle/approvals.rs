//! What a human must have seen first.

use shared::base::id::EventId;
use shared::flows::Flow;
use shared::ledger::plan::Plan;
use shared::ledger::{Row, State};
use shared::model::RowChange;
use shared::operate::approval::Question;

use super::{APPROVED, ASKED_ONCE, Oracle, WAITS_WITH_PAYLOAD, violated};
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

/// How often a question was written down, and how often it was posted.
#[derive(Default)]
pub(super) struct QuestionCount {
    written: u32,
    posted: u32,
}

impl Oracle {
    /// A human said yes to what has this hash.
    pub(crate) fn said_yes(&self, id: &EventId, hash: &str) {
        self.seen().yes.insert((id.clone(), hash.to_owned()));
    }

    /// A question appears in the room.
    pub(crate) fn asked(&self, question: &str, scheduler: &Scheduler) {
        let mut seen = self.seen();
        let asked = seen.questions.entry(question.to_owned()).or_default();
        asked.posted += 1;
        if asked.posted > asked.written {
            let what = format!("{question} is asked {} times, and written down {}", asked.posted, asked.written);
            scheduler.violated(violated(ASKED_ONCE, what));
        }
    }

    /// A row is written. A question that it did not have before is about to be asked: versions of a flow
    /// that are live side by side each have their own.
    pub(super) fn asks(&self, RowChange { before, after, .. }: &RowChange) {
        let Some(ask) = &after.ask else { return };
        let earlier = before.as_ref().and_then(|before| before.ask.as_ref());
        if earlier.is_none_or(|earlier| earlier.hash != ask.hash) {
            let question = Question { id: after.id.clone(), hash: ask.hash.clone() };
            self.seen().questions.entry(question.to_value()).or_default().written += 1;
        }
    }

    /// An effect is called. Where its flow wants an approval, somebody has seen exactly what is done.
    pub(super) fn is_approved(&self, row: &Row) -> Result<(), BrokenInvariant> {
        let seen = self.seen();
        let Some(event) = seen.events.get(&row.id).and_then(|known| known.event.as_ref()) else { return Ok(()) };
        let yes = |flow: &Flow| seen.yes.contains(&(row.id.clone(), Plan::of(flow, event, row).hash().to_owned()));
        let may = |flow: &Flow| {
            let when = flow.approval.as_ref().map(|approval| approval.when.as_ref());
            let wanted = when.is_some_and(|when| when.is_none_or(|when| when.holds(&row.scope_of(event)) != Ok(false)));
            !wanted || yes(flow) || yes(&flow.clone().in_safe_mode())
        };
        match self.flows(&row.flow).any(may) {
            true => Ok(()),
            false => Err(violated(APPROVED, format!("{} runs, and nobody said yes to what it does", row.id))),
        }
    }

    /// A row is written. What waits can be answered, and what is answered was asked.
    pub(super) fn waits(&self, after: &Row) -> Result<(), BrokenInvariant> {
        let listed = after.listed.is_some() && self.ledger.payload(&after.id).is_some();
        if after.state == State::Waiting && !listed {
            return Err(violated(WAITS_WITH_PAYLOAD, format!("{} waits, but nobody could wake it", after.id)));
        }
        let Some(ask) = &after.ask else { return Ok(()) };
        let kept = after.is_parked() && self.ledger.payload(&after.id).is_some();
        if after.state == State::AwaitingApproval && !kept {
            return Err(violated(WAITS_WITH_PAYLOAD, format!("{} waits, but nobody could approve it", after.id)));
        }
        let yes = || self.seen().yes.contains(&(after.id.clone(), ask.hash.clone()));
        if ask.approved_by.is_some() && !yes() {
            return Err(violated(APPROVED, format!("{} is approved, but nobody saw {}", after.id, ask.hash)));
        }
        Ok(())
    }
}
