//! What a request to AWS asks for, read from the wire in IAM's words.
//!
//! Deliberately absent: services that no function of ours calls. A request to one of those is a call on every resource,
//! which no role allows.

use axum::http::request::Parts;
use serde_json::Value;

use crate::aws::REGION;

/// The account of the emulator.
const ACCOUNT: &str = "000000000000";

/// One call, as IAM judges it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IamCall {
    pub(crate) action: String,
    pub(crate) resource: String,
    /// The partition key of the item, where the call names one; only its kind, as a key may tell of a person.
    pub(crate) item: Option<String>,
}

/// The calls that a request stands for: a transaction is one for each of its items.
pub(crate) fn calls(service: &str, parts: &Parts, body: &[u8]) -> Vec<IamCall> {
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    let body = serde_json::from_slice(body).unwrap_or_default();
    match service {
        "dynamodb" => dynamodb(operation, &body),
        "sqs" => vec![on(&format!("sqs:{}", one_by_one(operation)), &queue(&body))],
        "ssm" => vec![on(&format!("ssm:{operation}"), &format!("ssm:{REGION}:{ACCOUNT}:parameter{}", path(&body)))],
        "lambda" => vec![lambda(parts.uri.path())],
        // IAM calls it by another name than its endpoint.
        "monitoring" => vec![on(&format!("cloudwatch:{operation}"), "*")],
        other => vec![on(&format!("{other}:{operation}"), "*")],
    }
}

fn on(action: &str, resource: &str) -> IamCall {
    let resource = if resource == "*" { resource.to_owned() } else { format!("arn:aws:{resource}") };
    IamCall { action: action.to_owned(), resource, item: None }
}

/// IAM knows no action for a batch of messages.
fn one_by_one(operation: &str) -> &str {
    operation.strip_suffix("Batch").unwrap_or(operation)
}

fn queue(body: &Value) -> String {
    let url = body["QueueUrl"].as_str().unwrap_or_default();
    format!("sqs:{REGION}:{ACCOUNT}:{}", url.rsplit('/').next().unwrap_or_default())
}

fn path(body: &Value) -> String {
    let path = body["Path"].as_str().or_else(|| body["Name"].as_str()).unwrap_or_default();
    format!("/{}", path.trim_matches('/'))
}

fn lambda(path: &str) -> IamCall {
    let function = path.split("/functions/").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let function = function.rsplit(":function:").next().unwrap_or_default();
    let action = if path.ends_with("/invocations") { "lambda:InvokeFunction" } else { "lambda:Other" };
    on(action, &format!("lambda:{REGION}:{ACCOUNT}:function:{}", function.replace("%3A", ":")))
}

fn dynamodb(operation: &str, body: &Value) -> Vec<IamCall> {
    let transacted = body["TransactItems"].as_array();
    match transacted {
        Some(items) => {
            items.iter().filter_map(Value::as_object).flatten().map(|(kind, part)| item(kind, part)).collect()
        }
        None => vec![item(operation.trim_end_matches("Item"), body)],
    }
}

/// One operation on a table. The parts of a transaction are called as the operations without their `Item`.
fn item(kind: &str, body: &Value) -> IamCall {
    let action = match kind {
        "Get" | "Put" | "Update" | "Delete" => format!("{kind}Item"),
        "ConditionCheck" => "ConditionCheckItem".into(),
        other => other.to_owned(),
    };
    let table = body["TableName"].as_str().unwrap_or_default();
    let index = body["IndexName"].as_str().map(|index| format!("/index/{index}")).unwrap_or_default();
    let key = [&body["Key"]["pk"]["S"], &body["Item"]["pk"]["S"]].into_iter().find_map(Value::as_str);
    let key = key.or_else(|| queried(body)).map(kind_of_key);
    IamCall {
        item: key,
        ..on(&format!("dynamodb:{action}"), &format!("dynamodb:{REGION}:{ACCOUNT}:table/{table}{index}"))
    }
}

