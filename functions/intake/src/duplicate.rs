//! What a second delivery of the same event gets.

use shared::arrival::event::Event;
use shared::ledger::{Row, State};

use crate::receipt::{Admitted, Receipt};
use crate::rejection::Rejection;

/// Answers a duplicate: the first answer again, or the result once there is one.
///
/// `receipt` is that of the second delivery, had it been the first.
pub(crate) fn answer_duplicate(
    first: Row,
    second: &Row,
    event: Event,
    keyed_by_header: bool,
    receipt: Receipt,
) -> Result<Admitted, Rejection> {
    // Fields say what the event is. A header says only that it is the same, and may be wrong.
    if keyed_by_header && first.fingerprint != second.fingerprint {
        return Err(Rejection::KeyReused);
    }
    // The event may be on the queue already, or the first invocation crashed before it sent it. A second copy
    // is harmless, also with another payload: the first claim decides which one is worked on. After that claim,
    // the queue has the event, or operators have: only they send a replay, with the payload that they saw.
    let replay = first.replay;
    let unsent = first.may_be_unsent(&second.fingerprint).then_some(Event { replay, ..event });
    let result = (first.state == State::Succeeded).then(|| first.results());
    Ok(Admitted { receipt: Receipt { id: first.id, replayed: true, result, ..receipt }, unsent })
}
