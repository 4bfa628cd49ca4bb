//! Every fact of the catalogue names its source, and every source its date.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixtures::{files_below, root, shown};

/// The fields whose values are facts about a partner: what it guarantees, what its answers mean, what it bears.
const FACTS: [&str; 5] = ["means", "guarantee", "key_window", "rate", "concurrency"];

/// What stands for a source where nobody knows.
const NOT_KNOWN: &str = "not known";

/// What may be said without a source: it promises nothing.
const PROMISE_NOTHING: [&str; 4] = ["means: in_doubt", "guarantee: none", "key_window: not known", "rate: not known"];

/// The sources that a file names at its head, each with its words.
fn sources(text: &str) -> BTreeMap<String, String> {
    let head = text.lines().take_while(|line| line.starts_with('#'));
    let mut sources: Vec<(String, String)> = Vec::new();
    for line in head {
        let words = line.trim_start_matches('#').trim_start();
        match words.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((tag, words)) => sources.push((tag.to_owned(), words.to_owned())),
            None => sources.iter_mut().last().into_iter().for_each(|(_, all)| *all += line),
        }
    }
    sources.into_iter().collect()
}

/// Whether a text has a month in it: `2026-11`, or a day.
fn is_dated(text: &str) -> bool {
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    text.as_bytes().windows(7).any(|it| it.starts_with(b"20") && digits(&it[..4]) && it[4] == b'-' && digits(&it[5..]))
}

/// What a line says, and the source that it names for it.
fn parts(line: &str) -> (&str, Option<&str>) {
    let (said, comment) = line.split_once(" # ").unwrap_or((line, ""));
    (said, comment.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(tag, _)| tag))
}

fn says(said: &str, field: &str) -> bool {
    let named = format!("{field}: ");
    said.trim_start().starts_with(&named) || [" ", "{"].iter().any(|before| said.contains(&format!("{before}{named}")))
}

#[test]
fn every_fact_of_the_catalogue_names_its_source() {
    let mut facts = 0;
    for path in files_below("infra/flows/catalog/partners", "yaml") {
        let text = std::fs::read_to_string(&path).expect("a file of the catalogue");
        let (file, sources, mut used) = (shown(&path), sources(&text), BTreeSet::new());
        assert!(!sources.is_empty(), "{file} names no source");
        for (tag, words) in &sources {
            assert!(is_dated(words), "{file}: the source [{tag}] has no date: {words}");
        }
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#')) {
            let (said, tag) = parts(line);
            used.extend(tag);
            if !FACTS.iter().any(|field| says(said, field)) {
                continue;
            }
            facts += 1;
            let at = format!("{file}:{}", number + 1);
            let tag = tag.unwrap_or_else(|| panic!("{at} names no source: write `# [tag]` behind it"));
            let is_harmless = PROMISE_NOTHING.iter().any(|nothing| said.contains(nothing));
            assert!(sources.contains_key(tag) || tag == NOT_KNOWN, "{at}: there is no source [{tag}]");
            assert!(tag != NOT_KNOWN || is_harmless, "{at} promises something, and nobody knows it");
            assert!(tag == NOT_KNOWN || !said.contains(NOT_KNOWN), "{at} is not known, and names a source");
        }
        let named: String = text.lines().skip_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n");
        for tag in sources.keys() {
            assert!(
                used.contains(tag.as_str()) || named.contains(&format!("[{tag}]")),
                "{file}: nothing is from [{tag}]"
            );
        }
    }
    assert!(facts > 50, "only {facts} facts were found in {}", root().display());
}

#[test]
fn what_has_no_source_or_no_date_is_found() {
    let good = "# Sources:\n#   [a] somebody,\n#       read 2026-11\nabout:\n";
    assert!(is_dated(&sources(good)["a"]) && !is_dated("somebody, long ago") && !is_dated("page 2026-x1"));
    assert_eq!(parts("  - {status: 402, means: failed} # [a] so"), ("  - {status: 402, means: failed}", Some("a")));
    assert_eq!(parts("rate: 25/s").1, None);
    assert!(says("  - {status: 402, means: failed}", "means") && says("rate: 25/s", "rate"));
    assert!(!says("    about: the rate is high", "rate") && !says("  generate: x", "rate"));
}
