//! What goes wrong, and when: drawn from the seed, or once at a given call.

use std::fmt;
use std::time::Duration;

use shared::base::machine::Chance;
use shared::model::ModelChance;

use crate::timeline::Who;

/// What goes wrong with one call of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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
    pub const ALL: [Fault; 6] =
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

/// Which calls of ports go wrong.
#[derive(Clone, Debug)]
pub enum FaultPlan {
    /// Any, by chance, as often as the run's [`FaultProfile`] says, until all is healed.
    Random,
    /// One, once.
    Once {
        /// Which call, counted from 0.
        call: usize,
        /// What goes wrong with the call.
        fault: Fault,
    },
    /// These, each once.
    At(Vec<PlannedFault>),
}

/// What goes wrong with one call, which is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// The function that calls: `intake`, `processor` or `replay`.
    pub function: String,
    /// The call, as the timeline names it.
    pub call: String,
    /// Which of these calls, counted from 1.
    pub nth: usize,
    /// What goes wrong with the call.
    pub fault: Fault,
}

/// How often what goes wrong. A seed has its own: some have no crashes, others many.
#[derive(Clone, Debug)]
pub struct FaultProfile {
    /// Each fault's probability at one call, in the order of [`Fault::ALL`].
    pub rates: [f64; 6],
    /// How often a container stands still before a call.
    pub stall: f64,
    /// How often a partner misbehaves.
    pub partner: f64,
    /// How often the platform fails to end an invocation in time.
    pub zombie: f64,
    /// How far the clock of a container is from the true time, at most.
    pub skew: Duration,
    /// How often the queue delivers twice.
    pub redelivery: f64,
    /// How long after the start of the run nothing goes wrong any more.
    pub heals_after: Duration,
}

/// The clocks of two containers differ by twice this at most. The product's margins assume no more: a
/// message that waits for a lease comes a second after its end (`AFTER_THE_LEASE`), and an invocation
/// keeps half a second (`MARGIN`) before its deadline.
const MAX_SKEW: Duration = Duration::from_millis(500);

/// The faults of a seed are over some time between these.
const FIRST_HEALING: Duration = Duration::from_secs(300);
pub(crate) const LAST_HEALING: Duration = Duration::from_secs(1800);

impl FaultProfile {
    /// The profile of a seed.
    pub(crate) fn drawn(chance: &ModelChance) -> Self {
        let often = |most: f64| if chance.unit() < 0.5 { chance.unit() * most } else { 0.0 };
        let rates = [often(0.06), often(0.06), often(0.05), often(0.05), often(0.05), often(0.1)];
        let (stall, partner, zombie) = (often(0.03), often(0.6), often(1.0));
        let skew = MAX_SKEW.mul_f64(often(1.0));
        let redelivery = often(0.3);
        let spread = LAST_HEALING.saturating_sub(FIRST_HEALING).as_secs();
        let heals_after = FIRST_HEALING + Duration::from_secs(chance.bits() % spread);
        FaultProfile { rates, stall, partner, zombie, skew, redelivery, heals_after }
    }

    /// The same, with workers that outlive their leases.
    pub fn with_zombies(self) -> Self {
        FaultProfile { stall: 0.15, zombie: 1.0, ..self }
    }

    /// Nothing goes wrong by itself.
    pub fn calm() -> Self {
        let (rates, skew) = ([0.0; 6], Duration::ZERO);
        FaultProfile {
            rates,
            stall: 0.0,
            partner: 0.0,
            zombie: 0.0,
            skew,
            redelivery: 0.0,
            heals_after: Duration::ZERO,
        }
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

/// The faults of one run.
pub(crate) struct RunFaults {
    plan: FaultPlan,
    profile: FaultProfile,
    calls: usize,
    /// How often each call was made that a planned fault names.
    named: Vec<usize>,
}

impl RunFaults {
    pub(crate) fn new(plan: FaultPlan, profile: FaultProfile) -> Self {
        let named = if let FaultPlan::At(planned) = &plan { vec![0; planned.len()] } else { Vec::new() };
        RunFaults { plan, profile, calls: 0, named }
    }

    /// What goes wrong with the next call, this long after the start of the run.
    pub(crate) fn draw(
        &mut self,
        elapsed: Duration,
        chance: &ModelChance,
        who: Who,
        call: &'static str,
    ) -> Option<Fault> {
        self.calls += 1;
        match &self.plan {
            FaultPlan::Random => (elapsed < self.profile.heals_after).then(|| self.profile.draw(chance)).flatten(),
            FaultPlan::Once { call, fault } => (self.calls - 1 == *call).then_some(*fault),
            FaultPlan::At(planned) => {
                let mut found = None;
                for (planned, made) in planned.iter().zip(&mut self.named) {
                    if planned.call == call && who.function() == planned.function {
                        *made += 1;
                        found = found.or((*made == planned.nth).then_some(planned.fault));
                    }
                }
                found
            }
        }
    }

    /// The planned faults that nothing went wrong by, each with how often its call was made.
    pub(crate) fn left(&self) -> Vec<(usize, usize)> {
        let FaultPlan::At(planned) = &self.plan else { return Vec::new() };
        let all = planned.iter().zip(&self.named).enumerate();
        all.filter(|(_, (planned, made))| **made < planned.nth).map(|(place, (_, made))| (place, *made)).collect()
    }

    /// How many calls were made so far.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Whether the faults are over.
    pub(crate) fn healed(&self, elapsed: Duration) -> bool {
        match &self.plan {
            FaultPlan::Random => elapsed >= self.profile.heals_after,
            FaultPlan::Once { call, .. } => self.calls > *call,
            FaultPlan::At(planned) => planned.iter().zip(&self.named).all(|(planned, made)| *made >= planned.nth),
        }
    }
}
