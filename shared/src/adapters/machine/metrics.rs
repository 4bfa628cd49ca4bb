//! Metrics in CloudWatch's embedded metric format: lines of JSON on standard output, which Lambda passes to the log, and
//! the log to the metrics. No call, no wait.
//!
//! Written by hand, for it is one line: the crates that do it bring forty others.

use std::fmt::Write as _;

use crate::base::machine::Clock as _;
use crate::base::time::Timestamp;
use crate::operate::metric::{Fact, Metric, MetricValues, Metrics, Sets, Tally, TallyLine};

use super::SystemClock;

/// Metrics on standard output.
#[derive(Clone, Debug)]
pub struct EmfMetrics {
    namespace: String,
}

impl EmfMetrics {
    /// Metrics in this namespace.
    pub fn new(namespace: String) -> Self {
        EmfMetrics { namespace }
    }

    /// The lines of one unit of work that ended at this moment, each with its end.
    pub fn lines(&self, tally: &Tally, now: Timestamp) -> String {
        tally.lines().iter().map(|line| text(&self.namespace, line, now) + "\n").collect()
    }

    /// What a container starts with. If it is wrong that is counted, for the container will not start.
    pub fn started<T, E>(&self, with: Result<T, E>) -> Result<T, E> {
        with.inspect_err(|_| {
            let mut tally = Tally::default();
            tally.count(&Fact::Misconfigured);
            self.put(&tally);
        })
    }
}

impl Metrics for EmfMetrics {
    fn put(&self, tally: &Tally) {
        print!("{}", self.lines(tally, SystemClock.now()));
    }
}

/// One line: a directive for each kind of dimensions, then the dimensions and the values.
fn text(namespace: &str, line: &TallyLine, now: Timestamp) -> String {
    let mut text = String::with_capacity(1024);
    let _ = write!(text, r#"{{"_aws":{{"Timestamp":{},"CloudWatchMetrics":["#, now.millis());
    let values = line.values();
    for (at, (metric, _)) in values.iter().enumerate() {
        let told = values[..at].iter().any(|(earlier, _)| earlier.sets() == metric.sets());
        if !told {
            let alike = values[at..].iter().map(|(metric, _)| *metric).filter(|other| other.sets() == metric.sets());
            directive(&mut text, namespace, metric.sets(), alike);
        }
    }
    text.push_str("]}");
    for (name, value) in line.dimensions() {
        let _ = write!(text, r#","{}":{}"#, name.name(), quoted(value));
    }
    for (metric, values) in values {
        let _ = match values {
            MetricValues::One(value) => write!(text, r#","{}":{value}"#, metric.name()),
            MetricValues::Each(values) => write!(text, r#","{}":{values:?}"#, metric.name()),
        };
    }
    text.push('}');
    text
}

fn directive(text: &mut String, namespace: &str, sets: Sets, metrics: impl Iterator<Item = Metric>) {
    if text.ends_with('}') {
        text.push(',');
    }
    let _ = write!(text, r#"{{"Namespace":{},"Dimensions":["#, quoted(namespace));
    for (at, set) in sets.iter().enumerate() {
        text.push_str(if at == 0 { "[" } else { ",[" });
        for (at, dimension) in set.iter().enumerate() {
            let _ = write!(text, r#"{}"{}""#, if at == 0 { "" } else { "," }, dimension.name());
        }
        text.push(']');
    }
    text.push_str(r#"],"Metrics":["#);
    for (at, metric) in metrics.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}{{"Name":"{}","Unit":"{}"}}"#, metric.name(), metric.unit().name());
    }
    text.push_str("]}");
}

/// The text as JSON. The names of flows are plain; whatever else comes here cannot break the line.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::ledger::{Reason, State};
    use crate::operate::metric::{CallOutcome, Stage};

    fn lines(facts: &[Fact<'_>]) -> Vec<Value> {
        let mut tally = Tally::default();
        facts.iter().for_each(|fact| tally.count(fact));
        let texts = tally.lines().iter().map(|line| text("Ledgerline/shop", line, Timestamp::from_secs(7)));
        texts.map(|text| serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
    }

    fn directive(sets: Value, metrics: Value) -> Value {
        json!({"Namespace": "Ledgerline/shop", "Dimensions": sets, "Metrics": metrics})
    }

    #[test]
    fn a_dead_event_is_one_line_that_cloudwatch_reads() {
        let sets = json!([["Flow", "Reason"], ["Reason"], []]);
        let metrics = json!([{"Name": "DeadLetters", "Unit": "Count"}]);
        let expected = json!({
            "_aws": {"Timestamp": 7000, "CloudWatchMetrics": [directive(sets, metrics)]},
            "DeadLetters": 1,
            "Flow": "lead-routing",
            "Reason": "budget_exhausted",
        });
        assert_eq!(lines(&[Fact::Dead("lead-routing", Reason::BudgetExhausted)]), [expected]);
    }

    #[test]
    fn metrics_with_the_same_dimensions_share_a_directive() {
        let second = Duration::from_secs(1);
        let [line] = &lines(&[
            Fact::Called("crm", CallOutcome::Done, Some(second / 4)),
            Fact::EffectEnded("leads", true),
            Fact::Attempted("leads", 2),
            Fact::Settled("leads", State::Succeeded, Some(second)),
        ])[..] else {
            panic!("more than one line");
        };
        let directives = line["_aws"]["CloudWatchMetrics"].as_array().expect("directives");
        assert_eq!(directives.len(), 5, "{line:#}");
        let by_flow = json!([{"Name": "Effects", "Unit": "Count"}, {"Name": "ProtectedEffects", "Unit": "Count"},
                             {"Name": "Attempts", "Unit": "Count"}]);
        assert!(directives.contains(&directive(json!([["Flow"], []]), by_flow)), "{line:#}");
        let named = (&line["Flow"], &line["Integration"], &line["Outcome"], &line["State"]);
        assert_eq!(named, (&json!("leads"), &json!("crm"), &json!("done"), &json!("succeeded")));
        assert_eq!((&line["PartnerLatency"], &line["TimeToSettled"]), (&json!(250), &json!(1000)));
    }

    #[test]
    fn several_values_are_an_array() {
        let took = |millis| Fact::Took(Stage::Send, Duration::from_millis(millis));
        assert_eq!(lines(&[took(3), took(4)])[0]["SendTime"], json!([3, 4]));
    }

    #[test]
    fn a_name_that_is_not_plain_stays_within_its_text() {
        let odd = "le\"ads\n{";
        assert_eq!(lines(&[Fact::Retried(odd)])[0]["Flow"], odd);
    }
}
