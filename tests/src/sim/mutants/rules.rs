//! Rows that are written by other rules than the product's.

use serde_json::json;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::ledger::{Death, Entry, Noop, Progress, Reason, Row, State};
use shared::model::ModelLedger;

pub(super) fn unfenced(ledger: &ModelLedger, row: Row) -> Result<(), WriteError> {
    ledger.overwrite(&row);
    Ok(())
}

/// Takes a row for the one that was seen if its numbers are the same, whichever event of the key it is of.
pub(super) fn admitted_by_numbers(
    ledger: &ModelLedger,
    seen: &Row,
    row: &Row,
    payload: Option<&Event>,
) -> Result<(), Unavailable> {
    let queued_at = ledger.get(&row.id).map_or(seen.queued_at, |current| current.queued_at);
    ledger.admit_anew(&Row { queued_at, ..seen.clone() }, row, payload)
}

pub(super) fn stepless(ledger: &ModelLedger, row: Row) -> Result<(), WriteError> {
    match ledger.get(&row.id) {
        Some(current) if current.epoch == row.epoch => unfenced(ledger, row),
        _ => Err(WriteError::Fenced),
    }
}

/// The last line of the row's history.
fn last(row: &Row) -> &str {
    row.history.last().map_or("", |moment| &moment.what)
}

pub(super) fn deferral_counts(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    if last(&row).starts_with("deferred") {
        row.effects.values_mut().for_each(|entry| entry.attempts += 1);
    }
    ledger.hold(&row)
}

/// Takes every failure for one that only shows that the partner is down.
pub(super) fn spared(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    if row.state == State::Retrying {
        for entry in row.effects.values_mut().filter(|entry| matches!(entry.progress, Progress::Failed { .. })) {
            entry.spared += std::mem::take(&mut entry.attempts);
        }
    }
    ledger.hold(&row)
}

/// Gives an event up when its calls to a partner that is down were as many as its attempts.
pub(super) fn unspared(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    let spent = |entry: &&Entry| matches!(entry.progress, Progress::Failed { .. }) && entry.spared >= 3;
    let dies = row.effects.iter().find(|(_, entry)| spent(entry)).map(|(id, _)| id.clone());
    if let (State::Retrying, Some(effect)) = (row.state, dies) {
        let attempts = row.effects.get(&effect).map_or(0, |entry| entry.spared);
        let (reason, error, at) =
            (Reason::AttemptsSpent, "answered nothing".into(), row.history.last().map_or(row.queued_at, |m| m.at));
        row.death = Some(Death { reason, effect: Some(effect), error, attempts, at });
        row.state = State::Dead;
    }
    ledger.hold(&row)
}

pub(super) fn uncounted(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    row.effects.values_mut().for_each(|entry| entry.attempts = entry.attempts.min(1));
    ledger.hold(&row)
}

pub(super) fn never_dead(ledger: &ModelLedger, row: Row) -> Result<(), WriteError> {
    if row.state == State::Dead { Ok(()) } else { ledger.hold(&row) }
}

/// What happened is done, also without the result that its flow needs.
pub(super) fn content(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    for entry in row.effects.values_mut().filter(|entry| entry.happened) {
        entry.progress = Progress::Done { result: json!({}) };
    }
    ledger.hold(&row)
}

/// What is given up on has failed, also where a call of it may have happened.
pub(super) fn sure(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    if row.state == State::Dead {
        row.effects.values_mut().for_each(|entry| entry.doubtful = false);
    }
    ledger.hold(&row)
}

/// Keeps of each result all that its partner said.
pub(super) fn bloated(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    for entry in row.effects.values_mut() {
        if let Progress::Done { result } = &mut entry.progress {
            *result = json!({"id": "x".repeat(30_000)});
        }
    }
    ledger.hold(&row)
}

pub(super) fn unexplained(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    row.noop = None;
    ledger.hold(&row)
}

/// What should be looked up is settled, as if a guard had blocked it.
pub(super) fn blocked_in_doubt(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    let doubtful = row.effects.values().any(|entry| matches!(entry.progress, Progress::Unknown { .. }));
    if doubtful && row.state == State::Retrying {
        row.noop = Some(Noop { guard: "approval".into(), facts: json!({}) });
        row.state = State::Noop;
    }
    ledger.hold(&row)
}

/// The id of the first message, whatever wake it is.
pub(super) fn unnumbered(event: &Event) -> String {
    Event { wake: 0, ..event.clone() }.deduplication_id()
}

/// What should wait for an answer is tried again, as if somebody had said yes.
pub(super) fn unasked(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    if let (State::AwaitingApproval, Some(ask)) = (row.state, &mut row.ask) {
        ask.approved_by = Some("nobody".into());
        row.state = State::Retrying;
    }
    ledger.hold(&row)
}

/// Whether nobody knows what came of it.
pub(super) fn unknown(progress: &Progress) -> bool {
    matches!(progress, Progress::Intent | Progress::Unknown { .. })
}
