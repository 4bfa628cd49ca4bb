//! A call that becomes slow while it is under way: it goes on as part of its partner's share of the batches, or it is let
//! go early.
//!
//! A partner that begins to hang is known to nobody for [`SLOW`]. Until then each batch may hold one of its calls, and so
//! all batches. A share that is asked for before that would cost a write for each call to a healthy partner. So the share
//! is asked for when a call is slow: as many batches as it allows wait on, and the others let go of what they may repeat.

use std::pin::pin;

use futures::future::{Either, select};
use shared::flows::{Effect, Guarantee, Integration};
use shared::ledger::Row;
use shared::limits::pressure::SLOW;

use crate::work::Work;

/// Whether a call may be let go: the partner knows it again by our key, and the effect was not let go too often. A request
/// that may only be repeated in order, or that is asked about, is waited for: the partner may still be at it.
pub(crate) fn may_let_go(work: &Work<'_>, row: &Row, effect: &Effect) -> bool {
    let entry = row.entry(effect);
    let tried = entry.map_or(row.received_at, |entry| entry.since);
    let trusted = work.processor.flows.trust(effect, tried, work.now());
    trusted == Guarantee::Native && entry.is_none_or(|entry| entry.spared < MAX_LET_GO)
}

/// How often calls of an effect are let go, at most, or found to show only that its partner does not answer.
const MAX_LET_GO: u32 = 10;

/// Waits for a call to a partner. `None` says that it was let go: it takes long, nobody knew of that before, and other
/// batches hold as much of the partner as they may.
///
/// A call that ends just while the share is asked for leaves a place in it that lapses.
pub(crate) async fn wait_within_share<T>(
    work: &Work<'_>,
    (name, partner): (&str, &Integration),
    may_let_go: bool,
    call: impl Future<Output = T>,
) -> Option<T> {
    let gate = &work.processor.gate;
    if !may_let_go || gate.is_slow(name, work.now()) {
        return Some(call.await);
    }
    let share = async {
        work.processor.sleep.sleep(SLOW).await;
        gate.stay(name, partner.timeout, work.now()).await
    };
    match select(pin!(call), pin!(share)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right((Err(_), _)) => None,
        Either::Right((Ok(in_round), call)) => {
            let answer = call.await;
            if in_round {
                gate.go(name, work.now()).await;
            }
            Some(answer)
        }
    }
}
