//! The flows under simulation: the shipped ones, and our own under `flows/`.

use std::path::Path;
use std::sync::LazyLock;

use intake::Contracts;
use serde_json::{Value, json};
use shared::adapters::read_flows;
use shared::flow::{File, Flow, Flows, Part};

use crate::fixtures::root;

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
    paths.map(|path| File { text: read(&folder.join(&path)), path }).collect()
}

/// An event of a flow: number `event`, about entity number `entity`.
///
/// It is the simulation's own, or else the payload under `events/` that has the flow's type, with its
/// key and its order changed.
pub(super) fn payload(flow: &Flow, event: u64, entity: u64) -> Value {
    let mut payload = shipped_payload(flow)
        .unwrap_or_else(|| json!({"type": flow.on.event_type, "data": {"event_id": "evt", "entity": "entity"}}));
    for part in flow.key.fields.iter().take(1).map(|field| &field.part) {
        if let Part::Field(field) = part {
            set(&mut payload, &field.to_string(), &format!("evt-{event}"));
        }
    }
    set(&mut payload, &flow.order_by.to_string(), &format!("entity{entity}@example.com"));
    payload
}

fn shipped_payload(flow: &Flow) -> Option<Value> {
    let files = std::fs::read_dir(root().join("events")).expect("the folder of payloads").flatten();
    let payloads = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let mut payloads = payloads.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    payloads.find(|payload| payload["type"] == flow.on.event_type.as_str())
}

fn set(payload: &mut Value, path: &str, text: &str) {
    let place = path.split('.').fold(payload, |place, part| &mut place[part]);
    *place = json!(text);
}
