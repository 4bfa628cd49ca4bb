//! The tables of limits, budgets and settings, one step at a time.

use async_trait::async_trait;
use futures::executor::block_on;
use shared::arrival::secrets::SecretStore;
use shared::arrival::signature::Secret;
use shared::base::document::{DocumentStore, Stored};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::cap::{Caps, Count, CountError, Counter};
use shared::effects::contact::{Contact, ContactId, ContactUpsert, Contacts, Upserted};
use shared::effects::token::{TokenState, TokenStore, TokenSwap};
use shared::ledger::Lease;
use shared::ledger::batch::Batches;
use shared::limits::budget::{Budget, Budgets, Spending};
use shared::limits::pressure::{BreakerState, Breakers, Slots, Swapped, TakeSlot, Taken};
use shared::limits::rates::{Draw, Drawn, Limits};
use shared::model::{
    ModelBudgets, ModelCaps, ModelContacts, ModelDocument, ModelLatest, ModelLimits, ModelPressure, ModelSecrets,
    ModelTokens,
};
use shared::operate::stale_guard::Latest;
use shared::operate::switchboard::Board;

use super::{PortCall, Seat, told};
use crate::stores::ItemUse;

/// The small tables, as one container sees them.
#[derive(Clone)]
pub(crate) struct SimTables {
    pub(crate) seat: Seat,
    pub(crate) limits: ModelLimits,
    pub(crate) pressure: ModelPressure,
    pub(crate) budgets: ModelBudgets,
    pub(crate) caps: ModelCaps,
    pub(crate) board: ModelDocument<Board>,
    pub(crate) contacts: ModelContacts,
    pub(crate) latest: ModelLatest,
    pub(crate) batches: ModelDocument<Batches>,
    pub(crate) secrets: ModelSecrets,
    pub(crate) tokens: ModelTokens,
}

#[async_trait]
impl Limits for SimTables {
    async fn draw(&self, bucket: &str, draw: &Draw) -> Result<Drawn, Unavailable> {
        let tell = |answer: &Result<Drawn, Unavailable>| match answer {
            Ok(Drawn::Taken(_)) => "taken".into(),
            Ok(Drawn::Moved(_)) => "refused".into(),
            Err(error) => error.to_string(),
        };
        self.seat.call(PortCall::of_item("draw", bucket, bucket), self.limits.draw(bucket, draw), tell).await?
    }
}

#[async_trait]
impl Slots for SimTables {
    async fn take(&self, slots: &str, take: &TakeSlot) -> Result<Taken, Unavailable> {
        let tell = |answer: &Result<Taken, Unavailable>| match answer {
            Ok(Taken::Yours) => "yours".into(),
            Ok(Taken::Moved(_)) => "refused".into(),
            Err(error) => error.to_string(),
        };
        self.seat.call(PortCall::of_item("take", slots, slots), self.pressure.take(slots, take), tell).await?
    }

    async fn give(&self, slots: &str, holder: &str) -> Result<(), Unavailable> {
        self.seat.call(PortCall::of_item("give", slots, slots), self.pressure.give(slots, holder), told).await?
    }
}

#[async_trait]
impl Breakers for SimTables {
    async fn read(&self, breaker: &str) -> Result<Option<BreakerState>, Unavailable> {
        let call = PortCall::of_item("read breaker", breaker, breaker);
        let answer =
            self.seat.call(call, Breakers::read(&self.pressure, breaker), told).await.and_then(|answer| answer);
        self.seat.oracle.breaker_read(breaker, &answer, &self.seat);
        answer
    }

    async fn swap(
        &self,
        breaker: &str,
        seen: u64,
        next: &BreakerState,
        now: Timestamp,
    ) -> Result<Swapped, Unavailable> {
        let tell = |answer: &Result<Swapped, Unavailable>| match answer {
            Ok(Swapped::Written) => "written".into(),
            Ok(Swapped::Moved(_)) => "refused".into(),
            Err(error) => error.to_string(),
        };
        let call = PortCall::of_item("swap breaker", breaker, breaker);
        let answer = self.seat.call(call, self.pressure.swap(breaker, seen, next, now), tell).await;
        let answer = answer.and_then(|answer| answer);
        self.seat.oracle.breaker_swapped(breaker, next, &answer, &self.seat);
        answer
    }
}

#[async_trait]
impl TokenStore for SimTables {
    async fn read(&self, key: &str) -> Result<Option<TokenState>, Unavailable> {
        self.seat.call(PortCall::of_item("read token", key, key), TokenStore::read(&self.tokens, key), told).await?
    }

    async fn swap(&self, key: &str, seen: u64, next: &TokenState, now: Timestamp) -> Result<TokenSwap, Unavailable> {
        let tell = |answer: &Result<TokenSwap, Unavailable>| match answer {
            Ok(TokenSwap::Written) => "written".into(),
            Ok(TokenSwap::Moved(_)) => "refused".into(),
            Err(error) => error.to_string(),
        };
        let (tokens, late, again) = (self.tokens.clone(), key.to_owned(), next.clone());
        let again = move || drop(block_on(TokenStore::swap(&tokens, &late, seen, &again, now)));
        let call = PortCall::of_item("swap token", key, key).with_echo(again);
        self.seat.call(call, TokenStore::swap(&self.tokens, key, seen, next, now), tell).await?
    }
}

