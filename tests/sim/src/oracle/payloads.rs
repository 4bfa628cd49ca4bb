//! Which payload of an event reaches the partners.

use shared::base::id::EventId;
use shared::ledger::Row;

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

    /// A row is written. If it is parked, the payload that is kept beside it is the one that partners have seen.
    pub(super) fn keeps_what_was_called(&self, row: &Row) -> Result<(), BrokenInvariant> {
        let kept = self.kept_variant(&row.id).filter(|_| row.is_parked());
        let called = self.seen().events.get(&row.id).and_then(|known| known.variant.clone());
        match (kept, called) {
            (Some(kept), Some(called)) if kept != called => {
                let seen = format!("{} is kept as variant {kept}, and was called with variant {called}", row.id);
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
