//! The flows under simulation: the shipped ones, and our own under `flows/`.

use std::path::Path;

use shared::adapters::machine::read_files;
use shared::flows::{File, Flows};
use sim::FlowsVersion;

use crate::fixtures::root;

/// What is deployed first, and what is deployed while events are on their way. A line that starts with
/// `#v2 ` is part of the second alone.
pub(super) fn versions() -> Vec<FlowsVersion> {
    let second = |text: String| renamed(text, "first\n    was: [a]").replace("max_attempts: 4", "max_attempts: 5");
    vec![version(|text| text), version(|text| if is_removed(&text) { String::new() } else { second(text) })]
}

/// The same, but the renamed effect does not say what it was.
pub(super) fn renamed_without_was() -> Vec<FlowsVersion> {
    vec![version(|text| text), version(|text| renamed(text, "first"))]
}

/// A file of the second version, in which an effect that is marked so has this name.
fn renamed(text: String, name: &str) -> String {
    let text = text.replace("#v2 ", "");
    match text.contains(RENAMED) {
        true => text.replace(RENAMED, &format!("id: {name}")).replace("effects.a.", "effects.first."),
        false => text,
    }
}

/// The mark of an effect that the second version renames.
const RENAMED: &str = "id: a # renamed";

/// Whether the second version does not have the flow of this file.
fn is_removed(text: &str) -> bool {
    text.contains("# removed\n")
}

/// The simulation's own flows, changed.
pub(super) fn version(change: impl Fn(String) -> String) -> FlowsVersion {
    let files = files().into_iter().map(|file| File { text: change(file.text), ..file });
    let files: Vec<File> = files.filter(|file| !file.text.is_empty()).collect();
    FlowsVersion::of(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

/// The shipped flows. Where a partner takes no key, it is shown one all the same: by it the simulation knows whose call it
/// is. Which partner honours its key is what the guarantees say.
pub(super) fn shipped() -> FlowsVersion {
    let files = read_files(&root().join("infra/flows")).expect("the folder of the shipped flows");
    let shown = |text: &str| text.replace("idempotency_header: \"\"", "idempotency_header: Idempotency-Key");
    let files: Vec<File> = files.into_iter().map(|file| File { text: shown(&file.text), ..file }).collect();
    FlowsVersion::of(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

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
