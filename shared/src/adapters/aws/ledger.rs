//! The ledger on DynamoDB: one item for each event, one conditional write for each transition.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::{
    Put, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure, TransactWriteItem, Update,
};
use serde_dynamo::aws_sdk_dynamodb_1::to_attribute_value;

use crate::arrival::event::Event;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::format::FORMAT;
use crate::base::id::EventId;
use crate::base::retention::QUEUE_RETENTION;
use crate::base::time::Timestamp;
use crate::ledger::{
    Admission, Admissions, Claim, Claims, Closed, Lease, ListOrder, Listed, NotClaimed, PassedOver, Records, Row, Rows,
    SHARDS, ShardPage, read_list,
};

use super::ledger_items::{
    Item, ListedItem, OLDER, PAYLOAD, ROW, attributes_of, from_json, is_newer, item, json, key, listed_item,
    older_item, payload_item, readable, row_from, row_of, unreadable,
};
use super::{number, refused_update, text, unavailable};

pub(super) const PORT: &str = "the ledger";

/// The event is new, or its row is forgotten and nobody wants to see it any more: it is settled and its life is over, or
/// it was never claimed and the queue has lost its message. A row of a newer version is that version's to forget.
///
/// [`Row::forgotten`] says when the key is free. Where the row is then still kept for people, this write is refused, and
/// [`DynamoLedger::admit_anew`] puts the row aside.
const ADMISSIBLE: &str = "attribute_not_exists(pk) \
    OR ((attribute_not_exists(#format) OR #format <= :format) \
        AND ((#state IN (:succeeded, :noop, :dropped) AND #expires_at < :now) \
            OR (#state = :queued AND #epoch = :zero AND #queued_at < :lost AND attribute_not_exists(#generation))))";

/// No newer version of the code has written the row: this one would drop what it does not know.
const NOT_NEWER: &str = "(attribute_not_exists(#format) OR #format <= :format)";

/// No worker holds the event, and its time has come. [`Row::claimable`] says the same.
const CLAIMABLE: &str = "(#state = :queued \
    OR (#state = :retrying AND #retry_at <= :now) \
    OR (#state = :running AND #lease_until < :now))";

/// The message is of the row's replay. With [`SAME_PAYLOAD`], [`Row::stands_for`] says the same.
const SAME_REPLAY: &str = "#replay = :replay";

/// The message is of the row's wake. A row that was never woken has no number.
const SAME_WAKE: &str = "#wake = :wake";
const NEVER_WOKEN: &str = "attribute_not_exists(#wake)";
/// The event was never replayed: its row has no number then. A claim of the version before numbered formats wants one,
/// so that it cannot win a row which it could not read.
const NO_REPLAY: &str = "(attribute_not_exists(#replay) OR #replay = :replay)";

/// The message has the payload that the row stands for: that of the first claim, or that of a replay's plan.
/// [`Row::takes_payload`] says the same.
const SAME_PAYLOAD: &str = "#fingerprint = :fingerprint";

/// The same of a first message: while nothing was done with any payload yet, the row stands for any.
const FIRST_OR_SAME_PAYLOAD: &str = "(#epoch = :zero OR #fingerprint = :fingerprint)";

/// The changes of a claim. [`Lease::won`] says the same.
const CLAIM: &str = "SET #state = :running, #epoch = #epoch + :one, #step = :zero, #lease_until = :until, #holder = :holder, \
    #history = list_append(#history, :moment), #format = :format";

/// The claim's payload is the row's.
const FIX_PAYLOAD: &str = ", #fingerprint = :fingerprint";

/// The intents to call the first effects, unless the ledger knows of an effect already.
const INTEND: &str = ", #effects = if_not_exists(#effects, :first)";

/// What waits for a claim is over.
const UNLIST: &str = " REMOVE #retry_at, #parked, #parked_at";

/// The writer still holds the event, and no later write of its own has landed. Equality lets the
/// SDK's repetition of a write through whose first try did land.
const HELD: &str = "#epoch = :epoch AND #step <= :step";

/// No other writer has written the row since it was read. A later event of the same key runs through the same numbers: it
/// was queued at another moment.
const UNCHANGED: &str = "(#epoch = :seen_epoch AND #step = :seen_step AND #queued_at = :seen_queued_at)";

