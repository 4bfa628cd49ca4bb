//! What an attacker tries, and what an auditor asks. `infra/SECURITY.md` says who and why.

mod dependencies;
mod effects;
mod roles;
mod secrets;
mod signatures;
mod threats;

use std::path::{Path, PathBuf};

use crate::fixtures::root;

/// Every Rust file below a folder of the project.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found
}

fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            found.push((path, text));
        }
    }
}
