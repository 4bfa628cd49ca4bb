//! The baseline of what is stored and sent: every version reads what each version before it wrote.
//!
//! `tests/formats/format-<n>` holds rows in every state, one that was put aside, a place in a line, a message, a dead
//! letter, a tick, a payload, a switchboard and batches, as the version
//! of that format wrote them. Format 1 is that of the versions before formats had numbers. After [`FORMAT`] was raised,
//! `WRITE_FORMATS=1 cargo nextest run -p tests formats::` writes the folder of the new format; the others never change.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures::executor::block_on;
use serde_json::{Map, Value, json};
use shared::arrival::event::Event;
use shared::base::document::Document as _;
use shared::base::format::FORMAT;
use shared::base::retention::SettledRetention;
use shared::base::time::Timestamp;
use shared::flows::Effect;
use shared::ledger::batch::{Batch, BatchProgress, Batches, Filter};
use shared::ledger::queue::{DeadLetter, DeadLetters as _, Tick};
use shared::ledger::{Claim, Doubt, Lease, Reason, Row, Wait, WaitsFor};
use shared::model::{ModelClock, ModelQueue};
use shared::operate::switchboard::{Board, Subject, Turn};

use crate::fixtures::{ADA, NOW, claim_of, event, lead_routing, plain_flows, root};

const HOUR: Duration = Duration::from_secs(3600);

fn folder(format: u32) -> PathBuf {
    root().join(format!("tests/formats/format-{format}"))
}

fn later(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

fn accepted() -> Event {
    event("evt_baseline")
}

fn effect(id: &str) -> Effect {
    let mut effect = lead_routing().effects[0].clone();
    effect.id = id.into();
    effect
}

fn claimed(first: &[&str]) -> Lease {
    let claim = Claim { holder: "9f86d081884c7d65".into(), ..claim_of(&accepted(), later(120), first) };
    Lease::won(Row::admitted(&accepted(), NOW), &claim)
}

/// A row in each state that a row can be in, with everything that it can hold.
fn rows() -> BTreeMap<&'static str, Row> {
    let retention = SettledRetention { key: HOUR, row: 720 * HOUR };
    let queued = Row::admitted(&accepted(), NOW);
    let running = claimed(&["crm"]).row().clone();
    let mut retrying = claimed(&["crm"]);
    retrying.record_repeatable(&effect("crm"), "answered 503", Doubt::MayHaveHappened, later(400));
    let mut six = claimed(&["crm"]);
    for (number, id) in (0..).zip(["crm", "notify", "email", "invoice", "audit", "score"]) {
        six.intend(&effect(id), later(200 * number));
        six.record_done(&effect(id), json!({"id": format!("c-{number:04}")}), later(200 * number + 150));
    }
    let mut dead = claimed(&["crm"]);
    dead.record_unknown(&effect("crm"), "no answer", Doubt::ResultMissing, later(3000));
    let mut skipped = claimed(&[]);
    skipped.record_enrichment("place", json!({"country": "SE", "latitude": 59.0}), later(130));
    skipped.enter_safe_mode(later(130));
    skipped.skip(&effect("crm"), later(140));
    let noop = skipped.block("consent", json!({"consent_email": false}), retention, later(150)).row().clone();
    let mut asks = claimed(&[]);
    asks.ask("4f2a", later(60_000), later(130));
    let asks = asks.await_approval("asked in Slack", later(500)).row().clone();
    let dead = dead.bury(Reason::UnknownOutcome, Some(&effect("crm")), "no answer", later(3100)).row().clone();
    let parked = dead.clone().park(later(9000));
    let on = WaitsFor::Integration("crm".into());
    let (why, group, since) = ("breaker open".into(), accepted().group, later(700));
    let wait = Wait { on, why, group, since, until: None, woken_at: None };
    let waiting = claimed(&[]).wait(wait, later(700), later(700)).row().clone();
    BTreeMap::from([
        ("queued", queued),
        ("running", running),
        ("retrying", retrying.retry(Duration::from_secs(2), later(500)).row().clone()),
        ("succeeded", six.succeed(retention, later(1300)).row().clone()),
        ("noop", noop),
        ("awaiting-approval", asks.clone()),
        ("approved", asks.approved("4f2a", ADA, later(20_000)).expect("it is asked")),
        ("waiting", waiting.clone()),
        ("woken", waiting.woken(None, later(60_000)).expect("it waits")),
        ("dead", dead),
        ("parked", parked.clone()),
        ("dropped", parked.dropped(ADA, retention, later(10_000)).expect("it is dead")),
    ])
}

