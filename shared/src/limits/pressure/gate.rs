//! The gate: permits to call a partner.

use std::time::Duration;

use super::breaker::Breaker;
use super::config::Pressure;
use super::container_breakers::ContainerBreakers;
use super::container_slots::ContainerSlots;
use crate::base::errors::Unavailable;
use crate::base::machine::Chance;
use crate::base::time::Timestamp;
use crate::limits::pressure::{Breakers, Slots};
use crate::limits::rates::{Decision, Limiter, Limits, Rate};

/// A deferral: the call must wait. It is not an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// The delay before the call is worth another try.
    pub after: Duration,
    /// Why the call is deferred.
    pub why: DeferralReason,
}

/// Why a call is deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferralReason {
    /// An operator paused the flow or the integration. The gate does not know of it: the processor checks the switch.
    Paused,
    /// The partner's breaker is open.
    BreakerOpen,
    /// The rate is spent.
    RateSpent,
    /// All slots are taken.
    ConcurrencyFull,
    /// The limits did not answer.
    LimitsUnavailable,
    /// The contact's quiet hours have not ended.
    QuietHours,
    /// The contacts did not answer.
    ContactsUnavailable,
    /// The partner does not take our credentials.
    CredentialsRejected,
    /// This version does not have the event's flow. A newer one may be on its way.
    UnknownFlow,
}

impl DeferralReason {
    /// The reason in words, for an event's history.
    pub fn as_str(self) -> &'static str {
        match self {
            DeferralReason::Paused => "paused",
            DeferralReason::BreakerOpen => "breaker open",
            DeferralReason::RateSpent => "rate spent",
            DeferralReason::ConcurrencyFull => "concurrency full",
            DeferralReason::LimitsUnavailable => "limits unavailable",
            DeferralReason::QuietHours => "quiet hours",
            DeferralReason::ContactsUnavailable => "contacts unavailable",
            DeferralReason::CredentialsRejected => "credentials rejected",
            DeferralReason::UnknownFlow => "unknown flow",
        }
    }
}

/// The meaning of a call for the partner's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The partner works: it did the call, or rejected it for a good reason.
    Success,
    /// The partner fails: no answer, a 5xx, a 429.
    Failure,
    /// The partner does not take our credentials: no other call will do better, so the breaker opens at once.
    CredentialsRejected,
    /// The call was not made after all, and says nothing.
    Neutral,
}

/// The change of a breaker that a call caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    /// The breaker opened.
    Opened,
    /// The breaker closed again.
    Closed,
}

/// A permit for one call, now. It is given back to [`Gate::leave`]; if it is lost with
/// its container, its slot and its probe lapse.
#[derive(Debug)]
#[must_use = "a slot or a probe is held until it is brought back"]
pub struct Permit {
    integration: String,
    slot: Option<String>,
    breaker: Option<Breaker>,
    probe: Option<u64>,
}

/// The gate: it lets as many calls to partners through as their limits allow, over all containers together.
pub struct Gate {
    limiter: Limiter,
    slots: ContainerSlots,
    breakers: ContainerBreakers,
    chance: Box<dyn Chance>,
}

/// The time for the work around a call: records, secrets, clocks that differ. A call that takes longer than this
/// and its timeout counts as over.
const AROUND_THE_CALL: Duration = Duration::from_secs(10);

impl Gate {
    /// A gate over these tables, with nothing known yet.
    pub fn new(
        limits: Box<dyn Limits>,
        slots: Box<dyn Slots>,
        breakers: Box<dyn Breakers>,
        chance: Box<dyn Chance>,
    ) -> Self {
        let (limiter, slots, breakers) =
            (Limiter::new(limits), ContainerSlots::new(slots), ContainerBreakers::new(breakers));
        Self { limiter, slots, breakers, chance }
    }

    /// Gives a permit for one call of at most `timeout`, or says how long to wait.
    ///
    /// The checks that cost nothing come first, and the scarcest permit last: a token of the rate is not worth
    /// giving back, a slot takes one write to give back, and a lost probe holds up the others.
    pub async fn enter(
        &self,
        integration: &str,
        pressure: &Pressure,
        timeout: Duration,
        now: Timestamp,
    ) -> Result<Permit, Deferral> {
        let hold = timeout + AROUND_THE_CALL;
        let breaker = pressure.breaker;
        let mut permit = Permit { integration: integration.to_owned(), slot: None, breaker, probe: None };
        let half_open = match &breaker {
            Some(breaker) => self.breakers.look(integration, breaker, hold, now).await?,
            None => false,
        };
        if pressure.concurrency.is_some() {
            self.slots.look(integration, now)?;
        }
        if let Some(rate) = &pressure.rate {
            self.draw(integration, rate, now).await?;
        }
        if let Some(limit) = pressure.concurrency {
            let holder = format!("{:016x}", self.chance.bits());
            permit.slot = Some(self.slots.take(integration, holder, limit, now + hold, now).await?);
        }
        if let (Some(breaker), true) = (&breaker, half_open) {
            match self.breakers.probe(integration, breaker, hold, &*self.chance, now).await {
                Ok(probe) => permit.probe = probe,
                Err(deferral) => {
                    self.give(&permit).await;
                    return Err(deferral);
                }
            }
        }
        Ok(permit)
    }

    /// Takes a permit back, and returns whether that has opened or closed the breaker.
    ///
    /// It never fails: a slot that could not be given back lapses, and so does a probe.
    pub async fn leave(&self, permit: Permit, ended: CallEnd, now: Timestamp) -> Option<BreakerChange> {
        self.give(&permit).await;
        let breaker = permit.breaker?;
        match permit.probe {
            Some(round) => self.breakers.probed(&permit.integration, round, ended, &breaker, &*self.chance, now).await,
            None => self.breakers.count(&permit.integration, ended, &breaker, &*self.chance, now).await,
        }
    }

    async fn draw(&self, integration: &str, rate: &Rate, now: Timestamp) -> Result<(), Deferral> {
        match self.limiter.admit(&format!("integration/{integration}"), rate, now).await {
            Ok(Decision::Admitted { .. }) => Ok(()),
            Ok(Decision::Throttled { retry_after, .. }) => {
                Err(Deferral { after: retry_after, why: DeferralReason::RateSpent })
            }
            Err(_) => Err(Deferral { after: Unavailable::BACK_OFF, why: DeferralReason::LimitsUnavailable }),
        }
    }

    async fn give(&self, permit: &Permit) {
        if let Some(holder) = &permit.slot {
            self.slots.give(&permit.integration, holder).await;
        }
    }
}
