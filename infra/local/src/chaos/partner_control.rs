//! The control of the partner stub: how it behaves, and what it has logged.

use anyhow::{Context, Result};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use shared::flows::{Flows, Guarantee};

use crate::aws::{Endpoint, EndpointResponse};
use crate::cloud::CloudAddress;
use crate::partners::{FaultChance, PartnerCall};

/// The client that controls the partner stub.
pub(crate) struct PartnerControl {
    stub: Endpoint,
    control_header: String,
    chance: FaultChance,
    /// Each integration, and whether it honours our key.
    integrations: Vec<(String, bool)>,
}

impl PartnerControl {
    /// The control of the partners that the flows call. One whose effects are all native honours our key; no other
    /// does.
    pub(crate) fn new(address: &CloudAddress, flows: &Flows, chance: FaultChance) -> Self {
        let mut integrations: Vec<(String, bool)> = Vec::new();
        for effect in flows.all().flat_map(|flow| &flow.effects) {
            let Some(partner) = effect.integration() else { continue };
            let native = effect.guarantee == Guarantee::Native;
            match integrations.iter_mut().find(|(name, _)| name == partner) {
                Some((_, honours)) => *honours &= native,
                None => integrations.push((partner.to_owned(), native)),
            }
        }
        Self {
            stub: Endpoint::at(address.partners_url.clone()),
            control_header: address.credentials.control_header(),
            chance,
            integrations,
        }
    }

    /// Makes every partner fail by chance.
    pub(crate) async fn disturb_all(&self) -> Result<()> {
        for (name, _) in &self.integrations {
            self.disturb(name).await?;
        }
        Ok(())
    }

    /// Makes every partner healthy, with all that it has on record.
    pub(crate) async fn heal_all(&self) -> Result<()> {
        for (name, _) in &self.integrations {
            self.set_behaviour(name, json!({"mode": "ok"})).await?;
        }
        Ok(())
    }

    /// Makes one partner fail by chance.
    pub(crate) async fn disturb(&self, integration: &str) -> Result<()> {
        let FaultChance { seed, percent } = self.chance;
        self.set_behaviour(integration, json!({"mode": "chance", "seed": seed, "percent": percent})).await
    }

    /// Makes one partner answer the same to everything.
    pub(crate) async fn take_down(&self, integration: &str, status: u16) -> Result<()> {
        self.set_behaviour(integration, json!({"mode": "status", "status": status})).await
    }

    /// What a partner has on record for an effect of an event.
    pub(crate) async fn find(&self, integration: &str, effect: &str, event_id: &str) -> Result<Option<Value>> {
        let answer = self.get(&path(integration, effect, event_id)).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        answer.expect_success("the lookup at the partner stub")?.json().map(Some)
    }

    /// Reads every call that any partner got.
    pub(crate) async fn log(&self) -> Result<Vec<PartnerCall>> {
        let answer = self.get("/_control/log").await?;
        let answer = answer.expect_success("the reading of the partner stub's log")?;
        serde_json::from_slice(&answer.body).context("the partner stub's log cannot be read")
    }

    async fn get(&self, path: &str) -> Result<EndpointResponse> {
        self.stub.send("", Method::GET, path, &[("authorization", &self.control_header)], "").await
    }

    async fn set_behaviour(&self, integration: &str, mut behaviour: Value) -> Result<()> {
        let honours = self.integrations.iter().any(|(name, honours)| name == integration && *honours);
        behaviour["idempotent"] = json!(honours);
        let path = format!("/_control/{integration}");
        self.stub
            .send("", Method::PUT, &path, &[("authorization", &self.control_header)], behaviour.to_string())
            .await?
            .expect_success("the control of the partner stub")?;
        Ok(())
    }
}

/// The path at which the chaos flows call an effect of an event.
pub(crate) fn path(integration: &str, effect: &str, event_id: &str) -> String {
    format!("/{integration}/{effect}/{event_id}")
}
