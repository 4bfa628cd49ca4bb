//! What reaches the partners.

use shared::base::id::EventId;
use shared::flows::{Effect, Guarantee};
use shared::ledger::{Progress, State};
use shared::operate::approval::Question;

use super::{AT_MOST_ONCE, ATTEMPTS, CONCURRENCY, ENDED, INTENT_FIRST, Known, Oracle, report, violated};
use crate::partner::Arrival;
use crate::ports::Seat;
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

impl Oracle {
    /// A call arrives, as one of so many at once.
    pub(crate) fn called(&self, arrival: &Arrival, at_once: usize, seat: &Seat) {
        let limits = self.versions.iter().filter_map(|flows| flows.integration(&arrival.integration));
        let most = limits.filter_map(|partner| partner.pressure.concurrency).max();
        if most.is_some_and(|most| at_once > most as usize) {
            let seen = format!("{at_once} calls of `{}` at once", arrival.integration);
            seat.scheduler.violated(violated(CONCURRENCY, seen));
        }
        if !seat.scheduler.is_stalled(seat.who) {
            let now = seat.scheduler.now();
            self.seen().arrivals.entry(arrival.integration.clone()).or_default().push(now);
        }
        if let Some((event, effect)) = arrival.effect() {
            report(&seat.scheduler, self.is_of_one_payload(&event, arrival));
            report(&seat.scheduler, self.is_under_one_name(&event, &effect, arrival));
            report(&seat.scheduler, self.is_open(&event, &effect));
            report(&seat.scheduler, self.may_call(&event, &effect));
            self.is_allowed(&event, seat);
        }
        if let Some(row) = self.subject(arrival).and_then(|event| self.row(&event)) {
            self.is_not_paused(&row.id, &row.flow, arrival, seat);
        }
    }

    /// The event that a request is about, be it a call or a question.
    fn subject(&self, arrival: &Arrival) -> Option<EventId> {
        let question = || arrival.question.as_ref()?.parse::<Question>().ok().map(|question| question.id);
        arrival.effect().map(|(event, _)| event).or_else(question).or_else(|| Some(self.looked_up(arrival)?.0))
    }

    fn is_allowed(&self, event: &EventId, seat: &Seat) {
        let Some(row) = self.row(event) else { return };
        report(&seat.scheduler, self.is_let_pass(&row, seat));
        report(&seat.scheduler, self.is_approved(&row));
    }

    /// A call is tried. It may not arrive.
    pub(crate) fn tried(&self, arrival: &Arrival) {
        let Some((event, effect)) = arrival.effect() else { return };
        *self.seen().events.entry(event).or_default().tries.entry(effect).or_default() += 1;
    }

    fn may_call(&self, event: &EventId, effect: &str) -> Result<(), BrokenInvariant> {
        let row = self.row(event).ok_or_else(|| violated(INTENT_FIRST, format!("{event} has no row")))?;
        let entry = row.effects.get(effect).map(|entry| &entry.progress);
        if entry != Some(&Progress::Intent) || row.state != State::Running {
            let seen = format!("`{effect}` of {event} is {entry:?} in {} when it is called", row.state.as_str());
            return Err(violated(INTENT_FIRST, seen));
        }
        let most = self.flows(&row.flow).map(|flow| flow.retry.max_attempts).max().unwrap_or_default();
        let mut seen = self.seen();
        let known = seen.events.entry(event.clone()).or_default();
        let calls = known.calls.entry(effect.to_owned()).or_default();
        *calls += 1;
        if *calls > most {
            return Err(violated(ATTEMPTS, format!("`{effect}` of {event} is called {calls} times, {most} allowed")));
        }
        let (retry, group) = (*calls > 1, known.group.clone());
        let flow = row.flow.clone();
        drop(seen);
        if retry { self.retried(&flow, &group) } else { Ok(()) }
    }

    /// A partner did something, for the so manieth time: in time, or later than its client waited.
    pub(crate) fn applied(&self, event: &EventId, effect: &str, times: usize, late: bool, scheduler: &Scheduler) {
        let flow = self.row(event).map(|row| row.flow).unwrap_or_default();
        let repeatable = self.effect(&flow, effect).is_some_and(|effect| effect.guarantee == Guarantee::Idempotent);
        if repeatable && !late {
            report(scheduler, self.undoes_nothing(event, &flow, effect));
        }
        if times > 1 && !repeatable {
            scheduler.violated(violated(AT_MOST_ONCE, format!("`{effect}` of {event} is applied {times} times")));
        }
        if let Some(state) = self.row(event).map(|row| row.state).filter(|s| matches!(s, State::Noop | State::Dropped))
        {
            scheduler
                .violated(violated(ENDED, format!("`{effect}` of {event} is applied, and it is {}", state.as_str())));
        }
    }

    /// Which effect a question is about.
    pub(crate) fn looked_up(&self, arrival: &Arrival) -> Option<(EventId, String)> {
        let seen = self.seen();
        let (id, known) = seen.events.iter().find(|(_, known)| known.trace == arrival.trace)?;
        let asks =
            |effect: &&Effect| effect.asked_after().is_some() && effect.integration() == Some(&*arrival.integration);
        let effects: Vec<&Effect> = self.flows(&known.flow).flat_map(|flow| &flow.effects).filter(asks).collect();
        let path = |effect: &Effect| self.lookup_path(id, known, effect);
        let effect = effects.iter().find(|effect| path(effect).as_ref() == Some(&arrival.path)).or(effects.first())?;
        Some((id.clone(), effect.id.clone()))
    }

    fn lookup_path(&self, id: &EventId, known: &Known, effect: &Effect) -> Option<String> {
        let (row, event) = (self.row(id)?, known.event.as_ref()?);
        effect.lookup.as_ref()?.request.path.render(&row.scope(event, effect)).ok()
    }
}
