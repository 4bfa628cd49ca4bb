//! Rates as flow files write them, and the numbers that follow from them.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// A rate: so many events in a time, and so many at once.
///
/// In YAML `50/s`, or `{limit: 600/min, burst: 50}`. Without a burst the whole count may come at
/// once, because that is what the header `q=600;w=60` tells a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Form")]
pub struct Rate {
    count: u32,
    per: Duration,
    burst: u32,
}

/// The reason why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRate(String);

/// The highest rate. More than this on one DynamoDB item would be load, and not a limit.
const MAX_PER_SECOND: u128 = 10_000;

/// The longest time in which an empty bucket may fill.
const MAX_REFILL: Duration = Duration::from_secs(24 * 3600);

/// The shortest and the longest life of a lease: short against the window, and long enough that a busy container
/// spends several tokens.
const LEASE_LIFE: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(5);

/// The most tokens of one lease, unless a tenth of a second brings more.
const LARGE_LEASE: u32 = 16;

impl Rate {
    /// A rate of `count` in each `per`, and up to `burst` at once.
    pub fn new(count: u32, per: Duration, burst: u32) -> Result<Rate, BadRate> {
        let rate = Rate { count, per, burst };
        if count == 0 || burst == 0 || per < Duration::from_secs(1) {
            return Err(BadRate("a rate must be at least one in at least a second, and its burst at least one".into()));
        }
        if u128::from(count) > MAX_PER_SECOND * u128::from(per.as_secs()) {
            return Err(BadRate(format!("`{rate}` is more than {MAX_PER_SECOND}/s")));
        }
        if rate.refill() > MAX_REFILL {
            return Err(BadRate(format!("`{rate}` takes more than 24h to allow its burst again")));
        }
        Ok(rate)
    }

    /// A rate of so many a minute, one at a time.
    pub fn per_minute(count: u32) -> Rate {
        Rate { count: count.max(1), per: Duration::from_secs(60), burst: 1 }
    }

    /// The number of events in each [`Rate::per`].
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The window of [`Rate::count`].
    pub fn per(&self) -> Duration {
        self.per
    }

    /// The number of events at once, out of a full bucket.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// The time between two tokens, in microseconds. Rounded up, so that the rate is never exceeded;
    /// at the highest rate that takes one percent off.
    pub(super) fn interval(&self) -> i64 {
        let interval = self.per.as_micros().div_ceil(u128::from(self.count));
        i64::try_from(interval).unwrap_or(i64::MAX)
    }

    /// The time until an empty bucket is full again.
    pub fn refill(&self) -> Duration {
        Duration::from_micros(self.interval().unsigned_abs().saturating_mul(u64::from(self.burst)))
    }

    /// The life of a lease: its tokens may be spent for so long.
    pub fn lease_life(&self) -> Duration {
        (self.per / 10).clamp(*LEASE_LIFE.start(), *LEASE_LIFE.end())
    }

    /// The most tokens that one container leases at once: at most half a bucket, and no more than it
    /// could get again in half of the lease's life.
    pub(super) fn max_lease(&self) -> u32 {
        let large = LARGE_LEASE.max(self.tokens_in(Duration::from_millis(100)));
        large.min(self.burst / 2).min(self.tokens_in(self.lease_life() / 2)).max(1)
    }

    fn tokens_in(&self, time: Duration) -> u32 {
        u32::try_from(time.as_micros() / u128::from(self.interval().unsigned_abs())).unwrap_or(u32::MAX)
    }

    /// The name of this key's bucket. A changed rate is another bucket, which starts full: an operator who raises a
    /// limit does not wait until the debt under the old one is paid.
    pub fn bucket(&self, key: &str) -> String {
        format!("{key}@{self}")
    }
}

/// The rate as text: `600/60s+50` is the count, the window, the burst.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}s+{}", self.count, self.per.as_secs(), self.burst)
    }
}

/// The forms of a rate: `50/s`, or `{limit: 600/min, burst: 50}`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "not a rate; write `50/s`, or `{limit: 600/min, burst: 50}`")]
enum Form {
    Plain(String),
    Burst(BurstForm),
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct BurstForm {
    limit: String,
    burst: u32,
}

impl TryFrom<Form> for Rate {
    type Error = BadRate;

    fn try_from(form: Form) -> Result<Rate, BadRate> {
        let (limit, burst) = match form {
            Form::Plain(limit) => (limit, None),
            Form::Burst(BurstForm { limit, burst }) => (limit, Some(burst)),
        };
        let bad = || BadRate(format!("`{limit}` is not a rate; write `50/s`, `600/min` or `1000/h`"));
        let (count, per) = read(&limit).ok_or_else(bad)?;
        Rate::new(count, per, burst.unwrap_or(count))
    }
}

fn read(limit: &str) -> Option<(u32, Duration)> {
    let (count, unit) = limit.split_once('/')?;
    let secs = match unit.trim() {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        _ => return None,
    };
    Some((count.trim().parse().ok()?, Duration::from_secs(secs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Result<Rate, String> {
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
    }

    fn rate(count: u32, secs: u64, burst: u32) -> Rate {
        Rate::new(count, Duration::from_secs(secs), burst).expect("a good rate")
    }

    #[test]
    fn reads_the_rates_of_flow_files() {
        assert_eq!(yaml("50/s"), Ok(rate(50, 1, 50)));
        assert_eq!(yaml("1000 / h"), Ok(rate(1000, 3600, 1000)));
        assert_eq!(yaml("{limit: 600/min, burst: 50}"), Ok(rate(600, 60, 50)));
    }

    #[test]
    fn refuses_what_is_no_rate_and_says_why() {
        let texts = ["soon", "50", "/s", "-1/s", "5/day", "1.5/s", "4294967296/s", "''", "[5/s]"];
        let forms = ["{limit: 5/s}", "{limit: 5/s, burst: 5, spare: 1}", "{limit: 5/s, burst: -1}", "{limit: 5}"];
        for text in texts.into_iter().chain(forms) {
            let error = yaml(text).expect_err(text);
            assert!(error.contains("not a rate"), "{text}: {error}");
        }
        for text in ["0/s", "{limit: 5/s, burst: 0}"] {
            assert!(yaml(text).expect_err(text).contains("at least one"), "{text}");
        }
        assert!(yaml("10001/s").expect_err("too fast").contains("more than 10000/s"));
        assert!(yaml("{limit: 1/h, burst: 25}").expect_err("too long").contains("more than 24h"));
    }

    #[test]
    fn an_interval_is_never_too_short() {
        assert_eq!(rate(7, 1, 7).interval(), 142_858);
        assert_eq!(rate(600, 60, 50).interval(), 100_000);
        assert_eq!(rate(10_000, 1, 1).interval(), 100);
    }

    #[test]
    fn a_lease_is_small_against_the_burst_and_short_against_the_window() {
        let leases = |rate: Rate| (rate.max_lease(), rate.lease_life().as_secs());
        assert_eq!(leases(rate(1, 60, 1)), (1, 5));
        assert_eq!(leases(rate(60, 60, 60)), (2, 5));
        assert_eq!(leases(rate(50, 1, 50)), (16, 2));
        assert_eq!(leases(rate(50, 1, 9)), (4, 2));
        assert_eq!(leases(rate(1000, 1, 1000)), (100, 2));
        assert_eq!(leases(rate(600, 60, 50)), (16, 5));
    }

    #[test]
    fn a_changed_rate_is_another_bucket() {
        assert_eq!(rate(600, 60, 50).bucket("sender/web-forms"), "sender/web-forms@600/60s+50");
    }
}
