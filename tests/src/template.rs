//! The numbers and the promises of `infra/template.yaml`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::retention::{QUEUE_RETENTION, UNSETTLED_RETENTION};

use crate::fixtures::{flows, root};

/// The template, with each `!Ref` to a parameter in its place's own words.
pub(crate) struct Template(Value);

impl Template {
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(root().join("infra/template.yaml")).expect("the template is there");
        Template(serde_saphyr::from_str(&text).expect("the template is YAML"))
    }

    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or_else(|| panic!("the template has no {pointer}"))
    }

    /// A number, or the default of the parameter that stands in its place.
    fn number(&self, pointer: &str) -> u64 {
        let value = self.at(pointer);
        let default = value.as_str().map(|name| self.at(&format!("/Parameters/{name}/Default")));
        default.unwrap_or(value).as_u64().unwrap_or_else(|| panic!("{pointer} is no number"))
    }

    pub(crate) fn resources(&self, kind: &str) -> Vec<(&String, &Value)> {
        let resources = self.at("/Resources").as_object().expect("resources");
        resources.iter().filter(|(_, resource)| resource["Type"] == kind).collect()
    }
}

const PROCESSOR_TIMEOUT: &str = "/Resources/ProcessorFunction/Properties/Timeout";
const LEASE: &str = "/Resources/ProcessorFunction/Properties/Environment/Variables/LEASE_SECONDS";
const VISIBILITY: &str = "/Resources/EventsQueue/Properties/VisibilityTimeout";

#[test]
fn a_function_ends_before_its_lease_and_the_lease_before_the_redelivery() {
    let template = Template::read();
    let (timeout, lease, visibility) =
        (template.number(PROCESSOR_TIMEOUT), template.number(LEASE), template.number(VISIBILITY));
    assert!(timeout < lease && lease <= visibility, "{timeout} < {lease} <= {visibility}");
    assert!(visibility >= 6 * timeout, "{visibility} >= 6 * {timeout}");
}

#[test]
fn the_simulation_has_the_same_numbers() {
    let template = Template::read();
    let seconds = |pointer: &str| Duration::from_secs(template.number(pointer));
    let here = (seconds(PROCESSOR_TIMEOUT), seconds(LEASE), seconds(VISIBILITY));
    assert_eq!(here, (sim::PROCESSOR_TIMEOUT, sim::LEASE, sim::VISIBILITY));
    let receives = "/Resources/EventsQueue/Properties/RedrivePolicy/maxReceiveCount";
    assert_eq!(template.number(receives), sim::MAX_RECEIVES as u64);
    assert_eq!(*template.at("/Resources/ReplayFunction/Properties/Events/Wake/Properties/Schedule"), "rate(1 minute)");
    assert_eq!(sim::WOKEN_EVERY, Duration::from_secs(60));
    let every = template.at("/Resources/ReplayFunction/Properties/Events/Schedule/Properties/Schedule");
    assert_eq!(*every, format!("rate({} minutes)", sim::SCHEDULED_EVERY.as_secs() / 60));
}

/// Two partners may hang at once, and others still have most of the batches.
#[test]
fn slow_partners_hold_a_share_of_the_batches() {
    let template = Template::read();
    let batches = "/Resources/ProcessorFunction/Properties/Events/Events/Properties/ScalingConfig/MaximumConcurrency";
    assert_eq!(template.at(batches), "ProcessorConcurrency");
    let least = template.number("/Parameters/ProcessorConcurrency/MinValue");
    assert!(least > 3 * u64::from(shared::limits::pressure::BATCHES_HELD) && template.number(batches) >= least);
}

/// The local cloud is quicker, by the same rules.
#[test]
fn the_local_cloud_keeps_the_same_order() {
    let [timeout, lease, visibility] = local::deploy::TIMES;
    assert!(timeout < lease && lease <= visibility && visibility >= 6 * timeout);
}

#[test]
fn the_replay_ends_before_its_letters_come_back() {
    let template = Template::read();
    let timeout = template.number("/Resources/ReplayFunction/Properties/Timeout");
    assert!(template.number("/Resources/DeadLettersQueue/Properties/VisibilityTimeout") >= 6 * timeout);
    assert!(local::deploy::TIMES[2] >= timeout, "and in the local cloud");
}

