//! A signed request for any flow of the running local cloud, as a command to paste: what `local sign` prints.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use shared::arrival::signature::SignedRequest;
use shared::flows::{Flow, Flows, Header};

use crate::cloud::CloudAddress;
use crate::event_route::{self, EventRoute};
use crate::webhooks::{self, SignedWebhook};
use crate::{example, secrets};

/// Which request is signed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SignArgs {
    /// The flow that the event is for. Without it, the flow that takes the event of the file.
    #[arg(long, required_unless_present = "event")]
    pub(crate) flow: Option<String>,
    /// A file with an event. Without it, the smallest event that the flow's schema takes.
    #[arg(long, value_name = "FILE")]
    pub(crate) event: Option<PathBuf>,
}

/// A request to paste.
pub struct PastedRequest {
    webhook: SignedWebhook,
}

/// Signs an event for the local cloud, now.
pub fn sign(address: &CloudAddress, args: &SignArgs) -> Result<PastedRequest> {
    let flows = event_route::flows_in(&address.flows)?;
    let named = match &args.flow {
        Some(name) => Some(flows.flow(name).with_context(|| {
            let known: Vec<_> = flows.all().map(|flow| flow.name.as_str()).collect();
            format!("nothing was signed: there is no flow {name}. There are: {}", known.join(", "))
        })?),
        None => None,
    };
    let signing = secrets::of_sources(&address.state)?;
    match (&args.event, named) {
        (None, Some(flow)) => example_for(&flows, flow, &address.url, signing.text()),
        (None, None) => bail!("nothing was signed: name a flow, or a file with an event"),
        (Some(file), _) => {
            let event = read(file)?;
            let route = match named {
                Some(flow) => event_route::of_flow(&flows, flow, &event)?,
                None => event_route::of_event(&flows, &event, None, None)?,
            };
            signed(&route, named, &event, &address.url, signing.text())
        }
    }
}

/// The smallest event that a flow's schema takes, signed now for a cloud at this URL, whose senders' secrets are made of this
/// text.
pub fn example_for(flows: &Flows, flow: &Flow, url: &str, signing: &str) -> Result<PastedRequest> {
    let event = example::event(flows, flow)?;
    signed(&event_route::of_flow(flows, flow, &event)?, Some(flow), &event, url, signing)
}

fn signed(route: &EventRoute, flow: Option<&Flow>, event: &Value, url: &str, signing: &str) -> Result<PastedRequest> {
    let secret = secrets::senders_secret(&route.scheme, signing)?;
    let id = format!("msg_{}", jiff::Timestamp::now().as_millisecond());
    let mut webhook = webhooks::signed(url, &secret, route, &id, event)?;
    if flow.is_some_and(|flow| flow.key.header == Header::Required) {
        webhook.request.headers.push(("Idempotency-Key".into(), id));
    }
    Ok(PastedRequest { webhook })
}

impl PastedRequest {
    /// The request.
    pub fn request(&self) -> &SignedRequest {
        &self.webhook.request
    }

    /// The content type of its body.
    pub fn content_type(&self) -> &'static str {
        self.webhook.content_type
    }
}

fn read(file: &std::path::Path) -> Result<Value> {
    let text = std::fs::read(file).with_context(|| format!("nothing was signed: cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("nothing was signed: {} is not JSON", file.display()))
}

impl fmt::Display for PastedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SignedWebhook { content_type, request } = &self.webhook;
        write!(f, "curl -si {} -H {}", quoted(&request.url), quoted(&format!("content-type: {content_type}")))?;
        for (name, value) in &request.headers {
            write!(f, " \\\n  -H {}", quoted(&format!("{name}: {value}")))?;
        }
        write!(f, " \\\n  --data-binary {}", quoted(&String::from_utf8_lossy(&request.body)))
    }
}

/// A text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::arrival::signature::new_secret;

    use super::*;

    #[test]
    fn a_request_is_a_command_that_a_shell_takes_as_it_is() {
        let route = EventRoute::demo();
        let secret = new_secret(&route.scheme, &[7; 32]);
        let event = json!({"it's": "a \"b\""});
        let webhook = webhooks::signed("http://127.0.0.1:8787", &secret, &route, "msg_1", &event).expect("signed");
        let told = PastedRequest { webhook }.to_string();
        assert!(
            told.starts_with(
                "curl -si 'http://127.0.0.1:8787/v1/events/web-forms' -H 'content-type: application/json'"
            )
        );
        assert!(told.contains("-H 'webhook-id: msg_1'") && told.contains("-H 'webhook-signature: v1,"), "{told}");
        assert!(told.ends_with(r#"--data-binary '{"it'\''s":"a \"b\""}'"#), "{told}");
    }
}
