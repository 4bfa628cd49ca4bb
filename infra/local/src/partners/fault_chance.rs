//! Faults of a partner by chance.
//!
//! The chance is drawn for "the nth call of this method and path", not from one sequence: so the same
//! seed makes the same plan, however the calls of several workers interleave.

use std::time::Duration;

use serde_json::{Value, json};

use super::control::Mode;
use crate::seeded_random::SeededRandom;

/// Longer than the time-out of any integration in a chaos run.
const TOO_LONG: Duration = Duration::from_millis(2_500);
/// Shorter than the time-out of any.
const SLOWLY: Duration = Duration::from_millis(300);

/// The chance of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultChance {
    /// The seed that the faults are drawn from.
    pub seed: u64,
    /// How many of a hundred calls have a fault.
    pub percent: u8,
}

impl FaultChance {
    /// The mode for the nth call of this method and path.
    pub(super) fn mode(self, method: &str, path: &str, nth: usize) -> Mode {
        let random = SeededRandom::new(self.seed).of(method).of(path).nth(nth);
        if !random.of("whether").happens(self.percent) {
            return Mode::Ok;
        }
        let faults = faults();
        let which = random.of("which").below(faults.len() as u64) as usize;
        faults.into_iter().nth(which).unwrap_or(Mode::Ok)
    }
}

/// Every fault, each as likely as the others.
fn faults() -> Vec<Mode> {
    let status = Mode::status;
    let told = |status, apply, retry_after: Option<&str>, body| {
        let (retry_after, headers, time) = (retry_after.map(str::to_owned), Vec::new(), Duration::ZERO);
        Mode::Status { status, retry_after, apply, body, headers, time }
    };
    let later = |status| told(status, false, Some("1"), None);
    let says = |apply, body| told(200, apply, None, Some(body));
    vec![
        Mode::Hang { apply: false, time: TOO_LONG },
        Mode::Hang { apply: true, time: TOO_LONG },
        Mode::Reset { apply: false },
        Mode::Reset { apply: true },
        later(429),
        later(503),
        status(500, false),
        // The answer is lost on its way through the partner's own proxies, or says less than it seems to.
        status(502, true),
        status(503, true),
        status(408, true),
        status(409, true),
        status(303, true),
        status(422, false),
        // A success that says nothing, and one that is none.
        says(true, Value::Null),
        says(false, json!({"ok": false})),
        Mode::SlowBody { time: SLOWLY },
        Mode::SlowBody { time: TOO_LONG },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64) -> Vec<Mode> {
        let chance = FaultChance { seed, percent: 20 };
        (0..1_000).map(|n| chance.mode("POST", &format!("/mail/{n}"), 1)).collect()
    }

    #[test]
    fn a_seed_is_a_plan() {
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn every_fault_has_its_turn_and_most_calls_have_none() {
        let drawn = plan(7);
        let kinds: BTreeSet<String> = drawn.iter().map(|mode| format!("{mode:?}")).collect();
        assert_eq!(kinds.len(), faults().len() + 1, "{kinds:?}");
        let well = drawn.iter().filter(|mode| **mode == Mode::Ok).count();
        assert!((750..850).contains(&well), "{well}");
    }
}
