//! Virtual time, and whose turn it is. Every choice comes from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shared::base::id::EventId;
use shared::base::machine::{Chance, Clock};
use shared::base::time::Timestamp;
use shared::model::{ModelChance, ModelClock};

use crate::faults::{Fault, RunFaults};
use crate::ports::short;
use crate::run::BrokenInvariant;
use crate::stores::{FaultyItem, FaultyItems, ItemCall, ItemFault};
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
    /// An operator asks for what is to be done at this moment.
    Order(usize),
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
    /// The table deletes what has expired, for the so manieth time.
    Expiry(usize),
}

/// One run's clock, chance, agenda and timeline.
pub(crate) struct Scheduler {
    pub(crate) clock: ModelClock,
    starts_at: Timestamp,
    chance: ModelChance,
    /// Whether nothing is left to chance: what is due first comes first, and takes no longer than it must.
    in_order: bool,
    state: Mutex<State>,
}

struct State {
    agenda: BTreeMap<(Timestamp, u64), Due>,
    last: u64,
    points: BTreeMap<u64, Waker>,
    owners: BTreeMap<u64, Who>,
    granted: BTreeSet<u64>,
    crashed: Vec<Who>,
    stalled: BTreeSet<Who>,
    faults: RunFaults,
    items: FaultyItems,
    timeline: Timeline,
    keeps_timeline: bool,
    /// The calls of ports, in order, where that is asked for: the functions, and the calls' names.
    port_calls: Vec<(&'static str, &'static str)>,
    violation: Option<BrokenInvariant>,
}

impl Scheduler {
    pub(crate) fn new(seed: u64, starts_at: Timestamp, faults: RunFaults, faulty: Option<FaultyItem>) -> Arc<Self> {
        let state = State {
            agenda: BTreeMap::new(),
            last: 0,
            points: BTreeMap::new(),
            owners: BTreeMap::new(),
            granted: BTreeSet::new(),
            crashed: Vec::new(),
            stalled: BTreeSet::new(),
            faults,
            items: FaultyItems::new(faulty),
            timeline: Timeline::default(),
            keeps_timeline: true,
            port_calls: Vec::new(),
            violation: None,
        };
        let (clock, chance) = (ModelClock::at(starts_at), ModelChance::seeded(seed));
        Arc::new(Scheduler { clock, starts_at, chance, in_order: false, state: Mutex::new(state) })
    }

    /// A run in which nothing is left to chance.
    pub(crate) fn in_order(starts_at: Timestamp, faults: RunFaults) -> Arc<Self> {
        let scheduler = Scheduler::new(0, starts_at, faults, None);
        Arc::new(Scheduler { in_order: true, ..Arc::into_inner(scheduler).expect("it was just made") })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// When the run began.
    pub(crate) fn starts_at(&self) -> Timestamp {
        self.starts_at
    }

    /// How long the run takes so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().since(self.starts_at)
    }

    /// A number below `end`, by chance.
    pub(crate) fn below(&self, end: u64) -> u64 {
        if self.in_order {
            return 0;
        }
        self.chance.bits() % end.max(1)
    }

    /// Whether something of this probability happens.
    pub(crate) fn happens(&self, probability: f64) -> bool {
        !self.in_order && self.chance.unit() < probability
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
        state.agenda.insert((at, number), due);
    }

    /// Takes one of the things that are due from the agenda, letting time pass if nothing is.
    pub(crate) fn next(&self) -> Option<Due> {
        let earliest = self.next_at()?;
        self.clock.advance(earliest.since(self.now()));
        let due = (Timestamp::from_millis(i64::MIN), 0)..=(self.now(), u64::MAX);
        let number = self.state().agenda.range(due.clone()).count();
        let chosen = usize::try_from(self.below(number as u64)).unwrap_or_default();
        let mut state = self.state();
        let key = *state.agenda.range(due).nth(chosen)?.0;
        state.agenda.remove(&key)
    }

    /// When the next thing on the agenda is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.state().agenda.first_key_value().map(|((at, _), _)| *at)
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

    /// What goes wrong with a call of a container, if anything does.
    pub(crate) fn fault(&self, who: Who, call: &'static str) -> Option<Fault> {
        let elapsed = self.elapsed();
        let mut state = self.state();
        if self.in_order && state.keeps_timeline {
            state.port_calls.push((who.function(), call));
        }
        state.faults.draw(elapsed, &self.chance, who, call)
    }

    /// What is wrong with the item that a call is about.
    pub(crate) fn item_fault(&self, call: &ItemCall) -> Option<ItemFault> {
        let now = self.now();
        self.state().items.asked(call, now)
    }

    /// Whether something is wrong for good with the row of this event.
    pub(crate) fn is_broken(&self, event: &EventId) -> bool {
        self.state().items.is_broken(short(event.as_str()))
    }

    /// The short id of the event with whose row something is wrong for good, if it is so already.
    pub(crate) fn broken(&self) -> Option<String> {
        self.state().items.broken()
    }

    /// Whether the row of this event can never be read again.
    pub(crate) fn is_unreadable(&self, event: &EventId) -> bool {
        self.state().items.is_unreadable(short(event.as_str()))
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
        let mut state = self.state();
        if state.keeps_timeline {
            state.timeline.push(at, who, call, about, outcome, fault);
        }
    }

    /// The calls of ports so far, in order.
    pub(crate) fn port_calls(&self) -> Vec<(&'static str, &'static str)> {
        self.state().port_calls.clone()
    }

    /// The planned faults that nothing went wrong by, each with how often its call was made.
    pub(crate) fn faults_left(&self) -> Vec<(usize, usize)> {
        self.state().faults.left()
    }

    /// Whether lines of the timeline are kept.
    pub(crate) fn keep_timeline(&self, keeps: bool) {
        self.state().keeps_timeline = keeps;
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
        state.agenda.insert((at, point), Due::Resume(point));
        point
    }
}
