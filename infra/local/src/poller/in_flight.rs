//! The limit of messages in flight: SQS has one of 120,000 for a FIFO queue, and says nothing when it is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limit of one queue, which all loops over it share.
#[derive(Clone, Debug)]
pub(super) struct InFlightLimit {
    most: usize,
    /// The messages that loops are about to receive: the queue does not count them yet.
    taken: Arc<AtomicUsize>,
}

/// The room for some messages, for as long as a loop is receiving them.
#[derive(Debug)]
pub(super) struct Room {
    count: usize,
    taken: Arc<AtomicUsize>,
}

impl InFlightLimit {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes room for as many messages as are wanted, or as are left beside those that the queue has in flight.
    pub(super) fn take(&self, in_flight: u64, wanted: usize) -> Room {
        let free = self.most.saturating_sub(usize::try_from(in_flight).unwrap_or(usize::MAX));
        let mut count = 0;
        // The closure always answers, so that this never fails.
        let _ = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |taken| {
            count = free.saturating_sub(taken).min(wanted);
            Some(taken + count)
        });
        Room { count, taken: Arc::clone(&self.taken) }
    }
}

impl Room {
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_received_than_the_limit_leaves_room_for() {
        let limit = InFlightLimit::new(25);
        let (one, two) = (limit.take(0, 10), limit.take(0, 10));
        assert_eq!((one.count(), two.count(), limit.take(0, 10).count()), (10, 10, 5));
        drop(one);
        assert_eq!(limit.take(10, 10).count(), 5, "ten are in flight now, and ten are about to be");
        assert_eq!(limit.take(25, 10).count(), 0);
        assert_eq!(limit.take(40, 10).count(), 0, "more than may be");
    }
}
