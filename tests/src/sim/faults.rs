//! What goes wrong, and when: drawn from the seed, or once at a given call.

use std::fmt;
use std::time::Duration;

use shared::base::machine::Chance;
use shared::base::time::Timestamp;
use shared::model::ModelChance;

use crate::fixtures::NOW;

/// What goes wrong with one call of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The container goes down before the call.
    CrashBefore,
    /// The container goes down after it.
    CrashAfter,
    /// The call times out, and did not happen.
    TimeOutUndone,
    /// The call times out, and did happen.
    TimeOutDone,
    /// The call is refused at once, because there are too many.
    Throttle,
    /// The call happens, and once more later: the network was slow, and the client tried again.
    Echo,
    /// The container stands still before the call for this long.
    Stall(Duration),
}

impl Fault {
    /// The faults that can befall any call.
    pub(super) const ALL: [Fault; 6] =
        [Fault::CrashBefore, Fault::CrashAfter, Fault::TimeOutUndone, Fault::TimeOutDone, Fault::Throttle, Fault::Echo];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::CrashBefore => write!(f, "crash before"),
            Fault::CrashAfter => write!(f, "crash after"),
            Fault::TimeOutUndone => write!(f, "time-out, it did not happen"),
            Fault::TimeOutDone => write!(f, "time-out, it did happen"),
            Fault::Throttle => write!(f, "throttled"),
            Fault::Echo => write!(f, "happens again later"),
            Fault::Stall(time) => write!(f, "stalls for {} s", time.as_secs()),
        }
    }
}

/// When what goes wrong.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// By chance, until all is healed.
    Random(Profile, usize),
    /// Once: with this call, counted from 0.
    Once(usize, Fault, usize),
}

/// How often what goes wrong. A seed has its own: some have no crashes, others many.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Each kind's probability, in the order of [`Fault::ALL`].
    rates: [f64; 6],
    stall: f64,
    /// How often a partner misbehaves.
    pub(super) partner: f64,
    /// How often the platform fails to end an invocation in time.
    pub(super) zombie: f64,
    /// How far containers' clocks are from the true time.
    pub(super) skew: Duration,
    /// How often the queue delivers twice.
    pub(super) redelivery: f64,
    heals_at: Timestamp,
}

/// The clocks of two containers differ by twice this at most. The product's margins assume no more: a
/// message that waits for a lease comes a second after its end (`AFTER_THE_LEASE`), and an invocation
/// keeps half a second (`MARGIN`) before its deadline.
const MAX_SKEW: Duration = Duration::from_millis(500);

impl Profile {
    /// The profile of a seed.
    pub(super) fn drawn(chance: &ModelChance) -> Self {
        let often = |most: f64| if chance.unit() < 0.5 { chance.unit() * most } else { 0.0 };
        let rates = [often(0.06), often(0.06), often(0.05), often(0.05), often(0.05), often(0.1)];
        let (stall, partner, zombie) = (often(0.03), often(0.6), often(1.0));
        let skew = MAX_SKEW.mul_f64(often(1.0));
        let redelivery = often(0.3);
        let heals_at = NOW + Duration::from_secs(300 + chance.bits() % 1500);
        Profile { rates, stall, partner, zombie, skew, redelivery, heals_at }
    }

    /// The same, with workers that outlive their leases.
    pub(super) fn with_zombies(self) -> Self {
        Profile { stall: 0.15, zombie: 1.0, ..self }
    }

    /// Nothing goes wrong by itself.
    pub(super) fn calm() -> Self {
        let (rates, skew) = ([0.0; 6], Duration::ZERO);
        Profile { rates, stall: 0.0, partner: 0.0, zombie: 0.0, skew, redelivery: 0.0, heals_at: NOW }
    }

    fn draw(&self, chance: &ModelChance) -> Option<Fault> {
        let mut left = chance.unit();
        for (fault, rate) in Fault::ALL.into_iter().zip(self.rates) {
            if left < rate {
                return Some(fault);
            }
            left -= rate;
        }
        // From a hiccup to longer than the lease and the visibility.
        let longest = [2, 30, 300, 300][usize::try_from(chance.bits() % 4).unwrap_or_default()];
        (left < self.stall).then(|| Fault::Stall(Duration::from_secs(1 + chance.bits() % longest)))
    }
}

impl Plan {
    /// What goes wrong with the next call.
    pub(super) fn draw(&mut self, now: Timestamp, chance: &ModelChance) -> Option<Fault> {
        match self {
            Plan::Random(profile, calls) => {
                *calls += 1;
                (now < profile.heals_at).then(|| profile.draw(chance)).flatten()
            }
            Plan::Once(at, fault, calls) => {
                *calls += 1;
                (*calls > *at && *calls - 1 == *at).then_some(*fault)
            }
        }
    }

    pub(super) fn calls(&self) -> usize {
        let (Plan::Random(_, calls) | Plan::Once(_, _, calls)) = self;
        *calls
    }

    pub(super) fn healed(&self, now: Timestamp) -> bool {
        match self {
            Plan::Random(profile, _) => now >= profile.heals_at,
            Plan::Once(at, _, calls) => calls > at,
        }
    }
}
