//! The times that the deployment sets, and whether they fit one another.

use std::time::Duration;

use tracing::error;

/// The times of the processor and of its queue.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The longest time of an invocation.
    pub timeout: Duration,
    /// The length of a lease.
    pub lease: Duration,
    /// How long the queue withholds a message that a worker has received.
    pub visibility: Duration,
}

impl Times {
    /// What is wrong with the times, in one sentence. A deploy keeps the parameters that it does not name, so one that
    /// was changed may not fit another that was not.
    pub fn mistake(self) -> Option<String> {
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
pub fn tell_wrong_times(times: Times) {
    if let Some(mistake) = times.mistake() {
        error!(%mistake, "the deployed times do not fit one another");
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
