//! Events of one entity: in which order the export has them, and in which they were acted on.

use std::collections::HashMap;

use serde_json::Value;
use shared::arrival::key;
use shared::base::time::Timestamp;
use shared::flows::Flow;

use super::report::RehearsalReport;

/// The entities of an export. Each takes some 50 bytes, however many events it has.
#[derive(Default)]
pub(super) struct EntityOrder(HashMap<EntityId, EntityPast>);

/// Whom an event is about, as a number that names nobody.
pub(super) type EntityId = u64;

#[derive(Default)]
struct EntityPast {
    newest: Option<Timestamp>,
    was_reordered: bool,
    /// The place, among all accepted events, of the last one that was acted on.
    acted: u64,
}

/// The entity of an event of a flow: what its order names.
pub(super) fn entity_of(flow: &Flow, event: &Value) -> Option<EntityId> {
    let group = key::group(flow, flow.version, event).ok()?;
    u64::from_str_radix(group.get(..16)?, 16).ok()
}

impl EntityOrder {
    /// Notes that an event was accepted, and when it happened.
    pub(super) fn accepted(&mut self, entity: EntityId, moment: Option<Timestamp>, report: &mut RehearsalReport) {
        let past = self.0.entry(entity).or_default();
        let Some(moment) = moment else { return };
        if past.newest.is_some_and(|newest| newest > moment) {
            report.out_of_order += 1;
            report.reordered_entities += usize::from(!past.was_reordered);
            past.was_reordered = true;
        }
        past.newest = past.newest.max(Some(moment));
    }

    /// Notes that an event, by its place among all accepted ones, is acted on for the first time.
    pub(super) fn acted(&mut self, entity: EntityId, place: u64, report: &mut RehearsalReport) {
        let past = self.0.entry(entity).or_default();
        report.overtaken += usize::from(place < past.acted);
        past.acted = past.acted.max(place);
    }

    /// How many entities there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
