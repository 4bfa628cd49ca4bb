//! The questions of `make verify`, those that the emulator cannot answer, and the report of the last run.

use std::collections::{BTreeMap, BTreeSet};

use super::named_tests::document;

/// What only AWS can answer. Each is a gap of the proof: it should become shorter.
const UNANSWERED: [&str; 7] = [
    "alarms",
    "base64-by-content-type",
    "batch-route-precedence",
    "cold-starts",
    "dead-letter-queue-of-another-kind",
    "expired-rows-are-deleted",
    "moved-back",
];

fn questions() -> BTreeSet<String> {
    let code = document("infra/deploy/questions.py");
    let asked = code.lines().filter_map(|line| line.strip_prefix("@question(\"")?.split('"').next().map(str::to_owned));
    asked.collect()
}

/// The outcomes of the local cloud's section, by the question.
fn reported(report: &str) -> BTreeMap<String, String> {
    let section = report.split("\n## ").find(|section| section.starts_with("The local cloud\n")).expect("a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let columns: Vec<&str> = row.split(" | ").collect();
        (columns[0].trim_end_matches('`').to_owned(), columns[2].to_owned())
    })
    .collect()
}

#[test]
fn what_only_aws_can_answer_is_known_and_grows_no_further() {
    let listed: BTreeMap<String, String> =
        serde_saphyr::from_str(&document("infra/deploy/unanswered.yaml")).expect("a list with reasons");
    assert!(listed.keys().eq(UNANSWERED.iter()), "{listed:?}");
    assert!(listed.values().all(|why| why.len() > 20), "each has its reason: {listed:?}");
    let questions = questions();
    assert!(questions.len() >= 17, "{questions:?}");
    assert!(listed.keys().all(|id| questions.contains(id)), "{listed:?}");
}

#[test]
fn the_report_has_every_question_and_its_outcome() {
    let reported = reported(&document("infra/docs/VERIFIED.md"));
    assert_eq!(reported.keys().cloned().collect::<BTreeSet<_>>(), questions(), "run `make verify`");
    for (id, outcome) in reported {
        let expected = if UNANSWERED.contains(&id.as_str()) { "not answered" } else { "held" };
        assert_eq!(outcome, expected, "{id}");
    }
}
