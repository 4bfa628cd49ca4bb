//! What a seed stands for.

use std::time::Duration;

use shared::flow::Flow;
use shared::model::ModelChance;
use shared::ports::Chance as _;

use super::containers::MAX_RECEIVES;
use super::faults::{Plan, Profile};
use super::flows::{SHIPPED, VERSIONS, Version, payload};
use super::mutants::{Mutant, NONE};
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
    let pressed: Vec<&Flow> = all.iter().copied().filter(|flow| is_pressed(flow, &versions[0])).collect();
    // Some seeds are about a crowd before partners that bear little.
    let crowd = !pressed.is_empty() && below(6) == 0;
    let flows = if crowd { &pressed } else { &all };
    let some: Vec<&Flow> = (0..1 + below(2)).map(|_| flows[index(below(flows.len() as u64))]).collect();
    let (events, entities, within) = if crowd { (8, 8, 2_000) } else { (1 + below(7), 1 + below(3), 60_000) };
    let senders = (0..events).map(|number| {
        let flow = some[index(below(some.len() as u64))];
        let again = (0..below(3)).map(|_| Duration::from_secs(below(700))).collect();
        let first_at = Duration::from_millis(below(within));
        let (source, payload) = (flow.on.source.clone(), payload(flow, number, below(entities)));
        Sender { source, payload, first_at, again_after: again }
    });
    let senders = senders.collect();
    let (operators, containers) = (index(below(3)), index(1 + below(3)));
    let versions = if seed % 4 == 1 { versions } else { versions[..1].to_vec() };
    // Some seeds are about a queue that gives up early, so that it does so at all.
    let max_receives = if below(6) == 0 { index(2 + below(6)) } else { MAX_RECEIVES };
    let plan = Plan::Random(profile.clone(), 0);
    Setup { seed, plan, profile, versions, senders, operators, containers, max_receives, mutant }
}

fn is_pressed(flow: &Flow, version: &Version) -> bool {
    let mut partners = flow.effects.iter().filter_map(|effect| version.flows.partner_of(effect));
    partners.any(|partner| partner.pressure.is_limited())
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
        payload: payload(flow, number, 0),
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
        containers: 2,
        max_receives: MAX_RECEIVES,
        mutant: &NONE,
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
