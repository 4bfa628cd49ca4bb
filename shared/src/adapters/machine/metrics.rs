//! Metrics in CloudWatch's embedded metric format: one line of JSON each on standard output, which
//! Lambda passes to the log, and the log to the metrics. No call, no wait.
//!
//! Written by hand, for it is one line: the crates that do it bring forty others.

use serde_json::{Map, Value, json};

use crate::base::machine::Clock as _;
use crate::base::time::Timestamp;
use crate::operate::metric::{Fact, Metrics, NAMESPACE};

use super::SystemClock;

/// Metrics on standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmfMetrics;

impl Metrics for EmfMetrics {
    fn put(&self, fact: &Fact<'_>) {
        println!("{}", line(fact, SystemClock.now()));
    }
}

fn line(fact: &Fact<'_>, now: Timestamp) -> Value {
    let (dimensions, measures) = (fact.dimensions(), fact.measures());
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let metrics: Vec<Value> = measures.iter().map(|m| json!({"Name": m.name, "Unit": m.unit})).collect();
    let directive = json!({"Namespace": NAMESPACE, "Dimensions": [names], "Metrics": metrics});
    let about = json!({"Timestamp": now.millis(), "CloudWatchMetrics": [directive]});
    let values = measures.iter().map(|m| (m.name.to_owned(), json!(m.value)));
    let values = values.chain(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    Value::Object([("_aws".to_owned(), about)].into_iter().chain(values).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Reason;

    #[test]
    fn a_fact_is_one_line_that_cloudwatch_reads() {
        let fact = Fact::Dead("lead-routing", Reason::BudgetExhausted);
        let expected = json!({
            "_aws": {
                "Timestamp": 7000,
                "CloudWatchMetrics": [{
                    "Namespace": "Ledgerline",
                    "Dimensions": [["Flow", "Reason"]],
                    "Metrics": [{"Name": "DeadLetters", "Unit": "Count"}],
                }],
            },
            "DeadLetters": 1,
            "Flow": "lead-routing",
            "Reason": "budget_exhausted",
        });
        assert_eq!(line(&fact, Timestamp::from_secs(7)), expected);
    }
}
