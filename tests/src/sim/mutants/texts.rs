//! Mutants of what the intake checks: sizes and characters.

use async_trait::async_trait;
use serde_json::json;
use shared::arrival::event::Event;
use shared::base::errors::Unavailable;
use shared::ledger::queue::Queue;

/// Sends texts that nobody has checked.
pub(super) struct Unchecked(pub(super) Box<dyn Queue>, pub(super) fn(&str) -> String);

#[async_trait]
impl Queue for Unchecked {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        let mut event = event.clone();
        if let Some(text) = event.payload.pointer_mut("/data/text") {
            *text = json!((self.1)(text.as_str().unwrap_or_default()));
        }
        self.0.send(&event).await
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        self.0.send_all(events).await
    }
}
