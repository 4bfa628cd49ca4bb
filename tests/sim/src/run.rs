//! A simulation, one run of it, and what came of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use shared::base::time::Timestamp;

use crate::faults::{FaultPlan, FaultProfile};
use crate::mutation::Mutation;
use crate::operators::OperatorShift;
use crate::partner::OpeningConduct;
use crate::scenario::{FlowsVersion, Scenario, ScenarioError};
use crate::senders::Sender;
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
    pub(crate) senders: Vec<Sender>,
    /// What every choice within the run is drawn from.
    pub seed: u64,
    /// Which calls of ports go wrong.
    pub plan: FaultPlan,
    /// How often what goes wrong.
    pub profile: FaultProfile,
    /// How partners behave when the run starts.
    pub opening: Option<OpeningConduct>,
    /// The integrations whose partners never answer, and never recover.
    pub hanging: BTreeSet<String>,
    /// How many operators are at work.
    pub operators: usize,
    /// What the operators do.
    pub shift: OperatorShift,
    /// How often the schedule comes, until all is at rest.
    pub schedules: u32,
    /// How many containers each function has.
    pub containers: usize,
    /// How long a mapping takes to notice a message, at most.
    pub slack: Duration,
    /// How often the queue delivers a message before it gives up.
    pub max_receives: usize,
    /// How long after the last fault everything is at rest. It has to be longer than a flow tries.
    pub rest_within: Duration,
    /// What is done in another way than the product does it.
    pub mutation: Mutation,
}

impl RunSetup {
    /// Runs this to its end: until all is at rest, or an invariant is broken.
    pub fn run(self) -> RunReport {
        let mut world = SimWorld::new(self);
        world.open();
        world.play();
        world.report()
    }
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
