//! The poller: runs the event source mappings of FIFO queues in the emulator's place.
//!
//! The emulator runs one batch at a time for a FIFO mapping. AWS runs as many as there are active
//! message groups, up to the mapping's `MaximumConcurrency`, and races between invocations are what
//! our protocol is about. So the mappings that the template made are disabled in the emulator, and
//! as many independent loops as AWS would run do their work, by AWS's rules. Groups stay in order
//! because the queue itself withholds a group while one of its messages is in flight.
//!
//! Deliberately absent: filters and batching windows (a FIFO mapping has none), and mappings of
//! anything but FIFO queues, which stay with the emulator.

mod event;
mod mapping;
mod in_flight;
mod polled_queue;
mod completed_messages;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::aws::Endpoint;
use crate::journal::{self, Journal};
use crate::lambda::{CompletedInvocation, InvocationOutcome, Lambda};
use polled_queue::PolledQueue;

/// The pause after an error of the emulator.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// The pause before a throttled invocation is repeated; it doubles up to the second.
const THROTTLED: Duration = Duration::from_millis(250);
const THROTTLED_MOST: Duration = Duration::from_secs(5);

/// The loops that poll. Dropping it ends them; messages in flight come back when their visibility ends.
#[derive(Debug)]
pub struct Poller {
    _loops: JoinSet<()>,
}

impl Poller {
    /// Takes over the mappings of FIFO queues from the emulator. No more messages of a queue are in flight than the
    /// limit says, if there is one. Every batch is a line in the journal.
    pub async fn start(
        endpoint: &Endpoint,
        lambda: &Lambda,
        in_flight_limit: Option<usize>,
        journal: Journal,
    ) -> Result<Self> {
        let mut loops = JoinSet::new();
        let journal = Arc::new(journal);
        for mapping in mapping::list(endpoint).await? {
            mapping::disable(endpoint, &mapping).await?;
            let queue = PolledQueue::open(endpoint, mapping, in_flight_limit).await?;
            for _ in 0..queue.mapping.concurrency() {
                loops.spawn(poll(queue.clone(), lambda.clone(), Arc::clone(&journal)));
            }
        }
        Ok(Self { _loops: loops })
    }
}

async fn poll(queue: PolledQueue, lambda: Lambda, journal: Arc<Journal>) {
    loop {
        // An error here is the emulator's, not the function's.
        if let Err(error) = run_batch(&queue, &lambda, &journal).await {
            journal.add(
                &json!({"time": journal::now(), "error": format!("the batch was left for redelivery: {error:#}")}),
            );
            tokio::time::sleep(ERROR_PAUSE).await;
        }
    }
}

/// Runs one batch: receives it, invokes the function, and deletes the messages that its answer completes.
async fn run_batch(queue: &PolledQueue, lambda: &Lambda, journal: &Journal) -> Result<()> {
    let messages = queue.receive().await?;
    if messages.is_empty() {
        return Ok(());
    }
    let event = event::make(&messages, &queue.mapping.event_source_arn);
    let CompletedInvocation { outcome, version } = invoke(queue, lambda, &event).await?;
    let completed = completed_messages::completed_messages(&messages, &outcome, queue.mapping.reports_failures());
    journal.add(&json!({
        "time": journal::now(),
        "function": queue.mapping.function(),
        "version": version,
        "messages": messages.len(),
        "done": completed.len(),
        "outcome": outcome,
    }));
    queue.delete(&completed).await
}

/// Invokes the function. A throttled function did not receive the batch: it is invoked again for as long as the
/// batch is ours.
async fn invoke(queue: &PolledQueue, lambda: &Lambda, event: &Value) -> Result<CompletedInvocation> {
    let began = Instant::now();
    let mut pause = THROTTLED;
    loop {
        let invocation = lambda.run(queue.mapping.function(), event).await?;
        if invocation.outcome != InvocationOutcome::Throttled || began.elapsed() + pause > queue.visibility {
            return Ok(invocation);
        }
        tokio::time::sleep(pause).await;
        pause = THROTTLED_MOST.min(pause * 2);
    }
}
