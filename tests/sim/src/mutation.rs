//! The hook for a protocol with one step broken: what a run puts in the product's place.
//!
//! The product has no such hook. A mutation wraps the ports of a container, writes rows by its own rules, or has
//! batches handled in another way.

use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::ledger::{Claim, Row};
use shared::model::ModelLedger;

pub use crate::wiring::{ContainerPorts, Models};

/// What a run does in another way than the product.
#[derive(Clone, Copy)]
pub struct Mutation {
    /// The ports of each container that starts, from those of the product.
    pub ports: fn(ContainerPorts, &Models) -> ContainerPorts,
    /// How rows are written.
    pub rules: RowRules,
    /// The deduplication id under which an event is sent.
    pub deduplication_id: fn(&Event) -> String,
    /// What is done with batches, and with what people say.
    pub handling: Handling,
}

impl Mutation {
    /// The product as it is.
    pub const NONE: Mutation = Mutation {
        ports: |ports, _| ports,
        rules: RowRules::PRODUCT,
        deduplication_id: Event::deduplication_id,
        handling: Handling::Product,
    };
}

/// How rows are written.
#[derive(Clone, Copy)]
pub struct RowRules {
    /// Writes the row of a worker that holds its lease.
    pub hold: fn(&ModelLedger, Row) -> Result<(), WriteError>,
    /// Puts the row aside that was seen, and writes the one of a new event of its key.
    pub admit_anew: fn(&ModelLedger, &Row, &Row, Option<&Event>) -> Result<(), Unavailable>,
    /// Changes the row of an event that is about to be replayed.
    pub replayed: fn(&mut Row),
    /// The claim that a client sends again whose first answer was late.
    pub repeated: fn(&Claim) -> Claim,
}

impl RowRules {
    /// The product's way.
    pub const PRODUCT: RowRules = RowRules {
        hold: |ledger, row| ledger.hold(&row),
        admit_anew: ModelLedger::admit_anew,
        replayed: |_| (),
        repeated: Claim::clone,
    };
}

/// What is done with batches, and with what people say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// What the product does.
    Product,
    /// Each message alone, so that nothing stops the tail of a group.
    OneByOne,
    /// The first message that failed is left out of the report.
    OmitsAFailure,
    /// Letters that were not parked are left out of the report.
    OmitsUnparked,
    /// What the product does, but each letter's payload takes the place of the one that is kept.
    OverwritesKept,
    /// What the product does, but a yes counts for whatever is asked when it arrives.
    AnyHash,
    /// What the product does, but an apply is a replay, whatever was planned.
    AnyPlan,
    /// What the product does, but the schedule does not come.
    Unscheduled,
    /// What the product does, but nothing that waits is woken.
    Unwoken,
}
