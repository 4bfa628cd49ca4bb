//! The contacts in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::time::Timestamp;
use crate::effects::contact::{ContactId, ContactUpsert, Contacts, Fields, Upserted};

/// The contacts in memory.
#[derive(Clone, Default)]
pub struct ModelContacts(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    contacts: BTreeMap<ContactId, Contact>,
    writes: usize,
    down: bool,
}

struct Contact {
    created_by: EventId,
    fields: Fields,
}

impl ModelContacts {
    /// The number of contacts.
    pub fn count(&self) -> usize {
        locked(&self.0).contacts.len()
    }

    /// The number of writes that were tried.
    pub fn writes(&self) -> usize {
        locked(&self.0).writes
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }
}

#[async_trait]
impl Contacts for ModelContacts {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, _at: Timestamp) -> Result<Upserted, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        if table.down {
            return Err(Unavailable { port: "the contacts", why: "down".into() });
        }
        let new = || Contact { created_by: by.clone(), fields: BTreeMap::new() };
        let contact = table.contacts.entry(upsert.id().clone()).or_insert_with(new);
        for (name, value) in upsert.changes() {
            match value {
                Some(value) => drop(contact.fields.insert(name.to_owned(), value.clone())),
                None => drop(contact.fields.remove(name)),
            }
        }
        let created = contact.created_by == *by;
        Ok(Upserted { id: upsert.id().clone(), created, fields: contact.fields.clone() })
    }

    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable> {
        let table = locked(&self.0);
        if table.down {
            return Err(Unavailable { port: "the contacts", why: "down".into() });
        }
        Ok(table.contacts.get(id).map(|contact| contact.fields.clone()))
    }
}
