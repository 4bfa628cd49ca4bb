//! Approvals in flow files: the plans that a human must approve.

use std::time::Duration;

use serde::Deserialize;

use super::template::Condition;
use super::{Flow, Flows};
use crate::base::suggest::suggest;
use crate::base::time::DurationText;
use crate::base::wrong::Wrong;

/// The approval that a human must give before anything is done.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The channel on which people are asked.
    pub channel: Channel,
    /// The integration that posts the question.
    #[serde(default = "slack")]
    pub integration: String,
    /// The room where the question is posted, by its Slack id.
    pub room: String,
    /// The condition under which an event needs approval. Without one, every event does.
    #[serde(default)]
    pub when: Option<Condition>,
    /// How long the question waits for an answer. Afterwards nothing is done for the event.
    #[serde(with = "DurationText")]
    pub expires: Duration,
}

/// The channel on which people are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// A message with buttons in a Slack room.
    Slack,
}

fn slack() -> String {
    "slack".into()
}

/// The longest wait for an answer: the ledger keeps an unsettled row for 90 days.
const MAX_EXPIRES: Duration = Duration::from_secs(30 * 24 * 3600);

/// The mistakes in a flow's approval.
pub(super) fn check(flow: &Flow, all: &Flows) -> Option<Wrong> {
    let approval = flow.approval.as_ref()?;
    if all.integration(&approval.integration).is_none() {
        let what =
            format!("the approval is asked for by `{}`, which integrations.yaml does not have", approval.integration);
        let known = all.integrations.keys().map(String::as_str);
        return Some(Wrong::at("/approval/integration", what).hint(suggest(&approval.integration, known)));
    }
    let bounded = !approval.expires.is_zero() && approval.expires <= MAX_EXPIRES;
    (!bounded).then(|| Wrong::at("/approval/expires", "an approval must wait more than nothing and at most 720h"))
}
