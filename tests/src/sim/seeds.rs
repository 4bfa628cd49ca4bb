//! Which flows a seed is about, and which mutant takes the product's place.

use std::sync::LazyLock;

use sim::{FlowsVersion, RunSetup, Scenario, Simulation};

use super::contacts;
use super::events::{listings, recipes};
use super::flows::{shipped, versions};
use super::mutants::{Mutant, NONE};
use crate::fixtures::NOW;

/// Our own flows.
pub(super) static OURS: LazyLock<Simulation> = LazyLock::new(|| simulation(versions()));

/// The shipped flows.
pub(super) static SHIPPED: LazyLock<Simulation> = LazyLock::new(|| simulation(vec![shipped()]));

/// The simulation of some versions of our flows.
pub(super) fn simulation(versions: Vec<FlowsVersion>) -> Simulation {
    let events = versions.iter().flat_map(|version| recipes(version.flows())).collect();
    let contacts = contacts::known();
    let (listings, entities) = (listings(), contacts::ENTITIES);
    let scenario = Scenario { versions, events, listings, entities, contacts, starts_at: NOW };
    Simulation::new(scenario).unwrap_or_else(|error| panic!("{error}"))
}

/// The run of a seed.
pub(super) fn drawn(seed: u64) -> RunSetup {
    with(seed, &NONE)
}

/// The run of a seed, with a mutant in the product's place. Every eighth seed is of the shipped flows.
pub(super) fn with(seed: u64, mutant: &Mutant) -> RunSetup {
    let ours = || if seed.is_multiple_of(8) { &SHIPPED } else { &OURS };
    let mut setup = mutant.flows.unwrap_or_else(ours).draw(seed);
    setup.mutation = mutant.mutation;
    setup
}
