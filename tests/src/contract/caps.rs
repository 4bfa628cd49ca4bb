//! The caps' contract: the row and the counts are written together, or neither is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shared::adapters::aws::{DynamoCaps, DynamoLedger};
use shared::arrival::event::Event;
use shared::base::errors::WriteError;
use shared::base::time::Timestamp;
use shared::effects::cap::{self, Caps, Count, CountError, Counter};
use shared::ledger::{Admissions, Claims, Lease, Records, Row};
use shared::model::{ModelCaps, ModelLedger};

use super::on_model_and_emulator;
use crate::fixtures::{LEASE, NOW, aws, claim_of, event, lead_routing};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn model() -> (ModelLedger, ModelCaps) {
    let ledger = ModelLedger::default();
    (ledger.clone(), ModelCaps::beside(ledger))
}

async fn emulator() -> (DynamoLedger, DynamoCaps) {
    let table = |name: &str| std::env::var(format!("LEDGERLINE_{name}_TABLE")).expect("make test names the table");
    let aws = aws().await;
    let ledger = DynamoLedger::new(&aws, table("LEDGER"));
    (ledger.clone(), DynamoCaps::new(ledger, table("LIMITS")))
}

on_model_and_emulator!(
    an_intent_and_its_count_are_written_together,
    a_count_that_moved_on_leaves_the_row_alone,
    a_worker_that_lost_its_lease_counts_nothing,
    several_counts_are_one_write,
);

fn unique(name: &str) -> String {
    format!("{name}-{}", SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos())
}

/// A lease on a new event, with the intent to call its effect that is not written yet.
async fn intending(ledger: &(impl Admissions + Claims), now: Timestamp) -> Lease {
    intending_for(ledger, &event(&unique("cap")), now).await
}

async fn intending_for(ledger: &(impl Admissions + Claims), event: &Event, now: Timestamp) -> Lease {
    ledger.admit(&Row::admitted(event, NOW), NOW).await.expect("an answer");
    let mut lease = claimed(ledger, event, now).await;
    lease.intend(&lead_routing().effects[0], now);
    lease
}

async fn claimed(ledger: &impl Claims, event: &Event, now: Timestamp) -> Lease {
    ledger.claim(&event.id, &claim_of(event, now, &[])).await.expect("an answer").expect("it is free")
}

fn count(key: &str, counter: &Counter, lease: &Lease) -> Count {
    let taken = counter.with_place(DAY, &lease.row().id, NOW);
    Count::new(key.to_owned(), taken, DAY, NOW)
}

async fn an_intent_and_its_count_are_written_together((ledger, caps): (impl Admissions + Claims + Records, impl Caps)) {
    let key = cap::key("email", &unique("ada"));
    let lease = intending(&ledger, NOW).await;
    let nobody = caps.read(&key).await.expect("an answer");
    assert_eq!(nobody, Counter::default());
    let first = count(&key, &nobody, &lease);
    assert_eq!(caps.record(&lease, std::slice::from_ref(&first)).await, Ok(()));
    assert_eq!(caps.read(&key).await, Ok(first.counter));
    assert_eq!(ledger.row(&lease.row().id).await.expect("an answer").as_ref(), Some(lease.row()));
}

async fn a_count_that_moved_on_leaves_the_row_alone((ledger, caps): (impl Admissions + Claims + Records, impl Caps)) {
    let key = cap::key("email", &unique("ada"));
    let (first, second) = (intending(&ledger, NOW).await, intending(&ledger, NOW).await);
    let nobody = caps.read(&key).await.expect("an answer");
    caps.record(&first, &[count(&key, &nobody, &first)]).await.expect("the first");
    assert_eq!(caps.record(&second, &[count(&key, &nobody, &second)]).await, Err(CountError::Moved));
    let row = ledger.row(&second.row().id).await.expect("an answer").expect("a row");
    assert!(row.effects.is_empty(), "no intent without its count");
    let now = caps.read(&key).await.expect("an answer");
    assert_eq!(caps.record(&second, &[count(&key, &now, &second)]).await, Ok(()), "it may be tried again");
    assert_eq!(caps.read(&key).await.expect("an answer").places.len(), 2);
}

async fn a_worker_that_lost_its_lease_counts_nothing((ledger, caps): (impl Admissions + Claims + Records, impl Caps)) {
    let key = cap::key("email", &unique("ada"));
    let event = event(&unique("cap"));
    let zombie = intending_for(&ledger, &event, NOW).await;
    claimed(&ledger, &event, NOW + 2 * LEASE).await;
    let refused = caps.record(&zombie, &[count(&key, &Counter::default(), &zombie)]).await;
    assert_eq!(refused, Err(CountError::Write(WriteError::Fenced)));
    assert_eq!(caps.read(&key).await, Ok(Counter::default()), "no count without its intent");
}

async fn several_counts_are_one_write((ledger, caps): (impl Admissions + Claims + Records, impl Caps)) {
    let keys = [cap::key("email", &unique("ada")), cap::key("any", &unique("ada"))];
    let lease = intending(&ledger, NOW).await;
    let counts = keys.each_ref().map(|key| count(key, &Counter::default(), &lease));
    assert_eq!(caps.record(&lease, &counts).await, Ok(()));
    for (key, count) in keys.iter().zip(counts) {
        assert_eq!(caps.read(key).await, Ok(count.counter));
    }
}