#[test]
fn every_partner_answers_or_times_out_within_an_invocation() {
    let flows = flows();
    let timeouts = [Template::read().number(PROCESSOR_TIMEOUT), local::deploy::TIMES[0]];
    for effect in flows.all().flat_map(|flow| &flow.effects) {
        let Some(partner) = flows.partner_of(effect) else { continue };
        for timeout in timeouts {
            assert!(partner.timeout + Duration::from_secs(1) <= Duration::from_secs(timeout), "{}", effect.id);
        }
    }
}

#[test]
fn senders_are_answered_before_they_hang_up() {
    assert!(Template::read().number("/Resources/IntakeFunction/Properties/Timeout") <= 5);
}

#[test]
fn the_queues_are_fifo_encrypted_and_outlast_what_waits_in_them() {
    let template = Template::read();
    for queue in ["EventsQueue", "DeadLettersQueue"] {
        let properties = template.at(&format!("/Resources/{queue}/Properties"));
        assert_eq!(properties["FifoQueue"], true, "{queue}");
        assert_eq!(properties["SqsManagedSseEnabled"], json!(["QueuesHaveAKey", false, true]), "{queue}");
        assert_eq!(properties["KmsMasterKeyId"][0], "QueuesHaveAKey", "{queue}: one of the two kinds of keys");
        assert_eq!(properties["DeduplicationScope"], "messageGroup", "{queue}");
        assert_eq!(properties["FifoThroughputLimit"], "perMessageGroupId", "{queue}");
    }
    let days = |queue| template.number(&format!("/Resources/{queue}/Properties/MessageRetentionPeriod")) / 86_400;
    assert_eq!((days("EventsQueue"), days("DeadLettersQueue")), (4, 14));
    assert_eq!(QUEUE_RETENTION, Duration::from_secs(4 * 86_400), "a message that waits longer is lost");
    assert!(UNSETTLED_RETENTION > Duration::from_secs(18 * 86_400), "the row outlives its message");
}

/// An event that is deferred for as long as a flow may allow spends half of its receives at most: the others are for
/// crashes, and for what stands before it in its group.
#[test]
fn the_queue_delivers_often_enough_for_whatever_waits_on_it() {
    let receives = "/Resources/EventsQueue/Properties/RedrivePolicy/maxReceiveCount";
    let most = processor::most_receives(QUEUE_RETENTION);
    assert!(most as u64 * 2 <= Template::read().number(receives), "{most} receives");
}

#[test]
fn the_tables_are_on_demand_expiring_and_recoverable() {
    let template = Template::read();
    let tables = template.resources("AWS::DynamoDB::Table");
    assert_eq!(tables.len(), 3);
    for (name, table) in tables {
        let properties = &table["Properties"];
        assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST", "{name}");
        assert_eq!(properties["TimeToLiveSpecification"]["AttributeName"], "expires_at", "{name}");
        let recovery = &properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"];
        assert_eq!(*recovery, name.replace("Table", "Pitr"), "{name}");
        assert_eq!(*template.at(&format!("/Parameters/{}/Default", name.replace("Table", "Pitr"))), "true", "{name}");
        assert_eq!(properties["SSESpecification"]["KMSMasterKeyId"][1], "TablesKeyArn", "{name}");
        assert_eq!(properties["DeletionProtectionEnabled"], "DeletionProtection", "{name}");
    }
}

/// A first deploy that fails leaves nothing in the way of the next one, and a stack that is deleted loses nothing.
#[test]
fn what_is_kept_does_not_block_a_roll_back_or_a_stack_that_is_made_anew() {
    let template = Template::read();
    let kept = ["LedgerTable", "LimitsTable", "ContactsTable", "DeadLettersQueue"];
    for name in kept {
        assert_eq!(*template.at(&format!("/Resources/{name}/DeletionPolicy")), "RetainExceptOnCreate", "{name}");
        assert_eq!(*template.at(&format!("/Resources/{name}/UpdateReplacePolicy")), "Retain", "{name}");
        let properties = template.at(&format!("/Resources/{name}/Properties"));
        assert!(properties.get("TableName").or(properties.get("QueueName")).is_none(), "{name} takes any name's place");
    }
    let all = template.at("/Resources").as_object().expect("resources").iter();
    // Its versions are numbered: none is in the way of another.
    assert_eq!(
        *template.at("/Resources/FlowsLayer/Properties/RetentionPolicy"),
        "Retain",
        "a roll back runs an older one"
    );
    let retained =
        all.filter(|(_, resource)| resource["DeletionPolicy"].as_str().is_some_and(|policy| policy != "Delete"));
    assert_eq!(retained.count(), kept.len());
    assert_eq!(
        template.at("/Parameters/DeletionProtection/Default"),
        "false",
        "a roll-back could not delete the tables"
    );
}

