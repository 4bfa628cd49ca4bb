//! From what is to be called to its intent in the ledger: conditions, permits, caps.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use shared::base::errors::WriteError;
use shared::effects::cap::{self, Count, CountError};
use shared::flows::template::TemplateError;
use shared::flows::{Cap, Effect, Flow};
use shared::ledger::{Lease, Reason};
use shared::limits::pressure::{Deferral, Ended, Permit};

use crate::process::Work;
use crate::run::Stop;

/// What lets effects be called, by their ids.
pub(crate) type Permits = BTreeMap<String, Permit>;

/// How often a count is tried while others count too.
const COUNT_TRIES: usize = 10;

impl Work<'_> {
    pub(crate) async fn intend<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
        permits: &mut Permits,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        match self.skip(flow, effects, lease) {
            Ok(true) => return Ok(None),
            Ok(false) => (),
            Err(stop) => return Ok(Some(stop)),
        }
        if let Some(spent) = self.spent(flow, effects, lease) {
            return Ok(Some(Stop::Bury(spent, Reason::AttemptsSpent, "no attempt is left".into())));
        }
        if !self.has_time(Some(flow)) {
            return Ok(Some(Stop::Retry(Duration::ZERO)));
        }
        // Before the intent: a call that is deferred was never intended.
        match self.enter_all(effects).await {
            Ok(entered) => permits.extend(entered),
            Err(deferral) => return Ok(Some(Stop::Defer(deferral))),
        }
        let recorded = self.record_intents(flow, effects, lease).await;
        if !matches!(recorded, Ok(None)) {
            self.give_back(effects, permits).await;
        }
        recorded
    }

    /// Writes the intents down, and counts them where the flow has caps: both or neither.
    async fn record_intents<'f>(
        &self,
        flow: &Flow,
        effects: &[&Effect],
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        let mut intending = lease.clone();
        effects.iter().for_each(|effect| intending.intend(effect, self.now()));
        if flow.caps().next().is_none() {
            self.processor.ledger.record(&intending).await?;
            *lease = intending;
            return Ok(None);
        }
        for _ in 0..COUNT_TRIES {
            let counts = match self.counts(flow, lease).await? {
                Ok(counts) => counts,
                Err(stop) => return Ok(Some(stop)),
            };
            match self.processor.caps.record(&intending, &counts).await {
                Ok(()) => {
                    *lease = intending;
                    return Ok(None);
                }
                Err(CountError::Moved) => continue,
                Err(CountError::Write(error)) => return Err(error),
            }
        }
        // A crowd before one entity. The event is as good in a moment.
        Ok(Some(Stop::Retry(Duration::from_secs(1))))
    }

    /// A place for this event under each of the flow's caps.
    async fn counts<'f>(&self, flow: &Flow, lease: &Lease) -> Result<Result<Vec<Count>, Stop<'f>>, WriteError> {
        let mut counts = Vec::new();
        for cap in flow.caps() {
            let entity = match self.entity(flow, cap, lease) {
                Ok(entity) => entity,
                Err(error) => return Ok(Err(Stop::Lost(Reason::Template, error.to_string()))),
            };
            let key = cap::key(&cap.channel, &entity);
            let now = self.now();
            match self.processor.caps.read(&key).await?.take(cap.limit, cap.per, &self.event.id, now) {
                Ok(counter) => counts.push(Count::new(key, counter, cap.per, now)),
                Err(full) => {
                    let facts = json!({
                        "channel": cap.channel, "limit": cap.limit, "per_seconds": cap.per.as_secs(),
                        "free_at": full.free_at.to_string(),
                    });
                    return Ok(Err(Stop::Refuse("cap".into(), facts)));
                }
            }
        }
        Ok(Ok(counts))
    }

    /// Whom a cap protects.
    fn entity(&self, flow: &Flow, cap: &Cap, lease: &Lease) -> Result<String, TemplateError> {
        match (&cap.entity, &flow.contact) {
            (Some(entity), _) => entity.text(&lease.row().scope_of(self.event)),
            (None, Some(contact)) => {
                let id = self.contact_id(contact, lease)?;
                Ok(id.map_or_else(|| self.event.group.clone(), |id| id.to_string()))
            }
            (None, None) => Ok(self.event.group.clone()),
        }
    }

    /// Leaves out the effects whose conditions are false, and says whether there were any.
    fn skip<'f>(&self, flow: &Flow, effects: &[&'f Effect], lease: &mut Lease) -> Result<bool, Stop<'f>> {
        let mut skipped = false;
        for effect in effects {
            if lease.row().safe && flow.skips_in_safe_mode(effect) {
                lease.skip(effect, self.now());
                skipped = true;
                continue;
            }
            let Some(when) = &effect.when else { continue };
            match when.holds(&lease.row().scope(self.event, effect)) {
                Ok(true) => continue,
                Ok(false) => lease.skip(effect, self.now()),
                Err(error) => return Err(Stop::Bury(effect, Reason::Template, error.to_string())),
            }
            skipped = true;
        }
        Ok(skipped)
    }

    /// An effect that was tried as often as the policy allows.
    fn spent<'f>(&self, flow: &Flow, effects: &[&'f Effect], lease: &Lease) -> Option<&'f Effect> {
        let most = self.board.policy(flow).max_attempts;
        effects.iter().find(|effect| lease.attempts(effect) >= most).copied()
    }

    /// A permit for each effect, or for none.
    pub(crate) async fn enter_all(&self, effects: &[&Effect]) -> Result<Permits, Deferral> {
        let mut permits = Permits::new();
        for effect in effects {
            // What calls no partner needs no permit.
            let partner = effect.integration().zip(self.processor.flows.partner_of(effect));
            let Some((name, partner)) = partner else { continue };
            match self.enter(name, partner).await {
                Ok(permit) => drop(permits.insert(effect.id.clone(), permit)),
                Err(deferral) => {
                    self.give_back(effects, &mut permits).await;
                    return Err(deferral);
                }
            }
        }
        Ok(permits)
    }

    /// Gives the permits back of effects that are not called after all.
    pub(crate) async fn give_back(&self, effects: &[&Effect], permits: &mut Permits) {
        for effect in effects {
            self.called(effect, permits, Ended::Neutral).await;
        }
    }

    /// An effect needs its permit no more.
    pub(crate) async fn called(&self, effect: &Effect, permits: &mut Permits, ended: Ended) {
        if let Some((name, permit)) = effect.integration().zip(permits.remove(&effect.id)) {
            self.leave(name, permit, ended).await;
        }
    }
}
