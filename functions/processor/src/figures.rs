//! What is counted when an event comes to an end.

use shared::flows::{Effect, Flow, Guarantee};
use shared::ledger::{Entry, Row, State};
use shared::operate::metric::Fact;

use crate::work::Work;

/// Counts an event that is settled. One that was replayed or approved has no time to its settlement: it waited for an
/// operator.
pub(crate) fn count_settled(work: &Work<'_>, flow: &Flow, row: &Row, state: State) {
    let now = work.now();
    let took = (!work.event.is_replay()).then(|| now.since(work.event.received_at));
    work.count(Fact::Settled(&flow.name, state, took));
    count_attempts(work, row);
    if let Some(parked) = row.was_parked_at().filter(|_| work.event.is_replay()) {
        work.count(Fact::Healed(now.since(parked)));
    }
    if let Some((slo, took)) = flow.slo.as_ref().zip(took) {
        work.count(Fact::ServiceLevel(&flow.name, slo.spent_by_settling(took)));
    }
}

/// Counts an event that is dead.
pub(crate) fn count_dead(work: &Work<'_>, row: &Row) {
    let Some(death) = &row.death else { return };
    let (flow, is_replay) = (work.processor.flows.flow(&row.flow), work.event.is_replay());
    // This death is not parked yet. What was approved is no replay of a dead letter, although it has a new number, too.
    work.count(match is_replay && row.was_parked_at().is_some() {
        true => Fact::DeadAgain(&row.flow, death.reason),
        false => Fact::Dead(&row.flow, death.reason),
    });
    count_attempts(work, row);
    let effects = flow.into_iter().flat_map(|flow| &flow.effects);
    let doubts = effects.filter_map(|effect| Some((effect, row.entry(effect).filter(|entry| entry.in_doubt())?)));
    for (effect, entry) in doubts {
        work.count(Fact::EffectEnded(&row.flow, is_protected(effect, entry)));
    }
    if let Some(slo) = flow.and_then(|flow| flow.slo.as_ref()).filter(|_| !is_replay) {
        work.count(Fact::ServiceLevel(&row.flow, Some(slo.spent_by_dying())));
    }
}

/// Whether an effect in doubt is one that may be repeated or asked about, or that was answered.
fn is_protected(effect: &Effect, entry: &Entry) -> bool {
    effect.guarantee != Guarantee::None || entry.happened
}

/// Counts the most attempts that one effect of the event took, if any was tried.
fn count_attempts(work: &Work<'_>, row: &Row) {
    if let Some(most @ 1..) = row.effects.values().map(|entry| entry.attempts).max() {
        work.count(Fact::Attempted(&row.flow, most));
    }
}