/// Two stacks in one account share no name but that of their template.
#[test]
fn every_name_is_the_stacks_own() {
    let template = Template::read();
    let text = std::fs::read_to_string(root().join("infra/template.yaml")).expect("the template is there");
    let names = ["Name", "FunctionName", "LayerName", "QueueName", "DashboardName", "AlarmName", "LogGroupName"];
    for (id, resource) in template.at("/Resources").as_object().expect("resources") {
        // An alias is known by its function.
        for name in names.into_iter().filter(|_| resource["Type"] != "AWS::Lambda::Alias") {
            let Some(name) = resource["Properties"].get(name) else { continue };
            let name = name.to_string();
            assert!(name.contains("${AWS::StackName}") || name == "\"AWS::StackName\"", "{id}: {name}");
        }
    }
    for (id, dashboard) in template.resources("AWS::CloudWatch::Dashboard") {
        let name = dashboard["Properties"]["DashboardName"].as_str().expect("a name");
        assert!(name.contains("${AWS::Region}"), "{id}: the dashboards of all regions share their names");
        assert!(text.matches(&format!("dashboard/{name}\n")).count() > 0, "{id}: nobody may look at {name}");
    }
    for function in ["IntakeFunction", "ProcessorFunction"] {
        let prefix = format!("/Resources/{function}/Properties/Environment/Variables/SECRETS_PREFIX");
        assert_eq!(template.at(&prefix), "/${AWS::StackName}");
    }
    let destination = template.at("/Resources/ApiLogs/Properties/LogGroupName").as_str();
    assert!(destination.is_some_and(|name| name.starts_with("/aws/vendedlogs/")), "{destination:?}");
}

/// Who is asked why a sender got no answer needs to know who it was, and how long which part took.
#[test]
fn the_access_log_says_who_what_and_how_long() {
    let format =
        Template::read().at("/Resources/Api/Properties/AccessLogSettings/Format").as_str().expect("a text").to_owned();
    let fields: serde_json::Map<String, Value> = serde_json::from_str(&format).expect("JSON");
    for (field, variable) in [
        ("source_ip", "$context.identity.sourceIp"),
        ("path", "$context.path"),
        ("status", "$context.status"),
        ("latency_ms", "$context.responseLatency"),
        ("integration_status", "$context.integrationStatus"),
        ("integration_latency_ms", "$context.integrationLatency"),
    ] {
        assert_eq!(fields.get(field), Some(&json!(variable)), "{field}");
    }
}

#[test]
fn every_mapping_reports_partial_failures_and_bounds_its_concurrency() {
    let template = Template::read();
    let functions = template.resources("AWS::Serverless::Function");
    let events = functions.iter().filter_map(|(_, function)| function["Properties"]["Events"].as_object());
    let mappings: Vec<&Value> =
        events.flat_map(|events| events.values()).filter(|event| event["Type"] == "SQS").collect();
    assert_eq!(mappings.len(), 2);
    for mapping in mappings {
        let properties = &mapping["Properties"];
        assert_eq!(properties["FunctionResponseTypes"][0], "ReportBatchItemFailures");
        assert!(properties["BatchSize"].as_u64().is_some_and(|size| size <= 10));
        let most = &properties["ScalingConfig"]["MaximumConcurrency"];
        assert!(most == "ProcessorConcurrency" || most.as_u64().is_some_and(|most| most >= 2), "{most}");
    }
}

#[test]
fn no_role_has_a_wildcard() {
    let template = Template::read();
    let roles = template.resources("AWS::IAM::Role");
    assert_eq!(roles.len(), template.resources("AWS::Serverless::Function").len() + 1, "and CodeDeploy's");
    for (name, role) in roles {
        for policy in role["Properties"]["Policies"].as_array().expect("policies") {
            // Of one that is there on a condition, what it is then.
            let policy = if policy.is_array() { &policy[1] } else { policy };
            for statement in policy["PolicyDocument"]["Statement"].as_array().expect("statements") {
                assert!(!statement["Action"].to_string().contains('*'), "{name}: {statement}");
                // CloudWatch knows no resource for its numbers, CodeDeploy has to see whichever alarm it is told, and
                // X-Ray knows no resource for traces.
                let traces = json!(["xray:PutTraceSegments", "xray:PutTelemetryRecords"]);
                let of_none = [json!("cloudwatch:GetMetricData"), json!("cloudwatch:DescribeAlarms"), traces];
                assert!(of_none.contains(&statement["Action"]) || statement["Resource"] != "*", "{name}: {statement}");
            }
        }
    }
}

