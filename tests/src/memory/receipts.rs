//! Receipts under attack: guesses, floods, and questions about somebody else's events.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::flows::Flows;
use shared::ledger::{Row, Rows};
use shared::model::ModelLedger;

use super::http::{EVENT, HttpAnswer, HttpRequest, RECEIPT};
use super::world::{RECEIPTS_TOKEN, World};
use crate::fixtures::{files, lead};

const PATH: &str = "receipts/web-forms";

/// The shipped source with this rate, and another one beside it.
fn world(rate: &str) -> World {
    let mut files = files();
    files[0].text = files[0].text.replace("rate: {limit: 100/s, burst: 200}", &format!("rate: {rate}"));
    files[0].text.push_str("\nrival:\n  scheme: github\n  max_body: 1KiB\n  rate: 9/s\n  type_at: type\n");
    let world = World::with(Flows::parse(&files).expect("good flows"));
    world.secrets.put("receipts/rival", "rival.secret");
    world
}

async fn ask(world: &World, id: &str, token: &str) -> HttpAnswer {
    let request = HttpRequest::of(world, b"").to(RECEIPT, "id", id);
    request.with("authorization", &format!("Bearer {token}")).send(world).await
}

#[tokio::test]
async fn receipts_have_the_rate_of_their_source_and_cost_it_no_event() {
    let world = world("{limit: 2/s, burst: 2}");
    let id = world.post(&lead()).await.expect("a good lead").id;
    for _ in 0..2 {
        let answer = ask(&world, id.as_str(), RECEIPTS_TOKEN).await;
        assert_eq!((answer.status, answer.header("ratelimit-policy")), (200, Some(r#""sender";q=2;w=1"#)));
    }
    let denied = ask(&world, id.as_str(), RECEIPTS_TOKEN).await;
    assert_eq!((denied.status, denied.problem(), denied.header("retry-after")), (429, "too-many", Some("1")));
    assert_eq!(ask(&world, id.as_str(), "rival.secret").await.status, 404, "another sender is not throttled");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(ask(&world, id.as_str(), RECEIPTS_TOKEN).await.status, 200);
}

#[tokio::test]
async fn a_stranger_spends_no_senders_receipts() {
    let world = world("{limit: 1/h, burst: 1}");
    for _ in 0..50 {
        assert_eq!(ask(&world, "0", "web-forms.guess").await.status, 401);
    }
    assert_eq!(world.limits.writes(), 0);
    assert_eq!(ask(&world, "0", RECEIPTS_TOKEN).await.status, 404);
}

/// The limits are a convenience; the token is the gate.
#[tokio::test]
async fn without_the_limits_a_sender_is_answered() {
    let world = world("9/s");
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.limits.down(true);
    assert_eq!(ask(&world, id.as_str(), RECEIPTS_TOKEN).await.status, 200);
}

/// Everything but the trace, which is each request's own.
fn seen(answer: &HttpAnswer) -> (i64, Value, Vec<(String, String)>) {
    let mut body = answer.body.clone();
    body["trace_id"].take();
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| name != "traceresponse");
    (answer.status, body, headers)
}

/// Rows that are never read but for their own source: whoever reads somebody else's takes longer for it than for none.
struct OwnRows(ModelLedger);

#[async_trait]
impl Rows for OwnRows {
    async fn row(&self, _: &EventId) -> Result<Option<Row>, Unavailable> {
        panic!("the intake read a row without saying for whom");
    }

    async fn row_from(&self, source: &str, id: &EventId) -> Result<Option<Row>, Unavailable> {
        self.0.row_from(source, id).await
    }

    async fn older(&self, _: &EventId) -> Result<Vec<Row>, Unavailable> {
        panic!("a receipt is of the newest event alone");
    }
}

#[tokio::test]
async fn somebody_elses_event_and_none_are_one_answer_after_the_same_work() {
    let mut world = world("9/s");
    world.intake.rows = Box::new(OwnRows(world.ledger.clone()));
    let id = world.post(&lead()).await.expect("a good lead").id;
    let foreign = ask(&world, id.as_str(), "rival.secret").await;
    let absent = ask(&world, &"0".repeat(64), "rival.secret").await;
    assert_eq!(foreign.status, 404);
    assert_eq!(seen(&foreign), seen(&absent));
    assert_eq!(ask(&world, id.as_str(), RECEIPTS_TOKEN).await.status, 200);
}

#[tokio::test]
async fn guesses_at_a_source_without_a_token_ask_the_store_once_a_minute() {
    let world = world("9/s");
    world.secrets.remove(PATH);
    for _ in 0..59 {
        assert_eq!(ask(&world, "0", RECEIPTS_TOKEN).await.status, 401);
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(world.secrets.reads(), 1);
    world.secrets.put(PATH, RECEIPTS_TOKEN);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(ask(&world, "0", RECEIPTS_TOKEN).await.status, 404, "its first token is there");
}

#[tokio::test]
async fn a_rotated_token_is_picked_up_at_once_and_guesses_ask_once_a_minute() {
    let world = world("{limit: 100/s, burst: 200}");
    assert_eq!(ask(&world, "0", RECEIPTS_TOKEN).await.status, 404);
    world.secrets.put(PATH, "web-forms.rotated");
    assert_eq!(ask(&world, "0", "web-forms.rotated").await.status, 404);
    assert_eq!(world.secrets.reads(), 2);
    for _ in 0..50 {
        assert_eq!(ask(&world, "0", "web-forms.guess").await.status, 401);
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(world.secrets.reads(), 2);
}

#[tokio::test]
async fn every_answer_is_taken_for_what_it_is_and_asked_for_over_tls() {
    let world = world("{limit: 1/h, burst: 1}");
    let body = lead().to_string();
    let good = || HttpRequest::of(&world, body.as_bytes());
    let answers = [
        good().send(&world).await,
        HttpRequest::of(&world, b"{}").send(&world).await,
        good().with("webhook-signature", "v1,AAAA").send(&world).await,
        good().to(EVENT, "source", "nobody").send(&world).await,
        good().with("content-type", "text/plain").send(&world).await,
        ask(&world, "0", RECEIPTS_TOKEN).await,
        ask(&world, "0", RECEIPTS_TOKEN).await,
        ask(&world, "0", "x").await,
    ];
    let statuses: Vec<i64> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [202, 429, 401, 404, 415, 404, 429, 401]);
    for answer in answers {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        let hsts = answer.header("strict-transport-security").unwrap_or_default();
        assert!(hsts.starts_with("max-age=63072000"), "{answer:?}");
    }
}
