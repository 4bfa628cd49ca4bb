//! A new signed event for the running local cloud: what `make send` posts.
//!
//! It is `events/lead-created.json` with an id and an email of its own. So it is no duplicate, and it waits for no
//! earlier event of the same contact.

use std::fmt;

use anyhow::{Context, Result};
use axum::http::StatusCode;
use serde_json::{Value, json};
use shared::arrival::signature::Secret;

use crate::aws::Endpoint;
use crate::cloud::CloudAddress;
use crate::project::Project;
use crate::{secrets, webhooks};

/// An event that was posted, and the answer to it.
#[derive(Debug)]
pub struct PostedEvent {
    event_id: String,
    url: String,
    status: StatusCode,
    answer: Value,
}

/// Posts a new event to a local cloud.
pub async fn post(project: &Project, address: &CloudAddress) -> Result<PostedEvent> {
    let file = project.root().join("events/lead-created.json");
    let sample = std::fs::read(&file).with_context(|| format!("nothing was sent: cannot read {}", file.display()))?;
    let sample = serde_json::from_slice(&sample).with_context(|| format!("{} is not JSON", file.display()))?;
    let event_id = format!("evt_{}", jiff::Timestamp::now().as_millisecond());
    let secret = Secret::new(secrets::of_sources(&address.state)?.text().to_owned());

    let gateway = Endpoint::at(address.url.clone());
    let body = with_id(sample, &event_id).to_string();
    let response = webhooks::post_signed(&gateway, &secret, &event_id, body).await?;
    let url = format!("{}{}", address.url, webhooks::PATH);
    let answer = response.json().unwrap_or_default();
    Ok(PostedEvent { event_id, url, status: response.status, answer })
}

impl PostedEvent {
    /// Whether the intake accepted the event.
    pub fn is_accepted(&self) -> bool {
        self.status == StatusCode::ACCEPTED
    }
}

impl fmt::Display for PostedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event_id, url, status, answer } = self;
        writeln!(f, "Posted a new event, {event_id}, to {url}\n{status}\n{answer:#}\n")?;
        match answer["id"].as_str() {
            Some(id) => {
                writeln!(f, "To see its effects and its history:\n  target/debug/ledgerline --local dead show {id}")
            }
            None => writeln!(f, "The intake did not accept the event: the answer above says why."),
        }
    }
}

/// The sample as an event of its own.
fn with_id(mut sample: Value, event_id: &str) -> Value {
    sample["data"]["event_id"] = json!(event_id);
    sample["data"]["email"] = json!(format!("{event_id}@example.com"));
    sample
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shared::adapters::machine::read_flows;
    use shared::arrival::key::{self, Names};
    use shared::base::time::Timestamp;

    use super::*;

    #[test]
    fn a_new_event_has_a_key_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let flows = read_flows(&Project::at(&root).flows()).expect("the flows are good");
        let flow = flows.flow("lead-routing").expect("the flow");
        let sample: Value = serde_json::from_str(include_str!("../../../events/lead-created.json")).expect("JSON");
        let now = Timestamp::from_secs(0);
        let key = |event: &Value| key::derive(flow, event, Names::default(), now).expect("a key");
        let [one, other] = ["evt_1", "evt_2"].map(|id| with_id(sample.clone(), id));
        assert_eq!(key(&one), key(&with_id(sample.clone(), "evt_1")));
        assert_ne!(key(&one), key(&other));
        assert_ne!(key(&one), key(&sample));
    }
}
