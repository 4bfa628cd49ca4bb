//! Virtual time, and whose turn it is. Every choice comes from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shared::base::machine::{Chance, Clock};
use shared::base::time::Timestamp;
use shared::model::{ModelChance, ModelClock};

use crate::faults::{Fault, RunFaults};
use crate::run::BrokenInvariant;
use crate::timeline::{Timeline, Who};

/// What the agenda holds: something that happens at its time, or as soon after as chance has it.
pub(crate) enum Due {
    /// A port call goes on.
    Resume(u64),
    /// A write that was long under way arrives.
    Land(Box<dyn FnOnce() + Send>),
    /// Something outside the containers acts.
    Act(Actor),
}

/// Who acts outside the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A sender posts its event, or posts it again.
    Sender(usize),
    /// The queue of events is polled.
    Events,
    /// The queue of dead letters is polled.
    Letters,
    /// An operator works on what is parked.
    Operator(usize),
    /// The schedule comes.
    Schedule,
    /// Waiting events are woken.
    Wake,
    /// Somebody presses a button below a question.
    Press(usize),
    /// The platform ends an invocation that has run out of time.
    Platform(Who, u64),
    /// Containers that start from now on have the next version of the flows.
    Deploy,
    /// The queue delivers something twice.
    Redelivery,
}

/// One run's clock, chance, agenda and timeline.
pub(crate) struct Scheduler {
    pub(crate) clock: ModelClock,
    starts_at: Timestamp,
    chance: ModelChance,
    state: Mutex<State>,
}

struct State {
    agenda: Vec<(Timestamp, u64, Due)>,
    last: u64,
    points: BTreeMap<u64, Waker>,
    owners: BTreeMap<u64, Who>,
    granted: BTreeSet<u64>,
    crashed: Vec<Who>,
    stalled: BTreeSet<Who>,
    faults: RunFaults,
    timeline: Timeline,
    violation: Option<BrokenInvariant>,
}

impl Scheduler {
    pub(crate) fn new(seed: u64, starts_at: Timestamp, faults: RunFaults) -> Arc<Self> {
        let state = State {
            agenda: Vec::new(),
            last: 0,
            points: BTreeMap::new(),
            owners: BTreeMap::new(),
            granted: BTreeSet::new(),
            crashed: Vec::new(),
            stalled: BTreeSet::new(),
            faults,
            timeline: Timeline::default(),
            violation: None,
        };
        let (clock, chance) = (ModelClock::at(starts_at), ModelChance::seeded(seed));
        Arc::new(Scheduler { clock, starts_at, chance, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How long the run takes so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().since(self.starts_at)
    }

    /// A number below `end`, by chance.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.chance.bits() % end.max(1)
    }

    /// Whether something of this probability happens.
    pub(crate) fn happens(&self, probability: f64) -> bool {
        self.chance.unit() < probability
    }

    /// A time between these, by chance.
    pub(crate) fn between(&self, least: Duration, most: Duration) -> Duration {
        let spread = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
        least + Duration::from_millis(self.below(spread.saturating_add(1)))
    }

    /// Chance for a container's own use.
    pub(crate) fn new_chance(&self) -> ModelChance {
        ModelChance::seeded(self.chance.bits())
    }

    /// Puts something on the agenda.
    pub(crate) fn after(&self, delay: Duration, due: Due) {
        let at = self.now() + delay;
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.agenda.push((at, number, due));
    }

    /// Takes one of the things that are due from the agenda, letting time pass if nothing is.
    pub(crate) fn next(&self) -> Option<Due> {
        let earliest = self.state().agenda.iter().map(|(at, ..)| *at).min()?;
        self.clock.advance(earliest.since(self.now()));
        let now = self.now();
        let due: Vec<usize> = {
            let state = self.state();
            state.agenda.iter().enumerate().filter(|(_, (at, ..))| *at <= now).map(|(index, _)| index).collect()
        };
        let chosen = due[usize::try_from(self.below(due.len() as u64)).unwrap_or_default()];
        Some(self.state().agenda.remove(chosen).2)
    }

    /// Lets a call go on. Says whose it is, unless it is gone.
    pub(crate) fn resume(&self, point: u64) -> Option<Who> {
        let mut state = self.state();
        let waker = state.points.remove(&point)?;
        state.granted.insert(point);
        let owner = state.owners.get(&point).copied();
        drop(state);
        waker.wake();
        owner
    }

    /// Waits in a call of this container.
    pub(crate) fn pause(self: &Arc<Self>, who: Who, delay: Duration) -> WaitForTurn {
        WaitForTurn { scheduler: Arc::clone(self), who, delay, point: None }
    }

    /// What goes wrong with a call, if anything does.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let elapsed = self.elapsed();
        self.state().faults.draw(elapsed, &self.chance)
    }

    /// Whether the faults are over.
    pub(crate) fn healed(&self) -> bool {
        let elapsed = self.elapsed();
        self.state().faults.healed(elapsed)
    }

    /// How many calls were made so far.
    pub(crate) fn calls(&self) -> usize {
        self.state().faults.calls()
    }

    /// Brings a container down. It takes effect when its turn ends.
    pub(crate) fn crash(&self, who: Who) {
        self.state().crashed.push(who);
    }

    /// The containers that went down since this was last asked.
    pub(crate) fn crashed(&self) -> Vec<Who> {
        std::mem::take(&mut self.state().crashed)
    }

    /// Marks that a container stood still for longer than the numbers of the product foresee, until its
    /// invocation ends.
    pub(crate) fn stall(&self, who: Who, stalled: bool) {
        let mut state = self.state();
        if stalled {
            state.stalled.insert(who);
        } else {
            state.stalled.remove(&who);
        }
    }

    pub(crate) fn is_stalled(&self, who: Who) -> bool {
        self.state().stalled.contains(&who)
    }

    /// Writes a line of the timeline.
    pub(crate) fn note(&self, who: Who, call: &'static str, about: &str, outcome: &str, fault: Option<Fault>) {
        let at = self.elapsed();
        self.state().timeline.push(at, who, call, about, outcome, fault);
    }

    /// Reports a violated invariant. The first one ends the run.
    pub(crate) fn violated(&self, violation: BrokenInvariant) {
        self.state().violation.get_or_insert(violation);
    }

    pub(crate) fn violation(&self) -> Option<BrokenInvariant> {
        self.state().violation.clone()
    }

    pub(crate) fn timeline(&self) -> Timeline {
        std::mem::take(&mut self.state().timeline)
    }
}

/// A wait inside a call. The container goes on when the scheduler picks it.
pub(crate) struct WaitForTurn {
    scheduler: Arc<Scheduler>,
    who: Who,
    delay: Duration,
    point: Option<u64>,
}

impl Future for WaitForTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(point) = self.point else {
            self.point = Some(self.scheduler.enlist(self.who, self.delay, context.waker().clone()));
            return Poll::Pending;
        };
        let mut state = self.scheduler.state();
        if state.granted.contains(&point) {
            return Poll::Ready(());
        }
        state.points.insert(point, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for WaitForTurn {
    fn drop(&mut self) {
        let Some(point) = self.point else { return };
        let mut state = self.scheduler.state();
        state.points.remove(&point);
        state.owners.remove(&point);
        state.granted.remove(&point);
    }
}

impl Scheduler {
    fn enlist(&self, who: Who, delay: Duration, waker: Waker) -> u64 {
        let at = self.now() + delay;
        let mut state = self.state();
        state.last += 1;
        let point = state.last;
        state.points.insert(point, waker);
        state.owners.insert(point, who);
        state.agenda.push((at, point, Due::Resume(point)));
        point
    }
}
