//! What a seed stands for: which events, how many containers and operators, and a profile of faults.

use std::sync::Arc;
use std::time::Duration;

use shared::base::machine::Chance as _;
use shared::flows::{Flow, Guard};
use shared::model::{BadCharacters, ModelChance};

use crate::containers::MAX_RECEIVES;
use crate::faults::{FaultPlan, FaultProfile};
use crate::mutation::Mutation;
use crate::operators::OperatorShift;
use crate::partner::{Conduct, OpeningConduct, PartnerOutage};
use crate::run::{Pace, RunSetup, Simulation};
use crate::scenario::FlowsVersion;
use crate::senders::Sender;
use crate::stores::{FaultyItem, ItemFault, Stores};

const HOUR: Duration = Duration::from_secs(3600);

/// How often an event may use up its flow's `max_age`: by itself, and once the schedule or an operator has replayed it.
const LIVES: u32 = 3;

/// What comes to rest after the last event: the last runs of the schedule, an answer that lapses, a flow that is not there.
const AFTERWARDS: Duration = Duration::from_secs(4 * 3600);

/// How long the product waits for a row that cannot be read, or takes no more.
const BROKEN_ROW: Duration = Duration::from_secs(26 * 3600);

/// The longest that a message is on the queue: a flow here gives up on an event after a day or three at most, and the
/// product on a row that cannot be read after a day.
const PATIENCE: Duration = Duration::from_secs(25 * 3600);
const LONGEST_PATIENCE: Duration = Duration::from_secs(73 * 3600);

/// The largest row that some seeds let the table take: whatever partners answer, and however often an event is tried, no
/// row of the product grows beyond it.
const SMALL_ROW: usize = 24 * 1024;