fn board() -> Board {
    let turns = [
        (Subject::All, Turn::SafeMode { until: NOW + HOUR }),
        (Subject::Flow("lead-routing".into()), Turn::Pause { until: None }),
        (Subject::Integration("crm".into()), Turn::Pause { until: Some(NOW + HOUR) }),
    ];
    let turn = |board: Board, (subject, turn)| board.changed(&subject, turn, ADA, &plain_flows(), NOW);
    turns.into_iter().try_fold(Board::default(), turn).expect("good turns")
}

fn batches() -> Batches {
    let batch = Batch {
        id: "1a1e3a704a3-7667".into(),
        filter: Filter { flow: Some("lead-routing".into()), reason: Some(Reason::Terminal), ..Filter::default() },
        max: 20,
        per_minute: 5,
        by: ADA.by.into(),
        why: ADA.why.into(),
        started_at: NOW,
        replayed: 3,
        passed: Some(NOW),
        progress: BatchProgress::Stopped,
        stopped_by: Some(ADA.to_string()),
    };
    Batches::default().with(batch)
}

/// A dead letter, as a consumer of its queue gets it.
fn letter() -> Value {
    let row = rows().remove("dead").expect("a dead row");
    let (body, death) = (json!(accepted()).to_string(), row.death.expect("it is dead"));
    let deduplication_id = format!("{}-e{}", row.id, row.epoch);
    let letter = DeadLetter { body, group: accepted().group, deduplication_id, death };
    let queue = ModelQueue::new(ModelClock::at(NOW), HOUR);
    block_on(queue.bury(&letter)).expect("SQS takes it");
    let sent = queue.receive(1).remove(0);
    json!({"group": sent.group, "body": sent.body, "attributes": sent.attributes})
}

/// The files of this version's format.
fn written() -> BTreeMap<String, Value> {
    let mut files: BTreeMap<String, Value> = BTreeMap::new();
    for (name, row) in rows() {
        let mut item = json!(row);
        item["format"] = json!(FORMAT);
        files.insert(format!("row-{name}.json"), item);
    }
    let event = accepted();
    files.insert("message.json".into(), json!(event));
    let kept = json!({"event": json!(event).to_string(), "replay": event.replay, "expires_at": NOW.secs()});
    files.insert("payload.json".into(), kept);
    files.insert("switchboard.json".into(), json!({"version": 3, "format": FORMAT, "text": board().text()}));
    files.insert("dead-letter.json".into(), letter());
    files.insert("tick.json".into(), json!(Tick { batch: "1a1e3a704a3-7667".into() }));
    files.insert("batches.json".into(), json!({"version": 1, "format": FORMAT, "text": batches().text()}));
    files
}

