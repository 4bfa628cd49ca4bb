//! The screen at the end of a start: what to paste next.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cloud::{CloudAddress, LocalCloud};
use crate::output::print;

/// Prints the screen.
pub fn show(cloud: &LocalCloud) {
    let screen = render(cloud.address(), &cloud.secret().hex(), has_openssl(), std::io::stdout().is_terminal());
    print(&format!("{screen}\n"));
}

fn render(address: &CloudAddress, signing_key: &str, has_openssl: bool, terminal: bool) -> String {
    let title = |text: &str| if terminal { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let parts = [
        format!("\n{}  {}", title("Ledgerline is up:"), address.url),
        "Paste these into another terminal, in this folder.".to_owned(),
        format!("{}\n{}", title("Send a signed event"), signed_curl(address, signing_key, has_openssl)),
        format!("{}\n{}", title("Watch a failure"), failure(address)),
        format!("{}\n  {}", title("Open the console, with every parked event"), address.console_url()),
        format!("{}\n{}", title("Read the logs"), logs(&address.state)),
        "Ctrl-C here, or `make stop` there, stops everything.".to_owned(),
    ];
    parts.join("\n\n")
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
fn failure(address: &CloudAddress) -> String {
    let header = control_file(address);
    let control = |body: &str| format!("  curl -H @{header} -X PUT {}/_control/crm -d '{body}'", address.partners_url);
    let (fail, heal) = (control(r#"{"mode":"status","status":500}"#), control(r#"{"mode":"ok"}"#));
    let hang = control(r#"{"mode":"hang","apply":true,"seconds":30}"#);
    format!(
        "  Make the partner fail, and post a new event: the one above is done, and a duplicate calls no partner.
{fail}
  make send

  The processor tries three times, mostly within ten seconds, and then parks the event:
  target/debug/ledgerline --local dead list

  Heal the partner, and replay what is parked:
{heal}
  target/debug/ledgerline --local replay --all --yes --reason 'the partner is healthy again'

  The partner can also do as it is told and not answer. Then `make send` again:
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
