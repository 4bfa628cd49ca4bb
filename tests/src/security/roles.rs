//! Least privilege: what each function may do, word for word.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::template::Template;

const LEDGER: &str = "LedgerTable.Arn";
const LIMITS: &str = "LimitsTable.Arn";
const CONTACTS: &str = "ContactsTable.Arn";
const EVENTS: &str = "EventsQueue.Arn";
const DEAD_LETTERS: &str = "DeadLettersQueue.Arn";

/// Each action of a role on each resource, as `action on resource`, and of which items.
fn allowed(role: &str) -> BTreeSet<String> {
    let template = Template::read();
    let mut allowed = BTreeSet::new();
    for policy in template.at(&format!("/Resources/{role}/Properties/Policies")).as_array().expect("policies") {
        for statement in policy["PolicyDocument"]["Statement"].as_array().expect("statements") {
            assert_eq!(statement["Effect"], "Allow", "{role}: {statement}");
            allowed.extend(lines(statement));
        }
    }
    allowed
}

/// Each action of a statement on each resource, and of which items.
fn lines(statement: &Value) -> Vec<String> {
    let line = |(action, resource): (String, String)| {
        assert!(action.contains(':') && !action.contains('*'), "{action}");
        assert_ne!(resource, "*", "{action}");
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
    let own =
        functions.map(|(_, function)| format!("{}*", function["Properties"]["FunctionName"].as_str().expect("a name")));
    let (mut own, mut denied): (Vec<_>, Vec<_>) = (own.collect(), lines(deny));
    own = invoke(&own.iter().map(String::as_str).collect::<Vec<_>>());
    own.sort();
    denied.sort();
    assert_eq!(denied, own, "every function of the stack");
}

/// A key of the team's own decrypts for the two functions that read secrets, through SSM alone, and only what each reads.
#[test]
fn a_key_of_the_teams_own_decrypts_for_exactly_the_readers() {
    let template = Template::read();
    let mut policies: Vec<_> =
        template.resources("AWS::IAM::Policy").into_iter().map(|(name, _)| name.as_str()).collect();
    policies.sort_unstable();
    assert_eq!(policies, ["IntakeSecretsKeyPolicy", "ProcessorSecretsKeyPolicy", "TeamFunctionsPolicy"]);
    for (policy, role, paths) in [
        ("IntakeSecretsKeyPolicy", "IntakeRole", ["/sources/*", "/receipts/*"].as_slice()),
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
    ];
    assert_eq!(allowed("ConsoleViewerRole"), expected(&lines, "ConsoleViewerLogs.Arn"));
}

/// Each function has its own role, which only Lambda may take on, and one managed policy: X-Ray knows no
/// resources, so that it cannot be narrowed to ours.
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
        assert_eq!(trust[0]["Principal"], serde_json::json!({"Service": "lambda.amazonaws.com"}), "{name}");
        let managed = role["Properties"]["ManagedPolicyArns"].as_array().expect("managed policies");
        let [xray] = managed.as_slice() else { panic!("{name}: {managed:?}") };
        assert!(xray.as_str().is_some_and(|arn| arn.ends_with(":policy/AWSXRayDaemonWriteAccess")), "{name}: {xray}");
    }
}
