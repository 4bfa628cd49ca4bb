//! What a newcomer reads who made a mistake: every file below `tests/broken`, and what is said of it.
//!
//! Each folder holds the files in which it differs from `_good`. A changed sentence shows itself as a
//! changed snapshot: `INSTA_UPDATE=always cargo test -p ledgerline`, and review the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use annotate_snippets::Renderer;
use ledgerline::flows::check::{SHIPPED_TIMEOUT, check};
use ledgerline::output::render;
use shared::flows::{File, Problems};

fn broken() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken")
}

/// The files of a folder, by their paths in it.
fn files_of(case: &str) -> BTreeMap<String, File> {
    let root = broken().join(case);
    let mut files = BTreeMap::new();
    for folder in
        [root.clone(), root.join("flows"), root.join("catalog/partners")].iter().filter(|folder| folder.is_dir())
    {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(&root).expect("it is below").to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path).expect("a text");
                files.insert(name.clone(), File { path: name, text });
            }
        }
    }
    files
}

/// The good folder with this case's files in place of its own. A case with flows has only these.
fn case(name: &str) -> Vec<File> {
    let (mut files, own) = (files_of("_good"), files_of(name));
    if own.keys().any(|path| path.starts_with("flows/")) {
        files.retain(|path, _| !path.starts_with("flows/"));
    }
    files.extend(own);
    files.into_values().collect()
}

fn cases() -> Vec<String> {
    let folders = std::fs::read_dir(broken()).expect("a folder");
    let mut names: Vec<String> =
        folders.map(|folder| folder.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "_good");
    names.sort_unstable();
    names
}

fn problems(files: &[File]) -> Problems {
    check(files, false, SHIPPED_TIMEOUT).err().unwrap_or(Problems(Vec::new()))
}

#[test]
fn the_good_folder_is_good() {
    assert_eq!(problems(&case("_good")), Problems(Vec::new()));
}

#[test]
fn a_newcomer_is_told_what_is_wrong_and_where() {
    assert!(cases().len() >= 30);
    for name in cases() {
        let files = case(&name);
        let problems = problems(&files);
        assert!(!problems.0.is_empty(), "{name} is not broken");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name.as_str(), render(&problems, &files, &Renderer::plain()));
        });
    }
}

/// Names of the parser's and the language's insides help nobody who writes YAML.
#[test]
fn no_sentence_speaks_of_our_insides() {
    for name in cases() {
        for problem in problems(&case(&name)).0 {
            for word in ["untagged", "struct", "enum ", "variant", "serde", "u32", "None", "at line"] {
                assert!(!problem.what.contains(word), "{name}: {}", problem.what);
            }
            assert!(problem.place.line >= 1 && problem.place.column >= 1, "{name}");
        }
    }
}
