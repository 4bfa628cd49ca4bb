//! Contacts: the people that events are about, one for each tenant and email.
//!
//! An upsert is idempotent by construction. It names the contact by tenant and email, sets fields to given
//! values, and carries the moment and the id of its event, not of its call. So the same upsert
//! twice leaves the same contact and gives the same answer.
//!
//! Each field keeps the [`FieldStamp`] of its last change. An event that is retried or replayed changes no field that a
//! newer event has set or removed, and still changes the others. The queue's groups cannot promise that: two spellings
//! of one email are two groups, and a parked event has left its group.
//!
//! Deliberately absent: an email in a key, a log or an error; fields that are lists or objects; a read before the
//! write. One conditional write decides, and returns the contact where it was not made.

mod stored;

use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::base::errors::Unavailable;
use crate::base::id::{EventId, Parts};
use crate::base::time::Timestamp;
use crate::flows::{MAX_FIELD_NAME, is_field_name, normal_email};
use crate::ledger::SignOff;

pub use stored::{Contact, FieldStamp};

/// A contact's id: the SHA-256 of its tenant and its normalised email, in hex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContactId(String);

impl ContactId {
    /// The id of a tenant's contact with this email.
    pub fn of(tenant: &str, email: &str) -> Result<Self, BadContact> {
        if !(1..=MAX_TENANT).contains(&tenant.len()) {
            return Err(BadContact::Tenant);
        }
        Ok(ContactId(Parts::new("contact").and(tenant).and(&normalized(email)?).hex()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An upsert of a contact: checked, and bounded.
#[derive(Clone, PartialEq)]
pub struct ContactUpsert {
    id: ContactId,
    tenant: String,
    email: String,
    changes: BTreeMap<String, Option<Scalar>>,
    sign_off: Option<String>,
}

/// The value of a contact's field.
#[derive(Clone, PartialEq)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// A number.
    Number(Number),
    /// True or false.
    Bool(bool),
}

impl From<&Scalar> for Value {
    fn from(value: &Scalar) -> Self {
        match value {
            Scalar::Text(text) => Value::from(text.as_str()),
            Scalar::Number(number) => Value::Number(number.clone()),
            Scalar::Bool(value) => Value::Bool(*value),
        }
    }
}

/// The fields of a contact, by their names.
pub type Fields = BTreeMap<String, Scalar>;

/// The result of an upsert.
#[derive(Clone, PartialEq)]
pub struct Upserted {
    /// The contact's id.
    pub id: ContactId,
    /// Whether this event was the contact's first. The same upsert again says the same.
    pub created: bool,
    /// The contact's fields, as they are now.
    pub fields: Fields,
    /// The fields that the upsert left alone, because a newer change has set or removed them.
    pub overtaken: BTreeSet<String>,
}

/// The reason why an upsert is not usable. It names no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadContact {
    /// The tenant is empty or too long.
    #[error("a tenant must have 1 to {MAX_TENANT} bytes")]
    Tenant,
    /// The email is not an email.
    #[error("an email must have something before and after one @, no blanks, and at most {MAX_EMAIL} bytes")]
    Email,
    /// The upsert has too many fields.
    #[error("a contact takes at most {MAX_FIELDS} fields at once")]
    TooMany,
    /// A field's name is malformed or reserved.
    #[error(
        "a field's name must be 1 to {MAX_FIELD_NAME} of a-z, 0-9 and _, begin with a letter, and not be a reserved name"
    )]
    Name,
    /// A field's value cannot be stored.
    #[error("`{0}` must be a text of at most {MAX_TEXT} bytes, a number, a boolean or null")]
    Value(String),
}

impl ContactUpsert {
    /// Checks an upsert. A field that is absent is left alone; null removes it.
    pub fn new(tenant: &str, email: &str, fields: &Map<String, Value>) -> Result<Self, BadContact> {
        if fields.len() > MAX_FIELDS {
            return Err(BadContact::TooMany);
        }
        let id = ContactId::of(tenant, email)?;
        let email = normalized(email)?;
        let changes = fields.iter().map(|(name, value)| change(name, value)).collect::<Result<_, _>>()?;
        Ok(Self { id, tenant: tenant.to_owned(), email, changes, sign_off: None })
    }

    /// The same upsert, signed by the operator who makes it.
    #[must_use]
    pub fn signed(mut self, sign_off: SignOff<'_>, now: Timestamp) -> Self {
        self.sign_off = Some(format!("{now} by {}: {}", sign_off.by, sign_off.why));
        self
    }

    /// The same upsert without some of its fields.
    #[must_use]
    pub fn without(mut self, names: &BTreeSet<String>) -> Self {
        self.changes.retain(|name, _| !names.contains(name));
        self
    }

    /// The contact's id.
    pub fn id(&self) -> &ContactId {
        &self.id
    }

    /// The contact's tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The contact's email, normalised.
    pub fn email(&self) -> &str {
        &self.email
    }

