//! The alarms as the local cloud has them: those on one metric, which is all that the emulator takes.

use std::collections::BTreeMap;

use local::aws::Endpoint;
use serde_json::{Value, json};

use super::cli;
use super::system::{eventually, variable};
use crate::alarms::kebab;
use crate::template::Template;

const CLOUDWATCH: &str = "GraniteServiceVersion20100801";

async fn cloudwatch(action: &str, input: Value) -> Value {
    let endpoint = Endpoint::of_environment().expect("make test names the emulator");
    endpoint.act("monitoring", &format!("{CLOUDWATCH}.{action}"), input).await.expect("CloudWatch answers")
}

fn stack() -> String {
    variable("LEDGERLINE_REPLAY_FUNCTION").strip_suffix("-replay").expect("a function of a stack").to_owned()
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn the_plain_alarms_of_the_template_are_there() {
    let stack = stack();
    let answer = cloudwatch("DescribeAlarms", json!({"AlarmNamePrefix": format!("{stack}-"), "MaxRecords": 100})).await;
    let alarms = answer["MetricAlarms"].as_array().expect("alarms").iter();
    let deployed: BTreeMap<String, &Value> =
        alarms.map(|alarm| (alarm["AlarmName"].as_str().expect("a name").to_owned(), alarm)).collect();
    let template = Template::read();
    let plain =
        template.resources("AWS::CloudWatch::Alarm").into_iter().filter(|(_, alarm)| alarm["Condition"] == "Alarmed");
    let plain: BTreeMap<String, &Value> =
        plain.map(|(id, alarm)| (format!("{stack}-{}", kebab(id)), &alarm["Properties"])).collect();
    assert!(plain.keys().eq(deployed.keys()), "{:?}\n{:?}", plain.keys(), deployed.keys());
    for (name, properties) in plain {
        for property in ["Period", "Threshold", "EvaluationPeriods"] {
            assert_eq!(properties[property].as_f64(), deployed[&name][property].as_f64(), "{name}: {property}");
        }
        assert_eq!(properties["TreatMissingData"], deployed[&name]["TreatMissingData"], "{name}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_deploy_is_counted_where_its_alarm_looks() {
    let told = cli::told(&["deploying"]);
    assert!(told.contains("15 minutes"), "{told}");
    let listed = json!({"Namespace": format!("Ledgerline/{}", stack()), "MetricName": "Deploying"});
    eventually("the metric is there", async || {
        let answer = cloudwatch("ListMetrics", listed.clone()).await;
        let there = answer["Metrics"].as_array().is_some_and(|metrics| !metrics.is_empty());
        if there { Ok(()) } else { Err(answer) }
    })
    .await;
}
