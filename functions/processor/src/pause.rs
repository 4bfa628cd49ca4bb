//! An operator's pause: how long a flow's events, or the calls to a partner, wait for it.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::flows::Flow;
use shared::ledger::WaitsFor;
use shared::limits::pressure::{Deferral, DeferralReason};
use shared::operate::switchboard::{Board, Switch};

use crate::hindrance::Hindrance;
use crate::work::Work;

/// The deferral of a flow's events, if an operator paused it.
pub(crate) fn pause_of_flow(work: &Work<'_>, flow: &Flow) -> Option<Hindrance> {
    let now = work.now();
    let switch = work.board.board().paused_flow(&flow.name, now)?;
    Some(Hindrance::of(until_resumed(switch, now), WaitsFor::Flow(flow.name.clone())))
}

/// The deferral of calls to a partner, if an operator paused it.
pub(crate) fn pause_of_integration(work: &Work<'_>, name: &str) -> Option<Hindrance> {
    let now = work.now();
    let switch = work.board.board().paused_integration(name, now)?;
    Some(Hindrance::of_partner(until_resumed(switch, now), name))
}

/// Whether a board holds back a flow's events, or calls of theirs.
pub(crate) fn pauses(board: &Board, flow: &Flow, now: Timestamp) -> bool {
    let mut partners = flow.effects.iter().filter_map(|effect| effect.integration());
    board.paused_flow(&flow.name, now).is_some() || partners.any(|name| board.paused_integration(name, now).is_some())
}

/// The deferral of a paused event, until the pause ends by itself.
fn until_resumed(switch: &Switch, now: Timestamp) -> Deferral {
    Deferral { after: switch.until.map_or(NO_END, |until| until.since(now)), why: DeferralReason::Paused }
}

/// The deferral by a pause without an end.
const NO_END: Duration = Duration::from_secs(3600);
