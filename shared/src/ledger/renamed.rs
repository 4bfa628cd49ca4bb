//! Effects that were renamed without saying so.
//!
//! An effect that is gone from its flow and another that is new may be one and the same: its author forgot `was`. For an
//! event that the one was done for, doing the other may be doing it again.

use super::{Entry, Progress, Row};
use crate::flows::{Effect, Flow};

impl Row {
    /// The effects of a flow that may have happened for this event under a name that the flow has no more. `accepted` are
    /// the names of the effects that the flow had when it accepted the event; a message of an older version names none.
    ///
    /// What the event did not have when it was accepted may be the new name. Where the name that is gone came later itself,
    /// the code may have been rolled back: then any effect may be it that was not tried yet.
    pub fn maybe_renamed<'f>(&self, flow: &'f Flow, accepted: Option<&[String]>) -> Vec<&'f Effect> {
        let (Some(accepted), gone) = (accepted, self.done_under_lost_names(flow)) else { return Vec::new() };
        if gone.is_empty() {
            return Vec::new();
        }
        let came_later = gone.iter().any(|name| !accepted.iter().any(|known| known == name));
        let untried = flow.effects.iter().filter(|effect| self.entry(effect).is_none());
        untried.filter(|effect| came_later || effect.is_new_since(accepted)).collect()
    }

    /// The names that no effect of the flow has or had, under which something happened for this event, or may have.
    pub fn done_under_lost_names(&self, flow: &Flow) -> Vec<&str> {
        let is_lost = |name: &str| !flow.effects.iter().any(|effect| effect.names().any(|known| known == name));
        let happened = |entry: &Entry| matches!(entry.progress, Progress::Done { .. }) || entry.in_doubt();
        let lost = self.effects.iter().filter(|(name, entry)| happened(entry) && is_lost(name));
        lost.map(|(name, _)| name.as_str()).collect()
    }
}
