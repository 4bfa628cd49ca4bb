//! Being careful while a partner is not well.

use shared::base::time::Timestamp;
use shared::flows::Flow;
use shared::ledger::Word;
use shared::limits::pressure::Change;
use shared::operate::switchboard::{self, Subject, Turn};
use tracing::{info, warn};

use crate::process::Work;

impl Work<'_> {
    /// A partner's breaker opened or closed: flows that say so turn their safe mode on.
    ///
    /// Whoever else saw the breaker open does the same, and a flow that is not careful is still right: its
    /// calls wait for the breaker.
    pub(crate) async fn breaker_changed(&self, integration: &str, change: Change) {
        let calls = |flow: &Flow| flow.effects.iter().any(|effect| effect.integration() == Some(integration));
        let careful =
            |flow: &&Flow| flow.safe_mode.as_ref().is_some_and(|safe| safe.on_breaker.is_some()) && calls(flow);
        let flows: Vec<&Flow> = self.processor.flows.all().filter(careful).collect();
        if change != Change::Opened || flows.is_empty() {
            return;
        }
        let now = self.now();
        let turns: Vec<(Subject, Turn)> = flows.iter().map(|flow| safe_mode(flow, now)).collect();
        let why = format!("the breaker of {integration} opened");
        let word = Word { by: "breaker", why: &why };
        match switchboard::turn(&*self.processor.boards, &turns, word, &self.processor.flows, now).await {
            Ok(_) => info!(integration, "safe mode by breaker"),
            Err(error) => warn!(integration, %error, "no safe mode"),
        }
    }
}

fn safe_mode(flow: &Flow, now: Timestamp) -> (Subject, Turn) {
    let span = flow.safe_mode.as_ref().and_then(|safe| safe.on_breaker).unwrap_or_default();
    (Subject::Flow(flow.name.clone()), Turn::SafeMode { until: now + span })
}
