//! Whom nothing may be done for.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::executor::block_on;
use serde_json::Value;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::cap;
use shared::effects::contact::{ContactId, ContactUpsert, Contacts as _, Fields};
use shared::effects::guard::{Judgement, judge};
use shared::flows::{Cap, Flow, Guard};
use shared::ledger::{Row, State};

use super::{CAP, CONSENT, GUARDS, NOOP_NAMED, Oracle, Seen, violated};
use crate::partner::Partner;
use crate::ports::Seat;
use crate::run::BrokenInvariant;

/// From the moment that a worker takes for its place under a cap, to what the partner does for it.
const ON_ITS_WAY: Duration = Duration::from_secs(15);

impl Oracle {
    /// A contact is changed, by an event or an operator, as of a moment. This is what was known of it before.
    pub(crate) fn contact_changed(
        &self,
        upsert: &ContactUpsert,
        change: (&EventId, Timestamp),
        before: Option<Fields>,
        now: Timestamp,
    ) {
        if self.blind {
            return;
        }
        self.said(upsert, change, before.as_ref(), now);
        self.seen().contacts.push((now, upsert.id().clone(), before));
    }

    /// An effect is called. Each guard let it pass at some moment since its worker claimed it.
    pub(super) fn is_let_pass(&self, row: &Row, seat: &Seat) -> Result<(), BrokenInvariant> {
        let seen = self.seen();
        let Some(event) = seen.events.get(&row.id).and_then(|known| known.event.as_ref()) else { return Ok(()) };
        let Some(flow) = self.flows(&row.flow).next() else { return Ok(()) };
        let now = seat.scheduler.now();
        let claimed = seen.begun.get(&(row.id.clone(), seat.who)).map_or(now, |begun| begun.at);
        let contact = contact(flow, row, event);
        if let Some(contact) = &contact {
            self.has_consent(&seen, flow, contact, claimed)?;
        }
        let contacts = self.contact_since(&seen, contact.as_ref(), claimed);
        for guard in &flow.guards {
            let scope = row.scope_of(event);
            let passes = |fields: &Option<Fields>, at| judge(guard, fields.as_ref(), &scope, at) == Ok(Judgement::Pass);
            if !contacts.iter().any(|fields| passes(fields, claimed) || passes(fields, now)) {
                let name = if matches!(guard, Guard::Consent(_)) { CONSENT } else { GUARDS };
                return Err(violated(name, format!("{} runs, though {} refuses it", row.id, guard.name())));
            }
        }
        Ok(())
    }

    /// What was known of a contact at any moment since then.
    fn contact_since(&self, seen: &Seen, id: Option<&ContactId>, since: Timestamp) -> Vec<Option<Fields>> {
        let Some(id) = id else { return vec![None] };
        let before = seen.contacts.iter().filter(|(at, changed, _)| *at >= since && changed == id);
        let before = before.map(|(_, _, fields)| fields.clone());
        before.chain([block_on(self.contacts.find(id)).unwrap_or_default()]).collect()
    }

    /// A no-op says which guard it is.
    pub(super) fn names_its_guard(&self, after: &Row) -> Result<(), BrokenInvariant> {
        if after.state != State::Noop {
            return Ok(());
        }
        let name = after.noop.as_ref().map(|noop| noop.guard.as_str());
        let mut guards =
            self.flows(&after.flow).flat_map(|flow| &flow.guards).map(Guard::name).chain(["approval", "on_invalid"]);
        match name {
            Some(name) if guards.any(|guard| guard == name) => Ok(()),
            _ => Err(violated(NOOP_NAMED, format!("{} is a no-op by {name:?}", after.id))),
        }
    }

    /// In no stretch of time did more events reach an entity than a cap allows.
    pub(super) fn within_caps(&self, seen: &Seen, partner: &Partner) -> Result<(), BrokenInvariant> {
        let reached: Vec<Reach> = seen.events.keys().flat_map(|id| self.reach(seen, id, partner)).collect();
        for one in &reached {
            let window = one.per.saturating_sub(ON_ITS_WAY);
            for at in &one.at {
                let near = |other: &&Reach| {
                    let lately = |then: &Timestamp| then < at && at.since(*then) < window;
                    other.id != one.id && other.key == one.key && other.punctual.iter().any(lately)
                };
                let others: BTreeSet<&EventId> = reached.iter().filter(near).map(|other| &other.id).collect();
                let count = 1 + others.len();
                if count > one.limit {
                    let what = format!("{} is number {count} under a cap of {}", one.id, one.limit);
                    return Err(violated(CAP, what));
                }
            }
        }
        Ok(())
    }

    /// The caps that an event was under, in the mode of each of its intents: a replay may have another.
    fn reach(&self, seen: &Seen, id: &EventId, partner: &Partner) -> Vec<Reach> {
        let Some(known) = seen.events.get(id) else { return Vec::new() };
        let (Some(row), Some(event)) = (self.row(id), known.event.as_ref()) else { return Vec::new() };
        let Some(flow) = self.flows(&row.flow).next() else { return Vec::new() };
        if !flow.effects.iter().any(|effect| !partner.applied(id, &effect.id).is_empty()) {
            return Vec::new();
        }
        let reach = |flow: &Flow, cap: &Cap, safe: bool| Reach {
            id: id.clone(),
            key: cap::key(&cap.channel, &entity(flow, cap, &row, event)),
            limit: cap.limit as usize,
            per: cap.per,
            at: known.intended.iter().filter(|intended| intended.safe == safe).map(|intended| intended.at).collect(),
            punctual: known.intended.iter().filter(|intended| !intended.stalled).map(|intended| intended.at).collect(),
        };
        let in_mode = |safe: bool| if safe { flow.clone().in_safe_mode() } else { flow.clone() };
        let modes = [false, true].map(|safe| (safe, in_mode(safe)));
        let of_mode = |(safe, flow): &(bool, Flow)| flow.caps().map(|cap| reach(flow, cap, *safe)).collect::<Vec<_>>();
        modes.iter().flat_map(of_mode).collect()
    }
}

/// An event that reached an entity: when it meant to, and when without having stood still before.
struct Reach {
    id: EventId,
    key: String,
    limit: usize,
    per: Duration,
    at: Vec<Timestamp>,
    punctual: Vec<Timestamp>,
}

fn contact(flow: &Flow, row: &Row, event: &Event) -> Option<ContactId> {
    let (contact, scope) = (flow.contact.as_ref()?, row.scope_of(event));
    let text = |value: Value| value.as_str().map(str::to_owned);
    let (tenant, email) = (contact.tenant.render(&scope).ok()?, contact.email.render(&scope).ok()?);
    ContactId::of(&text(tenant)?, &text(email)?).ok()
}

fn entity(flow: &Flow, cap: &Cap, row: &Row, event: &Event) -> String {
    let named = cap.entity.as_ref().and_then(|entity| entity.render(&row.scope_of(event)).ok());
    let named = named.and_then(|name| name.as_str().map(str::to_owned));
    named.or_else(|| contact(flow, row, event).map(|id| id.to_string())).unwrap_or_else(|| event.group.clone())
}
