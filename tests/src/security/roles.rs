//! Least privilege: what each function may do, word for word.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::template::Template;

const LEDGER: &str = "LedgerTable.Arn";
const LIMITS: &str = "LimitsTable.Arn";
const CONTACTS: &str = "ContactsTable.Arn";
const EVENTS: &str = "EventsQueue.Arn";
const DEAD_LETTERS: &str = "DeadLettersQueue.Arn";

/// What AWS knows no resource for: the numbers of every metric of the account, and nothing else.
const WITHOUT_RESOURCE: [&str; 2] = ["cloudwatch:GetMetricData", "cloudwatch:DescribeAlarms"];

/// Each action of a role on each resource, as `action on resource`, and of which items.
fn allowed(role: &str) -> BTreeSet<String> {
    let template = Template::read();
    let mut allowed = BTreeSet::new();
    for policy in template.at(&format!("/Resources/{role}/Properties/Policies")).as_array().expect("policies") {
        if policy.is_array() {
            assert_eq!(*policy, x_ray(), "{role}");
            continue;
        }
        for statement in policy["PolicyDocument"]["Statement"].as_array().expect("statements") {
            assert_eq!(statement["Effect"], "Allow", "{role}: {statement}");
            allowed.extend(lines(statement));
        }
    }
    allowed
}

/// What every function may do while X-Ray is on, and nothing else depends on a parameter: AWS knows no resource for it.
fn x_ray() -> Value {
    let actions = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"];
    let statement = json!({"Sid": "Traces", "Effect": "Allow", "Action": actions, "Resource": "*"});
    let document = json!({"Version": "2012-10-17", "Statement": [statement]});
    json!(["Traced", {"PolicyName": "x-ray", "PolicyDocument": document}, "AWS::NoValue"])
}

/// Each action of a statement on each resource, and of which items.
fn lines(statement: &Value) -> Vec<String> {
    let line = |(action, resource): (String, String)| {
        assert!(action.contains(':') && !action.contains('*'), "{action}");
        assert!(resource != "*" || WITHOUT_RESOURCE.contains(&action.as_str()), "{action}");
        format!("{action} on {}{}", short(&resource), items(statement))
    };
    pairs(statement).into_iter().map(line).collect()
}

/// The keys of a table's items that are meant, where they are not all.
fn items(statement: &Value) -> String {
    let conditions = statement["Condition"].as_object().into_iter().flat_map(|conditions| conditions.values());
    let keys = conditions.filter_map(|condition| condition["dynamodb:LeadingKeys"].as_array()).flatten();
    keys.filter_map(Value::as_str).map(|key| format!(" {key}")).collect()
}

fn pairs(statement: &Value) -> Vec<(String, String)> {
    let list = |value: &Value| -> Vec<String> {
        let one = value.as_str().map(str::to_owned).into_iter();
        one.chain(value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)).collect()
    };
    let resources = list(&statement["Resource"]);
    let actions = list(&statement["Action"]).into_iter();
    actions.flat_map(|action| resources.iter().map(move |resource| (action.clone(), resource.clone()))).collect()
}

/// A parameter's path or a function's name, without the partition, the region and the account.
fn short(resource: &str) -> &str {
    let path = resource.split_once("parameter/${AWS::StackName}").or_else(|| resource.split_once(":function:"));
    path.map_or(resource, |(_, path)| path)
}

fn expected(lines: &[(&str, &str)], logs: &str) -> BTreeSet<String> {
    let each = lines.iter().flat_map(|(actions, resource)| actions.split(' ').map(move |action| (action, *resource)));
    let logs = [("logs:CreateLogStream", logs), ("logs:PutLogEvents", logs)];
    each.chain(logs).map(|(action, resource)| format!("{action} on {resource}")).collect()
}

#[test]
fn the_intake_admits_and_sends_and_reads_senders_secrets() {
    let lines = [
        ("dynamodb:PutItem dynamodb:Query", LEDGER),
        ("dynamodb:UpdateItem", "LedgerTable.Arn window/*"),
        ("dynamodb:UpdateItem", "LimitsTable.Arn sender/* receipts/*"),
        ("sqs:SendMessage", EVENTS),
        ("ssm:GetParametersByPath", "/sources/*"),
        ("ssm:GetParametersByPath", "/receipts/*"),
        ("ssm:GetParametersByPath", "/handshakes/*"),
    ];
    assert_eq!(allowed("IntakeRole"), expected(&lines, "IntakeLogs.Arn"));
}

