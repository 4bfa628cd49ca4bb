//! The same event from many senders at once, over the real ledger and the real queue.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use intake::{Intake, accept};
use shared::adapters::aws::{DynamoLedger, SqsEvents};
use shared::arrival::secrets::CachedSecrets;
use shared::base::machine::Clock;
use shared::base::trace::Trace;
use shared::flows::contract::Contracts;
use shared::ledger::Rows;
use shared::limits::rates::Limiter;
use shared::model::{ModelChance, ModelClock, ModelLimits, ModelMetrics, ModelSecrets, ModelWindows};
use shared::operate::metric::WorkUnit;

use super::queue::{EmulatedQueues, Queues, emulator};
use crate::fixtures::{NOW, aws, flows, lead_of};
use crate::memory::{SECRET, signed};

const SENDERS: usize = 50;
const ROUNDS: usize = 20;

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn fifty_at_once_are_one_event_round_after_round() {
    let queues = emulator().await;
    let table = std::env::var("LEDGERLINE_LEDGER_TABLE").expect("make test names the table");
    let ledger = DynamoLedger::new(&aws().await, table);
    let clock = ModelClock::at(NOW);
    let intake = intake_over(&queues, &ledger, clock.clone()).await;
    for round in 0..ROUNDS {
        let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
        let lead = lead_of(&format!("evt_{round}_{unique}"), &format!("{unique}@example.com"));
        // The sender's rate has its time to recover from the storm before.
        clock.advance(Duration::from_secs(1));
        let now = clock.now();
        let unit = WorkUnit::new(&*intake.metrics);
        let posts = (0..SENDERS).map(|_| accept(&intake, &unit, signed(&lead, now.secs()), Trace::start(1, 2, 3), now));
        let receipts: Vec<_> = join_all(posts).await.into_iter().map(|receipt| receipt.expect("accepted")).collect();

        let receipts: Vec<_> = receipts.into_iter().filter_map(intake::Accepted::into_event).collect();
        let ids: BTreeSet<_> = receipts.iter().map(|receipt| receipt.id.clone()).collect();
        assert_eq!(ids.len(), 1, "all answers agree");
        assert_eq!(receipts.iter().filter(|receipt| !receipt.replayed).count(), 1, "one was the first");
        assert!(ledger.row(&receipts[0].id).await.expect("an answer").is_some(), "one row");
        let messages = queues.receive().await;
        assert_eq!(messages.len(), 1, "one message");
        queues.delete(&messages[0].receipt).await;
    }
}

async fn intake_over(queues: &EmulatedQueues, ledger: &DynamoLedger, clock: ModelClock) -> Intake {
    let flows = flows();
    let secrets = ModelSecrets::default();
    secrets.put("sources/web-forms", SECRET);
    Intake {
        contracts: Contracts::of(&flows),
        flows,
        ledger: Box::new(ledger.clone()),
        windows: Box::new(ModelWindows::default()),
        rows: Box::new(ledger.clone()),
        queue: Box::new(SqsEvents::new(&aws().await, queues.events_url())),
        limiter: Limiter::new(Box::new(ModelLimits::default())),
        secrets: Box::new(CachedSecrets::new(secrets, clock.clone())),
        public_url: None,
        metrics: Box::new(ModelMetrics::default()),
        sampling: shared::operate::log::LogSampling::ALL,
        spans: Box::new(None::<shared::model::ModelSpans>),
        clock: Box::new(clock),
        chance: Box::new(ModelChance::seeded(7)),
    }
}
