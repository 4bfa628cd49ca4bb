//! Both dashboards are made from `infra/dashboards.yaml`, and the template has them as they are made.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::alarms::{AlarmMetric, kebab, tokens, watched_metrics};
use crate::fixtures::{files_below, root};
use crate::template::Template;

#[derive(Deserialize)]
struct Dashboards {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    height: u64,
    widgets: Vec<Widget>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Widget {
    title: String,
    #[serde(default = "time_series")]
    view: String,
    #[serde(default = "sum")]
    stat: String,
    #[serde(default = "five_minutes")]
    period: u64,
    #[serde(default)]
    stacked: bool,
    metrics: Vec<Drawn>,
}

/// One line of a graph.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawn {
    of: Option<String>,
    each: Option<String>,
    expression: Option<String>,
    id: Option<String>,
    label: Option<String>,
    stat: Option<String>,
    #[serde(default)]
    right: bool,
}

fn time_series() -> String {
    "timeSeries".into()
}

fn sum() -> String {
    "Sum".into()
}

fn five_minutes() -> u64 {
    300
}

const WIDTH: u64 = 24;

/// Our namespace, as the template writes it.
const NAMESPACE: &str = "Ledgerline/${AWS::StackName}";

fn source() -> Dashboards {
    let text = std::fs::read_to_string(root().join("infra/dashboards.yaml")).expect("the graphs are there");
    serde_saphyr::from_str(&text).expect("the graphs are YAML")
}

impl Drawn {
    fn as_json(&self, widget: &Widget) -> Value {
        let stat = self.stat.as_deref().unwrap_or(&widget.stat);
        let mut options = json!({});
        if let Some(label) = &self.label {
            options["label"] = label.as_str().into();
        }
        if self.right {
            options["yAxis"] = "right".into();
        }
        if let Some(expression) = &self.expression {
            options["expression"] = expression.as_str().into();
            return json!([options]);
        }
        if let Some(each) = &self.each {
            options["expression"] = search(each, stat, widget.period).into();
            if self.stat.is_some() {
                options["label"] = format!("{stat} ").into();
            }
            return json!([options]);
        }
        if let Some(id) = &self.id {
            options["id"] = id.as_str().into();
            options["visible"] = false.into();
        }
        options["stat"] = stat.into();
        let metric = AlarmMetric::parse(self.of.as_deref().expect("a metric, an expression, or each"));
        let namespace = if metric.is_ours() { NAMESPACE } else { &metric.namespace };
        let mut line = vec![json!(namespace), json!(metric.name)];
        line.extend(metric.dimensions.iter().flat_map(|(key, value)| [json!(key), json!(value)]));
        line.push(options);
        Value::Array(line)
    }
}

fn search(each: &str, stat: &str, period: u64) -> String {
    let (name, keys) = keys(each);
    format!("SEARCH('{{\"{NAMESPACE}\",{}}} MetricName=\"{name}\"', '{stat}', {period})", keys.join(","))
}

/// The name and the keys in `Name{Key,Key}`.
fn keys(each: &str) -> (&str, Vec<&str>) {
    let (name, keys) = each.trim_end_matches('}').split_once('{').expect("a metric with dimensions");
    (name, keys.split(',').collect())
}

impl Widget {
    fn as_json(&self) -> Value {
        let metrics: Vec<Value> = self.metrics.iter().map(|metric| metric.as_json(self)).collect();
        let mut properties = json!({
            "title": self.title, "region": "${AWS::Region}", "view": self.view, "period": self.period, "metrics": metrics,
        });
        match self.view.as_str() {
            "timeSeries" => properties["stacked"] = self.stacked.into(),
            // One number of the time that the dashboard shows, and not of its last period.
            _ => properties["setPeriodToTimeRange"] = true.into(),
        }
        json!({"type": "metric", "properties": properties})
    }
}

/// The body of a dashboard whose console is this function.
fn body(function: &str) -> String {
    let mut widgets = vec![console(function), alarms()];
    let mut y = 24;
    for row in source().rows {
        let width = WIDTH / row.widgets.len() as u64;
        for (n, widget) in row.widgets.iter().enumerate() {
            widgets.push(placed(widget.as_json(), [n as u64 * width, y, width, row.height]));
        }
        y += row.height;
    }
    let lines: Vec<String> = widgets.iter().map(|widget| format!("        {widget}")).collect();
    format!("        {{\"widgets\": [\n{}]}}\n", lines.join(",\n"))
}

fn placed(mut widget: Value, [x, y, width, height]: [u64; 4]) -> Value {
    for (name, value) in [("x", x), ("y", y), ("width", width), ("height", height)] {
        widget[name] = value.into();
    }
    widget
}

fn console(function: &str) -> Value {
    let properties = json!({
        "title": "Ledgerline", "endpoint": format!("${{{function}.Alias}}"), "params": {"page": "overview"},
        "updateOn": {"refresh": true, "resize": false, "timeRange": false},
    });
    placed(json!({"type": "custom", "properties": properties}), [0, 4, WIDTH, 20])
}

/// All alarms, by their names: a reference would break a stack that has none.
fn alarms() -> Value {
    let template = Template::read();
    let kinds = ["AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Alarm"];
    let ids = kinds.iter().flat_map(|kind| template.resources(kind)).map(|(id, _)| id);
    let arn = |id: &String| {
        let account = "arn:${AWS::Partition}:cloudwatch:${AWS::Region}:${AWS::AccountId}";
        format!("{account}:alarm:${{AWS::StackName}}-{}", kebab(id))
    };
    let properties = json!({"title": "Alarms", "alarms": ids.map(arn).collect::<Vec<_>>()});
    placed(json!({"type": "alarm", "properties": properties}), [0, 0, WIDTH, 4])
}

