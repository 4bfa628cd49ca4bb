//! What whoever deploys must be allowed: derived from the types of the template's resources, as `infra/deploy/policy-*.json`;
//! and what `make verify` makes beside a stack. `tests/deploy/test_policies.py` holds them against AWS's own tables of
//! actions, and against what the scripts call.
//!
//! `WRITE_POLICY=1 cargo nextest run --workspace -E 'test(deployer::)'` writes them anew. A type that is not listed here
//! fails: somebody has to look up what CloudFormation calls for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::fixtures::root;
use crate::template::Template;

/// The most characters of a managed policy, white space not counted.
const MOST: usize = 6_144;

/// The start of the stacks' names that may be deployed.
const STACK: &str = "ledgerline*";

/// What `make verify` calls its own.
const VERIFY: &str = "ledgerline*-verify-*";

/// One service's permissions for a type of resource: what is called, and on which resources.
struct Needed {
    kind: &'static str,
    actions: &'static str,
    on: &'static [&'static str],
}

/// What stands on no resource of the stack, and is bounded by what it is about.
struct Bounded {
    needed: Needed,
    test: &'static str,
    key: &'static str,
    values: &'static [&'static str],
}

/// What CloudFormation calls to make, change, read, tag and delete each type, and SAM for those that it makes of others.
/// From the handlers' permissions in CloudFormation's registry, by the properties that the template has.
const NEEDED: &[Needed] = &[
    Needed {
        kind: "AWS::Serverless::Function",
        actions: "lambda:CreateFunction lambda:UpdateFunctionCode lambda:UpdateFunctionConfiguration \
                  lambda:DeleteFunction lambda:GetFunction lambda:GetFunctionConfiguration lambda:GetPolicy \
                  lambda:ListVersionsByFunction lambda:PublishVersion lambda:*Alias lambda:ListAliases lambda:AddPermission \
                  lambda:RemovePermission lambda:PutFunctionConcurrency lambda:DeleteFunctionConcurrency \
                  lambda:*ProvisionedConcurrencyConfig lambda:GetFunctionCodeSigningConfig \
                  lambda:GetRuntimeManagementConfig lambda:GetFunctionRecursionConfig lambda:GetFunctionScalingConfig \
                  lambda:*Tag*",
        on: &["lambda:*:*:function:{stack}"],
    },
    Needed {
        kind: "AWS::Serverless::Function",
        actions: "lambda:GetEventSourceMapping lambda:UpdateEventSourceMapping lambda:DeleteEventSourceMapping lambda:*Tag*",
        on: &["lambda:*:*:event-source-mapping:*"],
    },
    Needed {
        kind: "AWS::Serverless::Function",
        actions: "events:PutRule events:DeleteRule events:DescribeRule events:PutTargets events:RemoveTargets \
                  events:ListTargetsByRule events:*Tag*",
        on: &["events:*:*:rule/{stack}"],
    },
    Needed {
        // A function in a VPC.
        kind: "AWS::Serverless::Function",
        actions: "ec2:DescribeSecurityGroups ec2:DescribeSubnets ec2:DescribeVpcs ec2:DescribeNetworkInterfaces",
        on: &["*"],
    },
    Needed {
        kind: "AWS::Serverless::LayerVersion",
        actions: "lambda:PublishLayerVersion lambda:DeleteLayerVersion",
        on: &["lambda:*:*:layer:{stack}"],
    },
    Needed {
        // Who gives a function a layer must be able to read it, be it ours, a database of places or a vendor's extension.
        kind: "AWS::Serverless::Function",
        actions: "lambda:GetLayerVersion",
        on: &["lambda:*:*:layer:*:*"],
    },
    Needed { kind: "AWS::Serverless::LayerVersion", actions: "lambda:ListLayerVersions", on: &["*"] },
    Needed {
        kind: "AWS::Serverless::HttpApi",
        actions: "apigateway:GET apigateway:POST apigateway:PUT apigateway:PATCH apigateway:DELETE apigateway:TagResource \
                  apigateway:UntagResource",
        on: &["apigateway:*::/apis", "apigateway:*::/apis/*", "apigateway:*::/tags/*"],
    },
    Needed {
        // The access log of an HTTP API is a delivery of vended logs, which knows no resources.
        kind: "AWS::Serverless::HttpApi",
        actions: "logs:*LogDelivery logs:ListLogDeliveries logs:PutResourcePolicy logs:DescribeResourcePolicies",
        on: &["*"],
    },
    Needed {
        kind: "AWS::ApiGatewayV2::DomainName",
        actions: "apigateway:GET apigateway:POST apigateway:PUT apigateway:PATCH apigateway:DELETE \
                  apigateway:AddCertificateToDomain apigateway:RemoveCertificateFromDomain",
        on: &["apigateway:*::/domainnames", "apigateway:*::/domainnames/*"],
    },
    Needed {
        // The truststore of mutual TLS, in a bucket whose name begins as the stacks' names do.
        kind: "AWS::ApiGatewayV2::DomainName",
        actions: "s3:GetObject s3:GetObjectVersion",
        on: &["s3:::{stack}/*"],
    },
    Needed {
        // The first domain of an account makes it.
        kind: "AWS::ApiGatewayV2::DomainName",
        actions: "iam:CreateServiceLinkedRole",
        on: &[LINKED],
    },
    Needed { kind: "AWS::ApiGatewayV2::ApiMapping", actions: "apigateway:GET", on: &["apigateway:*::/domainnames/*"] },
    Needed {
        kind: "AWS::SQS::Queue",
        actions: "sqs:CreateQueue sqs:DeleteQueue sqs:GetQueueAttributes sqs:SetQueueAttributes sqs:GetQueueUrl \
                  sqs:*Tag*",
        on: &["sqs:*:*:{stack}"],
    },
    Needed { kind: "AWS::SQS::Queue", actions: "sqs:ListQueues", on: &["*"] },
    Needed { kind: "AWS::SQS::QueuePolicy", actions: "sqs:SetQueueAttributes", on: &["sqs:*:*:{stack}"] },
    Needed {
        kind: "AWS::DynamoDB::Table",
        actions: "dynamodb:CreateTable dynamodb:UpdateTable dynamodb:DeleteTable dynamodb:DescribeTable \
                  dynamodb:*TimeToLive dynamodb:*ContinuousBackups dynamodb:DescribeContributorInsights \
                  dynamodb:DescribeKinesisStreamingDestination dynamodb:GetResourcePolicy dynamodb:*Tag*",
        on: &["dynamodb:*:*:table/{stack}"],
    },
    Needed { kind: "AWS::DynamoDB::Table", actions: "dynamodb:ListTables kms:DescribeKey", on: &["*"] },
    Needed {
        kind: "AWS::IAM::Role",
        actions: "iam:CreateRole iam:DeleteRole iam:GetRole iam:UpdateRole iam:UpdateRoleDescription \
                  iam:UpdateAssumeRolePolicy iam:PutRolePolicy iam:GetRolePolicy iam:DeleteRolePolicy iam:DetachRolePolicy \
                  iam:ListRolePolicies iam:ListAttachedRolePolicies iam:*RolePermissionsBoundary iam:TagRole iam:UntagRole",
        on: &["iam::*:role/{stack}"],
    },
    Needed {
        kind: "AWS::IAM::Policy",
        actions: "iam:PutRolePolicy iam:DeleteRolePolicy iam:GetRolePolicy",
        on: &["iam::*:role/{stack}"],
    },
    Needed {
        kind: "AWS::IAM::ManagedPolicy",
        actions: "iam:CreatePolicy iam:DeletePolicy iam:GetPolicy iam:CreatePolicyVersion iam:DeletePolicyVersion \
                  iam:GetPolicyVersion iam:ListPolicyVersions iam:ListEntitiesForPolicy",
        on: &["iam::*:policy/{stack}"],
    },
    Needed {
        kind: "AWS::CloudWatch::Dashboard",
        actions: "cloudwatch:PutDashboard cloudwatch:DeleteDashboards cloudwatch:GetDashboard",
        on: &["cloudwatch::*:dashboard/{stack}"],
    },
    Needed {
        kind: "AWS::CloudWatch::Alarm",
        actions: "cloudwatch:PutMetricAlarm cloudwatch:DeleteAlarms cloudwatch:*Tag*",
        on: &["cloudwatch:*:*:alarm:{stack}"],
    },
    Needed { kind: "AWS::CloudWatch::Alarm", actions: "cloudwatch:DescribeAlarms", on: &["*"] },
    Needed {
        // A composite is authorised on all alarms, whatever its name is.
        kind: "AWS::CloudWatch::CompositeAlarm",
        actions: "cloudwatch:PutCompositeAlarm cloudwatch:DeleteAlarms",
        on: &["cloudwatch:*:*:alarm:*"],
    },
    Needed {
        kind: "AWS::Logs::LogGroup",
        actions: "logs:CreateLogGroup logs:DeleteLogGroup logs:PutRetentionPolicy logs:DeleteRetentionPolicy \
                  logs:AssociateKmsKey logs:DisassociateKmsKey logs:TagResource logs:UntagResource \
                  logs:ListTagsForResource logs:GetDataProtectionPolicy",
        on: &["logs:*:*:log-group:/ledgerline/{stack}", "logs:*:*:log-group:/aws/vendedlogs/ledgerline/{stack}"],
    },
    Needed { kind: "AWS::Logs::LogGroup", actions: "logs:DescribeLogGroups logs:DescribeIndexPolicies", on: &["*"] },
    Needed {
        kind: "AWS::Lambda::Alias",
        actions: "lambda:*Alias lambda:*ProvisionedConcurrencyConfig",
        on: &["lambda:*:*:function:{stack}"],
    },
    Needed {
        // What SAM makes of a DeploymentPreference.
        kind: "DeploymentPreference",
        actions: "codedeploy:CreateApplication codedeploy:DeleteApplication codedeploy:GetApplication \
                  codedeploy:*DeploymentGroup codedeploy:CreateDeployment codedeploy:ListDeployments \
                  codedeploy:GetDeployment codedeploy:GetDeploymentConfig codedeploy:RegisterApplicationRevision \
                  codedeploy:GetApplicationRevision codedeploy:TagResource codedeploy:UntagResource \
                  codedeploy:ListTagsForResource",
        on: &[
            "codedeploy:*:*:application:{stack}",
            "codedeploy:*:*:deploymentgroup:{stack}",
            "codedeploy:*:*:deploymentconfig:*",
        ],
    },
    Needed { kind: "DeploymentPreference", actions: "codedeploy:StopDeployment", on: &["*"] },
];