#[test]
fn the_processor_consumes_and_records_and_reads_partners_secrets() {
    let lines = [
        ("dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem", LEDGER),
        ("dynamodb:Query", "LedgerTable.Arn line/*"),
        ("dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem", LIMITS),
        ("dynamodb:GetItem dynamodb:UpdateItem", CONTACTS),
        ("sqs:SendMessage", EVENTS),
        ("sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes sqs:ChangeMessageVisibility", EVENTS),
        ("sqs:SendMessage", DEAD_LETTERS),
        ("ssm:GetParametersByPath", "/integrations/*"),
    ];
    assert_eq!(allowed("ProcessorRole"), expected(&lines, "ProcessorLogs.Arn"));
}

/// Without a pattern the processor invokes nothing, and with any it cannot operate the ledger through a function of ours.
#[test]
fn the_processor_invokes_only_functions_that_the_pattern_names_and_none_of_ours() {
    let template = Template::read();
    let policy = template.at("/Resources/TeamFunctionsPolicy");
    assert_eq!(policy["Condition"], "InvokesFunctions");
    assert_eq!(template.at("/Parameters/TeamFunctions/Default"), "");
    let properties = &policy["Properties"];
    assert_eq!(properties["Roles"], serde_json::json!(["ProcessorRole"]));
    let [allow, deny] = properties["PolicyDocument"]["Statement"].as_array().expect("statements").as_slice() else {
        panic!("two statements: {properties}")
    };
    assert_eq!((&allow["Effect"], &deny["Effect"]), (&"Allow".into(), &"Deny".into()));
    let invoke =
        |names: &[&str]| names.iter().map(|name| format!("lambda:InvokeFunction on {name}")).collect::<Vec<_>>();
    assert_eq!(lines(allow), invoke(&["${TeamFunctions}", "${TeamFunctions}:*"]));
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let names =
        functions.map(|(_, function)| function["Properties"]["FunctionName"].as_str().expect("a name").to_owned());
    let of_any_stack = names.map(|name| name.replace("${AWS::StackName}", "*"));
    let own: Vec<String> = of_any_stack.flat_map(|name| [format!("{name}:*"), name]).collect();
    let (mut own, mut denied) = (invoke(&own.iter().map(String::as_str).collect::<Vec<_>>()), lines(deny));
    own.sort();
    denied.sort();
    assert_eq!(denied, own, "every function of this stack, and of any other");
}

/// A key of the team's own decrypts for the two functions that read secrets, through SSM alone, and only what each reads.
#[test]
fn a_key_of_the_teams_own_decrypts_for_exactly_the_readers() {
    let template = Template::read();
    let mut policies: Vec<_> =
        template.resources("AWS::IAM::Policy").into_iter().map(|(name, _)| name.as_str()).collect();
    policies.sort_unstable();
    let keys = ["TablesKeyPolicy", "QueuesKeyPolicy", "ViewersTablesKeyPolicy"];
    policies.retain(|policy| !keys.contains(policy));
    assert_eq!(
        policies,
        ["IntakeSecretsKeyPolicy", "ProcessorSecretsKeyPolicy", "TeamFunctionsPolicy", "TracesPolicy"]
    );
    for (policy, role, paths) in [
        ("IntakeSecretsKeyPolicy", "IntakeRole", ["/sources/*", "/receipts/*", "/handshakes/*"].as_slice()),
        ("ProcessorSecretsKeyPolicy", "ProcessorRole", &["/integrations/*"]),
    ] {
        let policy = template.at(&format!("/Resources/{policy}"));
        assert_eq!(policy["Condition"], "SecretsHaveAKey");
        assert_eq!(policy["Properties"]["Roles"], serde_json::json!([role]));
        let [statement] =
            policy["Properties"]["PolicyDocument"]["Statement"].as_array().expect("statements").as_slice()
        else {
            panic!("one statement: {policy}")
        };
        assert_eq!((&statement["Effect"], &statement["Action"]), (&"Allow".into(), &"kms:Decrypt".into()));
        assert_eq!(statement["Resource"], "SecretsKeyArn");
        let condition = &statement["Condition"];
        assert_eq!(condition["StringEquals"]["kms:ViaService"], "ssm.${AWS::Region}.${AWS::URLSuffix}");
        let named = condition["StringLike"]["kms:EncryptionContext:PARAMETER_ARN"].as_array().expect("parameters");
        let named: Vec<_> = named.iter().filter_map(Value::as_str).map(short).collect();
        assert_eq!(named, paths, "{role}");
    }
}