/// The days over which events come, in seeds that are about days.
const DAYS: u64 = 60 * 3600;

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
        let deployed = deployed(versions, seed);
        let all: Vec<&Flow> = scenario.flows_of(&deployed).collect();
        let theme = Theme::drawn(below(9), seed);
        let about: Vec<&Flow> = all.iter().copied().filter(|flow| theme.is_of(flow, &versions[0])).collect();
        let (theme, flows) = if about.is_empty() { (Theme::Anything, &all) } else { (theme, &about) };
        let some: Vec<&Flow> = (0..1 + below(2)).map(|_| flows[index(below(flows.len() as u64))]).collect();
        let (events, entities, within) = theme.crowd(scenario.entities, below);
        let senders = (0..events).map(|number| {
            let flow = some[index(below(some.len() as u64))];
            let longest = if theme == Theme::Days { 12 * 3600 } else { 700 };
            let later: Vec<Duration> = (0..below(3)).map(|_| Duration::from_secs(below(longest))).collect();
            let first_at = Duration::from_millis(below(within));
            let entity = below(entities);
            // Who edits may do so at once, too, before anybody has claimed the event.
            let at_once = || (0..below(3)).map(|_| Duration::from_millis(below(900))).collect();
            let (posts, at_once) = match below(2) {
                0 => (scenario.edited_posts(flow, number, entity), at_once()),
                _ => (vec![scenario.post(flow, number, entity, None)], Vec::new()),
            };
            Sender::of(posts, first_at, [later, at_once].concat())
        });
        let senders: Vec<Sender> = senders.collect();
        let opening = theme.opening(below);
        // Two at once on the same few events, and workers that take a batch up again which another took over.
        let parked = matches!(theme, Theme::Parked);
        let operators = if parked { 2 } else { index(below(3)) };
        let profile = if below(if parked { 2 } else { 5 }) == 0 { profile.with_zombies() } else { profile };
        let profile = match theme {
            Theme::Days => FaultProfile { heals_after: Duration::from_secs(below(DAYS)), ..profile },
            _ => profile,
        };
        let containers = if matches!(theme, Theme::Hanging) { 6 } else { index(1 + below(3)) };
        let formats = seed % 8 == 5;
        let ends_back = deployed.len() > 1 && !formats && below(3) == 0;
        // Some seeds are about a queue that gives up early, so that it does so at all.
        let max_receives = if below(6) == 0 { index(2 + below(6)) } else { MAX_RECEIVES };
        let outages = Self::outages(&some, &chance);
        let mut stores = Self::stores(&chance, &some);
        if theme == Theme::Days {
            // An index is late by seconds, and not by the time between two looks.
            stores.lag = 0.0;
            let times = below(4);
            stores.deletions =
                (0..times).map(|_| (Duration::from_secs(below(2 * DAYS)), [0.3, 1.0][index(below(2))])).collect();
        }
        let rest_within = rest_within(&some, &outages, &stores);
        RunSetup {
            scenario: Arc::clone(scenario),
            versions: deployed,
            formats,
            ends_back,
            senders,
            seed,
            plan: FaultPlan::Random,
            profile,
            opening,
            outages,
            orders: Vec::new(),
            operators,
            shift: OperatorShift::Many,
            schedules: 4,
            pace: if theme == Theme::Days { Pace::DAYS } else { Pace::MINUTES },
            containers,
            slack: SLACK,
            max_receives,
            stores,
            rest_within,
            mutation: Mutation::NONE,
        }
    }

    /// The partner that is down for hours, or for good, in the run of a seed.
    fn outages(flows: &[&Flow], chance: &ModelChance) -> Vec<PartnerOutage> {
        let below = |end: u64| chance.bits() % end;
        let called: Vec<&str> =
            flows.iter().flat_map(|flow| &flow.effects).filter_map(|effect| effect.integration()).collect();
        let (which, from, hours, how) = (below(8 * called.len().max(1) as u64), below(600), 1 + below(5), below(6));
        let Some(integration) = called.get(index(which)).map(|name| (*name).to_owned()) else { return Vec::new() };
        let conduct = match how {
            0 => Conduct::Hang { late: None },
            1 => Conduct::Refuse { status: 429, retry_after: None },
            2 => Conduct::Refuse { status: 401, retry_after: None },
            3 => Conduct::Fail { status: 503, applied: false, saved: false },
            _ => Conduct::Unreachable,
        };
        let lasts = if hours == 5 { Duration::MAX } else { Duration::from_secs(3600 * hours) };
        vec![PartnerOutage { integration, from: Duration::from_secs(from), lasts, conduct }]
    }

    /// What queues and tables bear in the run of a seed.
    fn stores(chance: &ModelChance, flows: &[&Flow]) -> Stores {
        let below = |end: u64| chance.bits() % end;
        let mut stores = Stores::REAL;
        if below(4) == 0 {
            let messages = index(3 + below(20));
            (stores.queue.in_flight, stores.queue.searched) = (messages, messages);
        }
        if below(2) == 0 {
            stores.queue.characters = BadCharacters::Replaced;
        }
        let patience = longest_age(flows) + HOUR;
        stores.queue.retention =
            patience.clamp(PATIENCE, LONGEST_PATIENCE) + Duration::from_secs(3600 * (1 + below(48)));
        if below(2) == 0 {
            stores.largest_row = SMALL_ROW;
        }
        stores.lag = [0.0, 0.1, 0.1, 0.5][index(below(4))];
        stores.faulty = (below(8) == 0).then(|| FaultyItem {
            number: index(below(12)),
            well_for: index(1 + below(16)),
            fault: match below(4) {
                0 => ItemFault::Full,
                1 => ItemFault::Unreadable,
                _ => ItemFault::Hot(Duration::from_secs(60 + below(4 * 3600))),
            },
        });
        stores
    }

    /// Two events of a flow about one entity, with nothing going wrong but what the plan says; or nothing, if the
    /// flow has no recipe.
    pub fn calm(&self, flow: &str, plan: FaultPlan) -> Option<RunSetup> {
        let scenario = &self.scenario;
        let flow = scenario.flows().find(|known| known.name == flow)?;
        let posts = |number: u64| scenario.edited_posts(flow, number, 0);
        let sender = |number: u64| Sender::of(posts(number), Duration::from_millis(number * 50), Vec::new());
        Some(RunSetup {
            scenario: Arc::clone(scenario),
            versions: scenario.versions[..1].to_vec(),
            formats: false,
            ends_back: false,
            senders: vec![sender(0), sender(1)],
            seed: 1,
            plan,
            profile: FaultProfile::calm(),
            opening: None,
            outages: Vec::new(),
            orders: Vec::new(),
            operators: 1,
            shift: OperatorShift::One,
            schedules: 0,
            pace: Pace::MINUTES,
            containers: 2,
            slack: SLACK,
            max_receives: MAX_RECEIVES,
            stores: Stores::REAL,
            rest_within: rest_within(&[flow], &[], &Stores::REAL),
            mutation: Mutation::NONE,
        })
    }
}

