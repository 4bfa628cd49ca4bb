//! What a seed stands for: which events, how many containers and operators, and a profile of faults.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shared::base::machine::Chance as _;
use shared::flows::Flow;
use shared::model::ModelChance;

use crate::containers::MAX_RECEIVES;
use crate::faults::{FaultPlan, FaultProfile};
use crate::mutation::Mutation;
use crate::operators::OperatorShift;
use crate::partner::{Conduct, OpeningConduct};
use crate::run::{RunSetup, Simulation};
use crate::scenario::FlowsVersion;
use crate::senders::Sender;

/// After the last fault everything is at rest within this time. A flow gives up on an event after its `max_age`, a day at
/// most: so long, an event waits alone for a partner that answers it, and nobody else, with failures. The schedule may
/// replay it after that, until the partner forgets our key.
const REST_WITHIN: Duration = Duration::from_secs(60 * 3600);

/// How long a mapping takes to notice a message, at most: one that polls now and then, and one that is busy.
const SLACK: Duration = Duration::from_millis(400);
const BUSY_SLACK: Duration = Duration::from_millis(20);

impl Simulation {
    /// The run that a seed stands for.
    pub fn draw(&self, seed: u64) -> RunSetup {
        let scenario = &self.scenario;
        let chance = ModelChance::seeded(seed ^ 0x5eed);
        let below = |end: u64| chance.bits() % end;
        let profile = FaultProfile::drawn(&chance);
        let versions = &scenario.versions;
        let all: Vec<&Flow> = scenario.flows().collect();
        let theme = Theme::drawn(below(8), seed);
        let about: Vec<&Flow> = all.iter().copied().filter(|flow| theme.is_of(flow, &versions[0])).collect();
        let (theme, flows) = if about.is_empty() { (Theme::Anything, &all) } else { (theme, &about) };
        let some: Vec<&Flow> = (0..1 + below(2)).map(|_| flows[index(below(flows.len() as u64))]).collect();
        let (events, entities, within) = match theme {
            Theme::Pressed => (8, scenario.entities, 2_000),
            Theme::Hanging => (8 + below(6), scenario.entities, 4_000),
            Theme::Parked => (4 + below(6), 1 + below(scenario.entities), 60_000),
            Theme::Close => (3 + below(5), 1 + below(2), [30, 60_000][index(below(2))]),
            Theme::Guarded => (3 + below(6), 1 + below(2), 60_000),
            Theme::Approved | Theme::Anything => (1 + below(7), 1 + below(3), 60_000),
        };
        let entities = entities.min(scenario.entities);
        let senders = (0..events).map(|number| {
            let flow = some[index(below(some.len() as u64))];
            let later: Vec<Duration> = (0..below(3)).map(|_| Duration::from_secs(below(700))).collect();
            let first_at = Duration::from_millis(below(within));
            let entity = below(entities);
            // Who edits may do so at once, too, before anybody has claimed the event.
            let at_once = || (0..below(3)).map(|_| Duration::from_millis(below(900))).collect();
            let (posts, at_once) = match below(2) {
                0 => (scenario.edited_posts(flow, number, entity), at_once()),
                _ => (vec![scenario.post(flow, number, entity, None)], Vec::new()),
            };
            Sender { posts, first_at, again_after: [later, at_once].concat() }
        });
        let senders = senders.collect();
        let opening = match theme {
            Theme::Parked => Some(OpeningConduct {
                conduct: Conduct::Refuse { status: [400, 400, 503, 401][index(below(4))], retry_after: None },
                lasts: Duration::from_secs(5 + below(240)),
            }),
            Theme::Hanging => Some(OpeningConduct {
                conduct: Conduct::Hang { late: None },
                lasts: Duration::from_secs(30 + below(120)),
            }),
            _ => None,
        };
        // Two at once on the same few events, and workers that take a batch up again which another took over.
        let parked = matches!(theme, Theme::Parked);
        let operators = if parked { 2 } else { index(below(3)) };
        let profile = if below(if parked { 2 } else { 5 }) == 0 { profile.with_zombies() } else { profile };
        let containers = if matches!(theme, Theme::Hanging) { 6 } else { index(1 + below(3)) };
        let versions = if seed % 4 == 1 { versions.clone() } else { versions[..1].to_vec() };
        // Some seeds are about a queue that gives up early, so that it does so at all.
        let max_receives = if below(6) == 0 { index(2 + below(6)) } else { MAX_RECEIVES };
        RunSetup {
            scenario: Arc::clone(scenario),
            versions,
            formats: seed % 8 == 5,
            senders,
            seed,
            plan: FaultPlan::Random,
            profile,
            opening,
            hanging: BTreeSet::new(),
            operators,
            shift: OperatorShift::Many,
            schedules: 4,
            containers,
            slack: SLACK,
            max_receives,
            rest_within: REST_WITHIN,
            mutation: Mutation::NONE,
        }
    }