/// Beside the calls of functions that the end-to-end tests compare with their roles, what is not compared is named.
#[test]
fn what_no_call_is_compared_with_is_named() {
    let (template, mut all) = (Template::read(), BTreeSet::from(["RolloutRole".to_owned()]));
    for (_, role) in template.resources("AWS::IAM::Role") {
        let attached = role["Properties"]["ManagedPolicyArns"].as_array().into_iter().flatten();
        all.extend(attached.filter_map(|arn| arn[1].as_str()?.rsplit('/').next().map(str::to_owned)));
    }
    let policies = template.resources("AWS::IAM::Policy").into_iter();
    // Of the team's functions the local cloud has some.
    all.extend(policies.filter(|(_, policy)| policy["Condition"] != "InvokesFunctions").map(|(id, _)| id.clone()));
    let text = std::fs::read_to_string(root().join("infra/local/permissions.yaml")).expect("the file is there");
    let named = text.lines().take_while(|line| line.starts_with('#')).collect::<String>();
    for id in &all {
        assert!(named.contains(id), "infra/local/permissions.yaml does not name {id}");
    }
    assert_eq!(all.len(), 8, "{all:?}");
}

/// A value that no function could work with is declined by CloudFormation, before anything is changed.
#[test]
fn every_parameter_says_what_it_takes() {
    let template = Template::read();
    for (name, parameter) in template.at("/Parameters").as_object().expect("parameters") {
        let has = |field: &str| parameter.get(field).is_some();
        let (bounded, chosen) = (has("MinValue") && has("MaxValue"), has("AllowedValues"));
        let written = has("AllowedPattern") && has("ConstraintDescription");
        let constrained = if parameter["Type"] == "Number" { bounded || chosen } else { written || chosen };
        assert!(constrained && has("Default"), "{name}: {parameter}");
        let reason = parameter["Description"].as_str().unwrap_or_default();
        assert!(reason.len() > 60 && reason.ends_with('.'), "{name} does not say what it is for: {reason}");
    }
}

/// A stranger finds each parameter with its default in the page that he deploys by.
#[test]
fn the_page_lists_every_parameter_with_its_default() {
    let template = Template::read();
    let page = std::fs::read_to_string(root().join("infra/docs/DEPLOY.md")).expect("a page");
    for (name, parameter) in template.at("/Parameters").as_object().expect("parameters") {
        let row = page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("DEPLOY.md does not list {name}"));
        let default = parameter["Default"].to_string().trim_matches('"').to_owned();
        let default = if default.is_empty() { "empty" } else { &default };
        assert!(row.split('|').nth(2).is_some_and(|told| told.contains(default)), "{name} is {default}: {row}");
    }
}

/// Code, flows and environment are live together or not at all: nothing runs a function but by a version of it.
#[test]
fn whatever_runs_a_function_runs_a_version() {
    let template = Template::read();
    let globals = template.at("/Globals/Function");
    assert_eq!(globals["AutoPublishAlias"], local::template::ALIAS);
    assert_eq!(globals["AutoPublishAliasAllProperties"], true);
    assert_eq!(globals["Environment"]["Variables"]["PARAMETERS"], "unknown", "`make deploy` writes the hash here");
    assert_eq!(*template.at("/Resources/FlowsLayer/Properties/PublishLambdaVersion"), true);
    for (name, function) in template.resources("AWS::Serverless::Function") {
        assert!(function["Properties"].get("AutoPublishAlias").is_none(), "{name} has an alias of its own");
    }
    let value = template.at("/Outputs/ReplayFunctionName/Value");
    assert_eq!(*value, local::template::live("${ReplayFunction}"));
}