/// The versions that are deployed in the run of a seed, one after the other: of every fourth seed two, or all.
fn deployed(versions: &[FlowsVersion], seed: u64) -> Vec<FlowsVersion> {
    let last = versions.len() - 1;
    match seed % 16 {
        1 | 13 => versions.to_vec(),
        5 => versions[..versions.len().min(2)].to_vec(),
        9 if last > 0 => vec![versions[0].clone(), versions[last].clone()],
        _ => versions[..1].to_vec(),
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
            senders.extend((0..*events).map(|number| {
                let posts = vec![scenario.post(flow, number, number % scenario.entities, None)];
                Sender::of(posts, every.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)), Vec::new())
            }));
        }
        let calm = self.calm(loads.first()?.flow, FaultPlan::Random)?;
        Some(RunSetup { senders, containers, slack: BUSY_SLACK, operators: 0, ..calm })
    }
}

/// How long after the last event all is at rest that events of these flows do: what their partners are down for, what they
/// may wait for, and what comes after.
fn rest_within(flows: &[&Flow], outages: &[PartnerOutage], stores: &Stores) -> Duration {
    let down: Duration = outages.iter().map(|outage| outage.lasts).filter(|lasts| *lasts < Duration::MAX).sum();
    let broken = stores.faulty.map_or(Duration::ZERO, |item| match item.fault {
        ItemFault::Hot(lasts) => lasts,
        ItemFault::Full | ItemFault::Unreadable => BROKEN_ROW,
    });
    longest_age(flows) * LIVES + down + broken + AFTERWARDS
}

/// How long the most patient of these flows goes on with an event.
fn longest_age(flows: &[&Flow]) -> Duration {
    flows.iter().map(|flow| flow.max_age).max().unwrap_or_default()
}

/// What some seeds are about, so that it comes about at all.
#[derive(Clone, Copy, PartialEq)]
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
    /// Nights and days, and senders who come again when a key has ended.
    Days,
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
            7 => Theme::Days,
            _ => Theme::Anything,
        }
    }

    /// How many events come, about how many entities, and within how many milliseconds.
    fn crowd(self, most: u64, below: impl Fn(u64) -> u64) -> (u64, u64, u64) {
        let (events, entities, within) = match self {
            Theme::Pressed => (8, most, 2_000),
            Theme::Hanging => (8 + below(6), most, 4_000),
            Theme::Parked => (4 + below(6), 1 + below(most), 60_000),
            Theme::Close => (3 + below(5), 1 + below(2), [30, 60_000][index(below(2))]),
            Theme::Guarded => (3 + below(6), 1 + below(2), 60_000),
            Theme::Days => (3 + below(4), 1 + below(2), DAYS * 1000),
            Theme::Approved | Theme::Anything => (1 + below(7), 1 + below(3), 60_000),
        };
        (events, entities.min(most), within)
    }

    /// How every partner behaves at first.
    fn opening(self, below: impl Fn(u64) -> u64) -> Option<OpeningConduct> {
        let (conduct, lasts) = match self {
            Theme::Parked => {
                let status = [400, 400, 503, 401][index(below(4))];
                (Conduct::Refuse { status, retry_after: None }, 5 + below(240))
            }
            Theme::Hanging => (Conduct::Hang { late: None }, 30 + below(120)),
            _ => return None,
        };
        Some(OpeningConduct { conduct, lasts: Duration::from_secs(lasts) })
    }

    fn is_of(self, flow: &Flow, version: &FlowsVersion) -> bool {
        let mut partners = flow.effects.iter().filter_map(|effect| version.flows.partner_of(effect));
        match self {
            Theme::Pressed => partners.any(|partner| partner.pressure.is_limited()),
            Theme::Guarded => flow.contact.is_some(),
            Theme::Approved => flow.approval.is_some(),
            Theme::Hanging => flow.effects.iter().any(|effect| effect.guarantee.allows_repetition()),
            Theme::Close => flow.key.window.is_some(),
            Theme::Days => {
                let sleeps = flow.guards.iter().any(|guard| matches!(guard, Guard::QuietHours(_)));
                sleeps || flow.max_age > HOUR || flow.ttl < HOUR
            }
            Theme::Parked | Theme::Anything => true,
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