fn read(format: u32, name: &str) -> Value {
    let path = folder(format).join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_baseline_is_what_this_version_writes() {
    if std::env::var_os("WRITE_FORMATS").is_some() {
        std::fs::create_dir_all(folder(FORMAT)).expect("a folder");
        for (name, value) in written() {
            let text = serde_json::to_string_pretty(&value).expect("JSON") + "\n";
            std::fs::write(folder(FORMAT).join(name), text).expect("it is written");
        }
    }
    for (name, value) in written() {
        assert_eq!(read(FORMAT, &name), value, "{name}: what is stored has changed; raise FORMAT, or undo the change");
    }
}

#[test]
fn every_format_is_read_to_the_same_values() {
    for format in 1..=FORMAT {
        // The first format had no waiting events.
        for (name, row) in rows().into_iter().filter(|(_, row)| format > 1 || row.wait.is_none()) {
            let read: Row = serde_json::from_value(read(format, &format!("row-{name}.json"))).expect("a row");
            // The first format knew one end of a row's life, that of its key.
            let (key_until, expires_at) =
                if format == 1 { (None, read.expires_at) } else { (row.key_until, row.expires_at) };
            // In the first format every approval was of all that its flow had.
            let with_new = row.with_new && format > 1;
            // Nor did it say who holds a lease.
            let holder = row.holder.clone().filter(|_| format > 1);
            assert_eq!(read, Row { key_until, expires_at, with_new, holder, ..row }, "format {format}: {name}");
        }
        let expected = if format == 1 { Event { format: 1, effects: None, ..accepted() } } else { accepted() };
        assert_eq!(Event::read(&read(format, "message.json").to_string()), Ok(expected.clone()), "format {format}");
        let kept = read(format, "payload.json")["event"].as_str().map(Event::read);
        assert_eq!(kept, Some(Ok(expected)), "format {format}");
        // The letters of the first format were those of the version that wrote its messages.
        if format > 1 {
            let (letter, tick) = (read(format, "dead-letter.json"), read(format, "tick.json"));
            assert_eq!(Event::read(letter["body"].as_str().expect("a body")), Ok(accepted()), "format {format}");
            let reason: Reason = serde_json::from_value(letter["attributes"]["reason"].clone()).expect("a reason");
            assert_eq!(reason, Reason::UnknownOutcome, "format {format}");
            let tick: Tick = serde_json::from_value(tick).expect("a tick");
            assert_eq!(tick.batch, batches().all()[0].id, "format {format}");
        }
        let text = |name| read(format, name)["text"].as_str().expect("a text").to_owned();
        assert_eq!(Board::read(&text("switchboard.json")), Ok(board()), "format {format}");
        assert_eq!(Batches::read(&text("batches.json")), Ok(batches()), "format {format}");
    }
}

/// The size of an item, by the rules that DynamoDB documents.
fn size(item: &Map<String, Value>) -> usize {
    item.iter().map(|(name, value)| name.len() + size_of(value)).sum()
}

fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(number) => number.to_string().len().div_ceil(2) + 1,
        Value::String(text) => text.len(),
        Value::Array(items) => 3 + items.iter().map(|item| 1 + size_of(item)).sum::<usize>(),
        Value::Object(fields) => 3 + fields.iter().map(|(name, value)| 1 + name.len() + size_of(value)).sum::<usize>(),
    }
}

fn stored_size(format: u32, name: &str) -> usize {
    let mut item = read(format, name).as_object().cloned().expect("an item");
    let id = item.remove("id").expect("an id");
    size(&item) + "pk".len() + id.as_str().expect("a text").len() + "sk".len() + "event".len()
}

#[test]
fn a_row_of_six_effects_costs_one_write_unit() {
    let (before, after) = (stored_size(1, "row-succeeded.json"), stored_size(2, "row-succeeded.json"));
    println!("a succeeded row of six effects: {before} bytes before, {after} now");
    assert!(after < 1024, "{after} bytes");
    assert!(before > 1024, "{before} bytes: format 1 was larger");
}

/// The item of a new event's row, as the version before numbered formats wrote it.
pub(crate) fn item_before_formats(event: &Event, now: Timestamp) -> HashMap<String, AttributeValue> {
    let mut row = json!(Row::admitted(event, now));
    row["replay"] = json!(0);
    row["history"] = json!([{"at": now, "what": "accepted"}]);
    let mut item: HashMap<String, AttributeValue> =
        row.as_object().expect("an object").iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
    let id = item.remove("id").expect("an id");
    item.extend([("pk".into(), id), ("sk".into(), AttributeValue::S("event".into()))]);
    item
}

fn attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Array(items) => AttributeValue::L(items.iter().map(attribute).collect()),
        Value::Object(fields) => {
            AttributeValue::M(fields.iter().map(|(name, value)| (name.clone(), attribute(value))).collect())
        }
        other => AttributeValue::S(other.as_str().unwrap_or_default().to_owned()),
    }
}
