//! The event that Lambda makes of received messages.

use serde_json::{Map, Value, json};

use crate::aws::REGION;

/// The event of these messages of a queue.
pub(super) fn make(messages: &[Value], queue_arn: &str) -> Value {
    let records: Vec<Value> = messages.iter().map(|message| record(message, queue_arn)).collect();
    json!({"Records": records})
}

fn record(message: &Value, queue_arn: &str) -> Value {
    json!({
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": attributes(&message["MessageAttributes"]),
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    })
}

/// The SQS API spells `StringValue`, the event `stringValue`, and it always has the two lists.
fn attributes(attributes: &Value) -> Value {
    let Some(attributes) = attributes.as_object() else { return json!({}) };
    attributes.iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

fn attribute(value: &Value) -> Value {
    let mut camel = Map::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        camel.insert(key[..1].to_lowercase() + &key[1..], value.clone());
    }
    for list in ["stringListValues", "binaryListValues"] {
        camel.entry(list).or_insert_with(|| json!([]));
    }
    Value::Object(camel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_lambdas_spelling() {
        let message = json!({
            "MessageId": "m", "ReceiptHandle": "r", "Body": "b", "MD5OfBody": "d",
            "Attributes": {"ApproximateReceiveCount": "2", "MessageGroupId": "g"},
            "MessageAttributes": {"trace": {"DataType": "String", "StringValue": "t"}},
        });
        let event = make(&[message], "arn:q");
        assert_eq!(
            event["Records"][0],
            json!({
                "messageId": "m", "receiptHandle": "r", "body": "b", "md5OfBody": "d",
                "attributes": {"ApproximateReceiveCount": "2", "MessageGroupId": "g"},
                "messageAttributes": {"trace": {
                    "dataType": "String", "stringValue": "t",
                    "stringListValues": [], "binaryListValues": [],
                }},
                "eventSource": "aws:sqs", "eventSourceARN": "arn:q", "awsRegion": "us-east-1",
            })
        );
    }

    #[test]
    fn a_message_without_attributes_has_an_empty_map() {
        let event = make(&[json!({"MessageId": "m"})], "arn:q");
        assert_eq!(event["Records"][0]["messageAttributes"], json!({}));
    }
}