/// The role of API Gateway's own, which its first domain in an account makes.
const LINKED: &str = "iam::*:role/aws-service-role/ops.apigateway.amazonaws.com/*";

/// The one managed policy that the template attaches: that of a function in a VPC.
const ATTACHED: &str = "arn:aws:iam::aws:policy/service-role/AWSLambdaENIManagementAccess";

/// The same, where an action knows no resource of the stack, or is too much without a condition.
const BOUNDED: &[Bounded] = &[
    Bounded {
        needed: Needed { kind: "AWS::Serverless::Function", actions: "lambda:CreateEventSourceMapping", on: &["*"] },
        test: "ArnLike",
        key: "lambda:FunctionArn",
        values: &["arn:aws:lambda:*:*:function:ledgerline*"],
    },
    Bounded {
        // Not to a service under which somebody else would act by the role.
        needed: Needed { kind: "AWS::IAM::Role", actions: "iam:PassRole", on: &["iam::*:role/{stack}"] },
        test: "StringEquals",
        key: "iam:PassedToService",
        values: &["codedeploy.amazonaws.com", "lambda.amazonaws.com"],
    },
    Bounded {
        needed: Needed { kind: "AWS::IAM::Role", actions: "iam:AttachRolePolicy", on: &["iam::*:role/{stack}"] },
        test: "ArnEquals",
        key: "iam:PolicyARN",
        values: &[ATTACHED],
    },
    Bounded {
        // A customer's keys of tables and secrets: only through DynamoDB and SSM.
        needed: Needed {
            kind: "AWS::DynamoDB::Table",
            actions: "kms:CreateGrant kms:Decrypt kms:Encrypt kms:GenerateDataKey kms:ReEncryptFrom kms:ReEncryptTo",
            on: &["kms:*:*:key/*"],
        },
        test: "StringLike",
        key: "kms:ViaService",
        values: &["dynamodb.*.amazonaws.com", "ssm.*.amazonaws.com"],
    },
];

