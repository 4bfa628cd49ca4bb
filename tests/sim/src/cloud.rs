//! What the cloud does by itself: versions come and go, queues deliver twice, the table deletes what has expired.

use std::time::Duration;

use crate::ports::short;
use crate::scheduler::Actor;
use crate::timeline::Who;
use crate::world::SimWorld;

/// How often a deploy is rolled back, while others go wrong, too.
const ROLLED_BACK: f64 = 0.5;

impl SimWorld {
    /// The next version is deployed, or rolled back: containers that start from here on have it. In the end the newest
    /// one is there, or the one before it: that may go on with what the newest wrote, unless it is of a newer format.
    pub(crate) fn deploy(&mut self) {
        let newest = self.setup.versions.len() - 1;
        let back = self.deployed > 0 && !self.scheduler.healed() && self.scheduler.happens(ROLLED_BACK);
        let for_good = self.setup.ends_back && self.scheduler.healed();
        self.deployed = match (for_good, back) {
            (true, _) => newest - 1,
            (_, true) => self.deployed - 1,
            _ => (self.deployed + 1).min(newest),
        };
        self.scheduler.note(Who::Cloud, "deploy", "", &format!("version {}", self.deployed + 1), None);
        if for_good {
            return;
        }
        if self.deployed < newest || (!self.scheduler.healed() && self.scheduler.happens(0.5)) {
            let next = self.scheduler.between(Duration::from_secs(5), Duration::from_secs(300));
            self.later(next, Actor::Deploy);
        }
    }

    pub(crate) fn redeliver(&mut self) {
        if self.scheduler.healed() {
            return;
        }
        if self.scheduler.happens(self.setup.profile.redelivery) {
            self.models.events.deliver_again();
            self.models.letters.deliver_again();
            self.scheduler.note(Who::Cloud, "redelivery", "", "a group in flight of each queue", None);
        }
        let next = self.scheduler.between(Duration::from_millis(50), self.setup.pace.redeliveries);
        self.later(next, Actor::Redelivery);
    }

    /// The table deletes what has expired, and not all of it.
    pub(crate) fn delete_expired(&mut self, number: usize) {
        let (_, share) = self.setup.stores.deletions[number];
        let gone = self.models.ledger.delete_expired(self.scheduler.now(), || self.scheduler.happens(share));
        for row in &gone {
            self.scheduler.note(Who::Cloud, "delete expired", short(row.id.as_str()), row.state.as_str(), None);
        }
        self.oracle.deleted(&gone, &self.scheduler);
    }
}
