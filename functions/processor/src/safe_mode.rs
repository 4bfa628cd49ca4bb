//! Safe mode, turned on by an open breaker for the flows that ask for it.

use shared::base::time::Timestamp;
use shared::flows::Flow;
use shared::ledger::SignOff;
use shared::limits::pressure::BreakerChange;
use shared::operate::switchboard::{self, Subject, Turn};
use tracing::{info, warn};

use crate::work::Work;

/// Turns safe mode on when a partner's breaker has opened, for the flows that say so.
///
/// Every worker that sees the breaker open does the same. A flow that is not in safe mode is still correct: its
/// calls wait for the breaker.
pub(crate) async fn enter_safe_mode_on_open_breaker(work: &Work<'_>, integration: &str, change: BreakerChange) {
    let calls = |flow: &Flow| flow.effects.iter().any(|effect| effect.integration() == Some(integration));
    let asks = |flow: &&Flow| flow.safe_mode.as_ref().is_some_and(|safe| safe.on_breaker.is_some()) && calls(flow);
    let flows: Vec<&Flow> = work.processor.flows.all().filter(asks).collect();
    if change != BreakerChange::Opened || flows.is_empty() {
        return;
    }
    let now = work.now();
    let turns: Vec<(Subject, Turn)> = flows.iter().map(|flow| safe_mode(flow, now)).collect();
    let why = format!("the breaker of {integration} opened");
    let sign_off = SignOff { by: "breaker", why: &why };
    let (event, flow, trace_id) = work.ids();
    match switchboard::turn(&*work.processor.boards, &turns, sign_off, &work.processor.flows, now).await {
        Ok(_) => info!(event, flow, trace_id, integration, "the open breaker turned safe mode on"),
        Err(error) => {
            let told = "safe mode was not turned on; the calls of its flows wait for the breaker";
            warn!(event, flow, trace_id, integration, %error, "{told}");
        }
    }
}

fn safe_mode(flow: &Flow, now: Timestamp) -> (Subject, Turn) {
    let span = flow.safe_mode.as_ref().and_then(|safe| safe.on_breaker).unwrap_or_default();
    (Subject::Flow(flow.name.clone()), Turn::SafeMode { until: now + span })
}
