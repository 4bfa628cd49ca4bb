//! The one screen at the end of a start: what to paste next.

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cloud::{CloudAddress, LocalCloud};

/// Print it.
pub fn show(cloud: &LocalCloud) {
    println!("{}", render(cloud, std::io::stdout().is_terminal()));
}

fn render(cloud: &LocalCloud, terminal: bool) -> String {
    let address = cloud.address();
    let head = |text: &str| if terminal { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let parts = [
        format!("\n{}  {}", head("Ledgerline is up:"), address.url),
        format!("{}\n{}", head("Send a signed event"), signed_curl(cloud)),
        format!("{}\n{}", head("Make the partner fail, and heal it"), partner_curls(address)),
        format!("{}\n  {}/console\n{}", head("Dead letters"), address.url, DEAD_LETTERS),
        format!("{}\n{}", head("Logs"), logs(&address.state)),
        "Ctrl-C stops everything.".to_owned(),
    ];
    parts.join("\n\n")
}

const DEAD_LETTERS: &str = "  target/debug/ledgerline --local dead list
  target/debug/ledgerline --local replay <id> --reason 'the partner is well again'
  make replay OP='{\"op\":\"list\"}'";

/// The timestamp and the signature are made when it is pasted, over the very bytes that are sent.
/// The id is fixed: pasted twice, it is the same event twice.
fn signed_curl(cloud: &LocalCloud) -> String {
    let (url, key) = (&cloud.address().url, cloud.secret().hex());
    let hint = if has_openssl() { "" } else { "  # It needs openssl, which is not on PATH: install it first.\n" };
    format!(
        r#"{hint}  now=$(date +%s)
  signature=$({{ printf 'msg_demo_1.%s.' "$now"; cat events/lead-created.json; }} | openssl dgst -sha256 -mac HMAC -macopt hexkey:{key} -binary | base64)
  curl -si {url}/v1/events/web-forms -H 'content-type: application/json' \
    -H 'webhook-id: msg_demo_1' -H "webhook-timestamp: $now" -H "webhook-signature: v1,$signature" \
    --data-binary @events/lead-created.json

  Paste it again: the same answer, and no second call at the partner. What the partner saw:
  curl -s {}/_control/log"#,
        cloud.address().partners_url
    )
}

fn partner_curls(address: &CloudAddress) -> String {
    let control = format!("  curl -X PUT {}/_control/crm -d", address.partners_url);
    [r#"'{"mode":"status","status":500}'"#, r#"'{"mode":"hang","apply":true,"seconds":30}'"#, r#"'{"mode":"ok"}'"#]
        .map(|body| format!("{control} {body}"))
        .join("\n")
}

fn logs(state: &Path) -> String {
    let shown = std::env::current_dir().ok().and_then(|here| Some(state.strip_prefix(here).ok()?.to_owned()));
    let logs = shown.unwrap_or_else(|| state.to_owned()).join("logs");
    let logs = logs.display();
    format!(
        "  {logs}/partners.jsonl             what the partner got\n  \
         {logs}/gateway.jsonl              every request\n  \
         {logs}/poller.jsonl               every batch from the queues\n  \
         {logs}/ledgerline-<function>.log  what the functions say\n  \
         {logs}/emulator.log, deploy.log   the emulator and sam deploy"
    )
}

fn has_openssl() -> bool {
    let mut openssl = Command::new("openssl");
    openssl.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    openssl.status().is_ok_and(|status| status.success())
}