/// What the tools of `make deploy` call themselves.
const TOOLS: &[Needed] = &[
    Needed {
        kind: "sam",
        actions: "cloudformation:*ChangeSet cloudformation:DescribeStacks cloudformation:DescribeStackEvents \
                  cloudformation:ListStackResources cloudformation:ListChangeSets cloudformation:DeleteStack \
                  cloudformation:CancelUpdateStack cloudformation:ContinueUpdateRollback cloudformation:TagResource \
                  cloudformation:UntagResource",
        on: &["cloudformation:*:*:stack/{stack}", "cloudformation:*:*:stack/aws-sam-cli-managed-default/*"],
    },
    Needed {
        kind: "sam",
        actions: "cloudformation:CreateChangeSet",
        on: &["cloudformation:*:aws:transform/Serverless-2016-10-31"],
    },
    Needed {
        kind: "sam",
        actions: "cloudformation:GetTemplateSummary sts:GetCallerIdentity lambda:GetAccountSettings",
        on: &["*"],
    },
    Needed {
        kind: "sam",
        actions: "s3:CreateBucket s3:PutBucketPolicy s3:GetBucketPolicy s3:PutBucketTagging s3:GetBucketTagging \
                  s3:PutBucketVersioning s3:GetBucketVersioning s3:PutEncryptionConfiguration s3:GetEncryptionConfiguration \
                  s3:PutBucketPublicAccessBlock s3:GetBucketPublicAccessBlock s3:GetBucketLocation s3:ListBucket s3:GetObject \
                  s3:PutObject",
        on: &["s3:::aws-sam-cli-managed-default-*"],
    },
    Needed { kind: "look", actions: "ssm:GetServiceSetting", on: &["ssm:*:*:servicesetting/ssm/parameter-store/*"] },
    Needed {
        kind: "secrets",
        actions: "ssm:GetParametersByPath ssm:PutParameter ssm:DeleteParameter ssm:DeleteParameters",
        on: &["ssm:*:*:parameter/{stack}"],
    },
    // The metric `Deploying`, which holds alarms back. CloudWatch knows no resources for it.
    Needed { kind: "deploying", actions: "cloudwatch:PutMetricData", on: &["*"] },
];

