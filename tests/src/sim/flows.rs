//! The flows under simulation: the shipped ones, and our own under `flows/`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use intake::Contracts;
use serde_json::{Value, json};
use shared::adapters::machine::read_flows;
use shared::flows::{File, Flow, Flows, Header};

use crate::fixtures::{NOW, root};

/// Flows with their schemas compiled: one version of what is deployed.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) flows: Flows,
    pub(super) contracts: Contracts,
}

/// What is deployed first, and what is deployed while events are on their way. A line that starts with
/// `#v2 ` is part of the second alone.
pub(super) static VERSIONS: LazyLock<[Version; 2]> = LazyLock::new(|| {
    let second = |text: String| text.replace("#v2 ", "").replace("max_attempts: 4", "max_attempts: 5");
    [version(|text| text), version(second)]
});

/// The simulation's own flows, changed.
pub(super) fn version(change: impl Fn(String) -> String) -> Version {
    let files: Vec<File> = files().into_iter().map(|file| File { text: change(file.text), ..file }).collect();
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    Version { contracts: Contracts::of(&flows), flows }
}

/// The shipped flows.
pub(super) static SHIPPED: LazyLock<Version> = LazyLock::new(|| {
    let flows = read_flows(&root().join("infra/flows")).expect("the shipped flows are good");
    Version { contracts: Contracts::of(&flows), flows }
});

fn files() -> Vec<File> {
    let folder = root().join("tests/src/sim/flows");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a flow file");
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let flows = names(&folder.join("flows")).into_iter().map(|name| format!("flows/{name}"));
    let paths = ["sources.yaml".to_owned(), "integrations.yaml".to_owned()].into_iter().chain(flows);
    let own = paths.map(|path| File { text: read(&folder.join(&path)), path });
    // Answers from Slack arrive as they do in earnest.
    let answers = "flows/approvals.yaml".to_owned();
    let shipped = File { text: read(&root().join("infra/flows").join(&answers)), path: answers };
    own.chain([shipped]).collect()
}

/// What a sender posts of one event.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    /// The type that the path names, where the body does not.
    pub(super) event_type: Option<String>,
    /// The header `Idempotency-Key`, where the flow wants one.
    pub(super) key: Option<String>,
    pub(super) body: Value,
}

/// An event of a flow: number `event`, about entity number `entity`.
///
/// It is the simulation's own, or else the payload under `events/` that has the flow's type, with what
/// names it and whom it is about changed. Some are worth more than others, and want an approval.
pub(super) fn parcel(flow: &Flow, event: u64, entity: u64) -> Parcel {
    let event_type = &flow.on.event_type;
    let own = || json!({"type": event_type, "data": {"event_id": "", "entity": "", "agrees": true, "large": true}});
    let mut body = SHIPPED_PAYLOADS.get(event_type.as_str()).cloned().unwrap_or_else(own);
    let named = body.get("type").is_some();
    let who = email(entity);
    let (large, agrees) = (event.is_multiple_of(2), !event.is_multiple_of(3));
    let later = NOW + Duration::from_secs(600 * event);
    let data = if body.get("data").is_some() { &mut body["data"] } else { &mut body };
    for (field, value) in [
        ("event_id", json!(format!("evt-{event}"))),
        ("cart_id", json!(format!("cart-{event}"))),
        ("trigger_id", json!(format!("press-{event}"))),
        ("customer_id", json!(who)),
        ("entity", json!(who)),
        ("email", json!(who)),
        ("abandoned_at", json!(later.to_string())),
        ("total", json!(if event % 7 == 6 { 10 } else { 84 })),
        ("discount_percent", json!(if large { 40 } else { 10 })),
        ("large", json!(large)),
        ("agrees", json!(agrees)),
        ("consent_email", json!(agrees)),
    ] {
        if let Some(place) = data.get_mut(field) {
            *place = value;
        }
    }
    let key = (flow.key.header == Header::Required).then(|| format!("evt-{event}"));
    Parcel { event_type: (!named).then(|| event_type.clone()), key, body }
}

/// Whom an event is about.
pub(super) fn email(entity: u64) -> String {
    format!("entity{entity}@example.com")
}

/// The payloads under `events/`, by the type that they say or that their file is called by.
static SHIPPED_PAYLOADS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let files = std::fs::read_dir(root().join("events")).expect("the folder of payloads").flatten();
    let named = files.filter_map(|file| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let payload = serde_json::from_str::<Value>(&text).ok()?;
        let called = file.path().file_stem()?.to_string_lossy().replace('-', ".");
        Some((payload["type"].as_str().map_or(called, str::to_owned), payload))
    });
    named.collect()
});
