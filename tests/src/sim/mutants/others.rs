//! Mutants of the intake's ledger, the partners, the limits and the records.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::effects::invocation::{FunctionRequest, InvokeFailure, TeamFunctions};
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Meaning, PartnerAnswer, default_meaning};
use shared::ledger::{Admission, Admissions, Row};
use shared::limits::budget::{Budget, Budgets, Spending};
use shared::limits::pressure::{Slots, TakeSlot, Taken};
use shared::limits::rates::{Draw, Drawn, Limits, Tat};
use shared::model::ModelLedger;

/// Admits what was admitted before.
pub(super) struct Overwriting(pub(super) ModelLedger, pub(super) Box<dyn Admissions>);

#[async_trait]
impl Admissions for Overwriting {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        if let Admission::Duplicate(_) = self.1.admit(row, now).await? {
            self.0.overwrite(row);
        }
        Ok(Admission::New)
    }

    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        self.1.admit_parked(row, event, now).await
    }
}

/// Says that it has parked an event, and has not.
pub(super) struct ParksNothing(pub(super) Box<dyn Admissions>);

#[async_trait]
impl Admissions for ParksNothing {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        self.0.admit(row, now).await
    }

    async fn admit_parked(&self, _: &Row, _: &Event, _: Timestamp) -> Result<bool, Unavailable> {
        Ok(true)
    }
}

/// Parks the row of an event, and not its payload.
pub(super) struct ParksTheRowAlone(pub(super) Box<dyn Admissions>);

#[async_trait]
impl Admissions for ParksTheRowAlone {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        self.0.admit(row, now).await
    }

    async fn admit_parked(&self, row: &Row, _: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        Ok(self.0.admit(row, now).await? == Admission::New)
    }
}

/// Has another key for each call.
pub(super) struct NewKeys(pub(super) Box<dyn Partners>, pub(super) AtomicU64);

#[async_trait]
impl Partners for NewKeys {
    async fn call(&self, mut request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let number = self.1.fetch_add(1, Ordering::SeqCst);
        for (_, value) in request.headers.iter_mut().filter(|(name, _)| name == "Idempotency-Key") {
            value.push_str(&format!("/{number}-{}", request.timeout.as_micros()));
        }
        self.0.call(request).await
    }
}

/// Forgets that an event is not the first one of its key.
pub(super) struct FirstKeys(pub(super) Box<dyn Partners>);

#[async_trait]
impl Partners for FirstKeys {
    async fn call(&self, mut request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        for (_, key) in request.headers.iter_mut().filter(|(name, _)| name == "Idempotency-Key") {
            if let Some((event, effect)) = key.split_once('/') {
                *key = format!("{}/{effect}", event.split('.').next().unwrap_or(event));
            }
        }
        self.0.call(request).await
    }
}

/// Calls the second time under another name of the effect.
pub(super) struct Renamed(pub(super) Box<dyn Partners>, pub(super) Mutex<BTreeSet<String>>);

#[async_trait]
impl Partners for Renamed {
    async fn call(&self, mut request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        for (_, key) in request.headers.iter_mut().filter(|(name, _)| name == "Idempotency-Key") {
            let first = self.1.lock().expect("nobody panics").insert(key.clone());
            if !first && let Some(event) = key.strip_suffix("/a") {
                *key = format!("{event}/first");
            }
        }
        self.0.call(request).await
    }
}

/// Believes that silence means nothing happened.
pub(super) struct LostIsUnsent(pub(super) Box<dyn Partners>);

#[async_trait]
impl Partners for LostIsUnsent {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        self.0.call(request).await.map_err(|error| NoAnswer::NotSent(error.to_string()))
    }
}

/// Believes that a function which raised, hung or died has not acted.
pub(super) struct RaisedIsNotRun(pub(super) Box<dyn TeamFunctions>);

#[async_trait]
impl TeamFunctions for RaisedIsNotRun {
    async fn invoke(&self, request: FunctionRequest) -> Result<Value, InvokeFailure> {
        self.0.invoke(request).await.map_err(|failure| match failure {
            InvokeFailure::Lost(why) => InvokeFailure::NotRun { why, retry_after: None },
            other => other,
        })
    }
}

/// Believes that a partner which answers 503, 408, 409 or 303 has done nothing.
pub(super) struct DoubtIsRefusal(pub(super) Box<dyn Partners>);

#[async_trait]
impl Partners for DoubtIsRefusal {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let answer = self.0.call(request).await?;
        let refused = default_meaning(answer.status) == Meaning::InDoubt;
        Ok(PartnerAnswer { status: if refused { 429 } else { answer.status }, ..answer })
    }
}

/// Believes that whoever rejects our credentials has rejected the request.
pub(super) struct KeyFaultIsRefusal(pub(super) Box<dyn Partners>);

#[async_trait]
impl Partners for KeyFaultIsRefusal {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let answer = self.0.call(request).await?;
        let rejected = default_meaning(answer.status) == Meaning::CredentialsRejected;
        Ok(PartnerAnswer { status: if rejected { 400 } else { answer.status }, ..answer })
    }
}

/// Believes that a 200 is a success, whatever its body says.
pub(super) struct NoIsYes(pub(super) Box<dyn Partners>);

#[async_trait]
impl Partners for NoIsYes {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let answer = self.0.call(request).await?;
        let says_no = answer.body.as_ref().is_some_and(|body| body["ok"] == json!(false));
        let body = if says_no { Some(json!({"ok": true, "id": "surely"})) } else { answer.body };
        Ok(PartnerAnswer { body, ..answer })
    }
}

/// Grants everything, and writes nothing down.
pub(super) struct Generous;

#[async_trait]
impl Budgets for Generous {
    async fn spend(&self, _: &str, _: &Budget, _: Timestamp) -> Result<Spending, Unavailable> {
        Ok(Spending::Allowed { left: 1 })
    }
}

#[async_trait]
impl Slots for Generous {
    async fn take(&self, _: &str, _: &TakeSlot) -> Result<Taken, Unavailable> {
        Ok(Taken::Yours)
    }

    async fn give(&self, _: &str, _: &str) -> Result<(), Unavailable> {
        Ok(())
    }
}

#[async_trait]
impl Limits for Generous {
    async fn draw(&self, _: &str, _: &Draw) -> Result<Drawn, Unavailable> {
        Ok(Drawn::Taken(Tat::LONG_AGO))
    }
}

/// A slow partner holds as many batches as it gets.
pub(super) struct NoShares(pub(super) Box<dyn Slots>);

#[async_trait]
impl Slots for NoShares {
    async fn take(&self, slots: &str, take: &TakeSlot) -> Result<Taken, Unavailable> {
        if slots.starts_with("batches/") { Ok(Taken::Yours) } else { self.0.take(slots, take).await }
    }

    async fn give(&self, slots: &str, holder: &str) -> Result<(), Unavailable> {
        self.0.give(slots, holder).await
    }
}