/// What `make verify` calls: it makes everything under a name of its own, and of the stack it only reads.
const VERIFICATION: &[Needed] = &[
    Needed {
        kind: "verify",
        actions: "dynamodb:CreateTable dynamodb:DeleteTable dynamodb:DescribeTable dynamodb:GetItem \
                  dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem dynamodb:Query",
        on: &["dynamodb:*:*:table/{verify}"],
    },
    Needed {
        kind: "verify",
        actions: "dynamodb:DescribeTimeToLive dynamodb:DescribeContinuousBackups",
        on: &["dynamodb:*:*:table/{stack}"],
    },
    Needed {
        kind: "verify",
        actions: "sqs:CreateQueue sqs:DeleteQueue sqs:GetQueueAttributes sqs:SendMessage sqs:ReceiveMessage \
                  sqs:DeleteMessage sqs:ChangeMessageVisibility sqs:StartMessageMoveTask",
        on: &["sqs:*:*:{verify}"],
    },
    Needed {
        kind: "verify",
        actions: "lambda:CreateFunction lambda:DeleteFunction lambda:GetFunction lambda:UpdateFunctionCode \
                  lambda:PublishVersion lambda:CreateAlias lambda:UpdateAlias lambda:AddPermission lambda:InvokeFunction",
        on: &["lambda:*:*:function:{verify}"],
    },
    Needed { kind: "verify", actions: "lambda:InvokeFunction", on: &["lambda:*:*:function:{stack}"] },
    Needed {
        kind: "verify",
        actions: "lambda:GetEventSourceMapping lambda:DeleteEventSourceMapping",
        on: &["lambda:*:*:event-source-mapping:*"],
    },
    Needed {
        kind: "verify",
        actions: "iam:CreateRole iam:DeleteRole iam:PutRolePolicy iam:DeleteRolePolicy",
        on: &["iam::*:role/{verify}"],
    },
    Needed {
        kind: "verify",
        actions: "apigateway:POST apigateway:DELETE",
        on: &["apigateway:*::/apis", "apigateway:*::/apis/*"],
    },
    Needed {
        kind: "verify",
        actions: "ssm:PutParameter ssm:DeleteParameter ssm:GetParametersByPath",
        on: &["ssm:*:*:parameter/{verify}"],
    },
    Needed { kind: "verify", actions: "ssm:GetParametersByPath", on: &["ssm:*:*:parameter/{stack}"] },
    Needed { kind: "verify", actions: "logs:FilterLogEvents", on: &["logs:*:*:log-group:/ledgerline/{stack}"] },
    Needed { kind: "verify", actions: "logs:DeleteLogGroup", on: &["logs:*:*:log-group:/aws/lambda/{verify}"] },
    Needed { kind: "verify", actions: "cloudwatch:GetDashboard", on: &["cloudwatch::*:dashboard/{stack}"] },
    Needed {
        kind: "verify",
        actions: "cloudformation:DescribeStacks cloudformation:ListStackResources",
        on: &["cloudformation:*:*:stack/{stack}"],
    },
    Needed { kind: "verify", actions: "cloudwatch:DescribeAlarms sqs:ListQueues", on: &["*"] },
];

