//! The shipped flows and real payloads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use serde_json::Value;
use shared::adapters::aws;
use shared::adapters::machine::read_flows;
use shared::arrival::event::Event;
use shared::arrival::key::Names;
use shared::base::time::Timestamp;
use shared::base::trace::Trace;
use shared::flows::catalog::Shelf;
use shared::flows::{File, Flow, Flows, Source};
use shared::ledger::{Claim, SignOff};

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

/// An operator's word.
pub(crate) const ADA: SignOff<'static> = SignOff { by: "ada", why: "the CRM is back" };

/// An operation on her word.
pub(crate) fn by_ada(mut operation: Value) -> Value {
    operation["by"] = ADA.by.into();
    operation["reason"] = ADA.why.into();
    operation
}

/// AWS as the functions reach it, with as much time as a busy machine needs.
pub(crate) async fn aws() -> SdkConfig {
    let (attempt, whole) = (Duration::from_secs(60), Duration::from_secs(120));
    let patient = TimeoutConfig::builder().operation_attempt_timeout(attempt).operation_timeout(whole).build();
    aws::aws().await.into_builder().timeout_config(patient).build()
}

/// The project's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a folder of the project").to_owned()
}

/// The flows as they are shipped.
pub(crate) fn flows() -> Flows {
    read_flows(&root().join("infra/flows")).expect("the shipped flows are good")
}

/// A flow of one call to the CRM, and nothing else: what most tests are about.
pub(crate) fn plain_flows() -> Flows {
    Flows::parse(&files()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The files of the plain flow: its sources, its integrations, itself.
pub(crate) fn files() -> Vec<File> {
    let read = |path: &str| {
        let text = std::fs::read_to_string(root().join("tests/flows").join(path)).expect("a file of the tests");
        File { path: path.into(), text }
    };
    ["sources.yaml", "integrations.yaml", "flows/lead-routing.yaml"].into_iter().map(read).collect()
}

/// The plain flow for leads.
pub(crate) fn lead_routing() -> Flow {
    plain_flows().flow("lead-routing").expect("it is there").clone()
}

/// A real payload.
pub(crate) fn payload(name: &str) -> Value {
    let text = std::fs::read_to_string(root().join("events").join(name)).expect("the fixture is there");
    serde_json::from_str(&text).expect("the fixture is JSON")
}

/// A lead as the web form sends it.
pub(crate) fn lead() -> Value {
    payload("lead-created.json")
}

/// A lead of this id and this person.
pub(crate) fn lead_of(event_id: &str, email: &str) -> Value {
    let mut lead = lead();
    lead["data"]["event_id"] = event_id.into();
    lead["data"]["email"] = email.into();
    lead
}

/// An accepted lead with a unique id.
pub(crate) fn event(event_id: &str) -> Event {
    let trace = Trace::start(1, 2, 3);
    let lead = lead_of(event_id, "ada@example.com");
    Event::new(&lead_routing(), 1, lead, Names::default(), NOW, trace).expect("a lead has a key")
}

/// A worker's claim for this message.
pub(crate) fn claim_of(event: &Event, now: Timestamp, first: &[&str]) -> Claim {
    let first = first.iter().map(|effect| (*effect).to_owned()).collect();
    let (replay, wake, fingerprint) = (event.replay, event.wake, event.fingerprint.clone());
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    let holder = CLAIMS.fetch_add(1, Ordering::Relaxed).to_string();
    Claim { now, lease: LEASE, holder, replay, wake, fingerprint, first }
}

/// The length of a lease.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// A path of the project, as people name it.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).expect("it is ours").display().to_string()
}

/// A source file without its own tests.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
}

/// Every Rust file below a folder of the project, with its text.
pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        (path, text)
    };
    files_below(folder, "rs").into_iter().map(read).collect()
}

/// Every file with this ending below a folder of the project, but for what was built there.
pub(crate) fn files_below(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&root().join(folder), ending, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let built = path.file_name().is_some_and(|name| name == "target" || name == "node_modules");
        if path.is_dir() && !built {
            walk(&path, ending, found);
        } else if path.extension().is_some_and(|kind| kind == ending) {
            found.push(path);
        }
    }
}

/// A source that uses this sender of the shipped catalogue.
pub(crate) fn sender(name: &str) -> Source {
    let path = Shelf::Sources.path(name);
    let text = std::fs::read_to_string(root().join("infra/flows").join(&path)).expect("a file of the catalogue");
    let own = format!("sender: {{uses: {name}, max_body: 64KiB, rate: 10/s}}");
    let files = [File { path: "sources.yaml".into(), text: own }, File { path, text }];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    flows.source("sender").expect("it is there").clone()
}
