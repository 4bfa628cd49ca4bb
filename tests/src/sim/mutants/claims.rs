//! Mutants of the processor's side of the ledger.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::ledger::{Claim, Claims, Closed, Lease, NotClaimed, Progress, Row, State};
use shared::model::ModelLedger;

use super::rules::unknown;
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

/// Claims by rules of its own over the ledger. It records and closes as the product does.
struct OwnRules(Box<dyn Claims>, ModelLedger, ClaimRule);

/// How a claim is made, with the product's claims and the ledger below them.
type ClaimRule = for<'c> fn(&'c dyn Claims, &'c ModelLedger, &'c EventId, &'c Claim) -> BoxFuture<'c, Claimed>;

impl OwnRules {
    fn over(claims: Box<dyn Claims>, models: &Models, rule: ClaimRule) -> Box<dyn Claims> {
        Box::new(OwnRules(claims, models.ledger.clone(), rule))
    }
}

#[async_trait]
impl Claims for OwnRules {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Claimed {
        (self.2)(&*self.0, &self.1, id, claim).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

/// Claims whatever payload its message has.
pub(super) fn any_payload(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            let fingerprint = ledger.get(id).map(|row| row.fingerprint).or(claim.fingerprint.clone());
            claims.claim(id, &Claim { fingerprint, ..claim.clone() }).await
        })
    })
}

/// Claims whatever number its message has.
pub(super) fn any_replay(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            let replay = ledger.get(id).map_or(claim.replay, |row| row.replay);
            claims.claim(id, &Claim { replay, ..claim.clone() }).await
        })
    })
}

/// Claims whatever wake its message is of.
pub(super) fn any_wake(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            let wake = ledger.get(id).map_or(claim.wake, |row| row.wake);
            claims.claim(id, &Claim { wake, ..claim.clone() }).await
        })
    })
}

/// Waits for the worker of a lease that has ended, for ever.
pub(super) fn patient(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            let held = ledger.get(id).is_some_and(|row| row.state == State::Running);
            let later = claim.now + Duration::from_secs(600);
            if held { Ok(Err(NotClaimed::HeldUntil(later))) } else { claims.claim(id, claim).await }
        })
    })
}

/// Claims what another worker holds.
pub(super) fn greedy(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            match (claims.claim(id, claim).await?, ledger.get(id)) {
                (Err(NotClaimed::HeldUntil(_)), Some(row)) => Ok(Ok(taken(ledger, row, claim))),
                (claimed, _) => Ok(claimed),
            }
        })
    })
}

/// Writes a row that a newer version wrote, and drops what only that version knows.
pub(super) fn over_newer(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            match (claims.claim(id, claim).await?, ledger.get(id)) {
                (Err(NotClaimed::NewerFormat), Some(row)) if row.is_won_by(claim) => Ok(Ok(taken(ledger, row, claim))),
                (claimed, _) => Ok(claimed),
            }
        })
    })
}

/// Takes every event of the flow that the second version does not have for one that has waited long.
pub(super) fn impatient(claims: Box<dyn Claims>, models: &Models) -> Box<dyn Claims> {
    OwnRules::over(claims, models, |claims, ledger, id, claim| {
        Box::pin(async move {
            let before = ledger.get(id).filter(|row| row.flow == "removed");
            let claimed = claims.claim(id, claim).await?;
            let waited = |row: Row| Row { flow_unknown_since: Some(claim.now - Duration::from_secs(3600)), ..row };
            Ok(claimed.map(|lease| before.map_or(lease, |row| Lease::won(waited(row), claim))))
        })
    })
}

/// The lease on a row that is taken, whatever its conditions say.
fn taken(ledger: &ModelLedger, row: Row, claim: &Claim) -> Lease {
    let lease = Lease::won(row, claim);
    ledger.overwrite(lease.row());
    lease
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