const VERIFICATION_BOUNDED: &[Bounded] = &[
    Bounded {
        needed: Needed { kind: "verify", actions: "lambda:CreateEventSourceMapping", on: &["*"] },
        test: "ArnLike",
        key: "lambda:FunctionArn",
        values: &["arn:aws:lambda:*:*:function:ledgerline*-verify-*"],
    },
    Bounded {
        needed: Needed { kind: "verify", actions: "iam:PassRole", on: &["iam::*:role/{verify}"] },
        test: "StringEquals",
        key: "iam:PassedToService",
        values: &["lambda.amazonaws.com"],
    },
];

/// What stands in `policy-bounded.json` for the ARN of the boundary.
const BOUNDARY: &str = "BOUNDARY_ARN";

/// What a deployer may not, whose roles have to stay within a boundary: make or change a role without it, or the boundary.
fn within_the_boundary() -> Value {
    let roles = ["iam:AttachRolePolicy", "iam:CreateRole", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"];
    let policies =
        ["iam:CreatePolicyVersion", "iam:DeletePolicy", "iam:DeletePolicyVersion", "iam:SetDefaultPolicyVersion"];
    json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Deny", "Action": roles, "Resource": ["*"],
         "Condition": {"StringNotEquals": {"iam:PermissionsBoundary": BOUNDARY}}},
        {"Effect": "Deny", "Action": ["iam:DeleteRolePermissionsBoundary"], "Resource": ["*"]},
        {"Effect": "Deny", "Action": policies, "Resource": [BOUNDARY]},
    ]})
}

/// The types of the template, and what SAM makes of a deployment preference.
fn kinds() -> BTreeSet<String> {
    let template = Template::read();
    let resources = template.at("/Resources").as_object().expect("resources").values();
    let mut kinds = BTreeSet::new();
    for resource in resources {
        kinds.insert(resource["Type"].as_str().expect("a type").to_owned());
        if !resource["Properties"]["DeploymentPreference"].is_null() {
            kinds.insert("DeploymentPreference".into());
        }
    }
    kinds
}