/// A deploy goes back by itself on what only a new version causes.
#[test]
fn a_bad_version_is_taken_back_by_alarms_that_exist() {
    let template = Template::read();
    for function in ["IntakeFunction", "ProcessorFunction"] {
        let rollout = template.at(&format!("/Resources/{function}/Properties/DeploymentPreference"));
        assert_eq!((&rollout["Enabled"], &rollout["Type"]), (&json!("Rollout"), &json!("Rollout")), "{function}");
        // By its name: a reference to api-errors would be circular, as it watches the API whose routes are the alias.
        let alarms = json!(["${AWS::StackName}-api-errors", "IntakeErrors", "ProcessorErrors", "OldestMessage"]);
        assert_eq!(rollout["Alarms"], json!(["Calculated", alarms, ["AWS::NoValue"]]), "{function}");
    }
    assert_eq!(*template.at("/Resources/ApiErrors/Properties/AlarmName"), "${AWS::StackName}-api-errors");
    let shifted = template.at("/Parameters/Rollout/AllowedValues").as_array().expect("values");
    assert!(shifted.contains(&json!("false")) && shifted.contains(template.at("/Parameters/Rollout/Default")));
}

/// SQS declines a policy that names another queue than the one whose policy it is.
#[test]
fn the_queues_are_reached_by_tls_only() {
    let template = Template::read();
    let policies = template.resources("AWS::SQS::QueuePolicy");
    let queues = template.resources("AWS::SQS::Queue");
    assert_eq!(policies.len(), queues.len());
    for (queue, _) in queues {
        let of_it = |policy: &Value| policy["Properties"]["Queues"] == json!([queue]);
        let (name, policy) = policies.iter().find(|(_, policy)| of_it(policy)).expect("a policy of its own");
        let statements = policy["Properties"]["PolicyDocument"]["Statement"].as_array().expect("statements");
        let [statement] = statements.as_slice() else { panic!("{name}: one statement") };
        assert_eq!((&statement["Effect"], &statement["Action"]), (&json!("Deny"), &json!("sqs:*")), "{name}");
        assert_eq!(statement["Condition"], json!({"Bool": {"aws:SecureTransport": "false"}}), "{name}");
        assert_eq!(statement["Resource"], format!("{queue}.Arn"), "{name}");
    }
}

/// Every role can be bounded, and every log group be under a key of the team's own.
#[test]
fn an_organisations_rules_reach_every_resource() {
    let template = Template::read();
    for (name, role) in template.resources("AWS::IAM::Role") {
        assert_eq!(role["Properties"]["PermissionsBoundary"][1], "PermissionsBoundaryArn", "{name}");
    }
    let logs = template.resources("AWS::Logs::LogGroup");
    assert!(logs.iter().all(|(_, logs)| logs["Properties"]["KmsKeyId"][1] == "LogsKeyArn") && logs.len() >= 5);
    let vpc = template.at("/Globals/Function/VpcConfig/1");
    assert_eq!(*vpc, json!({"SubnetIds": "SubnetIds", "SecurityGroupIds": "SecurityGroupIds"}));
}

#[test]
fn one_console_is_to_look_and_the_other_to_act() {
    let template = Template::read();
    for (function, access) in [("ConsoleViewerFunction", "read"), ("ReplayFunction", "operate")] {
        let console = format!("/Resources/{function}/Properties/Environment/Variables/CONSOLE");
        assert_eq!(template.at(&console), access);
    }
}

/// A variable that a function reads and the template does not set would be found out only in AWS.
#[test]
fn the_template_sets_exactly_what_the_functions_read() {
    let template = Template::read();
    let names = |pointer: &str| -> BTreeSet<String> {
        template.at(pointer).as_object().expect("variables").keys().cloned().collect()
    };
    let global = names("/Globals/Function/Environment/Variables");
    for (function, logical_id) in [
        ("intake", "IntakeFunction"),
        ("processor", "ProcessorFunction"),
        ("replay", "ReplayFunction"),
        ("replay", "ConsoleViewerFunction"),
    ] {
        let main = std::fs::read_to_string(root().join(format!("functions/{function}/src/main.rs"))).expect("a main");
        let read: BTreeSet<String> = main.split('"').filter(|word| is_variable(word)).map(str::to_owned).collect();
        let set = names(&format!("/Resources/{logical_id}/Properties/Environment/Variables"));
        assert!(read.is_subset(&(&global | &set)), "{function} reads {read:?}");
        assert!(set.is_subset(&read), "{function} does not read all of {set:?}");
    }
}

fn is_variable(word: &str) -> bool {
    word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}
