//! The names of metrics: the code's catalogue, its facts, and `infra/docs/OPERATE.md`. What alarms and dashboards ask for
//! is in `alarms::emitted`.

use std::collections::BTreeMap;

use shared::operate::metric::{Dimension, Metric};

use crate::fixtures::{files_below, root};

fn known() -> BTreeMap<&'static str, Metric> {
    Metric::ALL.iter().map(|metric| (metric.name(), *metric)).collect()
}

/// The commands and the console take the names from the catalogue, or write them as it does.
#[test]
fn the_commands_ask_for_no_metric_that_is_not_counted() {
    let sources = ["infra/cli/src", "functions/replay/src"].into_iter().flat_map(|folder| files_below(folder, "rs"));
    for path in sources {
        let code = std::fs::read_to_string(&path).expect("a source");
        for named in code.split(r#""MetricName": ""#).skip(1) {
            let name = named.split('"').next().unwrap_or_default();
            let aws = name.starts_with("Approximate") || name.starts_with("NumberOf");
            assert!(aws || known().contains_key(name), "{}: {name}", path.display());
        }
    }
}

/// What a metric costs in a month, in metrics of CloudWatch: one for each value of a set of dimensions.
fn cost(metric: Metric) -> String {
    let plural = |name: &Dimension| match name {
        Dimension::Source => "sources",
        Dimension::Flow => "flows",
        Dimension::Integration => "integrations",
        Dimension::State => "states",
        Dimension::Reason => "reasons",
        Dimension::Why => "whys",
        Dimension::Outcome => "outcomes",
        Dimension::Guard => "guards",
    };
    let of = |set: &&[Dimension]| match set.is_empty() {
        true => "1".to_owned(),
        false => set.iter().map(plural).collect::<Vec<_>>().join(" × "),
    };
    metric.sets().iter().map(of).collect::<Vec<_>>().join(" + ")
}

/// The rows of the table of metrics in OPERATE.md.
pub(crate) fn table() -> Vec<Vec<String>> {
    let operate = std::fs::read_to_string(root().join("infra/docs/OPERATE.md")).expect("a document");
    let rows = operate.lines().skip_while(|line| !line.starts_with("| metric | unit | by |")).skip(2);
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn the_table_of_metrics_is_the_catalogue() {
    let table = table();
    let name = |row: &Vec<String>| row[0].trim_matches('`').to_owned();
    let names: Vec<String> = table.iter().map(name).collect();
    let expected: Vec<String> = Metric::ALL.iter().map(|metric| metric.name().to_owned()).collect();
    assert_eq!(names, expected, "each metric has one row, in the catalogue's order");
    for (row, metric) in table.iter().zip(Metric::ALL) {
        let by =
            |set: &&[Dimension]| format!("`[{}]`", set.iter().map(|name| name.name()).collect::<Vec<_>>().join(", "));
        let by: Vec<String> = metric.sets().iter().map(by).collect();
        let expected = [metric.unit().name().to_owned(), by.join(" "), cost(*metric)];
        assert_eq!([row[1].clone(), row[2].clone(), row[5].clone()], expected, "{}", metric.name());
        assert!(row[3].len() > 10, "{} tells nothing", metric.name());
    }
}

#[test]
fn the_number_of_metrics_that_cost_the_same_in_every_stack_is_told() {
    let alone = Metric::ALL.iter().filter(|metric| metric.sets().iter().any(|set| set.is_empty())).count();
    let operate = std::fs::read_to_string(root().join("infra/docs/OPERATE.md")).expect("a document");
    let told = format!("{alone} metrics are counted without any dimension");
    assert!(operate.contains(&told), "OPERATE.md does not say: {told}");
}

/// A metric that nobody counts is one that an alarm waits for in vain.
#[test]
fn every_fact_is_counted_somewhere() {
    let facts = std::fs::read_to_string(root().join("shared/src/operate/metric/fact.rs")).expect("a source");
    let (_, body) = facts.split_once("pub enum Fact<'f> {").expect("the facts");
    let body = body.split("\n}").next().unwrap_or_default();
    let is_variant =
        |line: &&str| line.starts_with("    ") && line.trim().starts_with(|c: char| c.is_ascii_uppercase());
    let variants: Vec<&str> =
        body.lines().filter(is_variant).filter_map(|line| line.trim().split(['(', ',']).next()).collect();
    assert!(variants.len() > 30, "{variants:?}");
    let folders = ["functions/intake/src", "functions/processor/src", "functions/replay/src", "shared/src/adapters"];
    let code: String = folders
        .into_iter()
        .flat_map(|folder| files_below(folder, "rs"))
        .map(|path| std::fs::read_to_string(path).expect("a source"))
        .collect();
    let counted =
        |variant: &&str| [',', '(', ')', ' ', ';'].iter().any(|end| code.contains(&format!("Fact::{variant}{end}")));
    let missing: Vec<&str> = variants.into_iter().filter(|variant| !counted(variant)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
