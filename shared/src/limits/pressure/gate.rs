//! The gate: permits to call a partner.

use std::sync::Arc;
use std::time::Duration;

use super::breaker::Breaker;
use super::config::Pressure;
use super::container_breakers::ContainerBreakers;
use super::container_slots::ContainerSlots;
use super::slow_partners::SlowPartners;
use crate::base::errors::Unavailable;
use crate::base::id::EventId;
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
    /// The partner is slow, and holds as many batches as it may.
    PartnerSlow,
    /// The limits did not answer.
    LimitsUnavailable,
    /// The contact's quiet hours have not ended.
    QuietHours,
    /// The contacts did not answer.
    ContactsUnavailable,
    /// The partner does not take our credentials.
    CredentialsRejected,
    /// The partner's secret is missing, or cannot be used.
    NoSecret,
    /// The store of secrets did not answer.
    SecretsUnavailable,
    /// There is no token for the partner: another container fetches it, or the token end-point fails.
    NoToken,
    /// Another event of the same entity waits, and goes first.
    BehindAnother,
    /// The policy, or the partner, says to try again after a long time.
    LongRetry,
    /// This version does not have the event's flow. A newer one may be on its way.
    UnknownFlow,
}

impl DeferralReason {
    /// Every reason.
    pub const ALL: [DeferralReason; 15] = [
        DeferralReason::Paused,
        DeferralReason::BreakerOpen,
        DeferralReason::RateSpent,
        DeferralReason::ConcurrencyFull,
        DeferralReason::PartnerSlow,
        DeferralReason::LimitsUnavailable,
        DeferralReason::QuietHours,
        DeferralReason::ContactsUnavailable,
        DeferralReason::CredentialsRejected,
        DeferralReason::NoSecret,
        DeferralReason::SecretsUnavailable,
        DeferralReason::NoToken,
        DeferralReason::BehindAnother,
        DeferralReason::LongRetry,
        DeferralReason::UnknownFlow,
    ];

    /// The reason in words, for an event's history.
    pub fn as_str(self) -> &'static str {
        match self {
            DeferralReason::Paused => "paused",
            DeferralReason::BreakerOpen => "breaker open",
            DeferralReason::RateSpent => "rate spent",
            DeferralReason::ConcurrencyFull => "concurrency full",
            DeferralReason::PartnerSlow => "partner slow",
            DeferralReason::LimitsUnavailable => "limits unavailable",
            DeferralReason::QuietHours => "quiet hours",
            DeferralReason::ContactsUnavailable => "contacts unavailable",
            DeferralReason::CredentialsRejected => "credentials rejected",
            DeferralReason::NoSecret => "no secret",
            DeferralReason::SecretsUnavailable => "secrets unavailable",
            DeferralReason::NoToken => "no token",
            DeferralReason::BehindAnother => "behind another event",
            DeferralReason::LongRetry => "retry",
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
    /// The partner fails, and nobody can be asked whether it did the call: the event is lost to a human.
    LostEvent,
    /// The partner does not take our credentials, or we have none: no other call will do better, so the breaker opens at
    /// once.
    CredentialsRejected,
    /// The partner's token end-point fails again and again: no other call will do better, so the breaker opens at once.
    NoToken,
    /// The call was not made after all, and says nothing.
    Neutral,
}

/// How a partner stands after a failed call, as far as a container knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The partner is known to be down: its breaker is not closed.
    Down {
        /// Whether the partner has answered another call since the effect was tried before.
        answered: bool,
    },
    /// No answer is known since the effect was tried before: the partner may be down. Another failure after this long
    /// may show it.
    Silent(Duration),
    /// The partner has answered another call since the effect was tried before.
    Answering,
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
    /// Whether the call is one of a slow partner's round.
    in_round: bool,
    breaker: Option<Breaker>,
    probe: Option<u64>,
    /// The event that the call was made for.
    event: Option<EventId>,
}

impl Permit {
    /// A permit that holds nothing.
    fn plain(integration: &str, breaker: Option<Breaker>) -> Permit {
        Permit { integration: integration.to_owned(), slot: None, in_round: false, breaker, probe: None, event: None }
    }

    /// The permit, for a call that was made for this event.
    pub fn used_for(self, event: &EventId) -> Permit {
        Permit { event: Some(event.clone()), ..self }
    }
}

