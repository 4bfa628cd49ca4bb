//! The switchboard's contract.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures::future::join_all;
use serde_json::json;
use shared::adapters::aws::DynamoDocument;
use shared::base::document::{Document as _, DocumentStore, Stored};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::format::FORMAT;
use shared::ledger::SignOff;
use shared::model::ModelDocument;
use shared::operate::switchboard::{self, Board, BoardProblem, Subject, Switchboard, Turn};

use super::on_model_and_emulator;
use crate::fixtures::{ADA, NOW, aws, flows, lead_routing};

fn model() -> ModelDocument<Board> {
    ModelDocument::default()
}

/// A board that no other test and no earlier run knows.
async fn emulator() -> DynamoDocument<Board> {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    DynamoDocument::named(&aws().await, table, format!("switchboard-{unique}"))
}

on_model_and_emulator!(
    what_was_put_is_read_with_its_version,
    a_version_that_moved_on_is_not_replaced,
    a_repeated_write_is_harmless,
    of_many_at_once_one_is_written,
    of_many_who_turn_at_once_each_is_remembered_once,
    a_change_is_in_force_within_seconds_and_can_be_taken_back,
);

fn attempts(attempts: u32) -> Board {
    let change = json!({"max_attempts": attempts}).as_object().cloned().unwrap_or_default();
    let subject = Subject::Flow("lead-routing".into());
    Board::default().changed(&subject, Turn::Retry(change), ADA, &flows(), NOW).expect("a good override")
}

async fn what_was_put_is_read_with_its_version(boards: impl DocumentStore<Board>) {
    assert_eq!(boards.read().await, Ok(None));
    for version in 1..=3 {
        let board = attempts(version);
        assert_eq!(boards.put(&board, u64::from(version) - 1).await, Ok(u64::from(version)));
        assert_eq!(
            boards.read().await,
            Ok(Some(Stored { version: version.into(), format: FORMAT, text: board.text() }))
        );
    }
}

async fn a_version_that_moved_on_is_not_replaced(boards: impl DocumentStore<Board>) {
    assert_eq!(boards.put(&attempts(5), 1).await, Err(WriteError::Fenced), "there is none yet");
    boards.put(&attempts(5), 0).await.expect("the first");
    boards.put(&attempts(6), 1).await.expect("the second");
    assert_eq!(boards.put(&attempts(7), 0).await, Err(WriteError::Fenced));
    assert_eq!(boards.put(&attempts(7), 1).await, Err(WriteError::Fenced));
    assert_eq!(boards.read().await.expect("an answer").map(|stored| stored.version), Some(2));
}

async fn a_repeated_write_is_harmless(boards: impl DocumentStore<Board>) {
    for seen in [0, 0, 1, 1] {
        assert_eq!(boards.put(&attempts(5), seen).await, Ok(seen + 1));
    }
}

async fn of_many_at_once_one_is_written(boards: impl DocumentStore<Board>) {
    let changes: Vec<Board> = (1..=20).map(attempts).collect();
    let written = join_all(changes.iter().map(|change| boards.put(change, 0))).await;
    assert_eq!(written.iter().filter(|written| **written == Ok(1)).count(), 1);
    assert!(written.iter().all(|written| matches!(written, Ok(1) | Err(WriteError::Fenced))));
}

async fn of_many_who_turn_at_once_each_is_remembered_once(boards: impl DocumentStore<Board>) {
    let (flows, turns) = (flows(), [(Subject::All, Turn::Resume)]);
    let people = ["ada", "bob", "cleo", "dan", "eve"];
    let turn = |by| switchboard::turn(&boards, &turns, SignOff { by, ..ADA }, &flows, NOW);
    let turned = join_all(people.map(turn)).await;
    assert!(turned.iter().all(Result::is_ok), "{turned:?}");
    let (board, version) = switchboard::read(&boards).await.expect("the board");
    let mut by: Vec<&str> = board.turned().iter().map(|turned| turned.by.as_str()).collect();
    by.sort_unstable();
    assert_eq!((version, by), (5, people.to_vec()));
}