/// A shard of a list, and the part of it that is listed from one moment to another. The index is named after the parked
/// events, which it was made for: a rename would be two changes of indexes, and CloudFormation makes one an update.
const OF_SHARD: &str = "parked = :shard";
const OF_SHARD_WITHIN: &str = "parked = :shard AND parked_at BETWEEN :since AND :until";
const LISTS: &str = "parked";

/// The rows of earlier events of a key, which people may still want to see.
const OLDER_ROWS: &str = "pk = :id AND begins_with(sk, :older)";

/// The most older rows that are read: an operator looks at them.
const MAX_OLDER: i32 = 20;

/// The row was never written.
const ABSENT: &str = "attribute_not_exists(pk)";

/// This very write has landed: the SDK repeats one whose answer was late. The history has the operator, the time and
/// the reason, so that two operators still exclude each other.
const LANDED: &str = "(#epoch = :epoch AND #step = :step AND #history = :history)";

/// The most flows that DynamoDB leaves out. The rows of others are passed over when they are here.
const MAX_FLOWS_LEFT_OUT: usize = 100;

/// The row's attributes that a transition may remove.
const REMOVABLE: [&str; 18] = [
    "lease_until",
    "holder",
    "retry_at",
    "effects",
    "enrich",
    "safe",
    "with_new",
    "ask",
    "noop",
    "death",
    "replay",
    "key_until",
    "flow_unknown_since",
    "wake",
    "wait",
    "place",
    "parked",
    "parked_at",
];

/// The ledger's table.
#[derive(Clone, Debug)]
pub struct DynamoLedger {
    client: Client,
    table: String,
}

