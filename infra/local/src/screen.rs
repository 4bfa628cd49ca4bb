//! The screen at the end of a start: what to paste next.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shared::flows::Flows;

use crate::cloud::{CloudAddress, LocalCloud};
use crate::event_route;
use crate::flows_copy::FlowsCopy;
use crate::output::print;
use crate::signed_request::{self, SignArgs};

/// Prints the screen.
pub fn show(cloud: &LocalCloud) {
    let demo = Demo::of(cloud.flows(), cloud.address());
    let screen = render(cloud.address(), &demo, &cloud.secret().hex(), has_openssl(), std::io::stdout().is_terminal());
    print(&format!("{screen}\n"));
}

/// What the flows of the cloud can be tried with.
enum Demo {
    /// The demo's own event, and the CRM that it calls; and the names of all flows.
    Shipped { flows: Vec<String> },
    /// Flows of the user's own: their names, what they take, a sample that one of them takes, a signed request for the first of
    /// them, and a partner that they call.
    Own { flows: Vec<String>, taken: Vec<String>, sample: Option<PathBuf>, request: Option<String>, partner: String },
}

impl Demo {
    fn of(folder: &FlowsCopy, address: &CloudAddress) -> Self {
        match event_route::flows_in(folder.running()) {
            Ok(flows) if !event_route::takes_demo_event(&flows) => {
                let names = names(&flows);
                let sign = |flow| signed_request::sign(address, &SignArgs { flow: Some(flow), event: None });
                Demo::Own {
                    taken: event_route::taken(&flows),
                    sample: event_route::sample_in(folder.own(), &flows),
                    request: names.iter().find_map(|name| sign(name.clone()).ok()).map(|request| request.to_string()),
                    partner: flows.integrations().next().map_or("crm", |(name, _)| name).to_owned(),
                    flows: names,
                }
            }
            flows => Demo::Shipped { flows: flows.as_ref().map(names).unwrap_or_default() },
        }
    }

    /// The verb that posts an event.
    fn send(&self) -> String {
        match self {
            Demo::Shipped { .. } => "make send".to_owned(),
            Demo::Own { sample: Some(file), .. } => format!("make send ARGS='--event {}'", from_here(file).display()),
            Demo::Own { sample: None, .. } => "make send ARGS='--event event.json'".to_owned(),
        }
    }
}

fn names(flows: &Flows) -> Vec<String> {
    flows.all().map(|flow| flow.name.clone()).collect()
}

fn render(address: &CloudAddress, demo: &Demo, signing_key: &str, has_openssl: bool, terminal: bool) -> String {
    let title = |text: &str| if terminal { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let event = match demo {
        Demo::Shipped { flows } => signed_curl(address, flows, signing_key, has_openssl),
        Demo::Own { flows, taken, request, .. } => own_event(address, flows, taken, request.as_deref(), &demo.send()),
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

/// With flows of one's own, the demo's event would be rejected. The verbs sign in the way of an event's source.
fn own_event(address: &CloudAddress, flows: &[String], taken: &[String], request: Option<&str>, send: &str) -> String {
    let control = control_file(address);
    let now = request.map(|request| {
        let lines = request.lines().map(|line| format!("  {line}\n"));
        format!("  This one is signed now, and good for a few minutes:\n{}\n", lines.collect::<String>())
    });
    format!(
        "{}  Sign another, for any flow, from its schema; --event <file> takes one of yours:
{}
  These flows take: {}. Save such an event as a file, and post it, signed in its source's way:
  {send}

  The calls that its partners got:
  curl -sH @{control} {}/_control/log",
        now.unwrap_or_default(),
        sign_each(flows),
        taken.join(", "),
        address.partners_url
    )
}

/// The command that makes a signed request for a flow.
fn sign(flow: &str) -> String {
    format!("target/debug/local sign --flow {flow}")
}

/// That command for each flow.
fn sign_each(flows: &[String]) -> String {
    flows.iter().map(|name| format!("  {} | sh\n", sign(name))).collect()
}

/// The timestamp and the signature are made when it is pasted, over the very bytes that are sent.
/// The id is fixed: pasted twice, it is the same event twice.
fn signed_curl(address: &CloudAddress, flows: &[String], key: &str, has_openssl: bool) -> String {
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
  curl -sH @{control} {partners_url}/_control/log

  A signed request for any flow, made from its schema:
{}"#,
        sign_each(flows).trim_end()
    )
}

/// The file with the header that opens the partner stub's controls.
fn control_file(address: &CloudAddress) -> String {
    from_here(&address.state).join("control.header").display().to_string()
}

/// A failure needs a new event: a duplicate of one that is done calls nobody.
fn failure(address: &CloudAddress, demo: &Demo) -> String {
    let (header, send) = (control_file(address), demo.send());
    let fresh = if let Demo::Own { sample: Some(_), .. } = demo { ", with another id in its file" } else { "" };
    let partner = if let Demo::Own { partner, .. } = demo { partner } else { "crm" };
    let control =
        |body: &str| format!("  curl -H @{header} -X PUT {}/_control/{partner} -d '{body}'", address.partners_url);
    let (fail, heal) = (control(r#"{"mode":"status","status":400}"#), control(r#"{"mode":"ok"}"#));
    let hang = control(r#"{"mode":"hang","apply":true,"seconds":30}"#);
    format!(
        "  Make a partner refuse, and post a new event{fresh}: the one above is done, and a duplicate calls no partner.
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
        let (flows, request) = (vec!["paid".into(), "gone".into()], Some("curl -si 'x' \\\n  -H 'y'".into()));
        let (sample, partner) = (Some("shop/samples/paid.json".into()), "mail".into());
        let demo = Demo::Own { flows, taken, sample, request, partner };
        let screen = render(&address(), &demo, "key", true, false);
        assert!(screen.contains("order.paid from shop") && screen.contains("_control/mail"), "{screen}");
        assert!(screen.contains("make send ARGS='--event shop/samples/paid.json'"), "{screen}");
        assert!(
            screen.contains("  curl -si 'x' \\\n    -H 'y'\n")
                && ["paid", "gone"].iter().all(|flow| screen.contains(&format!("local sign --flow {flow} | sh\n"))),
            "{screen}"
        );
        assert!(!screen.contains("web-forms") && !screen.contains("crm"), "{screen}");
        let shipped = Demo::Shipped { flows: vec!["lead-routing".into(), "meta-leads".into()] };
        let shipped = render(&address(), &shipped, "key", true, false);
        for flow in ["lead-routing", "meta-leads"] {
            assert!(shipped.contains(&format!("local sign --flow {flow} | sh\n")), "{shipped}");
        }
        assert!(shipped.contains("/v1/events/web-forms") && shipped.contains("_control/crm"), "{shipped}");
    }
}
