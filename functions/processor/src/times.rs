//! The times that the deployment sets, and whether they fit one another.

use std::time::Duration;

use shared::operate::metric::{Fact, WorkUnit};
use tracing::error;

use crate::work::Processor;

/// The times of the processor and of its queue.
#[derive(Clone, Copy, Debug)]
struct Times {
    timeout: Duration,
    lease: Duration,
    visibility: Duration,
}

impl Times {
    /// What is wrong with the times, in one sentence. A deploy keeps the parameters that it does not name, so one that
    /// was changed may not fit another that was not.
    fn mistake(self) -> Option<String> {
        let Times { timeout, lease, visibility } = self;
        let [timeout, lease, visibility] = [timeout, lease, visibility].map(|time| time.as_secs());
        (timeout >= lease || lease > visibility || visibility < 6 * timeout).then(|| {
            format!(
                "ProcessorTimeout ({timeout} s) must be shorter than LeaseSeconds ({lease} s), and VisibilityTimeout \
                 ({visibility} s) at least as long as LeaseSeconds and 6 times ProcessorTimeout: deploy with parameters \
                 that fit"
            )
        })
    }
}

/// Tells, at the start, of times that do not fit. The processor goes on: the ledger fences off a worker that outlived
/// its lease, but its event may be parked for a doubt that was not needed.
pub fn tell_wrong_times(processor: &Processor, visibility: Duration) {
    let Processor { timeout, lease, .. } = *processor;
    if let Some(mistake) = (Times { timeout, lease, visibility }).mistake() {
        error!(%mistake, "the deployed times do not fit one another");
        WorkUnit::new(&*processor.metrics).count(&Fact::Misconfigured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_ends_before_its_lease_and_the_lease_before_the_redelivery() {
        let times = |timeout, lease, visibility| {
            let [timeout, lease, visibility] = [timeout, lease, visibility].map(Duration::from_secs);
            Times { timeout, lease, visibility }.mistake()
        };
        assert_eq!(times(30, 60, 180), None);
        assert_eq!(times(30, 31, 180), None);
        for (timeout, lease, visibility) in [(30, 30, 180), (30, 181, 180), (31, 60, 180)] {
            let mistake = times(timeout, lease, visibility);
            let named = format!("({timeout} s) must be shorter than LeaseSeconds ({lease} s)");
            assert!(mistake.is_some_and(|mistake| mistake.contains(&named)), "{timeout} {lease} {visibility}");
        }
    }
}
