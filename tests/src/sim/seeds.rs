//! What a seed stands for.

use std::time::Duration;

use shared::flow::Flow;
use shared::model::ModelChance;
use shared::ports::Chance as _;

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
    let flows: Vec<&Flow> = versions[0].flows.all().collect();
    let some: Vec<&Flow> = (0..1 + below(2)).map(|_| flows[index(below(flows.len() as u64))]).collect();
    let (events, entities) = (1 + below(7), 1 + below(3));
    let senders = (0..events).map(|number| {
        let flow = some[index(below(some.len() as u64))];
        let again = (0..below(3)).map(|_| Duration::from_secs(below(700))).collect();
        let first_at = Duration::from_millis(below(60_000));
        let (source, payload) = (flow.on.source.clone(), payload(flow, number, below(entities)));
        Sender { source, payload, first_at, again_after: again }
    });
    let senders = senders.collect();
    let (operators, containers) = (index(below(3)), index(1 + below(3)));
    let versions = if seed % 4 == 1 { versions } else { versions[..1].to_vec() };
    Setup { seed, plan: Plan::Random(profile.clone(), 0), profile, versions, senders, operators, containers, mutant }
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
        mutant: &NONE,
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
