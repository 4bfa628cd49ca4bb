//! The rooms of `shared/src` know one another in one direction.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixtures::{root, sources, without_tests};

/// The rooms, as `lib.rs` declares them: each may know those above it.
fn rooms() -> Vec<String> {
    let lib = std::fs::read_to_string(root().join("shared/src/lib.rs")).expect("the library's root");
    let declared = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    declared.map(str::to_owned).collect()
}

/// A file's code without its comments and without its tests, which may look around.
fn code(text: &str) -> String {
    let code = without_tests(text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// What a file's paths from the crate's root begin with, those within one `use crate::{…}` included.
fn known(code: &str) -> BTreeSet<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    let mut known = BTreeSet::new();
    for path in code.split("crate::").skip(1) {
        match path.strip_prefix('{') {
            Some(list) => {
                let list = list.split(';').next().unwrap_or_default();
                known.extend(list.split(',').map(|item| name(item.trim_start())));
            }
            None => drop(known.insert(name(path))),
        }
    }
    known
}

/// The edges of the rooms' graph, each with a file that shows it.
fn graph() -> BTreeMap<(String, String), String> {
    let mut edges = BTreeMap::new();
    for (path, text) in sources("shared/src") {
        let path = path.strip_prefix(root().join("shared/src")).expect("it is below").to_owned();
        let Some((room, _)) = path.to_str().expect("a plain name").split_once('/') else { continue };
        // Tests in files of their own stand beside what they test.
        if path.file_stem().is_some_and(|name| name == "properties" || name == "vectors") {
            continue;
        }
        for other in known(&code(&text)).into_iter().filter(|other| other != room) {
            edges.entry((room.to_owned(), other)).or_insert_with(|| path.display().to_string());
        }
    }
    edges
}

#[test]
fn a_room_knows_only_those_above_it() {
    let rooms = rooms();
    assert_eq!(rooms.len(), 9, "{rooms:?}");
    let edges = graph();
    assert!(edges.len() > 15, "the graph was not read: {edges:?}");
    let place = |name: &str| rooms.iter().position(|room| room == name);
    for ((room, other), file) in edges {
        let (from, to) = (place(&room), place(&other));
        assert!(from.is_some() && to.is_some(), "{file}: `{room}` or `{other}` is no room of lib.rs");
        assert!(to < from, "{file}: `{room}` stands above `{other}` and must not know it");
    }
}

#[test]
fn every_room_has_a_sentence_in_the_layout() {
    let lib = std::fs::read_to_string(root().join("shared/src/lib.rs")).expect("the library's root");
    let told: Vec<&str> = lib.lines().filter_map(|line| line.strip_prefix("//! - [`")?.split('`').next()).collect();
    assert_eq!(told, rooms(), "the layout tells the rooms in their order");
}

#[test]
fn a_forbidden_edge_would_be_seen() {
    let text = "use crate::{base::time, operate::stale_guard};\nuse crate::flows::Flow;\n// crate::model\nfn f() { crate::ledger::g() }\n#[cfg(test)]\nmod tests { use crate::adapters; }";
    let expected = ["base", "flows", "ledger", "operate"].map(str::to_owned);
    assert_eq!(known(&code(text)), expected.into());
}

/// The processor's modules, as its `lib.rs` declares them: a message meets them in this order.
#[test]
fn the_processor_is_a_path_that_goes_down() {
    let folder = root().join("functions/processor/src");
    let lib = std::fs::read_to_string(folder.join("lib.rs")).expect("the processor's root");
    let modules: Vec<&str> = lib.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert!(modules.len() > 10, "{modules:?}");
    for (place, module) in modules.iter().enumerate() {
        let text = std::fs::read_to_string(folder.join(format!("{module}.rs"))).expect("a module of the processor");
        for other in known(&code(&text)) {
            let below = modules[place + 1..].contains(&other.as_str());
            assert!(below, "`{module}` calls back up to `{other}`, or knows what lib.rs does not list below it");
        }
    }
}
