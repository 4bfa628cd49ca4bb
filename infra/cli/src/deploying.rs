//! `ledgerline deploying`: tells the alarms that a deploy begins.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::CommandExit;
use crate::cloud::{self, CloudArgs};
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline deploying
  ledgerline deploying --stack ledgerline-staging --region eu-central-1

`make deploy` does this by itself, and again while it lasts. Alarms that a deploy disturbs are held back for 15 minutes;
those that still stand then are told. Nothing has to be ended.";

/// The metric that the alarm `<stack>-deploying` watches.
const METRIC: &str = "Deploying";

/// Hold back for 15 minutes the alarms that a deploy disturbs.
#[derive(Debug, Args)]
pub(crate) struct DeployingArgs {}

impl DeployingArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let namespace = cloud::with(at, async |cloud| {
            cloud.count(METRIC).await?;
            Ok(cloud.metrics_namespace())
        })?;
        let told = "Alarms that a deploy disturbs are held back for 15 minutes.\n";
        output::print_answer(json, &json!({"counted": METRIC, "namespace": namespace}), || told.into())?;
        Ok(CommandExit::Success)
    }
}
