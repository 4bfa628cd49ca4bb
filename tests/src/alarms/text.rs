//! What each alarm says: how grave it is, whether anything is lost, where it says what to do, and why it is as it is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::composite::composites;
use super::definition::{QuerySource, alarms};
use super::insights;
use crate::fixtures::{files_below, root};
use crate::template::Template;

const KINDS: [&str; 2] = ["AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"];

/// How grave an alarm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Page,
    Ticket,
    /// It is there for others, and tells nobody.
    Part,
}

/// The name of an alarm after that of its stack.
pub(crate) fn kebab(id: &str) -> String {
    let letter = |(n, c): (usize, char)| match c.is_ascii_uppercase() && n > 0 {
        true => format!("-{}", c.to_ascii_lowercase()),
        false => c.to_ascii_lowercase().to_string(),
    };
    id.chars().enumerate().map(letter).collect()
}

fn all(template: &Template) -> BTreeMap<String, Value> {
    let of_kind = |kind: &&str| template.resources(kind);
    KINDS.iter().flat_map(of_kind).map(|(id, alarm)| (id.clone(), alarm["Properties"].clone())).collect()
}

fn description(alarm: &Value) -> &str {
    alarm["AlarmDescription"].as_str().expect("a description")
}

fn severity(alarm: &Value) -> Severity {
    match description(alarm).split_once(". ") {
        Some(("PAGE", _)) => Severity::Page,
        Some(("TICKET", _)) => Severity::Ticket,
        _ => Severity::Part,
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of the template that define an alarm.
fn lines<'t>(template: &'t str, id: &str) -> Vec<&'t str> {
    let after = template.split_once(&format!("\n  {id}:\n")).unwrap_or_else(|| panic!("{id} is not there")).1;
    after.lines().take_while(|line| line.starts_with("    ")).collect()
}

#[test]
fn every_alarm_says_what_it_means_and_names_its_section_of_the_runbook() {
    for (id, alarm) in all(&Template::read()) {
        let (name, text) = (kebab(&id), description(&alarm));
        assert_eq!(alarm["AlarmName"], format!("${{AWS::StackName}}-{name}"), "{id}");
        assert!(text.contains(" lost"), "{id} does not say whether anything is lost");
        let (_, link) = text.split_once("Runbook: ").unwrap_or_else(|| panic!("{id} names no section"));
        let (page, anchor) = link.split_once('#').expect("a page and a section");
        assert_eq!(anchor, name, "{id}: the section is called as the alarm");
        assert!(read(page).contains(&format!("\n## {name}\n")), "{id}: {page} has no section {name}");
        assert!(text.len() <= 1024, "{id}: CloudWatch takes 1,024 characters");
    }
}

#[test]
fn every_alarm_has_a_reason_for_its_threshold_and_for_missing_data() {
    let text = read("infra/template.yaml");
    for (id, alarm) in all(&Template::read()) {
        let lines = lines(&text, &id);
        assert!(lines.iter().any(|line| line.starts_with("      # ")), "{id} has no reason for its threshold");
        if alarm["AlarmRule"].is_null() {
            let missing = lines.iter().find(|line| line.starts_with("      TreatMissingData: "));
            assert!(missing.is_some_and(|line| line.contains(" # ")), "{id} has no reason how it treats missing data");
        }
    }
}

/// Each severity has its topic, and the one topic of earlier deployments for both stays.
#[test]
fn pages_and_tickets_go_to_their_topics() {
    let template = Template::read();
    for (id, alarm) in all(&template) {
        let topic = match severity(&alarm) {
            Severity::Page => "Page",
            Severity::Ticket => "Ticket",
            Severity::Part => {
                assert!(alarm["AlarmActions"].is_null(), "{id} is a part of others");
                continue;
            }
        };
        assert_eq!(alarm["AlarmActions"], alarm["OKActions"], "{id}: who is told of it is told of its end");
        let told = alarm["AlarmActions"].to_string();
        assert!(told.contains(&format!("[\"{topic}Topic\",\"{topic}TopicArn\",")), "{id}: {told}");
        assert!(told.contains("[\"AnyTopic\",\"AlarmTopicArn\",\"AWS::NoValue\"]"), "{id}: {told}");
    }
}