const DASHBOARDS: [(&str, &str); 2] =
    [("ViewerDashboard", "ConsoleViewerFunction"), ("OperatorDashboard", "ReplayFunction")];

/// The template with the bodies of both dashboards made anew.
fn with_dashboards(template: &str) -> String {
    DASHBOARDS.iter().fold(template.to_owned(), |template, (id, function)| {
        let at = template.find(&format!("\n  {id}:\n")).expect("the dashboard");
        let start =
            at + template[at..].find("DashboardBody: !Sub >-\n").expect("a body") + "DashboardBody: !Sub >-\n".len();
        let lines = template[start..].split_inclusive('\n').take_while(|line| line.starts_with("        "));
        let end = start + lines.map(str::len).sum::<usize>();
        format!("{}{}{}", &template[..start], body(function), &template[end..])
    })
}

#[test]
fn both_dashboards_are_as_they_are_made() {
    let path = root().join("infra/template.yaml");
    let template = std::fs::read_to_string(&path).expect("the template");
    let made = with_dashboards(&template);
    if std::env::var_os("WRITE_DASHBOARDS").is_some() {
        std::fs::write(&path, made).expect("the template is written");
    } else {
        assert!(
            template == made,
            "infra/dashboards.yaml or an alarm was changed: WRITE_DASHBOARDS=1 writes both dashboards"
        );
    }
}

/// A dashboard's body is a text to CloudFormation: nobody else would find a comma too many.
#[test]
fn both_dashboards_have_the_console_of_their_function_and_the_same_graphs() {
    let template = Template::read();
    let bodies = DASHBOARDS.map(|(id, function)| {
        let body = template.at(&format!("/Resources/{id}/Properties/DashboardBody")).as_str().expect("a text");
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(body["widgets"][0]["properties"]["endpoint"], format!("${{{function}.Alias}}"));
        body["widgets"].as_array().expect("widgets")[1..].to_vec()
    });
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[0].len() > 20, "only {} graphs", bodies[0].len());
}

/// Our metrics that the dashboards draw, by name and dimensions.
pub(crate) fn drawn() -> BTreeSet<(String, Vec<String>)> {
    let mut drawn = BTreeSet::new();
    for metric in source().rows.iter().flat_map(|row| &row.widgets).flat_map(|widget| &widget.metrics) {
        if let Some(each) = &metric.each {
            let (name, keys) = keys(each);
            drawn.insert((name.to_owned(), keys.into_iter().map(str::to_owned).collect()));
        }
        if let Some(metric) = metric.of.as_deref().map(AlarmMetric::parse).filter(AlarmMetric::is_ours) {
            drawn.insert((metric.name, metric.dimensions.into_keys().collect()));
        }
    }
    drawn
}

/// Whoever is told by an alarm finds what it watches on a graph: the metric itself, or each value of its dimensions.
#[test]
fn what_an_alarm_watches_is_drawn() {
    let source = source();
    let metrics = || source.rows.iter().flat_map(|row| &row.widgets).flat_map(|widget| &widget.metrics);
    let plain = |name: &str| name.replace("${", "").replace('}', "");
    let of = |text: &String| {
        let mut metric = AlarmMetric::parse(text);
        metric.dimensions.values_mut().for_each(|value| *value = plain(value));
        metric
    };
    let drawn: BTreeSet<AlarmMetric> = metrics().filter_map(|metric| metric.of.as_ref()).map(of).collect();
    let each: BTreeSet<&str> = metrics().filter_map(|metric| metric.each.as_deref()).map(|each| keys(each).0).collect();
    let is_drawn = |metric: &AlarmMetric| drawn.contains(metric) || metric.is_ours() && each.contains(&*metric.name);
    let watched = watched_metrics();
    assert!(watched.len() > 40, "only {} metrics are watched", watched.len());
    let undrawn: Vec<&AlarmMetric> = watched.iter().filter(|metric| !is_drawn(metric)).collect();
    assert!(undrawn.is_empty(), "alarms watch these, and no graph has them: {undrawn:?}");
}

/// An expression of a graph names metrics of that graph, and all that is hidden is there for one.
#[test]
fn expressions_name_what_their_graph_has() {
    for widget in source().rows.iter().flat_map(|row| &row.widgets) {
        let ids: BTreeSet<&str> = widget.metrics.iter().filter_map(|metric| metric.id.as_deref()).collect();
        let expressions = widget.metrics.iter().filter_map(|metric| metric.expression.as_deref());
        let words: Vec<String> = expressions.flat_map(tokens).collect();
        let named = words.iter().map(String::as_str).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
        let named: BTreeSet<&str> = named.collect();
        assert_eq!(named, ids, "{}", widget.title);
    }
}

/// The runbook sends people to graphs by their names.
#[test]
fn the_graphs_that_the_runbook_names_are_there() {
    let titles: Vec<String> =
        source().rows.into_iter().flat_map(|row| row.widgets).map(|widget| widget.title).collect();
    let mut named = 0;
    for path in files_below("infra/runbook", "md") {
        let text = std::fs::read_to_string(&path).expect("a page").replace('\n', " ");
        for name in
            ["the graph *", "The graph *", "the row *", "The row *"].iter().flat_map(|words| text.split(words).skip(1))
        {
            let name = name.split('*').next().unwrap_or_default();
            let there = name == "Alarms" || titles.iter().any(|title| title.starts_with(name));
            assert!(there, "{}: there is no graph {name}", path.display());
            named += 1;
        }
    }
    assert!(named >= 8, "only {named} graphs were found");
}
