//! Attempts that are taken back, because they only showed that a partner does not answer.

use std::time::Duration;

use super::Lease;
use crate::base::time::Timestamp;
use crate::flows::Effect;

/// The most failed calls of an effect that are no attempts because its partner is down, although the partner has answered
/// others between them. The event may be itself what the partner cannot take, and the reason why it seems to be down.
const MAX_SPARED: u32 = 30;

/// How long an event waits at least, after so many calls that only showed that its partner does not answer, before it
/// is called again to see whether the partner is back. One that fails again and again is called more and more seldom: it
/// may be itself what the partner cannot take.
pub fn pause_after(spared: u32) -> Duration {
    (Duration::from_secs(10) * spared).min(Duration::from_secs(15 * 60))
}

impl Lease {
    /// The moment at which the effect was tried before the call that was intended under this lease, if it was.
    pub fn tried_before(&self, effect: &Effect) -> Option<Timestamp> {
        self.tried.get(self.row.name_of(effect)).copied()
    }

    /// The number of attempts of an effect that were taken back.
    pub fn spared(&self, effect: &Effect) -> u32 {
        self.row.entry(effect).map_or(0, |entry| entry.spared)
    }

    /// Whether another attempt may be taken back although the partner has answered others.
    pub fn may_spare(&self, effect: &Effect) -> bool {
        self.spared(effect) < MAX_SPARED
    }

    /// Takes back the attempt that was just recorded as failed. A doubt about the call stays.
    pub fn spare_attempt(&mut self, effect: &Effect) {
        self.spare(effect, 1);
    }

    /// Takes back all attempts: the partner is down, and has answered nobody since.
    pub fn spare_all_attempts(&mut self, effect: &Effect) {
        self.spare(effect, self.attempts(effect));
    }

    fn spare(&mut self, effect: &Effect, attempts: u32) {
        self.row.step += 1;
        self.row.effects.entry(self.row.name_of(effect).to_owned()).and_modify(|entry| {
            entry.attempts = entry.attempts.saturating_sub(attempts);
            entry.spared = entry.spared.saturating_add(attempts);
        });
    }
}
