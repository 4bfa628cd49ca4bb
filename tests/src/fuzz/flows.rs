//! Whatever stands in a flow file, it is taken, or refused in lines that name their file.

use bolero::{TypeGenerator, check};
use shared::flows::contract::Contracts;
use shared::flows::{File, Flows, Problems};

use super::each;
use super::payload::Spoiled;
use crate::fixtures::files;

/// A change to each of the files.
#[derive(Clone, Debug, TypeGenerator)]
struct Changes {
    spoiled: [Option<Spoiled>; 3],
}

const WORDS: &[&str] = &[
    ".nan",
    ".inf",
    "-1",
    "0",
    "4294967295",
    "1e308",
    "18446744073709551615s",
    "9223372036854775807s",
    "0s",
    "~",
    "[]",
    "{}",
    "\"\\n\"",
    "\n",
    "|\n    {{\n",
    "{{ event.",
    "{% if",
    "{{ 1 // 0 }}",
    "{hmac: {}}",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "---\n",
    "null",
    "github",
    "stripe",
    "none",
    "lookup",
    "\u{7}",
    "\u{85}",
    "\u{2028}",
    "$ref: '#'",
    "pattern: '('",
    "older: {0: {}}",
    "date(minute)",
    "http://",
    "needs: [crm]",
];

/// The most characters that a problem takes: its place, a sentence, and a hint.
const LONGEST: usize = 900;

/// Every problem is one line, names one of the files, and says something.
fn assert_clear(problems: &Problems, files: &[File]) {
    assert!(!problems.0.is_empty(), "refused, and nothing is wrong");
    for problem in &problems.0 {
        let line = problem.to_string();
        assert!(files.iter().any(|file| file.path == problem.file), "{line}: no such file");
        assert!(line.starts_with(&problem.file) && !problem.what.trim().is_empty(), "{line:?} says nothing");
        assert!(!line.contains(char::is_control), "{line:?} is more than a line");
        assert!(line.chars().count() <= LONGEST, "{line:?} is too long to be clear");
    }
}

/// What was taken can be used.
fn assert_usable(flows: &Flows) {
    Contracts::of(flows);
    for flow in flows.all() {
        assert!(flow.ttl > flow.retry.horizon(), "a retry outlives the key");
        let mut partners = flow.effects.iter().filter_map(|effect| effect.integration());
        assert!(partners.all(|partner| flows.integration(partner).is_some()), "a call to nobody");
    }
}

fn parse(files: &[File]) {
    match Flows::parse(files) {
        Ok(flows) => assert_usable(&flows),
        Err(problems) => assert_clear(&problems, files),
    }
}

#[test]
fn target() {
    let shipped = files();
    each(check!(), |changes: &Changes| {
        let mut files = shipped.clone();
        for (file, spoiled) in files.iter_mut().zip(&changes.spoiled) {
            if let Some(spoiled) = spoiled {
                file.text = spoiled.text(&[&file.text], WORDS);
            }
        }
        parse(&files);
    });
}

/// What the parser says about the shipped files with one place of the flow changed.
fn problems_with(from: &str, to: &str) -> Problems {
    let mut files = files();
    assert!(files[2].text.contains(from), "the flow has {from}");
    files[2].text = files[2].text.replace(from, to);
    let problems = Flows::parse(&files).expect_err(to);
    assert_clear(&problems, &files);
    problems
}

/// Each made the parser panic or count for minutes: it added the delays up before it had checked them.
#[test]
fn a_policy_without_bounds_is_refused_and_not_added_up() {
    for (from, to) in [
        ("multiplier: 2", "multiplier: .nan"),
        ("max_attempts: 3", "max_attempts: 4294967295"),
        ("max_delay: 120s", "max_delay: 9223372036854775807s"),
    ] {
        assert!(problems_with(from, to).to_string().contains("retry."), "{to}");
    }
}

#[test]
fn a_long_or_broken_quotation_stays_one_line() {
    problems_with("{{ event.data.last_name | default(none) }}", &format!("{{{{ event.{}", "name".repeat(1000)));
    problems_with("path: /leads/{{ event.data.event_id }}", "path: \"/leads/\\n{{\\r\\a\"");
    problems_with("\n        campaign:", &format!("\n        {}:", "campaign ".repeat(100)));
}

/// The parser of templates calls itself for what stands inside, and must end before its stack does.
#[test]
fn a_deep_template_is_refused() {
    let deep = format!("{{{{ {}none{} }}}}", "event.data.last_name | default(".repeat(1000), ")".repeat(1000));
    let problems = problems_with("{{ event.data.last_name | default(none) }}", &deep);
    assert!(problems.to_string().contains("recursion"), "{problems}");
}
