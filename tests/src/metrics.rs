//! The names of metrics: the code's catalogue, `infra/docs/OPERATE.md`, and all that asks CloudWatch for one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use shared::operate::metric::{Dimension, Metric};

use crate::fixtures::{files_below, root};
use crate::template::Template;

/// The beginning of our namespace, as the template writes it.
const OURS: &str = "Ledgerline/";

/// A metric that somebody asks for: its name, and by which dimensions. Without them, by any.
type Asked = (String, Option<BTreeSet<String>>);

fn dimensions<'n>(names: impl Iterator<Item = &'n str>) -> Option<BTreeSet<String>> {
    Some(names.map(str::to_owned).collect())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Every metric of ours that a part of the template names: alarms, and the bodies of dashboards.
fn asked(part: &Value, found: &mut Vec<Asked>) {
    match part {
        Value::Object(fields) => {
            if text(&part["Namespace"]).starts_with(OURS) && !part["MetricName"].is_null() {
                let names = part["Dimensions"].as_array().into_iter().flatten().map(|of| text(&of["Name"]));
                found.push((text(&part["MetricName"]).to_owned(), dimensions(names)));
            }
            if let Some(metrics) = fields.get("metrics").and_then(Value::as_array) {
                graphed(metrics, found);
            }
            fields.values().for_each(|field| asked(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| asked(item, found)),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(body @ (Value::Object(_) | Value::Array(_))) => asked(&body, found),
            _ => found.extend(searched(text).into_iter().chain(selected(text))),
        },
        _ => (),
    }
}

/// The metrics of a graph. `.` stands for what is above it, and `...` for all that is above it but the last.
fn graphed(rows: &[Value], found: &mut Vec<Asked>) {
    let mut above: Vec<String> = Vec::new();
    for row in rows {
        let mut row: Vec<String> =
            row.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if row.first().is_some_and(|first| first == "...") {
            let kept = above.len().saturating_sub(row.len() - 1);
            row = above[..kept].iter().cloned().chain(row.drain(1..)).collect();
        }
        for (at, word) in row.iter_mut().enumerate().filter(|(_, word)| *word == ".") {
            word.clone_from(above.get(at).expect("a `.` stands below something"));
        }
        if row.first().is_some_and(|namespace| namespace.starts_with(OURS)) {
            found.push((row[1].clone(), dimensions(row[2..].iter().step_by(2).map(String::as_str))));
        }
        if !row.is_empty() {
            above = row;
        }
    }
}

/// The metrics of `SEARCH('{"Ledgerline/…",Flow,State} MetricName="EventsSettled"', …)`.
fn searched(expression: &str) -> Vec<Asked> {
    let expression = &without_references(expression);
    let searches = expression.split("SEARCH(").skip(1);
    let search = |search: &str| {
        let (schema, rest) = search.split_once('{')?.1.split_once('}')?;
        let mut schema = schema.split(',').map(|name| name.trim().trim_matches('"'));
        schema.next().filter(|namespace| namespace.starts_with(OURS))?;
        let (by, filter) = (dimensions(schema), rest.split('\'').next()?);
        let names = filter.split_once("MetricName").map_or("", |(_, names)| names);
        let names = names.split('"').skip(1).step_by(2).take(names.split(" OR ").count());
        Some(names.map(|name| (name.to_owned(), by.clone())).collect::<Vec<_>>())
    };
    searches
        .filter_map(search)
        .inspect(|names| assert!(!names.is_empty(), "{expression} names no metric"))
        .flatten()
        .collect()
}

/// A text of the template with the names in place of its references: `${AWS::StackName}` has a brace of its own.
fn without_references(text: &str) -> String {
    let mut parts = text.split("${");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + &part.replacen('}', "", 1))
}

/// The metrics of `SELECT SUM(DeadLetters) FROM SCHEMA("Ledgerline/…", Flow, Reason)`.
fn selected(query: &str) -> Vec<Asked> {
    let Some((select, from)) = query.split_once("FROM ").filter(|(select, _)| select.contains("SELECT")) else {
        return Vec::new();
    };
    if !from.contains(OURS) {
        return Vec::new();
    }
    let name = select.split(['(', ')']).nth(1).expect("a metric").trim().to_owned();
    let schema = from.strip_prefix("SCHEMA(").and_then(|schema| schema.split(')').next());
    vec![(
        name,
        schema.and_then(|schema| dimensions(schema.split(',').skip(1).map(|name| name.trim().trim_matches('"')))),
    )]
}

fn known() -> BTreeMap<&'static str, Metric> {
    Metric::ALL.iter().map(|metric| (metric.name(), *metric)).collect()
}

