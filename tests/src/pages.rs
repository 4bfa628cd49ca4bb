//! Lists in DynamoDB, read page by page: what is passed over hides nothing behind it, and no list is read without an end.
//!
//! The contract suite has short lists. Here the table is a server that answers as DynamoDB documents it: a page is of so
//! many rows as were looked at, and those that the filter leaves out are among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use axum::Router;
use serde_json::{Map, Value, json};
use shared::adapters::aws::DynamoLedger;
use shared::base::id::EventId;
use shared::ledger::{Lines as _, PassedOver, Row, WaitsFor};
use tokio::net::TcpListener;

use crate::fixtures::{NOW, event};

/// A list of which one shard has so many rows: the last is of the flow `quick`, and all before it of the flow `slow`.
#[derive(Clone)]
struct LongList {
    rows: usize,
    any: Row,
    queries: Arc<AtomicUsize>,
}

impl LongList {
    fn of(rows: usize) -> Self {
        LongList { rows, any: Row::admitted(&event("evt_waits"), NOW), queries: Arc::default() }
    }

    /// Serves the list as a table.
    async fn table(&self) -> DynamoLedger {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let list = self.clone();
        let answer = move |body: String| {
            let list = list.clone();
            async move { list.answer(&serde_json::from_str(&body).expect("JSON")) }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        let credentials = SharedCredentialsProvider::new(Credentials::new("id", "secret", None, None, "test"));
        let aws = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-central-1"))
            .credentials_provider(credentials)
            .endpoint_url(endpoint)
            .build();
        DynamoLedger::new(&aws, "ledger")
    }

    fn answer(&self, query: &Value) -> String {
        let values = query["ExpressionAttributeValues"].as_object().expect("values");
        if values[":shard"]["S"] != list().shards()[0].as_str() {
            return json!({"Items": []}).to_string();
        }
        self.queries.fetch_add(1, Ordering::Relaxed);
        let from = query["ExclusiveStartKey"]["row"]["N"].as_str().map_or(0, |row| row.parse().expect("a number"));
        let limit = usize::try_from(query["Limit"].as_u64().expect("a limit")).expect("a small one");
        let end = self.rows.min(from + limit);
        let left_out = |flow: &str| values.iter().any(|(name, value)| name.starts_with(":flow") && value["S"] == flow);
        let items = (from..end).filter(|row| !left_out(self.flow(*row))).map(|row| item(&self.row(row)));
        let mut page = json!({"Items": items.collect::<Vec<_>>()});
        if end < self.rows {
            page["LastEvaluatedKey"] = json!({"row": {"N": end.to_string()}});
        }
        page.to_string()
    }

    fn flow(&self, number: usize) -> &'static str {
        if number + 1 == self.rows { "quick" } else { "slow" }
    }

    fn row(&self, number: usize) -> Row {
        let listed_at = Some(NOW + Duration::from_secs(number as u64));
        Row { id: EventId::named(format!("0{number}")), flow: self.flow(number).into(), listed_at, ..self.any.clone() }
    }

    fn queries(&self) -> usize {
        self.queries.load(Ordering::Relaxed)
    }
}

fn list() -> WaitsFor {
    WaitsFor::Integration("crm".into())
}

/// A row as DynamoDB hands it over.
fn item(row: &Row) -> Value {
    let Value::Object(mut fields) = json!(row) else { panic!("a row is an object") };
    let id = fields.remove("id").expect("an id");
    fields.insert("pk".into(), id);
    json!(fields.iter().map(|(name, value)| (name.clone(), attribute(value))).collect::<Map<_, _>>())
}

fn attribute(value: &Value) -> Value {
    match value {
        Value::Null => json!({"NULL": true}),
        Value::Bool(flag) => json!({"BOOL": flag}),
        Value::Number(number) => json!({"N": number.to_string()}),
        Value::String(text) => json!({"S": text}),
        Value::Array(items) => json!({"L": items.iter().map(attribute).collect::<Vec<_>>()}),
        Value::Object(fields) => {
            json!({"M": fields.iter().map(|(name, value)| (name.clone(), attribute(value))).collect::<Map<_, _>>()})
        }
    }
}

/// The flows that are found on the list behind those of the flow `slow`.
async fn found_behind_the_slow(list_of: &LongList) -> Vec<String> {
    let passed = PassedOver { flows: ["slow".to_owned()].into(), ..PassedOver::default() };
    let until = NOW + Duration::from_secs(1_000_000);
    let listed = list_of.table().await.listed_past(&passed, &list(), until, 10).await.expect("an answer");
    assert!(listed.unreadable.is_empty() && !listed.has_newer);
    listed.rows.into_iter().map(|row| row.flow).collect()
}

#[tokio::test]
async fn a_list_is_read_on_past_what_is_passed_over() {
    let long = LongList::of(20_000);
    assert_eq!(found_behind_the_slow(&long).await, ["quick"]);
    assert!(long.queries() <= 20, "{} queries", long.queries());
}

#[tokio::test]
async fn a_list_is_not_read_without_an_end() {
    let endless = LongList::of(1_000_000);
    assert_eq!(found_behind_the_slow(&endless).await, Vec::<String>::new());
    assert!((20..=50).contains(&endless.queries()), "{} queries", endless.queries());
}
