//! When an attempt may be taken back: only while its partner is down, or may be, as far as its worker can know.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::ledger::{Progress, Reason, Row, State};
use shared::limits::pressure::{BreakerState, Swapped};
use shared::model::RowChange;

use super::{ATTEMPTS, CLOCKS, Known, OUTAGE_WAITED_OUT, Oracle, Seen, violated};
use crate::partner::Arrival;
use crate::ports::Seat;
use crate::run::BrokenInvariant;
use crate::timeline::Who;

/// How long calls that are made side by side take to be noted, at most.
const SIDE_BY_SIDE: Duration = Duration::from_secs(10);

/// How long a container may go by a breaker that has closed since: it asks again every three seconds, and a call that it
/// has begun meanwhile takes its time.
const OLD_NEWS: Duration = Duration::from_secs(60);

/// The most failed calls of an effect that may be no attempts, and how many more for each hour in which they are made.
const MOST_SPARED: u32 = 40;
const MORE_AN_HOUR: u32 = 40;

/// What containers know of partners.
#[derive(Default)]
pub(super) struct KnownPartners {
    /// Whether the breaker was not closed when a container last asked for it, or nobody answered; and when that was.
    down: BTreeMap<(Who, String), (bool, Timestamp)>,
    /// When each breaker was last closed by anybody, of those that are closed.
    closed_at: BTreeMap<String, Timestamp>,
    /// When a container last let go of a call.
    let_go: BTreeMap<(Who, String), Timestamp>,
    /// When a container was last answered, for certain.
    answered: BTreeMap<(Who, String), Timestamp>,
    /// When a partner last answered anybody with anything that says that it is up.
    up: BTreeMap<String, Timestamp>,
}

impl KnownPartners {
    /// A container starts, and knows nothing.
    pub(super) fn forget(&mut self, who: Who) {
        self.down.retain(|(knows, _), _| *knows != who);
        self.answered.retain(|(knows, _), _| *knows != who);
        self.let_go.retain(|(knows, _), _| *knows != who);
    }

    /// Whether a worker may take an attempt back that follows one of this moment.
    fn excuse(&self, who: Who, integration: &str, tried_at: Option<Timestamp>, now: Timestamp) -> bool {
        let key = (who, integration.to_owned());
        // What was answered side by side with a failure may be noted after it.
        let known = |at: Timestamp, tried_at| at > tried_at + CLOCKS && at + SIDE_BY_SIDE < now;
        let answered = self.answered.get(&key).zip(tried_at).is_some_and(|(at, tried_at)| known(*at, tried_at));
        let lately = |at: &Timestamp| *at + OLD_NEWS > now;
        let is_old = |asked_at| self.closed_at.get(integration).is_some_and(|at| !lately(at)) && !lately(asked_at);
        let down = self.down.get(&key).is_some_and(|(down, asked_at)| *down && !is_old(asked_at));
        down || !answered || self.let_go.get(&key).is_some_and(lately)
    }
}

impl Oracle {
    /// A container asked for a breaker.
    pub(crate) fn breaker_read(&self, breaker: &str, answer: &Result<Option<BreakerState>, Unavailable>, seat: &Seat) {
        let closed = |state: &Option<BreakerState>| state.as_ref().is_none_or(|state| state.phase.is_closed());
        self.knows_breaker(breaker, !answer.as_ref().is_ok_and(closed), seat);
    }

    /// A container wrote a breaker, or was told what another has written.
    pub(crate) fn breaker_swapped(
        &self,
        breaker: &str,
        next: &BreakerState,
        answer: &Result<Swapped, Unavailable>,
        seat: &Seat,
    ) {
        let closed = match answer {
            Ok(Swapped::Written) => next.phase.is_closed(),
            Ok(Swapped::Moved(found)) => found.as_ref().is_none_or(|state| state.phase.is_closed()),
            Err(_) => false,
        };
        self.knows_breaker(breaker, !closed, seat);
        if matches!(answer, Ok(Swapped::Written)) {
            let (name, mut seen) = (integration_of(breaker), self.seen());
            if next.phase.is_closed() {
                seen.partners.closed_at.entry(name.to_owned()).or_insert(seat.scheduler.now());
            } else {
                seen.partners.closed_at.remove(name);
            }
        }
    }

    fn knows_breaker(&self, breaker: &str, down: bool, seat: &Seat) {
        let key = (seat.who, integration_of(breaker).to_owned());
        self.seen().partners.down.insert(key, (down, seat.scheduler.now()));
    }