    /// Two events of a flow about one entity, with nothing going wrong but what the plan says; or nothing, if the
    /// flow has no recipe.
    pub fn calm(&self, flow: &str, plan: FaultPlan) -> Option<RunSetup> {
        let scenario = &self.scenario;
        let flow = scenario.flows().find(|known| known.name == flow)?;
        let sender = |number: u64| Sender {
            posts: scenario.edited_posts(flow, number, 0),
            first_at: Duration::from_millis(number * 50),
            again_after: Vec::new(),
        };
        Some(RunSetup {
            scenario: Arc::clone(scenario),
            versions: scenario.versions[..1].to_vec(),
            formats: false,
            senders: vec![sender(0), sender(1)],
            seed: 1,
            plan,
            profile: FaultProfile::calm(),
            opening: None,
            hanging: BTreeSet::new(),
            operators: 1,
            shift: OperatorShift::One,
            schedules: 0,
            containers: 2,
            slack: SLACK,
            max_receives: MAX_RECEIVES,
            rest_within: REST_WITHIN,
            mutation: Mutation::NONE,
        })
    }
}

/// A steady load of one flow's events, each about another entity.
#[derive(Clone, Debug)]
pub struct SteadyLoad {
    /// The flow.
    pub flow: &'static str,
    /// How many events are sent.
    pub events: u64,
    /// The time between two of them.
    pub every: Duration,
}

impl Simulation {
    /// Steady loads before so many containers, with nothing going wrong; or nothing, if a flow has no recipe.
    pub fn steady(&self, loads: &[SteadyLoad], containers: usize) -> Option<RunSetup> {
        let scenario = &self.scenario;
        let mut senders = Vec::new();
        for SteadyLoad { flow, events, every } in loads {
            let flow = scenario.flows().find(|known| known.name == *flow)?;
            senders.extend((0..*events).map(|number| Sender {
                posts: vec![scenario.post(flow, number, number % scenario.entities, None)],
                first_at: every.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)),
                again_after: Vec::new(),
            }));
        }
        let calm = self.calm(loads.first()?.flow, FaultPlan::Random)?;
        Some(RunSetup { senders, containers, slack: BUSY_SLACK, operators: 0, ..calm })
    }
}

/// What some seeds are about, so that it comes about at all.
#[derive(Clone, Copy)]
enum Theme {
    /// A crowd before partners that bear little.
    Pressed,
    /// Few contacts, of whom much is to be known.
    Guarded,
    /// Questions to humans.
    Approved,
    /// Much that died of one cause, which passes.
    Parked,
    /// Partners that hang, before more containers than may wait for one of them.
    Hanging,
    /// Events that may be one, because they are close in time.
    Close,
    Anything,
}

impl Theme {
    fn drawn(number: u64, seed: u64) -> Self {
        match number {
            0 => Theme::Pressed,
            1 => Theme::Guarded,
            2 => Theme::Approved,
            3 | 4 => Theme::Parked,
            5 => Theme::Close,
            6 if seed % 4 == 2 => Theme::Hanging,
            _ => Theme::Anything,
        }
    }

    fn is_of(self, flow: &Flow, version: &FlowsVersion) -> bool {
        let mut partners = flow.effects.iter().filter_map(|effect| version.flows.partner_of(effect));
        match self {
            Theme::Pressed => partners.any(|partner| partner.pressure.is_limited()),
            Theme::Guarded => flow.contact.is_some(),
            Theme::Approved => flow.approval.is_some(),
            Theme::Hanging => flow.effects.iter().any(|effect| effect.guarantee.allows_repetition()),
            Theme::Close => flow.key.window.is_some(),
            Theme::Parked | Theme::Anything => true,
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