fn sets(metric: Metric) -> Vec<BTreeSet<String>> {
    metric.sets().iter().map(|set| set.iter().map(|name| name.name().to_owned()).collect()).collect()
}

/// What is wrong with a metric that is asked for.
fn wrong((name, by): &Asked) -> Option<String> {
    let Some(metric) = known().get(name.as_str()).copied() else {
        return Some(format!("{name} is counted by nobody"));
    };
    let by = by.as_ref()?;
    (!sets(metric).contains(by)).then(|| format!("{name} is not counted by {by:?}, but by {:?}", sets(metric)))
}

#[test]
fn the_template_asks_for_no_metric_that_is_not_counted_just_so() {
    let mut found = Vec::new();
    asked(Template::read().at("/Resources"), &mut found);
    assert!(found.len() >= 4, "the alarms and dashboards were not found: {found:?}");
    let wrong: Vec<String> = found.iter().filter_map(wrong).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

/// The test above must find what it is to judge.
#[test]
fn every_way_to_name_a_metric_is_found() {
    let body = r#"{"widgets": [{"properties": {"metrics": [
        ["AWS/SQS", "X", "QueueName", "q", {"label": "queued"}],
        ["Ledgerline/shop", "DeadLetters", "Flow", "leads", "Reason", "stale"],
        [".", "Retries", ".", "."], ["...", "carts", {"stat": "Sum"}],
        [{"expression": "SEARCH('{\"Ledgerline/${AWS::StackName}\",Flow,State} MetricName=(\"EventsSettled\" OR \"TimeToSettled\")', 'Sum')"}],
        [{"expression": "SELECT SUM(Waits) FROM SCHEMA(\"Ledgerline/shop\", Why) GROUP BY Why"}]
    ]}}]}"#;
    let alarm = serde_json::json!({"Namespace": "Ledgerline/x", "MetricName": "Rejected", "Dimensions": [{"Name": "Reason", "Value": "r"}]});
    let mut found = Vec::new();
    asked(&serde_json::json!([{ "DashboardBody": body }, alarm]), &mut found);
    let found: BTreeSet<(String, String)> = found
        .into_iter()
        .map(|(name, by)| (name, by.expect("dimensions").into_iter().collect::<Vec<_>>().join(" ")))
        .collect();
    let expected = [
        ("DeadLetters", "Flow Reason"),
        ("EventsSettled", "Flow State"),
        ("Rejected", "Reason"),
        ("Retries", "Flow"),
        ("TimeToSettled", "Flow State"),
        ("Waits", "Why"),
    ];
    assert_eq!(found, expected.map(|(name, by)| (name.to_owned(), by.to_owned())).into());
    let by = |names: &[&str]| dimensions(names.iter().copied());
    assert!(wrong(&("Retry".into(), by(&[]))).is_some() && wrong(&("Retries".into(), by(&["Why"]))).is_some());
    assert_eq!(wrong(&("Retries".into(), by(&["Flow"]))), None);
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
fn table() -> Vec<Vec<String>> {
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

/// Facts that another part of the code is to count: the exporter of spans.
const NOT_COUNTED_YET: [&str; 1] = ["SpansDropped"];

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
    assert_eq!(missing, NOT_COUNTED_YET);
}
