//! The contacts in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::time::Timestamp;
use crate::effects::contact::{Contact, ContactId, ContactUpsert, Contacts, FieldStamp, Upserted};

/// The contacts in memory.
#[derive(Clone, Default)]
pub struct ModelContacts(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    contacts: BTreeMap<ContactId, Contact>,
    reads: usize,
    writes: usize,
    down: bool,
}

impl ModelContacts {
    /// The number of contacts.
    pub fn count(&self) -> usize {
        locked(&self.0).contacts.len()
    }

    /// The number of reads that were tried.
    pub fn reads(&self) -> usize {
        locked(&self.0).reads
    }

    /// The number of writes that were tried.
    pub fn writes(&self) -> usize {
        locked(&self.0).writes
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }

    /// Changes a contact by no rules at all.
    pub fn tamper(&self, id: &ContactId, change: impl FnOnce(&mut Contact)) {
        if let Some(contact) = locked(&self.0).contacts.get_mut(id) {
            change(contact);
        }
    }
}

#[async_trait]
impl Contacts for ModelContacts {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        if table.down {
            return Err(Unavailable { port: "the contacts", why: "down".into() });
        }
        let id = upsert.id().clone();
        let contact = table.contacts.entry(id.clone()).or_insert_with(|| Contact::created_by(by));
        let overtaken = contact.apply(upsert, &FieldStamp::of(by, at));
        Ok(Upserted { id, created: contact.created_by == *by, fields: contact.fields.clone(), overtaken })
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        let mut table = locked(&self.0);
        table.reads += 1;
        if table.down {
            return Err(Unavailable { port: "the contacts", why: "down".into() });
        }
        Ok(table.contacts.get(id).cloned())
    }
}
