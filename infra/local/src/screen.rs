//! The screen at the end of a start: what to paste next.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cloud::{CloudAddress, LocalCloud};
use crate::event_route;
use crate::flows_copy::FlowsCopy;
use crate::output::print;

/// Prints the screen.
pub fn show(cloud: &LocalCloud) {
    let demo = Demo::of(cloud.flows());
    let screen = render(cloud.address(), &demo, &cloud.secret().hex(), has_openssl(), std::io::stdout().is_terminal());
    print(&format!("{screen}\n"));
}

/// What the flows of the cloud can be tried with.
enum Demo {
    /// The demo's own event, and the CRM that it calls.
    Shipped,
    /// Flows of the user's own: what they take, a sample that one of them takes, and a partner that they call.
    Own { taken: Vec<String>, sample: Option<PathBuf>, partner: String },
}

impl Demo {
    fn of(folder: &FlowsCopy) -> Self {
        match event_route::flows_in(folder.running()) {
            Ok(flows) if !event_route::takes_demo_event(&flows) => Demo::Own {
                taken: event_route::taken(&flows),
                sample: event_route::sample_in(folder.own(), &flows),
                partner: flows.integrations().next().map_or("crm", |(name, _)| name).to_owned(),
            },
            _ => Demo::Shipped,
        }
    }

    /// The verb that posts an event.
    fn send(&self) -> String {
        match self {
            Demo::Shipped => "make send".to_owned(),
            Demo::Own { sample: Some(file), .. } => format!("make send ARGS='--event {}'", from_here(file).display()),
            Demo::Own { sample: None, .. } => "make send ARGS='--event event.json'".to_owned(),
        }
    }
}

