//! The flows under simulation: the shipped ones, and our own under `flows/`.

use std::path::Path;

use shared::adapters::machine::read_files;
use shared::flows::{File, Flows};
use sim::FlowsVersion;

use crate::fixtures::root;

/// What is deployed first, and what is deployed in two stages while events are on their way. A line that starts with
/// `#v2 ` is part of the later ones alone. The third renames once more, and removes an effect.
pub(super) fn versions() -> Vec<FlowsVersion> {
    let more = |text: String| text.replace("#v2 ", "").replace("max_attempts: 4", "max_attempts: 5");
    let second = |text: String| more(renamed(text, "first", "[a]"));
    let third = |text: String| without_removed_effect(&more(renamed(text, "begun", "[a, first]")));
    let later =
        |text: String, change: &dyn Fn(String) -> String| if is_removed(&text) { String::new() } else { change(text) };
    vec![first(), version(|text| later(text, &second)), version(|text| later(text, &third))]
}

/// What is deployed first: without the flows that come later.
fn first() -> FlowsVersion {
    version(|text| if text.contains("# added later\n") { String::new() } else { text })
}

/// The same, but the renamed effect does not say what it was.
pub(super) fn renamed_without_was() -> Vec<FlowsVersion> {
    vec![first(), version(|text| renamed(text.replace("#v2 ", ""), "first", ""))]
}

/// A file in which an effect that is marked so has this name, and says that it had these.
fn renamed(text: String, name: &str, was: &str) -> String {
    if !text.contains(RENAMED) {
        return text;
    }
    let was = if was.is_empty() { String::new() } else { format!("\n    was: {was}") };
    text.replace(RENAMED, &format!("id: {name}{was}")).replace("effects.a.", &format!("effects.{name}."))
}

/// The file without the effect that is marked so: it is the last one.
fn without_removed_effect(text: &str) -> String {
    let Some((before, rest)) = text.split_once("  - id: c # removed later\n") else { return text.to_owned() };
    let (_, after) = rest.split_once("retry:").expect("retries stand behind the effects");
    format!("{before}retry:{after}")
}

/// The mark of an effect that each later version renames.
const RENAMED: &str = "id: a # renamed";

/// Whether the later versions do not have the flow of this file.
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