impl DynamoLedger {
    /// The ledger in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: Client::new(aws), table: table.into() }
    }

    async fn update(&self, row: &Row, condition: &str, values: Item) -> Result<(), WriteError> {
        let (change, condition) = (Change::of(row, values)?, unless_newer(condition));
        self.client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(&row.id, ROW)))
            .set_expression_attribute_names(Some(names(&[&change.expression, &condition])))
            .set_expression_attribute_values(Some(change.values))
            .update_expression(change.expression)
            .condition_expression(condition)
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .send()
            .await
            .map_err(fenced)?;
        Ok(())
    }

    /// The write of a lease's progress, as one part of a transaction.
    pub(super) fn recording(&self, lease: &Lease) -> Result<Update, Unavailable> {
        self.updating(lease.row(), HELD, Item::new())
    }

    /// The write of a row, as one part of a transaction.
    fn updating(&self, row: &Row, condition: &str, values: Item) -> Result<Update, Unavailable> {
        let (change, condition) = (Change::of(row, values)?, unless_newer(condition));
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(key(&row.id, ROW)))
            .set_expression_attribute_names(Some(names(&[&change.expression, &condition])))
            .set_expression_attribute_values(Some(change.values))
            .update_expression(change.expression)
            .condition_expression(condition)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        update.build().map_err(unbuilt)
    }

    /// A put into the ledger's table, as one part of a transaction.
    pub(super) fn put(&self, put: PutBuilder) -> Result<TransactWriteItem, Unavailable> {
        let put = put.table_name(&self.table).build().map_err(unbuilt)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Admits an event whose key is free again, while people may still want to see the row of the event before it: that
    /// row goes under a sort key of its own, in the same transaction. `None` says that the row has changed meanwhile.
    ///
    /// It costs four write units for rows of up to 1 KB, and the refused write before it. Only an event that comes again
    /// between its `ttl` and its `keep` pays for it.
    async fn admit_anew(
        &self,
        seen: &Row,
        next: &Row,
        payload: Option<TransactWriteItem>,
    ) -> Result<Option<()>, Unavailable> {
        let condition = unless_newer(UNCHANGED);
        let values = seen_values(seen).into_iter().chain([(":format".to_owned(), number(FORMAT))]).collect();
        let admission = Put::builder()
            .condition_expression(&condition)
            .set_expression_attribute_names(Some(names(&[&condition])))
            .set_expression_attribute_values(Some(values));
        let admission = self.put(admission.set_item(Some(item(&seen.followed_by(next))?)))?;
        let older = self.put(Put::builder().set_item(Some(older_item(seen)?)))?;
        let written = self.client.transact_write_items().transact_items(admission).transact_items(older);
        let written = payload.into_iter().fold(written, |written, payload| written.transact_items(payload));
        match written.send().await {
            Ok(_) => Ok(Some(())),
            Err(error) if refused_row(&error).is_some() => Ok(None),
            Err(error) => Err(unavailable(PORT)(error)),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    async fn get(&self, id: &EventId, sort: &str) -> Result<Option<Item>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).set_key(Some(key(id, sort))).consistent_read(true);
        Ok(get.send().await.map_err(unavailable(PORT))?.item)
    }

    /// The oldest rows of these shards that are listed from one moment to another.
    pub(super) async fn within(
        &self,
        lists: &[&str],
        passed: &PassedOver,
        since: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        // DynamoDB rejects a BETWEEN whose end is before its start.
        if since > until {
            return Ok(Listed::default());
        }
        let within = |query: QueryFluentBuilder| {
            let query = query.key_condition_expression(OF_SHARD_WITHIN);
            let query = query.expression_attribute_values(":since", number(since.millis()));
            leaving_out(query.expression_attribute_values(":until", number(until.millis())), &passed.flows)
        };
        self.shards(lists, passed, ListOrder::OldestFirst, within, limit).await
    }

    /// The write of a lease's end, as one part of a transaction.
    pub(super) fn closing(&self, closed: &Closed) -> Result<Update, Unavailable> {
        self.updating(closed.row(), HELD, Item::new())
    }

    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// The oldest rows of these shards, or the newest, in that order.
    async fn shards(
        &self,
        lists: &[&str],
        passed: &PassedOver,
        order: ListOrder,
        ask: impl Fn(QueryFluentBuilder) -> QueryFluentBuilder,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        let page_of = |shard: &str, from: Option<Item>, size: usize| {
            let query = self.client.query().table_name(&self.table).index_name(LISTS);
            let query = query.limit(i32::try_from(size).unwrap_or(i32::MAX));
            let query = query.scan_index_forward(order == ListOrder::OldestFirst);
            let query = ask(query.expression_attribute_values(":shard", text(shard)).set_exclusive_start_key(from));
            async move {
                let page = query.send().await.map_err(unavailable(PORT))?;
                Ok(page_of_items(page.items.unwrap_or_default(), page.last_evaluated_key))
            }
        };
        read_list(lists, order, passed, limit, page_of).await
    }
}

fn page_of_items(items: Vec<Item>, next: Option<Item>) -> ShardPage<Item> {
    let mut page = ShardPage { rows: Vec::new(), unreadable: Vec::new(), has_newer: false, next };
    for item in items {
        match listed_item(item) {
            ListedItem::Row(row) => page.rows.push(*row),
            ListedItem::Unreadable(id) => page.unreadable.push(id),
            ListedItem::Newer => page.has_newer = true,
        }
    }
    page
}

/// The query without the rows of these flows.
fn leaving_out(query: QueryFluentBuilder, flows: &BTreeSet<String>) -> QueryFluentBuilder {
    let flows = flows.iter().take(MAX_FLOWS_LEFT_OUT).enumerate();
    let others: Vec<String> = flows.clone().map(|(number, _)| format!("#flow <> :flow{number}")).collect();
    if others.is_empty() {
        return query;
    }
    let query = query.filter_expression(others.join(" AND ")).expression_attribute_names("#flow", "flow");
    flows.fold(query, |query, (number, flow)| query.expression_attribute_values(format!(":flow{number}"), text(flow)))
}