fn render(address: &CloudAddress, demo: &Demo, signing_key: &str, has_openssl: bool, terminal: bool) -> String {
    let title = |text: &str| if terminal { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let event = match demo {
        Demo::Shipped => signed_curl(address, signing_key, has_openssl),
        Demo::Own { taken, .. } => own_event(address, taken, &demo.send()),
    };
    let parts = [
        format!("\n{}  {}", title("Ledgerline is up:"), address.url),
        "Paste these into another terminal, in this folder.".to_owned(),
        format!("{}\n{event}", title("Send a signed event")),
        format!("{}\n{}", title("Watch a failure"), failure(address, demo)),
        format!("{}\n  {}", title("Open the console, with every parked event"), address.console_url()),
        format!("{}\n{}", title("Read the logs"), logs(&address.state)),
        "Ctrl-C here, or `make stop` there, stops everything.".to_owned(),
    ];
    parts.join("\n\n")
}

/// With flows of one's own, the demo's event would be rejected. The verb signs a file in the way of its source.
fn own_event(address: &CloudAddress, taken: &[String], send: &str) -> String {
    let control = control_file(address);
    format!(
        "  These flows take: {}. Save such an event as a file, and post it, signed in its source's way:
  {send}

  The calls that its partners got:
  curl -sH @{control} {}/_control/log",
        taken.join(", "),
        address.partners_url
    )
}

/// The timestamp and the signature are made when it is pasted, over the very bytes that are sent.
/// The id is fixed: pasted twice, it is the same event twice.
fn signed_curl(address: &CloudAddress, key: &str, has_openssl: bool) -> String {
    let CloudAddress { url, partners_url, .. } = address;
    let control = control_file(address);
    let missing = if has_openssl {
        ""
    } else {
        "  This needs openssl, which is not on PATH: install it first, or use `make send`.\n"
    };
    format!(
        r#"{missing}  now=$(date +%s)
  signature=$({{ printf 'msg_demo_1.%s.' "$now"; cat events/lead-created.json; }} | openssl dgst -sha256 -mac HMAC -macopt hexkey:{key} -binary | base64)
  curl -si {url}/v1/events/web-forms -H 'content-type: application/json' \
    -H 'webhook-id: msg_demo_1' -H "webhook-timestamp: $now" -H "webhook-signature: v1,$signature" \
    --data-binary @events/lead-created.json

  Paste it again: it is a duplicate, with the same answer and no second call to the partner. The calls it got:
  curl -sH @{control} {partners_url}/_control/log"#
    )
}

/// The file with the header that opens the partner stub's controls.
fn control_file(address: &CloudAddress) -> String {
    from_here(&address.state).join("control.header").display().to_string()
}

/// A failure needs a new event: a duplicate of one that is done calls nobody.
fn failure(address: &CloudAddress, demo: &Demo) -> String {
    let (header, send) = (control_file(address), demo.send());
    let partner = if let Demo::Own { partner, .. } = demo { partner } else { "crm" };
    let control =
        |body: &str| format!("  curl -H @{header} -X PUT {}/_control/{partner} -d '{body}'", address.partners_url);
    let (fail, heal) = (control(r#"{"mode":"status","status":400}"#), control(r#"{"mode":"ok"}"#));
    let hang = control(r#"{"mode":"hang","apply":true,"seconds":30}"#);
    format!(
        "  Make a partner refuse, and post a new event: the one above is done, and a duplicate calls no partner.
{fail}
  {send}

  The processor parks the event (a partner that is down, which answers 503, is waited for instead):
  target/debug/ledgerline --local dead list

  Heal the partner, and replay what is parked:
{heal}
  target/debug/ledgerline --local replay --all --yes --reason 'the partner is healthy again'

  The partner can also do as it is told and not answer. Then post another event:
{hang}"
    )
}

fn logs(state: &Path) -> String {
    let logs = from_here(state).join("logs");
    let logs = logs.display();
    format!(
        "  {logs}/partners.jsonl             each call that the partner got\n  \
         {logs}/gateway.jsonl              each request to the API\n  \
         {logs}/poller.jsonl               each batch from the queues\n  \
         {logs}/ledgerline-<function>.log  the log of a function\n  \
         {logs}/emulator.log, deploy.log   the logs of the emulator and of sam deploy"
    )
}

/// A path as it is typed in this folder.
fn from_here(path: &Path) -> PathBuf {
    let relative = std::env::current_dir().ok().and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
    relative.unwrap_or_else(|| path.to_owned())
}

fn has_openssl() -> bool {
    let mut openssl = Command::new("openssl");
    openssl.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    openssl.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run_credentials::RunCredentials;

    fn address() -> CloudAddress {
        CloudAddress {
            pid: 1,
            url: "http://127.0.0.1:8787".into(),
            partners_url: "http://127.0.0.1:8788".into(),
            endpoint: String::new(),
            functions: BTreeMap::new(),
            ledger_table: String::new(),
            limits_table: String::new(),
            contacts_table: String::new(),
            events_queue_url: String::new(),
            dead_letters_queue_url: String::new(),
            flows: "shop".into(),
            state: ".local/run".into(),
            credentials: RunCredentials::make().expect("credentials"),
        }
    }

    /// What is pasted works: neither the demo's source nor its partner is in flows of one's own.
    #[test]
    fn with_own_flows_nothing_names_the_demo() {
        let taken = vec!["order.paid from shop".into()];
        let demo = Demo::Own { taken, sample: Some("shop/samples/paid.json".into()), partner: "mail".into() };
        let screen = render(&address(), &demo, "key", true, false);
        assert!(screen.contains("order.paid from shop") && screen.contains("_control/mail"), "{screen}");
        assert!(screen.contains("make send ARGS='--event shop/samples/paid.json'"), "{screen}");
        assert!(!screen.contains("web-forms") && !screen.contains("crm"), "{screen}");
        let shipped = render(&address(), &Demo::Shipped, "key", true, false);
        assert!(shipped.contains("/v1/events/web-forms") && shipped.contains("_control/crm"), "{shipped}");
    }
}
