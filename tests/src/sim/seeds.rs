//! What a seed stands for.

use std::time::Duration;

use shared::base::machine::Chance as _;
use shared::flows::Flow;
use shared::model::ModelChance;

use super::contacts;
use super::containers::MAX_RECEIVES;
use super::faults::{Plan, Profile};
use super::flows::{SHIPPED, VERSIONS, Version, parcel};
use super::mutants::{Mutant, NONE};
use super::operators::{Act, Shift};
use super::partner::{Conduct, Illness};
use super::senders::Sender;
use super::world::Setup;

/// The run of a seed.
pub(super) fn drawn(seed: u64) -> Setup {
    with(seed, &NONE)
}

/// The run of a seed, with a mutant in the product's place.
pub(super) fn with(seed: u64, mutant: &'static Mutant) -> Setup {
    let chance = ModelChance::seeded(seed ^ 0x5eed);
    let below = |end: u64| chance.bits() % end;
    let profile = Profile::drawn(&chance);
    let versions = versions(seed, mutant);
    let all: Vec<&Flow> = versions[0].flows.all().collect();
    let theme = Theme::drawn(below(7));
    let about: Vec<&Flow> = all.iter().copied().filter(|flow| theme.is_of(flow, &versions[0])).collect();
    let (theme, flows) = if about.is_empty() { (Theme::Anything, &all) } else { (theme, &about) };
    let some: Vec<&Flow> = (0..1 + below(2)).map(|_| flows[index(below(flows.len() as u64))]).collect();
    let (events, entities, within) = match theme {
        Theme::Pressed => (8, contacts::ENTITIES, 2_000),
        Theme::Parked => (4 + below(6), 1 + below(contacts::ENTITIES), 60_000),
        Theme::Guarded => (3 + below(6), 1 + below(2), 60_000),
        Theme::Approved | Theme::Anything => (1 + below(7), 1 + below(3), 60_000),
    };
    let senders = (0..events).map(|number| {
        let flow = some[index(below(some.len() as u64))];
        let again = (0..below(3)).map(|_| Duration::from_secs(below(700))).collect();
        let first_at = Duration::from_millis(below(within));
        let (source, parcel) = (flow.on.source.clone(), parcel(flow, number, below(entities)));
        Sender { source, parcel, first_at, again_after: again }
    });
    let senders = senders.collect();
    let illness = matches!(theme, Theme::Parked).then(|| Illness {
        conduct: Conduct::Refuse { status: [400, 400, 503][index(below(3))], retry_after: None },
        lasts: Duration::from_secs(5 + below(240)),
    });
    // Two at once on the same few events, and workers that take a batch up again which another took over.
    let parked = illness.is_some();
    let operators = if parked { 2 } else { index(below(3)) };
    let profile = if below(if parked { 2 } else { 5 }) == 0 { profile.with_zombies() } else { profile };
    let containers = index(1 + below(3));
    let versions = if seed % 4 == 1 { versions } else { versions[..1].to_vec() };
    // Some seeds are about a queue that gives up early, so that it does so at all.
    let max_receives = if below(6) == 0 { index(2 + below(6)) } else { MAX_RECEIVES };
    let plan = Plan::Random(profile.clone(), 0);
    let (shift, schedules) = (Shift::Many, 4);
    Setup {
        seed,
        plan,
        profile,
        versions,
        senders,
        operators,
        shift,
        schedules,
        illness,
        containers,
        max_receives,
        mutant,
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
    Anything,
}

impl Theme {
    fn drawn(number: u64) -> Self {
        match number {
            0 => Theme::Pressed,
            1 => Theme::Guarded,
            2 => Theme::Approved,
            3 | 4 => Theme::Parked,
            _ => Theme::Anything,
        }
    }

    fn is_of(self, flow: &Flow, version: &Version) -> bool {
        let mut partners = flow.effects.iter().filter_map(|effect| version.flows.partner_of(effect));
        match self {
            Theme::Pressed => partners.any(|partner| partner.pressure.is_limited()),
            Theme::Guarded => flow.contact.is_some(),
            Theme::Approved => flow.approval.is_some(),
            Theme::Parked | Theme::Anything => true,
        }
    }
}

/// Every eighth seed is of the shipped flows.
fn versions(seed: u64, mutant: &Mutant) -> Vec<Version> {
    if let Some(version) = mutant.flows {
        return vec![Version::clone(version)];
    }
    if seed.is_multiple_of(8) { vec![SHIPPED.clone()] } else { VERSIONS.to_vec() }
}

/// One event of a flow, with nothing going wrong but what the plan says.
pub(super) fn single(version: &Version, flow: &Flow, plan: Plan) -> Setup {
    let sender = |number: u64| Sender {
        source: flow.on.source.clone(),
        parcel: parcel(flow, number, 0),
        first_at: Duration::from_millis(number * 50),
        again_after: Vec::new(),
    };
    Setup {
        seed: 1,
        plan,
        profile: Profile::calm(),
        versions: vec![version.clone()],
        senders: vec![sender(0), sender(1)],
        operators: 1,
        shift: Shift::One,
        schedules: 0,
        illness: None,
        containers: 2,
        max_receives: MAX_RECEIVES,
        mutant: &NONE,
    }
}

/// The same, of events that died of a partner's illness, while an operator does this.
pub(super) fn scripted(version: &Version, flow: &Flow, conduct: Conduct, acts: &'static [Act], plan: Plan) -> Setup {
    let illness = Some(Illness { conduct, lasts: Duration::from_secs(30) });
    Setup { illness, shift: Shift::Script(acts), ..single(version, flow, plan) }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
