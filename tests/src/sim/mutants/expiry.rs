//! Mutants of keys that end, and of breakers.

use async_trait::async_trait;
use shared::arrival::event::Event;
use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::ledger::{Admission, Admissions, Row};
use shared::model::ModelLedger;

/// Admits events by another rule of when a key ends.
pub(super) struct OwnExpiry {
    pub(super) admissions: Box<dyn Admissions>,
    pub(super) ledger: ModelLedger,
    pub(super) rule: ExpiryRule,
}

/// When a key ends, and what becomes of its row.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ExpiryRule {
    /// When the table has deleted its row.
    WhenDeleted,
    /// When its event is settled.
    WhenSettled,
    /// In time, and the new row takes the place of the old one.
    PutsNothingAside,
}

#[async_trait]
impl Admissions for OwnExpiry {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        let found = self.ledger.get(&row.id).filter(|found| found.state.is_settled());
        match (self.rule, found) {
            (ExpiryRule::WhenDeleted, Some(found)) => Ok(Admission::Duplicate(Box::new(found))),
            (ExpiryRule::WhenSettled, Some(_)) => Ok(self.overwritten(row)),
            (ExpiryRule::PutsNothingAside, Some(found)) if found.forgotten(now) => Ok(self.overwritten(row)),
            _ => self.admissions.admit(row, now).await,
        }
    }

    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        self.admissions.admit_parked(row, event, now).await
    }
}

impl OwnExpiry {
    fn overwritten(&self, row: &Row) -> Admission {
        self.ledger.overwrite(row);
        Admission::New
    }
}