/// While composites hold alarms back, each of those tells somebody through one, as gravely as by itself.
#[test]
fn who_is_held_back_is_told_by_a_composite() {
    let alarms = all(&Template::read());
    let composites = composites();
    let quiet = |alarm: &Value| alarm["AlarmActions"][0] == "Quiet";
    for (id, alarm) in &alarms {
        let by = composites.iter().filter(|(_, composite)| composite.suppressor().is_some());
        let by: Vec<_> = by.filter(|(_, composite)| composite.parts().contains(id)).collect();
        assert_eq!(by.len(), usize::from(quiet(alarm)), "{id}: {by:?}");
        if let [(name, _)] = by[..] {
            assert_eq!(severity(&alarms[name]), severity(alarm), "{id} and {name}");
        }
    }
    let parts: BTreeSet<&String> = composites.values().flat_map(|composite| composite.parts()).collect();
    for (id, alarm) in alarms.iter().filter(|(_, alarm)| severity(alarm) == Severity::Part) {
        let suppressor = composites.values().any(|composite| composite.suppressor() == Some(id));
        assert!(parts.contains(id) || suppressor, "{id} tells nobody, and is for nothing: {alarm}");
    }
}

/// The pages whose sections are alarms.
const PAGES: [&str; 5] = ["intake", "processing", "dead-letters", "partners", "platform"];

#[test]
fn every_section_of_the_runbook_has_its_alarm_and_is_whole() {
    let alarms: BTreeSet<String> = all(&Template::read()).keys().map(|id| kebab(id)).collect();
    let mut sections = BTreeSet::new();
    for page in PAGES {
        let text = read(&format!("infra/runbook/{page}.md"));
        for section in text.split("\n## ").skip(1) {
            let name = section.lines().next().unwrap_or_default();
            for part in ["**You see** ", "**First** ", "**Over** "] {
                let part = part.trim_end();
                assert!(section.contains(part), "{page}.md, {name}: {part} is missing");
            }
            sections.insert(name.to_owned());
        }
    }
    assert_eq!(sections, alarms);
    assert_eq!(files_below("infra/runbook", "md").len(), PAGES.len() + 1, "and one page of incidents");
}

/// The row of an alarm in a table.
fn row<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find(|line| line.starts_with(&format!("| [`{name}`](")) || line.starts_with(&format!("| `{name}` |")))
}

#[test]
fn the_index_and_the_list_have_every_alarm_with_its_severity() {
    let (index, list) = (read("infra/RUNBOOK.md"), read("infra/docs/OPERATE.md"));
    for (id, alarm) in all(&Template::read()) {
        let name = kebab(&id);
        let word = match severity(&alarm) {
            Severity::Page => "page",
            Severity::Ticket => "ticket",
            Severity::Part => "tells nobody",
        };
        for (document, text) in [("RUNBOOK.md", &index), ("OPERATE.md", &list)] {
            let row = row(text, &name).unwrap_or_else(|| panic!("{document} does not list {name}"));
            assert!(row.contains(&format!("| {word} |")), "{document}: {name} is a {word}: {row}");
        }
    }
}

/// An alarm is paid by the metrics that it looks at; a query, by those that it finds.
#[test]
fn what_alarms_cost_is_told() {
    let queries = || alarms().into_values().flat_map(|alarm| alarm.queries);
    let is_insights = |of: &QuerySource| matches!(of, QuerySource::Expression(text) if insights::is_query(text));
    let stats = queries().filter(|query| matches!(query.of, QuerySource::Stat(..))).count();
    let searches = queries().filter(|query| is_insights(&query.of)).count();
    let composites = composites().len();
    let told = format!("{} alarms on {stats} metrics, {searches} queries and {composites} composites", alarms().len());
    let deploy = read("infra/docs/DEPLOY.md").replace('\n', " ");
    assert!(deploy.contains(&told), "DEPLOY.md does not say: {told}");
    let dollars = format!("${:.2}", stats as f64 * 0.1 + composites as f64 * 0.5);
    assert!(deploy.contains(&dollars), "DEPLOY.md does not say: {dollars}");
}
