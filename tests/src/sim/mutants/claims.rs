//! Mutants of the processor's side of the ledger.

use async_trait::async_trait;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::ledger::{Claim, Claims, Closed, Lease, NotClaimed, Progress, Row};
use shared::model::ModelLedger;

use super::unknown;
use sim::mutation::Models;

type Claimed = Result<Result<Lease, NotClaimed>, Unavailable>;

/// Makes a mutant that changes what a claim comes to, and nothing else.
macro_rules! claim_mutant {
    ($name:ident, $claimed:expr) => {
        pub(super) struct $name(Box<dyn Claims>);

        impl $name {
            pub(super) fn over(claims: Box<dyn Claims>) -> Box<dyn Claims> {
                Box::new($name(claims))
            }
        }

        #[async_trait]
        impl Claims for $name {
            async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
                let claimed: fn(Claimed, &Claim) -> Claimed = $claimed;
                claimed(self.0.claim(id, claim).await, claim)
            }

            async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
                self.0.record(lease).await
            }

            async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
                self.0.close(closed).await
            }
        }
    };
}

claim_mutant!(DeadIsSettled, |claimed, _| match claimed {
    Ok(Err(NotClaimed::Dead(_))) => Ok(Err(NotClaimed::Settled)),
    claimed => claimed,
});

claim_mutant!(Timid, |claimed, _| match claimed {
    Ok(Ok(lease)) if lease.row().epoch > 1 && lease.row().replay == 0 && lease.row().in_doubt() => {
        Ok(Err(NotClaimed::Settled))
    }
    claimed => claimed,
});

claim_mutant!(Forgetful, |claimed, claim| match claimed {
    Ok(Ok(lease)) if lease.row().epoch > 1 => Ok(Ok(forgotten(lease.row().clone(), claim))),
    claimed => claimed,
});

/// The same lease, with every doubt taken for a failure.
fn forgotten(mut row: Row, claim: &Claim) -> Lease {
    row.epoch -= 1;
    row.history.pop();
    for entry in row.effects.values_mut().filter(|entry| unknown(&entry.progress)) {
        entry.progress = Progress::Failed { error: "surely".into() };
    }
    Lease::won(row, claim)
}

/// Claims whatever payload its message has.
pub(super) struct AnyPayload(Box<dyn Claims>, ModelLedger);

impl AnyPayload {
    pub(super) fn over(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
        Box::new(AnyPayload(claims, models.ledger.clone()))
    }
}

#[async_trait]
impl Claims for AnyPayload {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        match (self.0.claim(id, claim).await?, self.1.get(id)) {
            (Err(NotClaimed::Superseded), Some(row)) if row.replay == claim.replay => {
                if !row.claimable(claim.now) {
                    let fingerprint = None;
                    return Ok(Err(row.not_claimed(&Claim { fingerprint, ..claim.clone() })));
                }
                let lease = Lease::won(row, claim);
                self.1.overwrite(lease.row());
                Ok(Ok(lease))
            }
            (claimed, _) => Ok(claimed),
        }
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

/// Claims whatever number its message has.
pub(super) struct AnyReplay(Box<dyn Claims>, ModelLedger);

impl AnyReplay {
    pub(super) fn over(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
        Box::new(AnyReplay(claims, models.ledger.clone()))
    }
}

#[async_trait]
impl Claims for AnyReplay {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        let replay = self.1.get(id).map_or(claim.replay, |row| row.replay);
        self.0.claim(id, &Claim { replay, ..claim.clone() }).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

/// Calls without writing that it will.
pub(super) struct NoIntent(Box<dyn Claims>);

impl NoIntent {
    pub(super) fn over(claims: Box<dyn Claims>) -> Box<dyn Claims> {
        Box::new(NoIntent(claims))
    }
}

#[async_trait]
impl Claims for NoIntent {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        self.0.claim(id, &Claim { first: Vec::new(), ..claim.clone() }).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        let intent = lease.row().effects.values().any(|entry| entry.progress == Progress::Intent);
        if intent { Ok(()) } else { self.0.record(lease).await }
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

/// Writes a question down when it is asked, and not before.
pub(super) struct AsksFirst(Box<dyn Claims>);

impl AsksFirst {
    pub(super) fn over(claims: Box<dyn Claims>) -> Box<dyn Claims> {
        Box::new(AsksFirst(claims))
    }
}

#[async_trait]
impl Claims for AsksFirst {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        self.0.claim(id, claim).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        let asks = lease.row().ask.as_ref().is_some_and(|ask| ask.approved_by.is_none());
        if asks { Ok(()) } else { self.0.record(lease).await }
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

/// Takes a write that was refused for one that was made.
pub(super) struct NeverFenced(Box<dyn Claims>);

impl NeverFenced {
    pub(super) fn over(claims: Box<dyn Claims>) -> Box<dyn Claims> {
        Box::new(NeverFenced(claims))
    }
}

fn believed(written: Result<(), WriteError>) -> Result<(), WriteError> {
    if written == Err(WriteError::Fenced) { Ok(()) } else { written }
}

#[async_trait]
impl Claims for NeverFenced {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        self.0.claim(id, claim).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        believed(self.0.record(lease).await)
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        believed(self.0.close(closed).await)
    }
}

/// Claims what another worker holds.
pub(super) struct Greedy(Box<dyn Claims>, ModelLedger);

impl Greedy {
    pub(super) fn over(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
        Box::new(Greedy(claims, models.ledger.clone()))
    }
}

#[async_trait]
impl Claims for Greedy {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        match (self.0.claim(id, claim).await?, self.1.get(id)) {
            (Err(NotClaimed::HeldUntil(_)), Some(row)) => {
                let lease = Lease::won(row, claim);
                self.1.overwrite(lease.row());
                Ok(Ok(lease))
            }
            (claimed, _) => Ok(claimed),
        }
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}
