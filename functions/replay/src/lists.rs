//! Lists of parked events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::batch::Filter;
use shared::ledger::{Row, State};
use shared::operate::switchboard::{self, Board};

use crate::operations::Failure;
use crate::{Replay, view, wake};

/// The longest list.
pub(crate) const MAX_LIMIT: usize = Filter::MAX_LISTED as usize;

/// The newest parked events that a filter takes.
pub(crate) async fn list(replay: &Replay, limit: usize, filter: &Filter) -> Result<Value, Failure> {
    let (rows, more) = newest(replay, filter).await?;
    let lines: Vec<Value> = rows.iter().take(limit.clamp(1, MAX_LIMIT)).map(view::line).collect();
    Ok(json!({"parked": lines, "matching": rows.len(), "more": more}))
}

/// The reasons of the parked events, the most frequent first.
pub(crate) async fn reasons(replay: &Replay, filter: &Filter) -> Result<Value, Failure> {
    let (rows, more) = newest(replay, filter).await?;
    let mut reasons: BTreeMap<(&str, &str), (usize, &Row)> = BTreeMap::new();
    for row in &rows {
        let waits = row.wait.as_ref().filter(|_| row.state == State::Waiting).map(|wait| wait.why.as_str());
        let reason = row.death.as_ref().map(|death| death.reason.as_str()).or(waits).unwrap_or(row.state.as_str());
        // Newest first: the first of a kind is its newest.
        reasons.entry((&row.flow, reason)).or_insert((0, row)).0 += 1;
    }
    let mut lines: Vec<Value> = reasons
        .into_iter()
        .map(|((flow, reason), (count, newest))| {
            let error = newest.death.as_ref().map(|death| death.error.as_str());
            let at = newest.listed_at.map(|at| at.to_string());
            json!({"flow": flow, "reason": reason, "count": count, "newest": newest.id, "newest_at": at, "error": error})
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line["count"].as_u64()));
    Ok(json!({"reasons": lines, "matching": rows.len(), "more": more}))
}

/// The waiting events by what they wait for and why, with the first moment at which one is due.
pub(crate) async fn waiting(replay: &Replay, board: &Board) -> Result<Value, Failure> {
    let rows = all_waiting(replay, board).await?;
    let mut counted: BTreeMap<(&str, String, &str), (usize, Option<Timestamp>)> = BTreeMap::new();
    for (row, wait) in rows.iter().filter_map(|row| Some((row, row.wait.as_ref()?))) {
        let (count, until) = counted.entry((&row.flow, wait.on.to_string(), &wait.why)).or_default();
        *count += 1;
        *until = match (*until, wait.until) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    let line = |((flow, on, why), (count, until)): ((&str, String, &str), (usize, Option<Timestamp>))| json!({"flow": flow, "for": on, "why": why, "count": count, "until": until.map(|until| until.to_string())});
    Ok(counted.into_iter().map(line).collect())
}

/// The events that wait, of all lists, as many as a list looks through.
pub(crate) async fn all_waiting(replay: &Replay, board: &Board) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for on in wake::lists(board) {
        rows.extend(wake::waiting(replay, &on, Filter::MAX_SCANNED - rows.len()).await?);
        if rows.len() == Filter::MAX_SCANNED {
            break;
        }
    }
    rows.retain(|row| row.state == State::Waiting);
    Ok(rows)
}

/// The newest parked events, and where these are not all, the oldest, too: a batch takes those first, so an event
/// that it crashed over is among them. Of those between, a part that begins anywhere: the schedule comes to each in time.
pub(crate) async fn both_ends(replay: &Replay) -> Result<Vec<Row>, Failure> {
    let (mut rows, more) = newest(replay, &Filter::default()).await?;
    if more {
        let listed: BTreeSet<EventId> = rows.iter().map(|row| row.id.clone()).collect();
        let (oldest, _) = oldest(replay, &Filter::default()).await?;
        let between = oldest.last().and_then(|row| row.listed_at).zip(rows.last().and_then(|row| row.listed_at));
        let middle = match between {
            Some((since, until)) if since < until => {
                let from = since + until.since(since).mul_f64(replay.chance.unit());
                replay.records.parked_between(from, until, Filter::MAX_SCANNED).await?
            }
            _ => Vec::new(),
        };
        let mut listed = listed;
        rows.extend(oldest.into_iter().chain(middle).filter(|row| listed.insert(row.id.clone())));
    }
    Ok(rows)
}

/// The newest parked events that a filter takes, and whether there may be older ones. A filter for waiting events
/// takes those, the ones that are due first.
pub(crate) async fn newest(replay: &Replay, filter: &Filter) -> Result<(Vec<Row>, bool), Failure> {
    if filter.state == Some(State::Waiting) {
        let (board, _) = switchboard::look(&*replay.boards).await?;
        return Ok(filtered(all_waiting(replay, &board).await?, filter));
    }
    Ok(filtered(replay.records.parked(Filter::MAX_SCANNED).await?, filter))
}

/// The oldest parked events that a filter takes, and whether there may be newer ones.
pub(crate) async fn oldest(replay: &Replay, filter: &Filter) -> Result<(Vec<Row>, bool), Failure> {
    let (began, now) = (Timestamp::from_secs(0), replay.clock.now());
    Ok(filtered(replay.records.parked_between(began, now, Filter::MAX_SCANNED).await?, filter))
}

/// The rows that a filter takes, and whether the scan was cut short.
fn filtered(rows: Vec<Row>, filter: &Filter) -> (Vec<Row>, bool) {
    let more = rows.len() == Filter::MAX_SCANNED;
    (rows.into_iter().filter(|row| filter.takes(row)).collect(), more)
}
