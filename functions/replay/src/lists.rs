//! Lists of parked events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::Row;
use shared::ledger::batch::Filter;

use crate::operations::Failure;
use crate::{Replay, view};

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
        let reason = row.death.as_ref().map_or(row.state.as_str(), |death| death.reason.as_str());
        // Newest first: the first of a kind is its newest.
        reasons.entry((&row.flow, reason)).or_insert((0, row)).0 += 1;
    }
    let mut lines: Vec<Value> = reasons
        .into_iter()
        .map(|((flow, reason), (count, newest))| {
            let error = newest.death.as_ref().map(|death| death.error.as_str());
            let at = newest.parked_at.map(|at| at.to_string());
            json!({"flow": flow, "reason": reason, "count": count, "newest": newest.id, "newest_at": at, "error": error})
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line["count"].as_u64()));
    Ok(json!({"reasons": lines, "matching": rows.len(), "more": more}))
}

/// The newest parked events, and where these are not all, the oldest, too: a batch takes those first, so an event
/// that it crashed over is among them. Of those between, a part that begins anywhere: the schedule comes to each in time.
pub(crate) async fn both_ends(replay: &Replay) -> Result<Vec<Row>, Failure> {
    let (mut rows, more) = newest(replay, &Filter::default()).await?;
    if more {
        let listed: BTreeSet<EventId> = rows.iter().map(|row| row.id.clone()).collect();
        let (oldest, _) = oldest(replay, &Filter::default()).await?;
        let between = oldest.last().and_then(|row| row.parked_at).zip(rows.last().and_then(|row| row.parked_at));
        let middle = match between {
            Some((since, until)) if since < until => {
                let from = since + until.since(since).mul_f64(replay.chance.unit());
                replay.records.waiting(from, until, Filter::MAX_SCANNED).await?
            }
            _ => Vec::new(),
        };
        let mut listed = listed;
        rows.extend(oldest.into_iter().chain(middle).filter(|row| listed.insert(row.id.clone())));
    }
    Ok(rows)
}

/// The newest parked events that a filter takes, and whether there may be older ones.
pub(crate) async fn newest(replay: &Replay, filter: &Filter) -> Result<(Vec<Row>, bool), Failure> {
    Ok(filtered(replay.records.parked(Filter::MAX_SCANNED).await?, filter))
}

/// The oldest parked events that a filter takes, and whether there may be newer ones.
pub(crate) async fn oldest(replay: &Replay, filter: &Filter) -> Result<(Vec<Row>, bool), Failure> {
    let (began, now) = (Timestamp::from_secs(0), replay.clock.now());
    Ok(filtered(replay.records.waiting(began, now, Filter::MAX_SCANNED).await?, filter))
}

/// The rows that a filter takes, and whether the scan was cut short.
fn filtered(rows: Vec<Row>, filter: &Filter) -> (Vec<Row>, bool) {
    let more = rows.len() == Filter::MAX_SCANNED;
    (rows.into_iter().filter(|row| filter.takes(row)).collect(), more)
}