fn arns(needed: &Needed) -> Vec<String> {
    let arn = |on: &&str| match *on {
        "*" => "*".to_owned(),
        on => format!("arn:aws:{}", on.replace("{stack}", STACK).replace("{verify}", VERIFY)),
    };
    needed.on.iter().map(arn).collect()
}

/// The statements, one for each set of resources.
fn statements<'n>(needed: impl IntoIterator<Item = &'n Needed>) -> Vec<Value> {
    let mut by_resources: BTreeMap<Vec<String>, BTreeSet<&str>> = BTreeMap::new();
    for needed in needed {
        by_resources.entry(arns(needed)).or_default().extend(needed.actions.split_whitespace());
    }
    let statement =
        |(on, actions): (Vec<String>, BTreeSet<&str>)| json!({"Effect": "Allow", "Action": actions, "Resource": on});
    by_resources.into_iter().map(statement).collect()
}

fn bounded(Bounded { needed, test, key, values }: &Bounded) -> Value {
    let actions: BTreeSet<&str> = needed.actions.split_whitespace().collect();
    json!({"Effect": "Allow", "Action": actions, "Resource": arns(needed), "Condition": {*test: {*key: values}}})
}

/// The policies: one takes not all of it.
fn policies() -> BTreeMap<&'static str, Value> {
    let kinds = kinds();
    let of_template = || NEEDED.iter().filter(|needed| kinds.contains(needed.kind));
    let of = |statements: Vec<Value>| json!({"Version": "2012-10-17", "Statement": statements});
    let is_code = |needed: &&Needed| {
        ["lambda:", "iam:", "codedeploy:", "events:", "ec2:"].iter().any(|service| needed.actions.starts_with(service))
    };
    let code: Vec<&Needed> = of_template().filter(is_code).collect();
    let rest: Vec<&Needed> = of_template().filter(|needed| !is_code(needed)).chain(TOOLS).collect();
    let verification = VERIFICATION_BOUNDED.iter().map(bounded);
    let bounded = BOUNDED.iter().filter(|bounded| kinds.contains(bounded.needed.kind)).map(bounded);
    [
        ("policy-functions.json", of(statements(code).into_iter().chain(bounded).collect())),
        ("policy-rest.json", of(statements(rest))),
        ("policy-verify.json", of(statements(VERIFICATION).into_iter().chain(verification).collect())),
        ("policy-bounded.json", within_the_boundary()),
    ]
    .into()
}

#[test]
fn every_type_of_the_template_is_looked_up() {
    let known: BTreeSet<&str> = NEEDED.iter().map(|needed| needed.kind).collect();
    let kinds = kinds();
    assert!(kinds.len() > 8, "{kinds:?}");
    for kind in kinds {
        assert!(known.contains(kind.as_str()), "what does CloudFormation call for {kind}? Add it here");
    }
}