/// Keys of the tables and the queues serve whoever uses those, through their service alone.
#[test]
fn keys_of_tables_and_queues_are_used_through_their_services() {
    let template = Template::read();
    let all = "kms:Decrypt kms:DescribeKey kms:Encrypt kms:GenerateDataKey kms:ReEncryptFrom kms:ReEncryptTo";
    let workers = ["IntakeRole", "ProcessorRole", "ReplayRole"].as_slice();
    for (policy, roles, actions, key, service) in [
        ("TablesKeyPolicy", workers, all, "TablesKeyArn", "dynamodb"),
        ("ViewersTablesKeyPolicy", &["ConsoleViewerRole"], "kms:Decrypt kms:DescribeKey", "TablesKeyArn", "dynamodb"),
        ("QueuesKeyPolicy", workers, "kms:Decrypt kms:GenerateDataKey", "QueuesKeyArn", "sqs"),
    ] {
        let policy = template.at(&format!("/Resources/{policy}"));
        assert_eq!(policy["Condition"], key.replace("KeyArn", "HaveAKey"));
        assert_eq!(policy["Properties"]["Roles"], serde_json::json!(roles));
        let statements = policy["Properties"]["PolicyDocument"]["Statement"].as_array().expect("statements");
        let [statement] = statements.as_slice() else { panic!("one statement: {policy}") };
        assert_eq!(statement["Effect"], "Allow");
        let expected: Vec<_> = actions.split(' ').map(|action| format!("{action} on {key}")).collect();
        assert_eq!(lines(statement), expected);
        let through = format!("{service}.${{AWS::Region}}.${{AWS::URLSuffix}}");
        assert_eq!(statement["Condition"], serde_json::json!({"StringEquals": {"kms:ViaService": through}}));
    }
}

/// CodeDeploy moves the aliases of the two functions, and invokes nothing.
#[test]
fn codedeploy_moves_two_aliases_and_looks_at_alarms() {
    let functions =
        ["IntakeFunction.Arn", "${IntakeFunction.Arn}:*", "ProcessorFunction.Arn", "${ProcessorFunction.Arn}:*"];
    let mut expected = BTreeSet::from(["cloudwatch:DescribeAlarms on *".to_owned()]);
    for action in ["lambda:GetAlias", "lambda:UpdateAlias", "lambda:GetProvisionedConcurrencyConfig"] {
        expected.extend(functions.map(|function| format!("{action} on {function}")));
    }
    assert_eq!(allowed("RolloutRole"), expected);
}

/// Each policy for people invokes one alias of one function. CloudWatch's graphs know no resources.
#[test]
fn a_policy_for_people_invokes_one_alias() {
    let template = Template::read();
    let policies = template.resources("AWS::IAM::ManagedPolicy");
    assert_eq!(policies.len(), 3);
    for (name, invoked) in [
        ("ViewersPolicy", "ConsoleViewerFunction.Alias"),
        ("OperatorsPolicy", "ReplayFunction.Alias"),
        ("ApproversPolicy", "ApproversAlias"),
    ] {
        let policy = template.at(&format!("/Resources/{name}/Properties/PolicyDocument/Statement"));
        let mut allowed = BTreeSet::new();
        for statement in policy.as_array().expect("statements") {
            assert_eq!(statement["Effect"], "Allow", "{name}");
            allowed.extend(pairs(statement));
        }
        let lambda: Vec<_> = allowed.iter().filter(|(action, _)| action.starts_with("lambda:")).collect();
        assert_eq!(lambda, [&("lambda:InvokeFunction".to_owned(), invoked.to_owned())], "{name}");
        let everywhere = allowed.iter().filter(|(_, resource)| resource == "*").map(|(action, _)| action.as_str());
        let graphs = ["DescribeAlarms", "GetMetricData", "ListDashboards", "ListMetrics"];
        let everywhere: Vec<_> = everywhere.filter_map(|action| action.strip_prefix("cloudwatch:")).collect();
        assert!(everywhere.is_empty() || everywhere == graphs, "{name}: {everywhere:?}");
        assert_eq!(*template.at(&format!("/Outputs/{name}Arn/Value")), name);
    }
    let alias = template.at("/Resources/ApproversAlias/Properties");
    assert_eq!((&alias["Name"], &alias["FunctionName"]), (&"approvers".into(), &"ReplayFunction".into()));
}

