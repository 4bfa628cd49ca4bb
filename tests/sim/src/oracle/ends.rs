//! What must be true once everything has come to rest.

use std::time::Duration;

use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::{Effect, Flow};
use shared::ledger::{Progress, Row, State};
use shared::limits::rates::Rate;

use super::items::has_stand_in;
use super::{CLOCKS, Known, LEDGER_IS_TRUE, NOTHING_LOST, ORDER, Oracle, RATE, Seen, violated};
use crate::partner::Partner;
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

impl Oracle {
    /// Judges how a run ended.
    pub(crate) fn judge_the_end(&self, partner: &Partner, scheduler: &Scheduler) -> Result<(), BrokenInvariant> {
        let seen = self.seen();
        self.batches_ended(&seen)?;
        let stand_ins = self.stand_ins();
        for (id, known) in &seen.events {
            let row = self.row(id);
            // A row may also be full.
            if known.acknowledged && (scheduler.is_broken(id) || has_stand_in(&stand_ins, id)) {
                self.stood_in(&stand_ins, id)?;
            } else if known.acknowledged {
                self.settled(id, row.as_ref())?;
                self.acted_on(&seen, id, row.as_ref(), scheduler)?;
            }
            if let Some(row) = &row {
                self.truthful(row, partner)?;
            }
        }
        in_order(&seen, partner, self)?;
        self.within_caps(&seen, partner)?;
        self.newest_words_stand(&seen)?;
        self.within_lane_rates(&seen)?;
        self.within_rates(&seen)
    }

    fn settled(&self, id: &EventId, row: Option<&Row>) -> Result<(), BrokenInvariant> {
        let lost = |what: &str| Err(violated(NOTHING_LOST, format!("{id} was acknowledged and {what}")));
        let Some(row) = row else { return lost("has no row") };
        match row.state {
            State::Succeeded | State::Noop | State::Dropped => Ok(()),
            State::Dead if row.death.is_none() => lost("died of nothing"),
            State::Dead if !row.is_parked() => lost("is dead, but no operator sees it"),
            State::Dead if self.ledger.payload(id).is_none() => lost("is dead, but its payload is gone"),
            State::Dead => Ok(()),
            state => lost(&format!("is {} for ever", state.as_str())),
        }
    }

    /// An event that was accepted in a shape that its flow did not take is another event now, of the same trace, and
    /// that one is not lost either.
    fn acted_on(
        &self,
        seen: &Seen,
        id: &EventId,
        row: Option<&Row>,
        scheduler: &Scheduler,
    ) -> Result<(), BrokenInvariant> {
        let handed_over = row.is_some_and(|row| row.noop.as_ref().is_some_and(|noop| noop.guard == "on_invalid"));
        if !handed_over {
            return Ok(());
        }
        let trace = seen.events.get(id).map(|known| &known.trace);
        let of_its_trace = seen.events.iter().filter(|(other, event)| *other != id && Some(&event.trace) == trace);
        let rows: Vec<Row> = of_its_trace.filter_map(|(other, _)| self.row(other)).collect();
        match rows.as_slice() {
            [] => Err(violated(NOTHING_LOST, format!("{id} was replayed, and no event came of it"))),
            rows => {
                let mut whole = rows.iter().filter(|row| !scheduler.is_broken(&row.id));
                whole.try_for_each(|row| self.settled(&row.id, Some(row)))
            }
        }
    }

    /// The row says what the partner did.
    fn truthful(&self, row: &Row, partner: &Partner) -> Result<(), BrokenInvariant> {
        let untrue = |what: String| Err(violated(LEDGER_IS_TRUE, format!("{}: {what}", row.id)));
        // Every version has them: one that a version lacks may be left out.
        let everywhere = |effect: &&Effect| {
            let has = |flow: &Flow| flow.effects.iter().any(|other| other.names().any(|name| name == effect.id));
            self.flows(&row.flow).all(has)
        };
        let effects = self.flows(&row.flow).next().map(|flow| flow.effects.as_slice()).unwrap_or_default();
        for effect in effects.iter().filter(|effect| effect.integration().is_some()).filter(everywhere) {
            let applied = !partner.applied(&row.id, &effect.id).is_empty();
            let said = row.effects.get(&effect.id).map(|entry| &entry.progress);
            match said {
                Some(Progress::Done { .. }) if !applied => return untrue(format!("`{}` was not done", effect.id)),
                Some(Progress::Done { .. } | Progress::Intent | Progress::Unknown { .. }) => (),
                // Where a call may be repeated, one that failed may have happened after all.
                _ if applied && !effect.guarantee.allows_repetition() => {
                    return untrue(format!("`{}` was done, and the ledger says {said:?}", effect.id));
                }
                _ => (),
            }
            if row.state == State::Succeeded && !matches!(said, Some(Progress::Done { .. } | Progress::Skipped)) {
                return untrue(format!("it succeeded without `{}`", effect.id));
            }
        }
        Ok(())
    }

    fn within_rates(&self, seen: &Seen) -> Result<(), BrokenInvariant> {
        for (integration, arrivals) in &seen.arrivals {
            let partner = self.versions.iter().find_map(|flows| flows.integration(integration));
            let Some(rate) = partner.and_then(|partner| partner.pressure.rate) else { continue };
            // A token may be spent as long as its lease lives, and the call takes its way.
            let slack = rate.lease_life() + CLOCKS + Duration::from_secs(10);
            for (first, from) in arrivals.iter().enumerate() {
                for (count, to) in (1..).zip(&arrivals[first..]) {
                    if f64::from(count) > f64::from(rate.burst()) + refilled(&rate, to.since(*from) + slack) {
                        let seen = format!("{count} calls of `{integration}` within {:?}", to.since(*from));
                        return Err(violated(RATE, seen));
                    }
                }
            }
        }
        Ok(())
    }
}

/// How many tokens a bucket gets in a time.
pub(super) fn refilled(rate: &Rate, time: Duration) -> f64 {
    f64::from(rate.count()) * time.as_secs_f64() / rate.per().as_secs_f64()
}

/// Nothing of an event is applied after something of a later event of its group. Whatever was parked
/// or given up on by the queue has lost its place.
fn in_order(seen: &Seen, partner: &Partner, oracle: &Oracle) -> Result<(), BrokenInvariant> {
    let mut events: Vec<(&EventId, &Known)> = seen.events.iter().filter(|(_, known)| !known.lost_its_place).collect();
    events.sort_by_key(|(_, known)| (known.group.clone(), known.place));
    let mut last: Option<(&str, Timestamp, &EventId)> = None;
    for (id, known) in events {
        let effects = oracle.flows(&known.flow).flat_map(|flow| &flow.effects);
        let times: Vec<Timestamp> = effects.flat_map(|effect| partner.applied(id, &effect.id)).collect();
        let (Some(first), Some(end)) = (times.iter().min(), times.iter().max()) else { continue };
        if let Some((group, before, earlier)) = last
            && group == known.group
            && *first < before
        {
            return Err(violated(ORDER, format!("{id} took effect before {earlier}, which came first")));
        }
        last = Some((&known.group, *end, id));
    }
    Ok(())
}
