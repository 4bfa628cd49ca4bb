//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::ports::Clock;
use crate::time::Timestamp;

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(0) + since
    }
}