#[async_trait]
impl Admissions for DynamoLedger {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item(row)?))
            .condition_expression(ADMISSIBLE)
            .set_expression_attribute_names(Some(names(&[ADMISSIBLE])))
            .set_expression_attribute_values(Some(admission_values(now)))
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        match put.send().await {
            Ok(_) => Ok(Admission::New),
            Err(error) => {
                let found = row_of(refused_put(&error).ok_or_else(|| unavailable(PORT)(error))?)?;
                if !found.forgotten(now) {
                    return Ok(Admission::Duplicate(Box::new(found)));
                }
                let admitted = self.admit_anew(&found, row, None).await?;
                admitted.map(|()| Admission::New).ok_or_else(changed_meanwhile)
            }
        }
    }

    /// The SDK sends its repetitions under one token, so that a write whose first try did land counts as new.
    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        let admission = Put::builder()
            .condition_expression(ADMISSIBLE)
            .set_expression_attribute_names(Some(names(&[ADMISSIBLE])))
            .set_expression_attribute_values(Some(admission_values(now)))
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        let admission = self.put(admission.set_item(Some(item(row)?)))?;
        let payload = self.put(Put::builder().set_item(Some(payload_item(event, row.expires_at)?)))?;
        let written = self.client.transact_write_items().transact_items(admission).transact_items(payload.clone());
        match written.send().await {
            Ok(_) => Ok(true),
            Err(error) => {
                let found = row_of(refused_row(&error).ok_or_else(|| unavailable(PORT)(error))?)?;
                if !found.forgotten(now) {
                    return Ok(false);
                }
                self.admit_anew(&found, row, Some(payload)).await?.map(|()| true).ok_or_else(changed_meanwhile)
            }
        }
    }
}

#[async_trait]
impl Claims for DynamoLedger {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        let (change, condition) = (claim_change(claim), claim_condition(claim));
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(id, ROW)))
            .set_expression_attribute_names(Some(names(&[&change, &condition])))
            .update_expression(change)
            .condition_expression(condition)
            .set_expression_attribute_values(Some(claim_values(claim)?))
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        match update.send().await {
            Ok(updated) => Ok(Ok(Lease::won(row_of(updated.attributes.unwrap_or_default())?, claim))),
            Err(error) => match refused_update(&error) {
                Some(Some(row)) if is_newer(&row) => Ok(Err(NotClaimed::NewerFormat)),
                Some(Some(row)) => {
                    let row = row_of(row)?;
                    // The client repeats a claim whose answer was late.
                    if row.is_held_by(claim) {
                        Ok(Ok(Lease::recognised(row, claim)))
                    } else {
                        Ok(Err(row.not_claimed(claim)))
                    }
                }
                Some(None) => Ok(Err(NotClaimed::NoRow)),
                None => Err(unavailable(PORT)(error)),
            },
        }
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.update(lease.row(), HELD, Item::new()).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.update(closed.row(), HELD, Item::new()).await
    }
}

#[async_trait]
impl Rows for DynamoLedger {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        self.get(id, ROW).await?.map(row_of).transpose()
    }

    async fn row_from(&self, source: &str, id: &EventId) -> Result<Option<Row>, Unavailable> {
        row_from(&self.client, &self.table, source, id).await
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression(OLDER_ROWS)
            .expression_attribute_values(":id", text(id.as_str()))
            .expression_attribute_values(":older", text(OLDER))
            .scan_index_forward(false)
            .limit(MAX_OLDER);
        let found = query.send().await.map_err(unavailable(PORT))?.items.unwrap_or_default();
        Ok(found.into_iter().filter_map(readable).collect())
    }
}

#[async_trait]
impl Records for DynamoLedger {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        let of_shard = |query: QueryFluentBuilder| query.key_condition_expression(OF_SHARD);
        Ok(self.shards(&SHARDS, &PassedOver::default(), ListOrder::NewestFirst, of_shard, limit).await?.rows)
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        Ok(self.within(&SHARDS, &PassedOver::default(), since, until, limit).await?.rows)
    }

    /// The SDK sends its repetitions under one token, so that a write whose first try did land counts as done.
    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        let (condition, values) = unchanged_since(seen);
        let row = TransactWriteItem::builder().update(self.updating(next, &condition, values)?).build();
        let payload = self.put(Put::builder().set_item(Some(payload_item(event, next.expires_at)?)))?;
        let written = self.client.transact_write_items().transact_items(row).transact_items(payload).send().await;
        written.map(drop).map_err(cancelled)
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        let put = self.client.put_item().table_name(&self.table).set_item(Some(payload_item(event, expires_at)?));
        put.send().await.map_err(unavailable(PORT))?;
        Ok(())
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        let found = self.get(id, PAYLOAD).await?;
        found.map(|item| from_json(item.get("event"))).transpose()
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        let condition = format!("{SAME_REPLAY} AND {}", same_wake(event.wake));
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(key(&event.id, PAYLOAD)))
            .condition_expression(&condition)
            .set_expression_attribute_names(Some(names(&[&condition])))
            .set_expression_attribute_values(Some(numbers_of(event)));
        match delete.send().await {
            Err(error) if !is_refused_delete(&error) => Err(unavailable(PORT)(error)),
            _ => Ok(()),
        }
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        let (condition, values) = unchanged_since(seen);
        self.update(next, &condition, values).await
    }
}

