//! Being careful while a partner is not well.

use shared::flow::Flow;
use shared::ports::WriteError;
use shared::pressure::Change;
use shared::switchboard::{Board, Subject, Switch, Turn};
use tracing::{info, warn};

use crate::process::Work;

impl Work<'_> {
    /// A partner's breaker opened or closed: flows that say so turn their safe mode on.
    ///
    /// One try. Whoever else saw the breaker open does the same, and a flow that is not careful is still
    /// right: its calls wait for the breaker.
    pub(crate) async fn breaker_changed(&self, integration: &str, change: Change) {
        let calls = |flow: &Flow| flow.effects.iter().any(|effect| effect.integration() == Some(integration));
        let careful =
            |flow: &&Flow| flow.safe_mode.as_ref().is_some_and(|safe| safe.on_breaker.is_some()) && calls(flow);
        let flows: Vec<&Flow> = self.processor.flows.all().filter(careful).collect();
        if change != Change::Opened || flows.is_empty() {
            return;
        }
        match self.turn_safe(&flows, integration).await {
            Ok(()) => info!(integration, "safe mode by breaker"),
            Err(error) => warn!(integration, %error, "no safe mode"),
        }
    }

    async fn turn_safe(&self, flows: &[&Flow], integration: &str) -> Result<(), WriteError> {
        let now = self.now();
        let stored = self.processor.boards.read().await?;
        let version = stored.as_ref().map_or(0, |stored| stored.version);
        let mut board = stored.and_then(|stored| Board::read(&stored.text).ok()).unwrap_or_default();
        for flow in flows {
            let span = flow.safe_mode.as_ref().and_then(|safe| safe.on_breaker).unwrap_or_default();
            let why = format!("the breaker of {integration} opened");
            let switch = Switch { since: now, until: Some(now + span), by: "breaker".into(), why };
            let subject = Subject::Flow(flow.name.clone());
            if let Ok(next) = board.changed(&subject, Turn::SafeMode(switch), &self.processor.flows, now) {
                board = next;
            }
        }
        self.processor.boards.put(&board, version).await.map(drop)
    }
}