#[test]
fn the_deployers_policies_are_those_of_the_template() {
    for (name, policy) in policies() {
        let file = root().join("infra/deploy").join(name);
        let text = format!("{policy:#}\n");
        if std::env::var("WRITE_POLICY").is_ok() {
            std::fs::write(&file, &text).expect("it is written");
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(written == text, "{name} is not what the template needs: WRITE_POLICY=1, and look at the difference");
        let characters = text.chars().filter(|c| !c.is_whitespace()).count();
        assert!(characters <= MOST, "{name} has {characters} characters, and IAM takes {MOST}");
    }
}

/// The actions of a policy, each with what it is allowed or denied on and under which condition.
fn actions(policy: &Value) -> Vec<(&str, &Value)> {
    let mut found = Vec::new();
    for statement in policy["Statement"].as_array().expect("statements") {
        let actions = statement["Action"].as_array().expect("actions").iter().filter_map(Value::as_str);
        found.extend(actions.map(|action| (action, statement)));
    }
    found
}

/// What reads or sends data, or runs a function. The values of secrets are read for the signed request, and by
/// `ledgerline secrets`.
const DATA: [&str; 9] = [
    "Get*Item",
    "PutItem",
    "Query",
    "Scan",
    "ReceiveMessage",
    "SendMessage",
    "GetSecretValue",
    "InvokeFunction",
    "GetParameter*",
];

/// The policies themselves hold no row, no message and no invocation. What a deployer can do by the roles and the code that
/// he makes is another thing, which `DEPLOY.md` says.
#[test]
fn the_deployers_policies_are_of_the_stack_and_name_no_data_but_secrets() {
    let mut data = BTreeSet::new();
    for (name, policy) in
        policies().iter().filter(|(name, _)| ["policy-functions.json", "policy-rest.json"].contains(name))
    {
        for (action, statement) in actions(policy) {
            let (service, verb) = action.split_once(':').expect("a service");
            assert_ne!(verb, "*", "{name}: {action}");
            data.extend(DATA.iter().any(|of| fits(of, verb)).then(|| action.to_owned()));
            let resources = statement["Resource"].to_string();
            if service == "iam" {
                assert!(
                    !resources.contains("\"*\"") && (resources.contains(STACK) || resources.contains(LINKED)),
                    "{name}: {action} on {resources}"
                );
            }
        }
    }
    assert_eq!(data, ["ssm:GetParametersByPath".to_owned()].into());
}

fn fits(pattern: &str, verb: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => verb.starts_with(start) && verb.ends_with(end),
        None => verb == pattern,
    }
}

/// A role goes to the services that run the stack, and gets no policy of AWS's but that of a VPC.
#[test]
fn a_role_is_handed_on_and_widened_within_conditions_alone() {
    let template = Template::read();
    let attached = template.resources("AWS::IAM::Role").into_iter().flat_map(|(_, role)| {
        let arns = role["Properties"]["ManagedPolicyArns"].as_array().cloned().unwrap_or_default();
        arns.into_iter().map(|arn| arn[1].as_str().expect("a condition").replace("${AWS::Partition}", "aws"))
    });
    assert_eq!(attached.collect::<BTreeSet<_>>(), [ATTACHED.to_owned()].into());
    for (name, policy) in policies().iter().filter(|(name, _)| **name != "policy-bounded.json") {
        for (action, statement) in actions(policy) {
            let condition = &statement["Condition"];
            match action {
                "iam:PassRole" => assert!(condition["StringEquals"]["iam:PassedToService"].is_array(), "{name}"),
                "iam:AttachRolePolicy" => {
                    assert_eq!(condition["ArnEquals"]["iam:PolicyARN"], json!([ATTACHED]), "{name}")
                }
                _ => (),
            }
        }
    }
}

/// Whoever may write a policy that he has could give himself anything: the deployer's are not called as the stack's are.
#[test]
fn a_deployer_cannot_change_what_he_may_do() {
    let page = std::fs::read_to_string(root().join("infra/docs/DEPLOY.md")).expect("the page is there");
    let names: Vec<&str> =
        page.split("--policy-name ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| !name.starts_with(STACK.trim_end_matches('*'))), "{names:?}");
}

/// What makes a role more than its boundary is denied without it, whatever else the deployer may do.
#[test]
fn every_write_to_a_role_is_denied_outside_the_boundary() {
    let (policies, denied) = (policies(), within_the_boundary());
    let denied: BTreeSet<&str> = actions(&denied).into_iter().map(|(action, _)| action).collect();
    let widens = [
        "CreateRole",
        "AttachRolePolicy",
        "PutRolePolicy",
        "PutRolePermissionsBoundary",
        "DeleteRolePermissionsBoundary",
    ];
    for (action, _) in actions(&policies["policy-functions.json"]) {
        let verb = action.trim_start_matches("iam:");
        for meant in widens.iter().filter(|widening| fits(verb, widening)) {
            assert!(denied.contains(format!("iam:{meant}").as_str()), "{meant}");
        }
    }
}