/// The condition that the row has not changed since it was read, with the values that the condition names.
fn unchanged_since(seen: Option<&Row>) -> (String, Item) {
    let Some(seen) = seen else { return (format!("({ABSENT} OR {LANDED})"), Item::new()) };
    (format!("({UNCHANGED} OR {LANDED})"), seen_values(seen))
}

/// The values that [`UNCHANGED`] names.
fn seen_values(seen: &Row) -> Item {
    Item::from([
        (":seen_epoch".into(), number(seen.epoch)),
        (":seen_step".into(), number(seen.step)),
        (":seen_queued_at".into(), number(seen.queued_at.millis())),
    ])
}

/// A condition on a row, and that no newer version has written it.
fn unless_newer(condition: &str) -> String {
    format!("{condition} AND {NOT_NEWER}")
}

/// A whole row as an update: its attributes are set, and those that it lacks are removed.
struct Change {
    expression: String,
    values: Item,
}

impl Change {
    /// The update of a row, with the values that the condition names.
    fn of(row: &Row, more: Item) -> Result<Self, Unavailable> {
        let mut attributes = attributes_of(row)?;
        attributes.remove("id");
        let removed: Vec<&str> = REMOVABLE.into_iter().filter(|name| !attributes.contains_key(*name)).collect();
        let expression = set_and_remove(attributes.keys(), &removed);
        let values = attributes.into_iter().map(|(name, value)| (format!(":{name}"), value)).chain(more).collect();
        Ok(Change { expression, values })
    }
}

/// The values that [`ADMISSIBLE`] names.
fn admission_values(now: Timestamp) -> Item {
    HashMap::from([
        (":succeeded".into(), text("succeeded")),
        (":noop".into(), text("noop")),
        (":dropped".into(), text("dropped")),
        (":now".into(), number(now.secs())),
        (":queued".into(), text("queued")),
        (":zero".into(), number(0)),
        (":lost".into(), number((now - QUEUE_RETENTION).millis())),
        (":format".into(), number(FORMAT)),
    ])
}

fn claim_condition(claim: &Claim) -> String {
    let (same_replay, same_payload) = match claim.replay {
        0 => (NO_REPLAY, FIRST_OR_SAME_PAYLOAD),
        _ => (SAME_REPLAY, SAME_PAYLOAD),
    };
    let same_payload = claim.fingerprint.as_ref().map(|_| same_payload);
    let conditions = [CLAIMABLE, same_replay, same_wake(claim.wake), NOT_NEWER].into_iter().chain(same_payload);
    let conditions: Vec<&str> = conditions.collect();
    conditions.join(" AND ")
}

/// The values that [`SAME_REPLAY`] and [`same_wake`] name.
fn numbers_of(event: &Event) -> Item {
    let wake = (event.wake > 0).then(|| (":wake".into(), number(event.wake)));
    [(":replay".into(), number(event.replay))].into_iter().chain(wake).collect()
}

fn same_wake(wake: u32) -> &'static str {
    if wake == 0 { NEVER_WOKEN } else { SAME_WAKE }
}

fn claim_change(claim: &Claim) -> String {
    let fix_payload = if claim.fingerprint.is_some() { FIX_PAYLOAD } else { "" };
    let intend = if claim.first.is_empty() { "" } else { INTEND };
    [CLAIM, fix_payload, intend, UNLIST].concat()
}

