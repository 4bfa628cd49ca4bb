//! Contacts: who an event is about, kept once for each tenant and email.
//!
//! An upsert is idempotent by construction. It names the contact by what it is, sets what it names to
//! what it says, and carries the moment and the id of its event, not of its call. So the same upsert
//! twice leaves the same contact and gives the same answer, and one write without a condition does.
//!
//! Deliberately absent: an email in a key, a log or an error; fields that are lists or objects; a
//! comparison with what is there. The queue's groups bring a contact's events in order, and replay
//! holds back what a newer event has overtaken.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::base::errors::Unavailable;
use crate::base::id::{EventId, Parts};
use crate::base::time::Timestamp;
use crate::flows::{MAX_FIELD_NAME, is_field_name};

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

/// What is to be known of a contact: checked, and bounded.
#[derive(Clone, PartialEq)]
pub struct ContactUpsert {
    id: ContactId,
    tenant: String,
    email: String,
    changes: BTreeMap<String, Option<Scalar>>,
}

/// A field's value.
#[derive(Clone, PartialEq)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// A number.
    Number(Number),
    /// True or false.
    Bool(bool),
}

/// All of a contact's fields, by their names.
pub type Fields = BTreeMap<String, Scalar>;

/// What came of an upsert.
#[derive(Clone, PartialEq)]
pub struct Upserted {
    /// Whose it is.
    pub id: ContactId,
    /// Whether this event was the contact's first. The same upsert again says the same.
    pub created: bool,
    /// All of the contact's fields, as they are now.
    pub fields: Fields,
}

/// No contact can be made of this. Values are not told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadContact {
    /// The tenant is not one.
    #[error("a tenant must have 1 to {MAX_TENANT} bytes")]
    Tenant,
    /// The email is not one.
    #[error("an email must have something before and after one @, no blanks, and at most {MAX_EMAIL} bytes")]
    Email,
    /// There are too many fields.
    #[error("a contact takes at most {MAX_FIELDS} fields at once")]
    TooMany,
    /// A field's name is not one, or is ours.
    #[error(
        "a field's name must be 1 to {MAX_FIELD_NAME} of a-z, 0-9 and _, begin with a letter, and not be one of ours"
    )]
    Name,
    /// A field's value cannot be kept.
    #[error("`{0}` must be a text of at most {MAX_TEXT} bytes, a number, a boolean or null")]
    Value(String),
}

impl ContactUpsert {
    /// Checks what is to be known of a contact. A field that is absent is left alone; null removes it.
    pub fn new(tenant: &str, email: &str, fields: &Map<String, Value>) -> Result<Self, BadContact> {
        if fields.len() > MAX_FIELDS {
            return Err(BadContact::TooMany);
        }
        let id = ContactId::of(tenant, email)?;
        let email = normalized(email)?;
        let changes = fields.iter().map(|(name, value)| change(name, value)).collect::<Result<_, _>>()?;
        Ok(Self { id, tenant: tenant.to_owned(), email, changes })
    }

    /// Whose it is.
    pub fn id(&self) -> &ContactId {
        &self.id
    }

    /// The tenant whose contact it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The contact's email, normalised.
    pub fn email(&self) -> &str {
        &self.email
    }

    /// What is to be set, or removed where there is nothing.
    pub fn changes(&self) -> impl Iterator<Item = (&str, Option<&Scalar>)> {
        self.changes.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }
}

/// Without values: they are somebody's.
impl fmt::Debug for ContactUpsert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContactUpsert")
            .field("id", &self.id)
            .field("changes", &self.changes.keys())
            .finish_non_exhaustive()
    }
}

/// Without values: they are somebody's.
impl fmt::Debug for Upserted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, created, fields } = self;
        let fields = &fields.keys();
        f.debug_struct("Upserted").field("id", id).field("created", created).field("fields", fields).finish()
    }
}

/// The contacts.
#[async_trait]
pub trait Contacts: Send + Sync {
    /// Makes a contact or changes the fields that are named. `by` and `at` are the event's id and when
    /// it was received, so that the same upsert again changes nothing and gives the same answer. One
    /// write, no condition.
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable>;

    /// What is known of a contact, now.
    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable>;
}

/// As an email is written and as it is meant: trimmed, in lower case.
fn normalized(email: &str) -> Result<String, BadContact> {
    let email = email.trim().to_lowercase();
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

/// DynamoDB's numbers are longer than JSON's, but do not reach as far.
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