/// Spans are sent to CloudWatch only where the stack says so, by those who make them, and for nothing else.
#[test]
fn only_a_stack_that_says_so_exports_its_spans() {
    let template = Template::read();
    assert_eq!(template.at("/Parameters/TracesEndpoint/Default"), "");
    let policy = template.at("/Resources/TracesPolicy");
    assert_eq!(policy["Condition"], "TracesToCloudWatch");
    assert_eq!(policy["Properties"]["Roles"], serde_json::json!(["IntakeRole", "ProcessorRole", "ReplayRole"]));
    let statements = policy["Properties"]["PolicyDocument"]["Statement"].as_array().expect("statements");
    let [export] = statements.as_slice() else { panic!("one statement: {policy}") };
    assert_eq!(export["Action"], serde_json::json!(["xray:PutSpans", "xray:PutSpansForIndexing"]));
}

#[test]
fn the_replay_keeps_records_and_sends_and_reads_no_secret() {
    let lines = [
        ("dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem dynamodb:Query", LEDGER),
        ("dynamodb:Query", "${LedgerTable.Arn}/index/parked"),
        ("dynamodb:GetItem dynamodb:UpdateItem", "LimitsTable.Arn switchboard batches"),
        ("dynamodb:GetItem", "LimitsTable.Arn latest/* breaker/*"),
        ("dynamodb:UpdateItem", "LimitsTable.Arn replay/*"),
        ("dynamodb:GetItem dynamodb:UpdateItem", CONTACTS),
        ("sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes sqs:ChangeMessageVisibility", DEAD_LETTERS),
        ("sqs:SendMessage sqs:GetQueueAttributes", EVENTS),
        ("sqs:SendMessage", DEAD_LETTERS),
        ("cloudwatch:GetMetricData", "*"),
    ];
    assert_eq!(allowed("ReplayRole"), expected(&lines, "ReplayLogs.Arn"));
}

/// Who may invoke the viewers' console can change nothing by it, whatever is in it.
#[test]
fn the_viewers_console_can_only_read() {
    let lines = [
        ("dynamodb:GetItem dynamodb:Query", LEDGER),
        ("dynamodb:Query", "${LedgerTable.Arn}/index/parked"),
        ("dynamodb:GetItem", "LimitsTable.Arn switchboard latest/*"),
        ("sqs:GetQueueAttributes", EVENTS),
        ("cloudwatch:GetMetricData", "*"),
    ];
    assert_eq!(allowed("ConsoleViewerRole"), expected(&lines, "ConsoleViewerLogs.Arn"));
}

/// Each function has its own role, which only Lambda may take on, and a managed policy for each of two services that know
/// no resources to narrow it to: X-Ray, and the network where the functions are in a VPC.
#[test]
fn a_role_is_one_functions_own_and_only_lambda_takes_it_on() {
    let template = Template::read();
    let functions = template.resources("AWS::Serverless::Function");
    let roles: BTreeSet<_> =
        functions.iter().filter_map(|(_, function)| function["Properties"]["Role"].as_str()).collect();
    assert_eq!(roles.len(), functions.len());
    for (name, role) in template.resources("AWS::IAM::Role") {
        let trust = &role["Properties"]["AssumeRolePolicyDocument"]["Statement"];
        assert_eq!(trust.as_array().map(Vec::len), Some(1), "{name}");
        let service = if name == "RolloutRole" { "codedeploy" } else { "lambda" };
        let service = json!({"Service": format!("{service}.amazonaws.com")});
        assert_eq!(trust[0]["Principal"], service, "{name}");
        let Some(managed) = role["Properties"].get("ManagedPolicyArns") else {
            assert_eq!(name, "RolloutRole");
            continue;
        };
        let aws = "arn:${AWS::Partition}:iam::aws:policy";
        let network = format!("{aws}/service-role/AWSLambdaENIManagementAccess");
        let expected = json!([["InVpc", network, "AWS::NoValue"]]);
        assert_eq!(*managed, expected, "{name}");
    }
}
