//! What contacts said last, whatever was retried or replayed since.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::contact::{ContactId, ContactUpsert, Contacts as _, Fields, Scalar};
use shared::flows::{Flow, Guard};

use super::{CLOCKS, CONSENT_FORWARD, Oracle, Seen, violated};
use crate::run::BrokenInvariant;

/// What an event said of a contact, once it was applied.
pub(super) struct Said {
    contact: ContactId,
    event: Option<EventId>,
    received_at: Timestamp,
    applied_at: Timestamp,
    /// The fields that it set, and with `None` those that it removed.
    changes: BTreeMap<String, Option<Scalar>>,
}

impl Oracle {
    /// An event or an operator's change is applied to a contact, of which this was known before. When an event was
    /// received, the oracle knows; a change of an operator is as of the moment that it names.
    pub(super) fn said(
        &self,
        upsert: &ContactUpsert,
        (by, at): (&EventId, Timestamp),
        before: Option<&Fields>,
        now: Timestamp,
    ) {
        let mut seen = self.seen();
        let contact = upsert.id();
        if seen.said.iter().all(|said| said.contact != *contact) {
            let began = Timestamp::from_secs(0);
            let changes = before.into_iter().flatten().map(|(name, value)| (name.clone(), Some(value.clone())));
            let changes = changes.collect();
            let known = Said { contact: contact.clone(), event: None, received_at: began, applied_at: began, changes };
            seen.said.push(known);
        }
        let again = |said: &Said| said.contact == *contact && said.event.as_ref() == Some(by);
        let received_at = seen.events.get(by).map_or(Some(at), |known| known.received_at);
        if let Some(received_at) = received_at
            && !seen.said.iter().any(again)
        {
            let changes = upsert.changes().map(|(name, value)| (name.to_owned(), value.cloned())).collect();
            let (contact, event) = (contact.clone(), Some(by.clone()));
            seen.said.push(Said { contact, event, received_at, applied_at: now, changes });
        }
    }

    /// A call is made by a worker that claimed its event then. At some moment since, the newest of what was applied
    /// did not deny the consent that the flow asks for.
    pub(super) fn has_consent(
        &self,
        seen: &Seen,
        flow: &Flow,
        contact: &ContactId,
        claimed: Timestamp,
    ) -> Result<(), BrokenInvariant> {
        for guard in &flow.guards {
            let Guard::Consent(consent) = guard else { continue };
            let field = consent.field();
            let mut moments = seen.said.iter().map(|said| said.applied_at).filter(|at| *at > claimed).chain([claimed]);
            let denied = |at| {
                let newest = newest(seen, contact, &field, at);
                !newest.is_empty() && !newest.contains(&Some(&Scalar::Bool(true)))
            };
            if moments.all(denied) {
                let what = format!("`{}` calls for {contact}, whose newest word on `{field}` is no", flow.name);
                return Err(violated(CONSENT_FORWARD, what));
            }
        }
        Ok(())
    }

    /// At the end, each field of each contact is what the newest event says.
    pub(super) fn newest_words_stand(&self, seen: &Seen) -> Result<(), BrokenInvariant> {
        let fields = seen.said.iter().flat_map(|said| said.changes.keys().map(|name| (&said.contact, name)));
        for (contact, name) in fields.collect::<BTreeSet<_>>() {
            let stored = block_on(self.contacts.find(contact)).ok().flatten().unwrap_or_default();
            let end = Timestamp::from_millis(i64::MAX);
            if !newest(seen, contact, name, end).contains(&stored.get(name)) {
                let what = format!("`{name}` of {contact} is not what the newest event says");
                return Err(violated(CONSENT_FORWARD, what));
            }
        }
        Ok(())
    }
}

/// The values that a field may have, by all that was applied until then: the newest, and those that were received so
/// close to it that two clocks may tell their order otherwise.
fn newest<'s>(seen: &'s Seen, contact: &ContactId, field: &str, until: Timestamp) -> Vec<Option<&'s Scalar>> {
    let of = |said: &'s Said| (said.contact == *contact && said.applied_at <= until).then(|| said.changes.get(field));
    let said = || seen.said.iter().filter_map(|said| Some((said.received_at, of(said)??.as_ref())));
    let Some(latest) = said().map(|(at, _)| at).max() else { return Vec::new() };
    said().filter(|(at, _)| *at + CLOCKS >= latest).map(|(_, value)| value).collect()
}