#[async_trait]
impl Budgets for SimTables {
    async fn spend(&self, key: &str, budget: &Budget, now: Timestamp) -> Result<Spending, Unavailable> {
        let tell = |answer: &Result<Spending, Unavailable>| match answer {
            Ok(Spending::Allowed { left }) => format!("allowed, {left} left"),
            Ok(Spending::Exhausted { .. }) => "exhausted".into(),
            Err(error) => error.to_string(),
        };
        let spend = async {
            let spending = self.budgets.spend(key, budget, now).await;
            self.seat.oracle.spent(key, budget, &spending, now, &self.seat.scheduler);
            spending
        };
        let spent = self.seat.call(PortCall::of_item("spend", "budget", key), spend, tell).await;
        if spent.is_err() {
            self.seat.oracle.unbudgeted(key);
        }
        spent?
    }
}

#[async_trait]
impl DocumentStore<Board> for SimTables {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.seat.call(PortCall::of_item("read board", "", "board"), DocumentStore::read(&self.board), told).await?
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        let (store, late) = (self.board.clone(), board.clone());
        let again = move || drop(block_on(store.put(&late, seen)));
        let put = async {
            let version = self.board.put(board, seen).await?;
            self.seat.oracle.board_written(version, board, self.seat.scheduler.now());
            Ok(version)
        };
        self.seat.call(PortCall::of_item("put board", "", "board").with_echo(again), put, told).await?
    }
}

/// The store behind a container's switchboard.
pub(crate) struct SimBoard(pub(crate) SimTables);

#[async_trait]
impl DocumentStore<Board> for SimBoard {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let SimTables { seat, .. } = &self.0;
        let read = DocumentStore::<Board>::read(&self.0).await;
        let version = read.as_ref().ok().map(|stored| stored.as_ref().map_or(0, |stored| stored.version));
        seat.oracle.board_read(seat.who, version);
        read
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.0.put(board, seen).await
    }
}

#[async_trait]
impl Contacts for SimTables {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        let (contacts, late) = (self.contacts.clone(), (upsert.clone(), by.clone()));
        let again = move || drop(block_on(contacts.upsert(&late.0, &late.1, at)));
        let write = async {
            let before = self.contacts.find(upsert.id()).await?;
            self.seat.oracle.contact_changed(upsert, (by, at), before, self.seat.scheduler.now());
            self.contacts.upsert(upsert, by, at).await
        };
        let call = PortCall::of_item("upsert", super::short(by.as_str()), upsert.id().as_str()).with_echo(again);
        self.seat.call(call, write, told).await?
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        self.seat
            .call(
                PortCall::of_item("find contact", super::short(id.as_str()), id.as_str()),
                self.contacts.read(id),
                told,
            )
            .await?
    }
}

#[async_trait]
impl Caps for SimTables {
    async fn read(&self, key: &str) -> Result<Counter, Unavailable> {
        self.seat.call(PortCall::of_item("read cap", "", key), Caps::read(&self.caps, key), told).await?
    }

    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError> {
        let (caps, late) = (self.caps.clone(), (lease.clone(), counts.to_vec()));
        let again = move || drop(block_on(caps.record(&late.0, &late.1)));
        let call = PortCall::of_row("record and count", super::short(lease.row().id.as_str()), ItemUse::WritesRow)
            .with_echo(again);
        let recorded = self.seat.call(call, self.caps.record(lease, counts), told).await;
        recorded.map_err(WriteError::from)?
    }
}

#[async_trait]
impl Latest for SimTables {
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable> {
        self.seat.call(PortCall::of_item("read latest", "", key), self.latest.applied(key), told).await?
    }

    async fn apply(
        &self,
        key: &str,
        received_at: Timestamp,
        expires_at: i64,
    ) -> Result<Option<Timestamp>, Unavailable> {
        let (latest, late) = (self.latest.clone(), key.to_owned());
        let again = move || drop(block_on(latest.apply(&late, received_at, expires_at)));
        let call = PortCall::of_item("write latest", "", key).with_echo(again);
        self.seat.call(call, self.latest.apply(key, received_at, expires_at), told).await?
    }
}

#[async_trait]
impl DocumentStore<Batches> for SimTables {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.seat
            .call(PortCall::of_item("read batches", "", "batches"), DocumentStore::read(&self.batches), told)
            .await?
    }

    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError> {
        let (store, late) = (self.batches.clone(), batches.clone());
        let again = move || drop(block_on(store.put(&late, seen)));
        let put = async {
            let version = self.batches.put(batches, seen).await?;
            self.seat.oracle.batches_written(batches, &self.seat.scheduler);
            Ok(version)
        };
        self.seat.call(PortCall::of_item("put batches", "", "batches").with_echo(again), put, told).await?
    }
}

#[async_trait]
impl SecretStore for SimTables {
    async fn read(&self, path: &str) -> Result<Vec<Secret>, Unavailable> {
        let read =
            self.seat.call(PortCall::of("read secret", path), SecretStore::read(&self.secrets, path), told).await;
        if read.is_err() {
            // An attempt without a token is an attempt, though no call is made.
            self.seat.oracle.unprepared();
        }
        read?
    }
}
