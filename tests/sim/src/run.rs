//! A simulation, one run of it, and what came of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use shared::base::time::Timestamp;

use crate::faults::{FaultPlan, FaultProfile, LAST_HEALING};
use crate::lane::{SCHEDULED_EVERY, WOKEN_EVERY};
use crate::mutation::Mutation;
use crate::operators::OperatorShift;
use crate::partner::{OpeningConduct, PartnerOutage};
use crate::scenario::{FlowsVersion, Scenario, ScenarioError};
use crate::senders::Sender;
use crate::stores::Stores;
use crate::timeline::Timeline;
use crate::world::SimWorld;

/// A scenario that can be run.
#[derive(Clone)]
pub struct Simulation {
    pub(crate) scenario: Arc<Scenario>,
}

impl Simulation {
    /// The simulation of a scenario, unless something in the scenario cannot be run.
    pub fn new(scenario: Scenario) -> Result<Self, ScenarioError> {
        scenario.check()?;
        Ok(Simulation { scenario: Arc::new(scenario) })
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Runs one seed. The same seed is the same run each time, line by line.
    pub fn run_seed(&self, seed: u64) -> RunReport {
        self.draw(seed).run()
    }
}

/// What a run is made of. [`Simulation::draw`] and [`Simulation::calm`] make one; whatever is public may be changed
/// before it runs.
#[derive(Clone)]
pub struct RunSetup {
    pub(crate) scenario: Arc<Scenario>,
    /// The versions of the flows that are deployed, one after the other.
    pub versions: Vec<FlowsVersion>,
    /// Whether the newest version's code writes rows in a format that the one before leaves alone.
    pub formats: bool,
    /// Whether the newest version is rolled back at last, and for good.
    pub ends_back: bool,
    pub(crate) senders: Vec<Sender>,
    /// What every choice within the run is drawn from.
    pub seed: u64,
    /// Which calls of ports go wrong.
    pub plan: FaultPlan,
    /// How often what goes wrong.
    pub profile: FaultProfile,
    /// How partners behave when the run starts.
    pub opening: Option<OpeningConduct>,
    /// When which partners are down, and how.
    pub outages: Vec<PartnerOutage>,
    /// What operators ask for at which moments, as the replay function takes it.
    pub orders: Vec<(Duration, Value)>,
    /// How many operators are at work.
    pub operators: usize,
    /// What the operators do.
    pub shift: OperatorShift,
    /// How often the schedule comes, until all is at rest.
    pub schedules: u32,
    /// How often what comes again and again comes.
    pub pace: Pace,
    /// How many containers each function has.
    pub containers: usize,
    /// How long a mapping takes to notice a message, at most.
    pub slack: Duration,
    /// How often the queue delivers a message before it gives up.
    pub max_receives: usize,
    /// What queues and tables bear, and what is wrong with single items.
    pub stores: Stores,
    /// How long after the last fault and the last event everything is at rest. It has to be longer than a flow tries.
    pub rest_within: Duration,
    /// What is done in another way than the product does it.
    pub mutation: Mutation,
}

impl RunSetup {
    /// How long new things come about in this run: faults, events and their repetitions, deletions.
    pub(crate) fn lasts(&self) -> Duration {
        let posted = |sender: &Sender| sender.first_at + sender.again_after.iter().sum::<Duration>();
        let posts = self.senders.iter().map(posted).max().unwrap_or_default();
        let deletions = self.stores.deletions.iter().map(|(at, _)| *at).max().unwrap_or_default();
        posts.max(deletions).max(LAST_HEALING).max(self.profile.heals_after)
    }

    /// Runs this to its end: until all is at rest, or an invariant is broken.
    pub fn run(self) -> RunReport {
        let mut world = SimWorld::new(self);
        world.open();
        world.play();
        world.report()
    }
}

/// How often what comes again and again comes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest time between two looks of an operator.
    pub looks: Duration,
    /// The longest time between two deliveries of something twice.
    pub redeliveries: Duration,
    /// The time between two runs of the schedule.
    pub schedules: Duration,
    /// The time between two ticks of the wakes.
    pub wakes: Duration,
}

impl Pace {
    /// As the template has it, and operators who look every few minutes.
    pub const MINUTES: Pace = Pace {
        looks: Duration::from_secs(400),
        redeliveries: Duration::from_secs(20),
        schedules: SCHEDULED_EVERY,
        wakes: WOKEN_EVERY,
    };

    /// For runs of days: what comes every minute would be most of what happens.
    pub(crate) const DAYS: Pace = Pace {
        looks: Duration::from_secs(8 * 3600),
        redeliveries: Duration::from_secs(4 * 3600),
        schedules: Duration::from_secs(6 * 3600),
        wakes: Duration::from_secs(900),
    };
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The first invariant that was broken, if one was. The run ends there.
    pub violation: Option<BrokenInvariant>,
    /// What happened, line by line.
    pub timeline: Timeline,
    /// How many calls of ports were made.
    pub calls: usize,
    /// When each settled event was received, and how long it took, by flow.
    pub settled: BTreeMap<String, Vec<(Timestamp, Duration)>>,
    /// The effects that became done, by flow.
    pub done: BTreeMap<String, BTreeSet<String>>,
    /// How many batches of events were handled.
    pub batches: usize,
}

/// An invariant that does not hold: its name, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenInvariant {
    /// The name, such as `at-most-once`.
    pub invariant: &'static str,
    /// What shows it.
    pub seen: String,
}