async fn a_change_is_in_force_within_seconds_and_can_be_taken_back<B>(boards: B)
where
    B: DocumentStore<Board> + Clone + 'static,
{
    let (switchboard, flow) = (Switchboard::new(Box::new(boards.clone())), lead_routing());
    let in_force = async |secs| {
        let (board, _) = switchboard.at(&flows(), NOW + Duration::from_secs(secs)).await;
        board.policy(&flow).max_attempts
    };
    assert_eq!(in_force(0).await, flow.retry.max_attempts);
    boards.put(&attempts(7), 0).await.expect("an answer");
    assert_eq!(in_force(4).await, flow.retry.max_attempts);
    assert_eq!(in_force(5).await, 7);
    boards.put(&Board::default(), 1).await.expect("an answer");
    assert_eq!(in_force(10).await, flow.retry.max_attempts);
}

#[tokio::test]
async fn a_crowd_asks_the_store_once_a_period() {
    let boards = model();
    boards.put(&attempts(7), 0).await.expect("an answer");
    let switchboard = Switchboard::new(Box::new(boards.clone()));
    let (flows, flow) = (flows(), lead_routing());
    let crowd = join_all((0..50).map(|_| switchboard.at(&flows, NOW))).await;
    assert!(crowd.iter().all(|(board, _)| board.policy(&flow).max_attempts == 7), "nobody goes by less");
    assert_eq!(boards.reads(), 1);
}

#[tokio::test]
async fn a_scribble_or_an_outage_keeps_the_last_good_board() {
    let boards = model();
    boards.put(&attempts(7), 0).await.expect("an answer");
    let (switchboard, flow) = (Switchboard::new(Box::new(boards.clone())), lead_routing());
    let at = |secs| NOW + Duration::from_secs(secs);
    assert_eq!(switchboard.at(&flows(), at(0)).await.1, []);
    boards.scribble(2, "max_attempts = 99");
    let (kept, problems) = switchboard.at(&flows(), at(5)).await;
    assert!(matches!(problems[..], [BoardProblem::Bad { version: 2, .. }]), "{problems:?}");
    assert_eq!(kept.policy(&flow).max_attempts, 7);
    boards.down(true);
    let (kept, problems) = switchboard.at(&flows(), at(10)).await;
    assert!(matches!(problems[..], [BoardProblem::Unavailable(_)]), "{problems:?}");
    assert_eq!(kept.policy(&flow).max_attempts, 7);
}

/// A store whose first write lands and is overtaken before the SDK repeats it, so that it is told as lost.
struct Overtaken(ModelDocument<Board>);

#[async_trait]
impl DocumentStore<Board> for Overtaken {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        let written = self.0.put(board, seen).await?;
        if seen > 0 {
            return Ok(written);
        }
        let turns = [(Subject::All, Turn::Resume)];
        let bob = SignOff { by: "bob", why: "it has moved" };
        switchboard::turn(&self.0, &turns, bob, &flows(), NOW).await.expect("bob is not overtaken");
        Err(WriteError::Fenced)
    }
}

#[tokio::test]
async fn a_turn_that_lands_and_is_told_as_lost_is_remembered_once_and_as_the_last() {
    let boards = Overtaken(model());
    let turns = [(Subject::All, Turn::Pause { until: None })];
    let (board, version) = switchboard::turn(&boards, &turns, ADA, &flows(), NOW).await.expect("it is turned");
    let turned: Vec<(&str, &str)> = board.turned().iter().map(|turned| (&*turned.by, &*turned.what)).collect();
    assert_eq!((version, turned), (3, vec![("ada", "paused"), ("bob", "resumed")]));
    assert!(board.paused_flow("lead-routing", NOW).is_some(), "as the newest turn says");
}
