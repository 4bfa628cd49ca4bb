//! The ledger's table, read as a whole.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use shared::ledger::Row;

use crate::aws::Endpoint;

/// Reads every row of the ledger's table, by id.
pub(crate) async fn rows(endpoint: &Endpoint, table: &str) -> Result<HashMap<String, Row>> {
    let mut rows = HashMap::new();
    let mut start = Value::Null;
    loop {
        let mut input = json!({"TableName": table, "ConsistentRead": true});
        if !start.is_null() {
            input["ExclusiveStartKey"] = start;
        }
        let mut page = endpoint.act("dynamodb", "DynamoDB_20120810.Scan", input).await?;
        for item in page["Items"].as_array().into_iter().flatten() {
            // The same partition has the payloads of what is parked.
            if item["sk"]["S"] == "event" {
                let row = row(item)?;
                rows.insert(row.id.to_string(), row);
            }
        }
        start = page["LastEvaluatedKey"].take();
        if start.is_null() {
            return Ok(rows);
        }
    }
}

fn row(item: &Value) -> Result<Row> {
    let mut plain = plain(&json!({"M": item}));
    plain["id"] = plain["pk"].take();
    serde_json::from_value(plain).context("a row of the ledger's table cannot be read")
}

/// A DynamoDB value as plain JSON.
fn plain(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|fields| fields.iter().next()) else { return Value::Null };
    match (kind.as_str(), inner) {
        ("N", Value::String(number)) => serde_json::from_str(number).unwrap_or_default(),
        ("L", Value::Array(items)) => items.iter().map(plain).collect(),
        ("M", Value::Object(fields)) => {
            fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect::<Map<_, _>>().into()
        }
        ("NULL", _) => Value::Null,
        (_, inner) => inner.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::arrival::event::Event;
    use shared::base::time::Timestamp;

    #[test]
    fn a_row_is_read_as_the_ledger_writes_it() {
        let now = Timestamp::from_secs(1);
        let row = Row::admitted(&Event::malformed("m", "", now), now);
        let mut item = json!({"pk": {"S": row.id}, "sk": {"S": "event"}});
        for (name, value) in json!(row).as_object().expect("an object") {
            item[name] = attribute(value);
        }
        item["effects"] = json!({"S": r#"{"crm": ["d", 1, "mwj18yo0", 0, {"percent": 25.0}]}"#});
        let read = super::row(&item).expect("a row");
        assert_eq!(read.results()["crm"].to_string(), r#"{"percent":25.0}"#);
        assert_eq!(Row { effects: Default::default(), ..read }, row);
    }

    fn attribute(value: &Value) -> Value {
        match value {
            Value::Number(number) => json!({"N": number.to_string()}),
            Value::Array(items) => json!({"L": items.iter().map(attribute).collect::<Vec<_>>()}),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), attribute(value)));
                json!({"M": fields.collect::<Map<_, _>>()})
            }
            other => json!({"S": other}),
        }
    }

    #[test]
    fn a_dynamodb_value_is_read_as_plain_json() {
        let item = json!({"M": {"a": {"N": "1.5"}, "b": {"L": [{"S": "x"}, {"NULL": true}]}, "c": {"BOOL": false}}});
        assert_eq!(plain(&item), json!({"a": 1.5, "b": ["x", null], "c": false}));
    }
}