fn claim_values(claim: &Claim) -> Result<Item, Unavailable> {
    let mut values = HashMap::from([
        (":queued".into(), text("queued")),
        (":retrying".into(), text("retrying")),
        (":running".into(), text("running")),
        (":now".into(), number(claim.now.millis())),
        (":until".into(), number(claim.lease_until().millis())),
        (":holder".into(), text(&claim.holder)),
        (":one".into(), number(1)),
        (":zero".into(), number(0)),
        (":moment".into(), to_attribute_value([claim.moment()]).map_err(unreadable)?),
        (":replay".into(), number(claim.replay)),
        (":format".into(), number(FORMAT)),
    ]);
    values.extend((claim.wake > 0).then(|| (":wake".into(), number(claim.wake))));
    values.extend(claim.fingerprint.iter().map(|fingerprint| (":fingerprint".into(), text(fingerprint))));
    if !claim.first.is_empty() {
        values.insert(":first".into(), text(&json(&claim.first_intents())?));
    }
    Ok(values)
}

fn set_and_remove<'n>(set: impl Iterator<Item = &'n String>, removed: &[&str]) -> String {
    let set: Vec<String> = set.map(|name| format!("#{name} = :{name}")).collect();
    let removed: Vec<String> = removed.iter().map(|name| format!("#{name}")).collect();
    let remove = if removed.is_empty() { String::new() } else { format!(" REMOVE {}", removed.join(", ")) };
    format!("SET {}{remove}", set.join(", "))
}

/// The names behind the `#placeholders` of some expressions: many plain ones are reserved words.
pub(super) fn names(expressions: &[&str]) -> HashMap<String, String> {
    let words = expressions
        .iter()
        .flat_map(|expression| expression.split(|c: char| !(c == '#' || c == '_' || c.is_alphanumeric())));
    words.filter_map(|word| Some((word.to_owned(), word.strip_prefix('#')?.to_owned()))).collect()
}

/// The stored row, if a put's condition failed.
fn refused_put<R>(error: &SdkError<PutItemError, R>) -> Option<Item> {
    match error.as_service_error()? {
        PutItemError::ConditionalCheckFailedException(failed) => failed.item.clone(),
        _ => None,
    }
}

/// The stored row, empty where there is none, if a transaction was cancelled because of its first part: the condition of
/// the row failed.
pub(super) fn refused_row<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<Item> {
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error.as_service_error()? else {
        return None;
    };
    let row = cancelled.cancellation_reasons().first()?;
    (row.code() == Some("ConditionalCheckFailed")).then(|| row.item.clone().unwrap_or_default())
}

/// The error of a write of this row, whose condition failed.
pub(super) fn refused(found: &Item) -> WriteError {
    if is_newer(found) { WriteError::NewerFormat } else { WriteError::Fenced }
}

fn changed_meanwhile() -> Unavailable {
    Unavailable { port: PORT, why: "the row of this key has changed meanwhile".into() }
}

/// Whether a transaction was cancelled because the table takes no such item, such as one that is too large.
fn is_declined<R>(error: &SdkError<TransactWriteItemsError, R>) -> bool {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return false;
    };
    cancelled.cancellation_reasons().iter().any(|reason| reason.code() == Some("ValidationError"))
}

pub(super) fn is_refused_delete<R>(error: &SdkError<DeleteItemError, R>) -> bool {
    matches!(error.as_service_error(), Some(DeleteItemError::ConditionalCheckFailedException(_)))
}

/// The error of a transaction that changes a row first.
pub(super) fn cancelled<R: std::fmt::Debug + Send + Sync + 'static>(
    error: SdkError<TransactWriteItemsError, R>,
) -> WriteError {
    match refused_row(&error) {
        Some(found) => refused(&found),
        None if is_declined(&error) => {
            WriteError::Unavailable(Unavailable { port: PORT, why: Unavailable::DECLINED.into() })
        }
        None => WriteError::Unavailable(unavailable(PORT)(error)),
    }
}

fn unbuilt(error: BuildError) -> Unavailable {
    Unavailable { port: PORT, why: error.to_string() }
}

fn fenced<R: std::fmt::Debug + Send + Sync + 'static>(error: SdkError<UpdateItemError, R>) -> WriteError {
    match refused_update(&error) {
        Some(found) => refused(&found.unwrap_or_default()),
        None => WriteError::Unavailable(unavailable(PORT)(error)),
    }
}
