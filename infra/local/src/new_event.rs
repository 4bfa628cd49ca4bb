//! A signed event for the running local cloud: what `make send` posts.
//!
//! Unless it is told a file, it is `events/lead-created.json` with an id and an email of its own. So it is no duplicate,
//! and it waits for no earlier event of the same contact.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::aws::Endpoint;
use crate::cloud::CloudAddress;
use crate::event_route::{self, EventRoute};
use crate::project::Project;
use crate::verbs::NO_CLOUD_ANSWER;
use crate::{secrets, webhooks};

/// An event that was posted, and the answer to it.
#[derive(Debug)]
pub struct PostedEvent {
    event_id: String,
    url: String,
    status: StatusCode,
    answer: Value,
}

/// Which event is posted.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EventArgs {
    /// A file with an event, posted as it is. Without it, a new event of the shipped flows is.
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// The source that the event is from, where its type does not tell.
    #[arg(long, requires = "event")]
    source: Option<String>,
    /// The event's type, where its body does not tell.
    #[arg(long = "type", requires = "event")]
    event_type: Option<String>,
}

/// Posts an event to a local cloud.
pub async fn post(project: &Project, address: &CloudAddress, args: &EventArgs) -> Result<PostedEvent> {
    let flows = event_route::flows_in(&address.flows)?;
    let number = format!("evt_{}", jiff::Timestamp::now().as_millisecond());
    let (event_id, body, route) = match &args.event {
        Some(file) => {
            let body = read(file)?;
            let route = event_route::of_event(&flows, &body, args.source.as_deref(), args.event_type.as_deref())?;
            (file.display().to_string(), body, route)
        }
        None if event_route::takes_demo_event(&flows) => {
            let sample = read(&project.root().join("events/lead-created.json"))?;
            (number.clone(), with_id(sample, &number), EventRoute::demo())
        }
        None => bail!(
            "nothing was sent: this cloud has flows of its own, which take no demo event. Post one of yours: \
             make send ARGS='--event <file>'. They take: {}",
            event_route::taken(&flows).join(", ")
        ),
    };
    let secret = secrets::senders_secret(&route.scheme, secrets::of_sources(&address.state)?.text())?;
    let gateway = Endpoint::at(address.url.clone());
    let response = webhooks::post_signed(&gateway, &secret, &route, &number, &body).await;
    let response = response.context(NO_CLOUD_ANSWER)?;
    let url = format!("{}{}", address.url, route.path);
    let answer = response.json().unwrap_or_default();
    Ok(PostedEvent { event_id, url, status: response.status, answer })
}

fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read(file).with_context(|| format!("nothing was sent: cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("nothing was sent: {} is not JSON", file.display()))
}

impl PostedEvent {
    /// Whether the intake accepted the event.
    pub fn is_accepted(&self) -> bool {
        self.status.is_success()
    }
}

impl fmt::Display for PostedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event_id, url, status, answer } = self;
        writeln!(f, "Posted the event {event_id} to {url}\n{status}\n{answer:#}\n")?;
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