    /// The fields to set, and with `None` the fields to remove.
    pub fn changes(&self) -> impl Iterator<Item = (&str, Option<&Scalar>)> {
        self.changes.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// The id of this change where no event makes it, but an operator as of that moment. The same change has the same
    /// id.
    pub fn change_id(&self, at: Timestamp) -> EventId {
        let parts = Parts::new("contact change").and(self.id.as_str()).and(&at.millis().to_string());
        let value = |value: &Option<Scalar>| value.as_ref().map_or(Value::Null, Value::from).to_string();
        self.changes.iter().fold(parts, |parts, (name, change)| parts.and(name).and(&value(change))).id()
    }

    /// The operator who makes the upsert, and why, where an operator does.
    pub fn sign_off(&self) -> Option<&str> {
        self.sign_off.as_deref()
    }
}

/// Without values: they are a person's.
impl fmt::Debug for ContactUpsert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContactUpsert")
            .field("id", &self.id)
            .field("changes", &self.changes.keys())
            .finish_non_exhaustive()
    }
}

/// Without values: they are a person's.
impl fmt::Debug for Upserted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, created, fields, overtaken } = self;
        let mut shown = f.debug_struct("Upserted");
        shown.field("id", id).field("created", created).field("fields", &fields.keys());
        shown.field("overtaken", overtaken).finish()
    }
}

/// The store of contacts.
#[async_trait]
pub trait Contacts: Send + Sync {
    /// Creates a contact, or changes the fields that are named and that no newer change has set or removed. `by` and
    /// `at` are the event's id and the moment when its first delivery was received, so that the same upsert again
    /// changes nothing and gives the same answer. One write where no field is overtaken.
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable>;

    /// The contact as it is now, or `None` if there is no such contact.
    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable>;

    /// The contact's fields as they are now, or `None` if there is no such contact.
    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable> {
        Ok(self.read(id).await?.map(|contact| contact.fields))
    }
}

/// The email in its normal form, if it is one.
fn normalized(email: &str) -> Result<String, BadContact> {
    let email = normal_email(email);
    let (name, domain) = email.split_once('@').ok_or(BadContact::Email)?;
    let blank = email.contains(|c: char| c.is_whitespace() || c.is_control());
    let legal = !name.is_empty() && !domain.is_empty() && !domain.contains('@') && !blank && email.len() <= MAX_EMAIL;
    legal.then_some(email).ok_or(BadContact::Email)
}

fn change(name: &str, value: &Value) -> Result<(String, Option<Scalar>), BadContact> {
    if !is_field_name(name) {
        return Err(BadContact::Name);
    }
    let scalar = match value {
        Value::Null => None,
        Value::Bool(value) => Some(Scalar::Bool(*value)),
        Value::String(text) if text.len() <= MAX_TEXT => Some(Scalar::Text(text.clone())),
        Value::Number(number) if can_be_kept(number) => Some(Scalar::Number(number.clone())),
        _ => return Err(BadContact::Value(name.to_owned())),
    };
    Ok((name.to_owned(), scalar))
}

/// Whether DynamoDB can store a number: its numbers are longer than JSON's, but do not reach as far.
fn can_be_kept(number: &Number) -> bool {
    let size = number.as_f64().unwrap_or(f64::INFINITY).abs();
    size == 0.0 || (1e-130..1e125).contains(&size)
}

const MAX_TENANT: usize = 128;
const MAX_EMAIL: usize = 254;
const MAX_FIELDS: usize = 32;
const MAX_TEXT: usize = 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upsert(tenant: &str, email: &str, fields: Value) -> Result<ContactUpsert, BadContact> {
        ContactUpsert::new(tenant, email, fields.as_object().expect("an object"))
    }

    fn id(tenant: &str, email: &str) -> ContactId {
        upsert(tenant, email, json!({})).expect("a contact").id().clone()
    }

    #[test]
    fn an_email_is_one_however_it_is_written_and_one_for_each_tenant() {
        assert_eq!(id("acme", " Ada@Example.com\n"), id("acme", "ada@example.com"));
        assert_ne!(id("acme", "ada@example.com"), id("globex", "ada@example.com"));
        assert_ne!(id("ac", "me@x"), id("acme", "@x".replace('@', "y@").as_str()), "parts do not run together");
    }

    #[test]
    fn what_is_no_contact_is_refused() {
        let long = format!("{}@example.com", "a".repeat(254));
        for bad in ["", "ada", "@example.com", "ada@", "a@b@c", "a da@example.com", &long] {
            assert_eq!(upsert("acme", bad, json!({})), Err(BadContact::Email), "{bad}");
        }
        assert_eq!(upsert("", "ada@example.com", json!({})), Err(BadContact::Tenant));
        assert_eq!(upsert(&"t".repeat(129), "ada@example.com", json!({})), Err(BadContact::Tenant));
    }

    #[test]
    fn fields_are_scalars_and_bounded() {
        let of = |fields| upsert("acme", "ada@example.com", fields);
        let good = json!({"first_name": "Ada", "score": 1.5, "id2": u64::MAX, "vip": true, "phone": null, "note": ""});
        assert_eq!(of(good).expect("good fields").changes().count(), 6);
        for bad in [json!([]), json!({}), json!("x".repeat(1025)), json!(1e200), json!(1e-200)] {
            assert_eq!(of(json!({"field": bad})), Err(BadContact::Value("field".into())));
        }
        let many: Map<String, Value> = (0..33).map(|n| (format!("f{n}"), json!(n))).collect();
        assert_eq!(of(many.into()), Err(BadContact::TooMany));
    }

    #[test]
    fn nothing_of_a_person_is_shown() {
        let upsert = upsert("acme", "ada@example.com", json!({"first_name": "Ada"})).expect("a contact");
        let shown = format!("{upsert:?}");
        assert!(shown.contains("first_name") && !shown.contains("Ada") && !shown.contains("example.com"), "{shown}");
    }
}
