//! The limits on calls to an integration, as its file configures them.

use serde::Deserialize;

use super::breaker::Breaker;
use crate::base::wrong::Wrong;
use crate::limits::rates::Rate;

/// The limits on calls to an integration. What is not configured is not limited, and costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pressure {
    /// The highest rate of calls.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// The most calls at once.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// The circuit breaker.
    #[serde(default)]
    pub breaker: Option<Breaker>,
}

/// The largest `concurrency`: all slots are one item, and a write is charged by its size.
const MAX_CONCURRENCY: u32 = 100;

impl Pressure {
    /// Whether the file limits anything: a call needs a permit that takes a read or a write, as a rule. The standard
    /// breaker does not.
    pub fn is_limited(&self) -> bool {
        let breaker = self.breaker.is_some_and(|breaker| !breaker.is_standard());
        self.rate.is_some() || self.concurrency.is_some() || breaker
    }

    /// The mistakes in the configuration.
    pub fn check(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        if self.concurrency.is_some_and(|slots| !(1..=MAX_CONCURRENCY).contains(&slots)) {
            wrong.push(Wrong::at("/concurrency", format!("concurrency must be from 1 to {MAX_CONCURRENCY}")));
        }
        wrong.extend(self.breaker.iter().flat_map(Breaker::check).map(|wrong| wrong.under("/breaker")));
        wrong
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ALL: &str = "
rate: 50/s
concurrency: 10
breaker: {window: 30s, min_calls: 20, error_rate: 0.5, open_for: 15s, probes: 1}
";

    fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
    }

    #[test]
    fn reads_what_integrations_say() {
        let pressure: Pressure = yaml(ALL).expect("a good one");
        assert_eq!(pressure.rate, Rate::new(50, Duration::from_secs(1), 50).ok());
        assert_eq!(pressure.concurrency, Some(10));
        let breaker = pressure.breaker.expect("there is one");
        assert_eq!((breaker.window.as_secs(), breaker.min_calls, breaker.open_for.as_secs()), (30, 20, 15));
        assert_eq!(pressure.check(), []);
        assert_eq!(yaml("{}"), Ok(Pressure::default()));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in ["{speed: 3}", "{concurrency: many}", "{rate: 0/s}", "{breaker: {window: 30s}}"] {
            assert!(yaml::<Pressure>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn stands_among_an_integration_s_other_fields() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Integration {
            base_url: String,
            #[serde(flatten)]
            pressure: Pressure,
        }
        let read: Integration = yaml(&format!("base_url: here{ALL}")).expect("a good one");
        assert_eq!(read.base_url, "here");
        assert_eq!(yaml(ALL), Ok(read.pressure));
        assert!(yaml::<Integration>("{base_url: here, speed: 3}").is_err());
    }

    #[test]
    fn limits_without_bounds_are_refused() {
        let wrong = |concurrency| Pressure { concurrency: Some(concurrency), ..Pressure::default() }.check().len();
        assert_eq!([0, 1, 100, 101].map(wrong), [1, 0, 0, 1]);
        let good = yaml::<Pressure>(ALL).expect("a good one").breaker.expect("there is one");
        let wrong = |breaker: Breaker| Pressure { breaker: Some(breaker), ..Pressure::default() }.check().len();
        assert_eq!(wrong(good), 0);
        assert_eq!(wrong(Breaker { window: Duration::from_secs(4), ..good }), 1);
        assert_eq!(wrong(Breaker { min_calls: 0, ..good }), 1);
        for error_rate in [0.0, -0.5, 1.01, f64::NAN] {
            assert_eq!(wrong(Breaker { error_rate, ..good }), 1, "{error_rate}");
        }
        assert_eq!(wrong(Breaker { open_for: Duration::from_secs(3601), ..good }), 1);
        assert_eq!(wrong(Breaker { probes: 0, ..good }), 1);
    }
}