/// The partition key of a query: the value that its condition names first.
fn queried(body: &Value) -> Option<&str> {
    let condition = body["KeyConditionExpression"].as_str()?;
    let first = condition.split(" AND ").find(|part| part.contains('='))?;
    body["ExpressionAttributeValues"][first.rsplit('=').next()?.trim()]["S"].as_str()
}

/// A key as far as a policy tells keys apart: up to its first `/`. An event's id is one of many.
fn kind_of_key(key: &str) -> String {
    match key.split_once('/') {
        Some((kind, _)) => format!("{kind}/…"),
        None if key.len() >= 32 => "…".into(),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use serde_json::json;

    use super::*;

    fn read(service: &str, target: &str, path: &str, body: Value) -> Vec<String> {
        let request = Request::builder().uri(path).header("x-amz-target", target).body(Body::empty());
        let (parts, _) = request.expect("a request").into_parts();
        let shown = |call: IamCall| {
            let resource = call.resource.trim_start_matches("arn:aws:").to_owned();
            format!("{} {resource} {}", call.action, call.item.unwrap_or_default()).trim_end().to_owned()
        };
        calls(service, &parts, body.to_string().as_bytes()).into_iter().map(shown).collect()
    }

    #[test]
    fn each_request_is_read_as_iam_judges_it() {
        let table =
            |operation: &str, body: Value| read("dynamodb", &format!("DynamoDB_20120810.{operation}"), "/", body);
        let of_table = "dynamodb:us-east-1:000000000000:table";
        assert_eq!(
            table("UpdateItem", json!({"TableName": "T", "Key": {"pk": {"S": "window/lead/ada@example.com"}}})),
            [format!("dynamodb:UpdateItem {of_table}/T window/…")]
        );
        assert_eq!(
            table("PutItem", json!({"TableName": "T", "Item": {"pk": {"S": "0123456789abcdef0123456789abcdef"}}})),
            [format!("dynamodb:PutItem {of_table}/T …")]
        );
        let query = json!({
            "TableName": "T", "IndexName": "parked", "KeyConditionExpression": "parked = :shard AND parked_at > :from",
            "ExpressionAttributeValues": {":shard": {"S": "p3"}, ":from": {"N": "1"}},
        });
        assert_eq!(table("Query", query), [format!("dynamodb:Query {of_table}/T/index/parked p3")]);
        let transaction = json!({"TransactItems": [
            {"Update": {"TableName": "T", "Key": {"pk": {"S": "switchboard"}}}},
            {"ConditionCheck": {"TableName": "U", "Key": {"pk": {"S": "cap/x"}}}},
        ]});
        assert_eq!(
            table("TransactWriteItems", transaction),
            [
                format!("dynamodb:UpdateItem {of_table}/T switchboard"),
                format!("dynamodb:ConditionCheckItem {of_table}/U cap/…"),
            ]
        );
        let messages = json!({"QueueUrl": "http://127.0.0.1:4566/000000000000/stack-events.fifo"});
        assert_eq!(
            read("sqs", "AmazonSQS.SendMessageBatch", "/", messages),
            ["sqs:SendMessage sqs:us-east-1:000000000000:stack-events.fifo"]
        );
        assert_eq!(
            read("ssm", "AmazonSSM.GetParametersByPath", "/", json!({"Path": "/stack/sources/web/"})),
            ["ssm:GetParametersByPath ssm:us-east-1:000000000000:parameter/stack/sources/web"]
        );
        assert_eq!(
            read("lambda", "", "/2015-03-31/functions/team-greet%3Alive/invocations", Value::Null),
            ["lambda:InvokeFunction lambda:us-east-1:000000000000:function:team-greet:live"]
        );
        assert_eq!(
            read("monitoring", "GraniteServiceVersion20100801.GetMetricData", "/", Value::Null),
            ["cloudwatch:GetMetricData *"]
        );
        assert_eq!(read("s3", "", "/bucket/key", Value::Null), ["s3: *"]);
    }
}
