//! Which payload of an event reaches the partners.

use shared::base::id::EventId;

use super::{ONE_PAYLOAD, Oracle, violated};
use crate::partner::Arrival;
use crate::recipe::variant_in;
use crate::run::BrokenInvariant;

impl Oracle {
    /// A call arrives. It is made of the payload that every other call of the event is made of, and that the plan of its
    /// last replay showed.
    pub(super) fn is_of_one_payload(&self, event: &EventId, arrival: &Arrival) -> Result<(), BrokenInvariant> {
        let Some(variant) = variant_in(&arrival.request) else { return Ok(()) };
        let mut seen = self.seen();
        let known = seen.events.entry(event.clone()).or_default();
        let first = known.variant.get_or_insert_with(|| variant.clone());
        if *first != variant {
            let seen = format!("{event} is called with variant {variant}, and was with variant {first}");
            return Err(violated(ONE_PAYLOAD, seen));
        }
        match &known.planned_variant {
            Some(planned) if *planned != variant => {
                let seen = format!("{event} is called with variant {variant}, and the plan showed variant {planned}");
                Err(violated(ONE_PAYLOAD, seen))
            }
            _ => Ok(()),
        }
    }

    /// The payload that is kept of an event, as a plan shows it.
    pub(super) fn kept_variant(&self, event: &EventId) -> Option<String> {
        variant_in(&self.ledger.payload(event)?.payload.to_string())
    }
}
