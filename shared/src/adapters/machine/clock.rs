//! The machine's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::base::machine::{Clock, Sleep};
use crate::base::time::Timestamp;

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(0) + since
    }
}

#[async_trait]
impl Sleep for SystemClock {
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
