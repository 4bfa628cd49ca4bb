//! Two versions of the code at once: what a newer one wrote in the ledger's table stays as it is. On the emulator alone:
//! an item of a newer version is written by hand.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::adapters::aws::{DynamoDocument, DynamoLedger};
use shared::base::document::DocumentStore as _;
use shared::base::errors::WriteError;
use shared::base::format::FORMAT;
use shared::ledger::batch::Batches;
use shared::ledger::{Admissions as _, Claims as _, NotClaimed, Records as _, Row, Rows as _, State};

use crate::fixtures::{ADA, NOW, aws, claim_of, event};

fn unique(name: &str) -> String {
    format!("{name}-{}", SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos())
}

fn table(name: &str) -> String {
    std::env::var(name).expect("make test names the table")
}

async fn set(client: &Client, table: &str, key: HashMap<String, AttributeValue>, name: &str, value: AttributeValue) {
    let update = client.update_item().table_name(table).set_key(Some(key)).update_expression("SET #n = :v");
    let update = update.expression_attribute_names("#n", name).expression_attribute_values(":v", value);
    update.send().await.expect("the emulator answers");
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.into())
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_row_of_a_newer_version_is_neither_claimed_nor_written() {
    let (config, table) = (aws().await, table("LEDGERLINE_LEDGER_TABLE"));
    let (client, ledger) = (Client::new(&config), DynamoLedger::new(&config, table.clone()));
    let event = event(&unique("newer"));
    let row = Row::admitted(&event, NOW);
    ledger.admit(&row, NOW).await.expect("an answer");
    let mut lease =
        ledger.claim(&event.id, &claim_of(&event, NOW, &[])).await.expect("an answer").expect("a won claim");
    let key = HashMap::from([("pk".to_owned(), text(event.id.as_str())), ("sk".to_owned(), text("event"))]);
    set(&client, &table, key.clone(), "format", AttributeValue::N((FORMAT + 1).to_string())).await;
    set(&client, &table, key.clone(), "of_tomorrow", text("kept")).await;

    let later = NOW + Duration::from_secs(120);
    let refused = ledger.claim(&event.id, &claim_of(&event, later, &[])).await;
    assert_eq!(refused, Ok(Err(NotClaimed::NewerFormat)));
    lease.enter_safe_mode(NOW);
    assert_eq!(ledger.record(&lease).await, Err(WriteError::NewerFormat));
    let seen = ledger.row(&event.id).await.expect("an answer").expect("it is read as far as it is known");
    let parked = seen.clone().park(later);
    assert_eq!(ledger.replace(Some(&seen), &parked).await, Err(WriteError::NewerFormat));
    assert_eq!(ledger.park(Some(&seen), &parked, &event).await, Err(WriteError::NewerFormat));
    let forgotten = NOW + Duration::from_secs(400 * 24 * 3600);
    set(&client, &table, key.clone(), "state", text("succeeded")).await;
    assert!(
        ledger.admit(&Row::admitted(&event, forgotten), forgotten).await.is_err(),
        "it is that version's to forget"
    );
    let found = client.get_item().table_name(&table).set_key(Some(key)).send().await.expect("an answer").item;
    assert_eq!(found.expect("a row")["of_tomorrow"], text("kept"));
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_row_of_the_version_before_goes_on_and_its_history_is_mixed() {
    let (config, table) = (aws().await, table("LEDGERLINE_LEDGER_TABLE"));
    let (client, ledger) = (Client::new(&config), DynamoLedger::new(&config, table.clone()));
    let event = event(&unique("before"));
    let item = crate::formats::item_before_formats(&event, NOW);
    client.put_item().table_name(&table).set_item(Some(item)).send().await.expect("the emulator answers");
    let lease =
        ledger.claim(&event.id, &claim_of(&event, NOW, &["crm"])).await.expect("an answer").expect("a won claim");
    let stored = ledger.row(&event.id).await.expect("an answer").expect("a row");
    assert_eq!(stored.history.iter().map(|moment| moment.what.as_str()).collect::<Vec<_>>(), ["accepted", "claimed"]);
    assert_eq!(stored, *lease.row());
    let dead = lease.bury(shared::ledger::Reason::Terminal, None, "no", NOW);
    ledger.close(&dead).await.expect("a held lease");
    let seen = ledger.row(&event.id).await.expect("an answer").expect("a row");
    let replayed = seen.clone().park(NOW).replayed(ADA, NOW).expect("it may be replayed");
    ledger.replace(Some(&seen), &replayed).await.expect("unchanged");
    let again = shared::arrival::event::Event { replay: 1, ..event.clone() };
    ledger.claim(&event.id, &claim_of(&again, NOW, &[])).await.expect("an answer").expect("a won claim");
    assert_eq!(ledger.row(&event.id).await.expect("an answer").expect("a row").state, State::Running);
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_document_of_a_newer_version_is_not_overwritten() {
    let (config, table) = (aws().await, table("LEDGERLINE_LIMITS_TABLE"));
    let name = unique("batches");
    let documents: DynamoDocument<Batches> = DynamoDocument::named(&config, &table, &name);
    assert_eq!(documents.put(&Batches::default(), 0).await, Ok(1));
    assert_eq!(documents.read().await.expect("an answer").expect("a document").format, FORMAT);
    let key = HashMap::from([("pk".to_owned(), text(&name))]);
    set(&Client::new(&config), &table, key, "format", AttributeValue::N((FORMAT + 1).to_string())).await;
    assert_eq!(documents.put(&Batches::default(), 1).await, Err(WriteError::NewerFormat));
    let stored = documents.read().await.expect("an answer").expect("a document");
    assert_eq!((stored.version, stored.format, stored.to_change().is_err()), (1, FORMAT + 1, true));
}
