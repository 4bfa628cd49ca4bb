//! Mutants of guards, approvals and switches.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use shared::base::document::{DocumentStore, Stored};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::cap::{Caps, Count, CountError, Counter};
use shared::effects::contact::{Contact, ContactId, ContactUpsert, Contacts, Fields, Scalar, Upserted};
use shared::ledger::Lease;
use shared::operate::switchboard::Board;

/// Looks at caps, and counts nothing.
pub(super) struct UncountedCaps(pub(super) Box<dyn Caps>);

#[async_trait]
impl Caps for UncountedCaps {
    async fn read(&self, key: &str) -> Result<Counter, Unavailable> {
        self.0.read(key).await
    }

    async fn record(&self, lease: &Lease, _: &[Count]) -> Result<(), CountError> {
        self.0.record(lease, &[]).await
    }
}

/// Records first and counts then. Who else counts meanwhile does not matter to it.
pub(super) struct CountedLater(pub(super) Box<dyn Caps>);

#[async_trait]
impl Caps for CountedLater {
    async fn read(&self, key: &str) -> Result<Counter, Unavailable> {
        self.0.read(key).await
    }

    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError> {
        self.0.record(lease, &[]).await?;
        self.0.record(lease, counts).await.or(Ok(()))
    }
}

/// Knows nobody who does not agree.
pub(super) struct Agreeing(pub(super) Box<dyn Contacts>);

#[async_trait]
impl Contacts for Agreeing {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        self.0.upsert(upsert, by, at).await
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.0.read(id).await
    }

    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable> {
        let agrees = ["consent_email", "consent_sms", "consent_push"].map(|name| (name.into(), Scalar::Bool(true)));
        Ok(Some(self.0.find(id).await?.unwrap_or_default().into_iter().chain(agrees).collect()))
    }
}

/// Asks about a contact once, and believes that for ever.
pub(super) struct AskedOnce(pub(super) Box<dyn Contacts>, pub(super) Mutex<BTreeMap<ContactId, Option<Fields>>>);

#[async_trait]
impl Contacts for AskedOnce {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        self.0.upsert(upsert, by, at).await
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.0.read(id).await
    }

    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable> {
        let known = self.1.lock().expect("nobody panics").get(id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.0.find(id).await?;
        self.1.lock().expect("nobody panics").insert(id.clone(), found.clone());
        Ok(found)
    }
}

/// Does not know where contacts live.
pub(super) struct AtHome(pub(super) Box<dyn Contacts>);

#[async_trait]
impl Contacts for AtHome {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        self.0.upsert(upsert, by, at).await
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.0.read(id).await
    }

    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable> {
        let found = self.0.find(id).await?;
        Ok(found.map(|fields| fields.into_iter().filter(|(name, _)| name != "time_zone").collect()))
    }
}

/// Reads the switchboard once.
pub(super) struct ReadOnce(pub(super) Box<dyn DocumentStore<Board>>, pub(super) Mutex<Option<Option<Stored>>>);

#[async_trait]
impl DocumentStore<Board> for ReadOnce {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let known = self.1.lock().expect("nobody panics").clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let read = self.0.read().await?;
        *self.1.lock().expect("nobody panics") = Some(read.clone());
        Ok(read)
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.0.put(board, seen).await
    }
}

/// Takes a switchboard that did not answer for an empty one.
pub(super) struct UnreadIsEmpty(pub(super) Box<dyn DocumentStore<Board>>);

#[async_trait]
impl DocumentStore<Board> for UnreadIsEmpty {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        Ok(self.0.read().await.unwrap_or_default())
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.0.put(board, seen).await
    }
}
