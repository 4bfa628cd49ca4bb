//! What is left to do when the storm is over.

use std::collections::HashMap;

use anyhow::Result;
use shared::flows::Flows;
use shared::ledger::Row;

use super::operator::{Operator, Worked};
use super::partners::Partners;
use super::senders::Log;
use super::{bar, queues, table};
use crate::aws::Endpoint;
use crate::cloud::Address;
use crate::lambda::Lambda;

/// A cloud in which everything is well again.
pub(super) struct Aftermath<'a> {
    address: &'a Address,
    endpoint: Endpoint,
    partners: &'a Partners,
    flows: &'a Flows,
    log: &'a Log,
}

impl<'a> Aftermath<'a> {
    pub(super) fn new(address: &'a Address, partners: &'a Partners, flows: &'a Flows, log: &'a Log) -> Self {
        Self { address, endpoint: Endpoint::at(address.endpoint.clone()), partners, flows, log }
    }

    /// Wait until nothing is on its way any more.
    pub(super) async fn drain(&self) -> Result<()> {
        let bar = bar("drain", 0);
        let watch = |depth: u64| {
            bar.set_length(bar.length().unwrap_or_default().max(depth));
            bar.set_position(bar.length().unwrap_or_default() - depth);
        };
        let queues = [self.address.events_queue_url.as_str(), &self.address.dead_letters_queue_url];
        let drained = queues::drain(&self.endpoint, queues, watch).await?;
        bar.finish_and_clear();
        if !drained {
            eprintln!("the queues do not drain: what is stuck counts as lost");
        }
        Ok(())
    }

    /// Resolve and replay until nothing is parked, or nothing more can be done.
    pub(super) async fn operate(&self) -> Result<Worked> {
        let events = self.log.accepted.iter().flat_map(|(event, ids)| ids.iter().map(move |id| (&**id, &**event)));
        let events: HashMap<&str, &str> = events.collect();
        let lambda = Lambda::new(self.endpoint.clone(), self.address.state.join("logs"));
        let replay = self.address.function("replay")?;
        let (partners, flows) = (self.partners, self.flows);
        let operator = Operator { lambda: &lambda, replay, partners, flows, events: &events };
        let mut worked = Worked::default();
        loop {
            let replayed = worked.replayed;
            let parked = operator.work(&mut worked).await?;
            if parked == 0 || worked.replayed == replayed {
                return Ok(worked);
            }
            self.drain().await?;
        }
    }

    /// Every row of the ledger, by id.
    pub(super) async fn rows(&self) -> Result<HashMap<String, Row>> {
        table::rows(&self.endpoint, &self.address.ledger_table).await
    }
}