/// The gate: it lets as many calls to partners through as their limits allow, over all containers together.
pub struct Gate {
    limiter: Limiter,
    slots: ContainerSlots,
    slow: SlowPartners,
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
        let slots: Arc<dyn Slots> = Arc::from(slots);
        let (slow, slots) = (SlowPartners::new(Arc::clone(&slots)), ContainerSlots::new(slots));
        let (limiter, breakers) = (Limiter::new(limits), ContainerBreakers::new(breakers));
        Self { limiter, slots, slow, breakers, chance }
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
        let mut permit = Permit::plain(integration, breaker);
        let half_open = match &breaker {
            Some(breaker) => self.breakers.look(integration, breaker, hold, now).await?,
            None => false,
        };
        if pressure.concurrency.is_some() {
            self.slots.look(integration, now)?;
        }
        if self.is_slow(integration, now) {
            self.slow.enter(integration, hold, &*self.chance, now).await?;
            permit.in_round = true;
        }
        if let Err(deferral) = self.draw_and_take(&mut permit, pressure, hold, now).await {
            self.give(&permit, now).await;
            return Err(deferral);
        }
        if let (Some(breaker), true) = (&breaker, half_open) {
            match self.breakers.probe(integration, breaker, hold, &*self.chance, now).await {
                Ok(probe) => permit.probe = probe,
                Err(deferral) => {
                    self.give(&permit, now).await;
                    return Err(deferral);
                }
            }
        }
        Ok(permit)
    }

    /// A permit that needs no question and holds nothing, if there is one: the partner has no other limit than the
    /// standard breaker, and this container has seen no failure of it and does not know it as slow. It may as well be
    /// dropped.
    pub fn enter_freely(&self, integration: &str, pressure: &Pressure, now: Timestamp) -> Option<Permit> {
        let free = pressure.breaker.is_none_or(|breaker| self.breakers.is_free(integration, &breaker, now));
        let held_back = pressure.is_limited() || self.is_slow(integration, now);
        (free && !held_back).then(|| Permit::plain(integration, pressure.breaker))
    }

    /// How a partner stands after a failed call of an effect that was tried before at `tried`, if it was. It asks no
    /// table: the call has just been reported, where it had to be.
    pub async fn standing(&self, integration: &str, tried: Option<Timestamp>, now: Timestamp) -> Standing {
        self.breakers.standing(integration, tried, now).await
    }

    /// Takes a permit back, and returns whether that has opened or closed the breaker.
    ///
    /// It never fails: a slot that could not be given back lapses, and so does a probe.
    pub async fn leave(&self, permit: Permit, ended: CallEnd, now: Timestamp) -> Option<BreakerChange> {
        self.give(&permit, now).await;
        let Permit { integration, breaker, probe, event, .. } = permit;
        let breaker = breaker?;
        match probe {
            Some(round) => self.breakers.probed(&integration, round, ended, &breaker, &*self.chance, now).await,
            None => self.breakers.count(&integration, ended, event, &breaker, &*self.chance, now).await,
        }
    }

    /// Learns of a call that takes long, while it does: it is under way for [`SLOW`](super::SLOW).
    ///
    /// All containers learn it with their next read of the breaker, if the partner has one.
    pub async fn learn_slow(&self, integration: &str, pressure: &Pressure, now: Timestamp) {
        let until = self.slow.learn(integration, now);
        if pressure.breaker.is_some() {
            self.breakers.mark_slow(integration, until, &*self.chance, now).await;
        }
    }

    /// Lets a call that has become slow go on, as part of the partner's share of the batches, or says that others have it
    /// all. `false` says that the table did not answer: then it goes on without a share.
    pub async fn stay(&self, integration: &str, timeout: Duration, now: Timestamp) -> Result<bool, Deferral> {
        match self.slow.enter(integration, timeout + AROUND_THE_CALL, &*self.chance, now).await {
            Ok(()) => Ok(true),
            Err(deferral) if deferral.why == DeferralReason::PartnerSlow => Err(deferral),
            Err(_) => Ok(false),
        }
    }

    /// Ends the part of a call that stayed.
    pub async fn go(&self, integration: &str, now: Timestamp) {
        self.slow.leave(integration, now).await;
    }

    /// The deferral of a call that exceeds a slow partner's share of the batches.
    pub const fn exceeds_share() -> Deferral {
        super::slow_partners::EXCEEDS
    }

    /// Whether a partner was slow lately. Its calls may be deferred, whatever its limits.
    pub fn is_slow(&self, integration: &str, now: Timestamp) -> bool {
        self.slow.knows(integration, now) || self.breakers.is_slow(integration, now)
    }

    /// Draws from the rate, and takes a slot.
    async fn draw_and_take(
        &self,
        permit: &mut Permit,
        pressure: &Pressure,
        hold: Duration,
        now: Timestamp,
    ) -> Result<(), Deferral> {
        if let Some(rate) = &pressure.rate {
            self.draw(&permit.integration, rate, now).await?;
        }
        if let Some(limit) = pressure.concurrency {
            let holder = format!("{:016x}", self.chance.bits());
            permit.slot = Some(self.slots.take(&permit.integration, holder, limit, now + hold, now).await?);
        }
        Ok(())
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

    async fn give(&self, permit: &Permit, now: Timestamp) {
        if permit.in_round {
            self.slow.leave(&permit.integration, now).await;
        }
        if let Some(holder) = &permit.slot {
            self.slots.give(&permit.integration, holder).await;
        }
    }
}
