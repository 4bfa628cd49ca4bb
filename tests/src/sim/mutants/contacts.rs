//! Mutants of contacts: which change of a field is the newest.

use async_trait::async_trait;
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::contact::{Contact, ContactId, ContactUpsert, Contacts, FieldStamp, Upserted};
use shared::model::{ModelContacts, ModelLedger};

/// Takes each change for the newest.
pub(super) struct LastWriterWins(pub(super) Box<dyn Contacts>, pub(super) ModelContacts);

/// A moment after all events, to which the number of the write is added.
const AFTER_ALL: i64 = 100_000_000_000_000;

#[async_trait]
impl Contacts for LastWriterWins {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, _: Timestamp) -> Result<Upserted, Unavailable> {
        let writes = i64::try_from(self.1.writes()).expect("few writes");
        self.0.upsert(upsert, by, Timestamp::from_millis(AFTER_ALL + writes)).await
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.0.read(id).await
    }
}

/// Takes the moment at which an event is processed for the moment at which it was received.
pub(super) struct ProcessingTime(pub(super) Box<dyn Contacts>, pub(super) ModelLedger);

#[async_trait]
impl Contacts for ProcessingTime {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        let claimed = self.1.get(by).and_then(|row| Some(row.history.last()?.at));
        self.0.upsert(upsert, by, claimed.unwrap_or(at)).await
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.0.read(id).await
    }
}

/// Removes a field with its stamp.
pub(super) struct UnstampedRemoval(pub(super) Box<dyn Contacts>, pub(super) ModelContacts);

#[async_trait]
impl Contacts for UnstampedRemoval {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        let upserted = self.0.upsert(upsert, by, at).await;
        let ours = FieldStamp::of(by, at);
        self.1.tamper(upsert.id(), |contact| {
            let fields = &contact.fields;
            contact.stamps.retain(|name, stamp| fields.contains_key(name) || *stamp != ours);
        });
        upserted
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.0.read(id).await
    }
}
