//! The catalogue of partners: its requests are those that Prism accepted, its tables mean what the partners' documentation
//! says, and what `FLOWS.md` says of it is true.

mod answers;
mod provenance;
mod requests;
mod silence;
mod table;
mod tutorial;

use std::collections::BTreeMap;

use local::prism::{PartnerSamples, flows_of, samples};
use shared::flows::{Effect, Flows};

use crate::fixtures::root;

/// A flow with an effect for each call of each partner, by partner.
fn catalogue() -> BTreeMap<String, Flows> {
    let flows = |(name, samples): (String, PartnerSamples)| {
        let flows = flows_of(&root(), &name, &samples).unwrap_or_else(|error| panic!("{error}"));
        (name, flows)
    };
    samples(&root()).expect("the samples").into_iter().map(flows).collect()
}

/// The effect of a call.
fn effect_of<'f>(flows: &'f Flows, call: &str) -> &'f Effect {
    let flow = flows.flow("sample").expect("the flow of the samples");
    flow.effects.iter().find(|effect| effect.id == call).unwrap_or_else(|| panic!("no call {call}"))
}
