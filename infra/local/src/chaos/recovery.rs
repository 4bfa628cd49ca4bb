//! The recovery after the load: the queues drain, and the operator replays what is parked.

use std::collections::HashMap;

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use shared::flows::Flows;
use shared::ledger::{Row, State};
use tokio::time::sleep;

use super::operator::{ChaosOperator, OperatorResults};
use super::partner_control::PartnerControl;
use super::senders::SenderLog;
use super::{bar, ledger_table};
use crate::aws::Endpoint;
use crate::cloud::CloudAddress;
use crate::lambda::Lambda;
use crate::queues;

/// The time between two wakes. The schedules are off in a chaos run, so it wakes the events that wait itself.
const BETWEEN_WAKES: Duration = Duration::from_secs(2);

/// How long events that wait are woken at most. A breaker is open for 30 s.
const LONGEST_WAIT: Duration = Duration::from_secs(240);

/// A cloud in which nothing is disrupted any more.
pub(super) struct Recovery<'a> {
    address: &'a CloudAddress,
    endpoint: Endpoint,
    partners: &'a PartnerControl,
    flows: &'a Flows,
    log: &'a SenderLog,
}

impl<'a> Recovery<'a> {
    pub(super) fn new(
        address: &'a CloudAddress,
        partners: &'a PartnerControl,
        flows: &'a Flows,
        log: &'a SenderLog,
    ) -> Self {
        Self { address, endpoint: address.emulator(), partners, flows, log }
    }

    /// Waits until the queues are empty.
    pub(super) async fn drain(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            self.drain_queues().await?;
            let waits = self.rows().await?.values().any(|row| row.state == State::Waiting || row.is_woken());
            if !waits || began.elapsed() > LONGEST_WAIT {
                return Ok(());
            }
            // An answer that is lost is as good as a tick that did not come.
            drop(self.lambda().invoke(&self.address.live("replay")?, &json!({"op": "wake"})).await);
            sleep(BETWEEN_WAKES).await;
        }
    }

    fn lambda(&self) -> Lambda {
        Lambda::new(self.endpoint.clone(), self.address.state.join("logs"))
    }

    async fn drain_queues(&self) -> Result<()> {
        let bar = bar("drain", 0);
        let watch = |depth: u64| {
            bar.set_length(bar.length().unwrap_or_default().max(depth));
            bar.set_position(bar.length().unwrap_or_default() - depth);
        };
        let queues = [self.address.events_queue_url.as_str(), &self.address.dead_letters_queue_url];
        let drained = queues::drain(&self.endpoint, queues, watch).await?;
        bar.finish_and_clear();
        if !drained {
            eprintln!(
                "The queues did not drain: no message left them for two minutes. Events that are stuck count as lost; look \
                 at the logs in .local/chaos/logs."
            );
        }
        Ok(())
    }

    /// Resolves and replays until nothing is parked, or nothing more can be replayed.
    pub(super) async fn operate(&self) -> Result<OperatorResults> {
        let events = self.log.accepted.iter().flat_map(|(event, ids)| ids.iter().map(move |id| (&**id, &**event)));
        let events: HashMap<&str, &str> = events.collect();
        let lambda = self.lambda();
        let replay = &self.address.live("replay")?;
        let (partners, flows) = (self.partners, self.flows);
        let operator = ChaosOperator { lambda: &lambda, replay, partners, flows, events: &events };
        let mut results = OperatorResults::default();
        loop {
            let done = results.replayed + results.dropped;
            let parked = operator.work_through_list(&mut results).await?;
            if parked == 0 || results.replayed + results.dropped == done {
                return Ok(results);
            }
            self.drain().await?;
        }
    }

    /// Reads every row of the ledger, by id.
    pub(super) async fn rows(&self) -> Result<HashMap<String, Row>> {
        ledger_table::rows(&self.endpoint, &self.address.ledger_table).await
    }
}