    /// A container has let go of a call: others wait for the same partner.
    pub(crate) fn let_go(&self, integration: &str, seat: &Seat) {
        let now = seat.scheduler.now();
        self.seen().partners.let_go.insert((seat.who, integration.to_owned()), now);
    }

    /// A container has its answer, as it was asked for.
    pub(crate) fn had_answer(&self, arrival: &Arrival, seat: &Seat) {
        let key = (seat.who, arrival.integration.clone());
        self.seen().partners.answered.insert(key, seat.scheduler.now());
    }

    /// A partner answers somebody. What says that it fails, or that there are too many, is no answer.
    pub(crate) fn spoke(&self, integration: &str, status: u16, now: Timestamp) {
        if status < 500 && status != 429 {
            self.seen().partners.up.insert(integration.to_owned(), now);
        }
    }

    /// A row is written. If its event dies of its attempts, the partner has answered somebody since the first of them.
    pub(super) fn is_waited_out(&self, change: &RowChange) -> Result<(), BrokenInvariant> {
        let RowChange { before: Some(before), after, .. } = change else { return Ok(()) };
        let Some(death) = after.death.as_ref().filter(|_| before.state == State::Running) else { return Ok(()) };
        if death.reason != Reason::AttemptsSpent || after.state != State::Dead {
            return Ok(());
        }
        let Some((id, entry)) = after.effects.iter().find(|(id, _)| death.effect.as_ref() == Some(*id)) else {
            return Ok(());
        };
        // Where it was not called now, an operator allows it fewer attempts than it has had.
        let called = before.effects.get(id).is_some_and(|entry| entry.progress == Progress::Intent);
        let integration = self.effect(&after.flow, id).and_then(|effect| effect.integration()).filter(|_| called);
        let answered =
            |integration| self.seen().partners.up.get(integration).is_some_and(|at| *at + CLOCKS >= entry.since);
        match integration {
            Some(integration) if !answered(integration) => {
                let seen = format!("{} dies of `{id}`, and `{integration}` has answered nobody meanwhile", after.id);
                Err(violated(OUTAGE_WAITED_OUT, seen))
            }
            _ => Ok(()),
        }
    }

    /// A row is written by this container. Attempts that it takes back were made of a partner that is down, or that has
    /// answered the container nothing since the attempt before; and there are not too many of them.
    pub(super) fn is_excused(
        &self,
        seen: &Seen,
        before: &Row,
        after: &Row,
        by: (Who, Timestamp),
    ) -> Result<(), BrokenInvariant> {
        let tried = seen.events.get(&after.id).map(|known| &known.tried_before);
        for (id, entry) in &after.effects {
            let spared = before.effects.get(id).map_or(0, |before| before.spared);
            let Some(integration) = self.effect(&after.flow, id).and_then(|effect| effect.integration()) else {
                continue;
            };
            let hours = u32::try_from(by.1.since(entry.since).as_secs() / 3600).unwrap_or(u32::MAX);
            if entry.spared > MOST_SPARED + hours.saturating_mul(MORE_AN_HOUR) {
                let seen = format!("{}: {} calls of `{id}` are no attempts, in {hours} hours", after.id, entry.spared);
                return Err(violated(ATTEMPTS, seen));
            }
            let tried_at = tried.and_then(|tried| tried.get(id).copied().flatten());
            if entry.spared > spared && !seen.partners.excuse(by.0, integration, tried_at, by.1) {
                let seen = format!("{}: an attempt of `{id}` is taken back, and `{integration}` answers", after.id);
                return Err(violated(ATTEMPTS, seen));
            }
        }
        Ok(())
    }
}

fn integration_of(breaker: &str) -> &str {
    breaker.split_once('/').map_or(breaker, |(_, name)| name)
}

impl Known {
    /// Notes when effects were tried before they are intended now: a worker that was lost may have done so until its lease
    /// ended.
    pub(super) fn tries_again(&mut self, before: &Row, after: &Row) {
        let is_claimed = after.epoch > before.epoch && after.state == State::Running;
        let recognised_at = self.recognised_at.take_if(|_| is_claimed);
        if is_claimed && before.state == State::Running {
            self.lost_until = recognised_at.or(before.lease_until);
        }
        for (id, entry) in &after.effects {
            let was = before.effects.get(id);
            if was.is_none_or(|was| was.attempts < entry.attempts) {
                self.tried_before
                    .insert(id.clone(), was.map(|was| Some(was.at).max(self.lost_until).unwrap_or(was.at)));
            }
        }
    }
}
