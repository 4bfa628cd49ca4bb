//! An operator's pause: how long a flow's events, or the calls to a partner, wait for it.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::flows::Flow;
use shared::limits::pressure::{Deferral, DeferralReason};
use shared::operate::switchboard::Switch;

use crate::work::Work;

/// The deferral of a flow's events, if an operator paused it.
pub(crate) fn pause_of_flow(work: &Work<'_>, flow: &Flow) -> Option<Deferral> {
    let now = work.now();
    work.board.board().paused_flow(&flow.name, now).map(|switch| until_resumed(switch, now))
}

/// The deferral of calls to a partner, if an operator paused it.
pub(crate) fn pause_of_integration(work: &Work<'_>, name: &str) -> Option<Deferral> {
    let now = work.now();
    work.board.board().paused_integration(name, now).map(|switch| until_resumed(switch, now))
}

/// The deferral of a paused event. An operator may resume it sooner than its end, so it comes back before long.
fn until_resumed(switch: &Switch, now: Timestamp) -> Deferral {
    let left = switch.until.map_or(PAUSED_FOR, |until| until.since(now));
    Deferral { after: left.min(PAUSED_FOR), why: DeferralReason::Paused }
}

const PAUSED_FOR: Duration = Duration::from_secs(10);
