//! A stored contact: its fields, and for each the stamp of its last change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{ContactUpsert, Fields};
use crate::base::id::EventId;
use crate::base::time::Timestamp;

/// The stamp of a change: when its event was received, and which event it was. The greater stamp is the newer change.
///
/// A stamp is a text, so that a condition of the store compares it as we do: the moment in 15 digits, which reach
/// beyond the year 30000, and then 16 characters of the event's id, which order two events of one moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldStamp(String);

impl FieldStamp {
    /// The stamp of the changes of an event that was received then.
    pub fn of(by: &EventId, at: Timestamp) -> Self {
        let id: String = by.as_str().chars().take(ID_CHARS).collect();
        FieldStamp(format!("{:015}-{id}", at.millis().clamp(0, MAX_MILLIS)))
    }

    /// The stamp that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        let (moment, _) = text.split_once('-')?;
        let legal = moment.len() == MOMENT_DIGITS && moment.bytes().all(|byte| byte.is_ascii_digit());
        legal.then(|| FieldStamp(text.to_owned()))
    }

    /// The stamp as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The moment when the change's event was received.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.0[..MOMENT_DIGITS].parse().unwrap_or_default())
    }
}

/// A contact as it is stored.
#[derive(Clone, PartialEq)]
pub struct Contact {
    /// The event that created the contact.
    pub created_by: EventId,
    /// The fields that are set.
    pub fields: Fields,
    /// The stamp of each field's last change. A field that was removed keeps its stamp, or else an older event could
    /// set it again.
    pub stamps: BTreeMap<String, FieldStamp>,
    /// The last change by a version of this software that kept no stamps, where there was one. It counts as the change
    /// of every field that is set and has no stamp.
    pub unstamped_at: Option<Timestamp>,
    /// The last operator who changed the contact, and why.
    pub signed_off: Option<String>,
}

impl Contact {
    /// A contact of which nothing is known but who created it.
    pub fn created_by(by: &EventId) -> Self {
        let (created_by, fields, stamps) = (by.clone(), BTreeMap::new(), BTreeMap::new());
        Contact { created_by, fields, stamps, unstamped_at: None, signed_off: None }
    }

    /// The moment of a field's last change, if it was ever changed.
    pub fn changed_at(&self, name: &str) -> Option<Timestamp> {
        let unstamped = || self.unstamped_at.filter(|_| self.fields.contains_key(name));
        self.stamps.get(name).map(FieldStamp::at).or_else(unstamped)
    }

    /// The fields of an upsert that a newer change has set or removed.
    pub fn overtaken(&self, upsert: &ContactUpsert, stamp: &FieldStamp) -> BTreeSet<String> {
        let newer = |name: &str| match self.stamps.get(name) {
            Some(known) => known > stamp,
            None => self.changed_at(name).is_some_and(|at| at > stamp.at()),
        };
        upsert.changes().map(|(name, _)| name.to_owned()).filter(|name| newer(name)).collect()
    }

    /// Applies an upsert to the fields that no newer change has set or removed. Returns the others.
    pub fn apply(&mut self, upsert: &ContactUpsert, stamp: &FieldStamp) -> BTreeSet<String> {
        let overtaken = self.overtaken(upsert, stamp);
        for (name, value) in upsert.changes().filter(|(name, _)| !overtaken.contains(*name)) {
            match value {
                Some(value) => drop(self.fields.insert(name.to_owned(), value.clone())),
                None => drop(self.fields.remove(name)),
            }
            self.stamps.insert(name.to_owned(), stamp.clone());
        }
        if let Some(sign_off) = upsert.sign_off() {
            self.signed_off = Some(sign_off.to_owned());
        }
        overtaken
    }
}

/// Without values: they are a person's.
impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contact").field("stamps", &self.stamps).finish_non_exhaustive()
    }
}

const MOMENT_DIGITS: usize = 15;
const ID_CHARS: usize = 16;

/// The greatest number of milliseconds that has 15 digits.
const MAX_MILLIS: i64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stamp(secs: i64, by: &str) -> FieldStamp {
        FieldStamp::of(&EventId::named(by), Timestamp::from_secs(secs))
    }

    fn upsert(fields: Value) -> ContactUpsert {
        ContactUpsert::new("acme", "ada@example.com", fields.as_object().expect("an object")).expect("a contact")
    }

    fn contact(changes: &[(i64, &str, Value)]) -> Contact {
        let mut contact = Contact::created_by(&EventId::named("first"));
        for (secs, by, fields) in changes {
            contact.apply(&upsert(fields.clone()), &stamp(*secs, by));
        }
        contact
    }

    #[test]
    fn stamps_are_ordered_by_their_moments_and_then_by_their_ids() {
        let ordered = [stamp(0, "z"), stamp(9, "b"), stamp(10, "a"), stamp(10, "b"), stamp(1_794_830_400, "a")];
        assert!(ordered.is_sorted() && ordered[2] != ordered[3]);
        assert_eq!(ordered[4].at(), Timestamp::from_secs(1_794_830_400));
        assert_eq!(FieldStamp::parse(ordered[4].as_str()).as_ref(), Some(&ordered[4]));
        assert!(["", "7-a", "00179483040000x-a"].iter().all(|text| FieldStamp::parse(text).is_none()));
    }

    #[test]
    fn whatever_the_order_of_arrival_the_newest_change_of_each_field_stands() {
        let changes = [
            (1, "a", json!({"consent_email": true, "first_name": "Ada"})),
            (2, "b", json!({"consent_email": null, "phone": "1"})),
            (2, "c", json!({"phone": "2"})),
        ];
        let expected = contact(&changes);
        assert_eq!(expected.fields.keys().collect::<Vec<_>>(), ["first_name", "phone"]);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(contact(&order.map(|n| changes[n].clone())), expected, "{order:?}");
        }
    }

    #[test]
    fn a_field_without_a_stamp_counts_as_changed_with_its_contact() {
        let mut old = contact(&[(1, "a", json!({"consent_email": false}))]);
        old.stamps.clear();
        old.unstamped_at = Some(Timestamp::from_secs(5));
        let both = upsert(json!({"consent_email": true, "first_name": "Ada"}));
        assert_eq!(old.overtaken(&both, &stamp(4, "z")), BTreeSet::from(["consent_email".to_owned()]));
        assert!(old.overtaken(&both, &stamp(5, "a")).is_empty());
    }
}
