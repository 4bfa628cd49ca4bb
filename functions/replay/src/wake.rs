//! Wakes: events that wait go through the queue again when they can go on.
//!
//! Each event waits on the list of what it waits for, so that a tick reads only events that can go. It wakes the earliest
//! first, no more to a partner than the partner's rate lets through beside new traffic, and none while the queue is long.
//! A row is written before its message is sent, and stays listed until a worker claims it: a crash between the two is
//! found again, and the same wake is sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::time::Timestamp;
use shared::ledger::{Row, SignOff, WaitsFor, pause_after};
use shared::limits::pressure::PartnerHealth;
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::switchboard::{self, Board, change_waits};
use tracing::{info, warn};

use crate::Replay;
use crate::operations::{Failure, decline};

/// The most events that one tick wakes.
const MAX_WAKES: usize = 3000;

/// The time that one tick takes at most: it ends well within an invocation.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The number of events on the queue above which none is woken: they would only wait there.
const MAX_QUEUED: usize = 5000;

/// The number of events that are woken side by side, and sent together.
const SIDE_BY_SIDE: usize = 10;

/// The share of a partner's rate that wakes may use. The rest is for new events.
const SHARE: f64 = 0.8;

/// The time between two ticks: the template's number.
const TICK: Duration = Duration::from_secs(60);

/// The number of events of a list that cannot go yet, of which those are woken that are too old: they are told so in time.
const LOOKED_AT: usize = 25;

/// The number of events among which those are chosen that are woken to see whether a partner is back.
const PROBED_AMONG: usize = 200;

/// Later than every moment of a list.
const ALL: Duration = Duration::from_secs(400 * 24 * 3600);

/// One tick at work.
struct WakeTick<'t> {
    replay: &'t Replay,
    board: Board,
    began: Timestamp,
    /// The wakes that are left to each partner with a rate.
    left: BTreeMap<String, u32>,
    /// The flows of which events were seen to wait.
    seen: BTreeSet<String>,
    /// How long ago the first of those that should go on should have.
    overdue: Duration,
}

/// How many events of a list may go.
enum Free {
    /// As many as the partners bear.
    All,
    /// So many, to see whether the partner is back.
    Some(usize),
    /// None but those that are too old.
    None,
}

/// The work of the schedule of wakes.
pub(crate) async fn run_wakes(replay: &Replay, unit: &WorkUnit<'_>) -> Result<Value, Failure> {
    let woken = wake_all(replay, unit).await?;
    unit.count(&Fact::WakeRan);
    Ok(woken)
}

/// Wakes what can go on. Where no flow has a mark nothing waits, and this one read is all.
pub(crate) async fn wake_all(replay: &Replay, unit: &WorkUnit<'_>) -> Result<Value, Failure> {
    let (board, _) = switchboard::read(&*replay.boards).await?;
    if board.waits().is_empty() {
        unit.count(&Fact::Overdue(Duration::ZERO));
        return Ok(json!({"woken": 0}));
    }
    let began = replay.clock.now();
    let mut tick =
        WakeTick { replay, board, began, left: BTreeMap::new(), seen: BTreeSet::new(), overdue: Duration::ZERO };
    let lists = lists(&tick.board);
    let crowded = replay.depths.depth().await?.queued > MAX_QUEUED;
    let (mut woken, mut lists_left) = (0, lists.len());
    for on in &lists {
        // What one list does not use is for those behind it.
        let share = if crowded { 0 } else { (MAX_WAKES - woken.min(MAX_WAKES)) / lists_left };
        woken += tick.wake_list(on, share).await?;
        lists_left -= 1;
    }
    unit.count(&Fact::Overdue(tick.overdue));
    tick.see_to_marks().await?;
    if woken > 0 {
        unit.count(&Fact::Woken(woken as u64));
        info!(woken, "waiting events were woken");
    }
    Ok(json!({"woken": woken, "crowded": crowded}))
}

/// Wakes one event now, whatever it waits for. If it still cannot go on, it waits again.
pub(crate) async fn wake_one(replay: &Replay, row: &Row, sign_off: SignOff<'_>) -> Result<Row, Failure> {
    let now = replay.clock.now();
    let next = row.clone().woken(Some(sign_off), now)?;
    replay.records.replace(Some(row), &next).await?;
    let kept = replay.records.kept(&row.id).await?;
    let kept = kept.ok_or_else(|| decline(format!("{} has changed meanwhile: look again", row.id)))?;
    replay.queue.send(&kept.again(next.replay, next.wake)).await?;
    Ok(next)
}

/// The lists on which events may wait.
pub(crate) fn lists(board: &Board) -> BTreeSet<WaitsFor> {
    let named = board.waits().values().flat_map(|mark| mark.on.iter().cloned());
    named.chain((!board.waits().is_empty()).then_some(WaitsFor::Moment)).collect()
}

/// The events that wait on a list, whenever they are due.
pub(crate) async fn waiting(replay: &Replay, on: &WaitsFor, limit: usize) -> Result<Vec<Row>, Unavailable> {
    replay.lines.listed(on, replay.clock.now() + ALL, limit).await
}

impl WakeTick<'_> {
    /// Wakes the events of one list, up to `most`. Returns how many.
    async fn wake_list(&mut self, on: &WaitsFor, most: usize) -> Result<usize, Failure> {
        let rows = match self.free(on).await? {
            Free::None => self.too_old(on).await?,
            Free::All => self.due(on, most).await?,
            Free::Some(probes) => probing(self.due(on, PROBED_AMONG.min(most)).await?, probes, self.began),
        };
        let mut woken = 0;
        for rows in rows.chunks(SIDE_BY_SIDE) {
            let now = self.replay.clock.now();
            if now.since(self.began) > MAX_TIME {
                break;
            }
            let rows: Vec<&Row> = rows.iter().filter(|row| self.takes_from_rates(row)).collect();
            woken += wake_and_send(self.replay, &rows, now).await?;
        }
        Ok(woken)
    }

    async fn due(&mut self, on: &WaitsFor, most: usize) -> Result<Vec<Row>, Unavailable> {
        let rows = match on {
            // Where none may be woken, the first one still says how long all have waited.
            WaitsFor::Moment => self.replay.lines.listed(on, self.began, most.max(1)).await?,
            _ if most == 0 => return Ok(Vec::new()),
            WaitsFor::Flow(_) | WaitsFor::Integration(_) => waiting(self.replay, on, most).await?,
        };
        let due = rows.iter().filter(|_| *on == WaitsFor::Moment).filter_map(|row| row.listed_at).min();
        self.overdue = self.overdue.max(due.map_or(Duration::ZERO, |due| self.began.since(due)));
        if most == 0 {
            return Ok(Vec::new());
        }
        self.seen.extend(rows.iter().map(|row| row.flow.clone()));
        Ok(rows)
    }

    /// The oldest events of a list whose `max_age` is over.
    async fn too_old(&mut self, on: &WaitsFor) -> Result<Vec<Row>, Unavailable> {
        let rows = self.due(on, LOOKED_AT).await?;
        let flows = &self.replay.flows;
        let expired = |row: &Row| flows.flow(&row.flow).is_some_and(|flow| row.queued_at + flow.max_age < self.began);
        let expired: Vec<Row> = rows.into_iter().filter(expired).collect();
        let ended = |row: &Row| flows.flow(&row.flow).map(|flow| self.began.since(row.queued_at + flow.max_age));
        let overdue = expired.iter().filter_map(ended).max().unwrap_or_default();
        self.overdue = self.overdue.max(overdue);
        Ok(expired)
    }

    async fn free(&self, on: &WaitsFor) -> Result<Free, Unavailable> {
        let (board, now) = (&self.board, self.began);
        let integration = match on {
            WaitsFor::Moment => return Ok(Free::All),
            WaitsFor::Flow(flow) if board.paused_flow(flow, now).is_some() => return Ok(Free::None),
            WaitsFor::Flow(_) => return Ok(Free::All),
            WaitsFor::Integration(name) if board.paused_integration(name, now).is_some() => return Ok(Free::None),
            WaitsFor::Integration(name) => name,
        };
        let partner = self.replay.flows.integration(integration);
        let Some(breaker) = partner.and_then(|partner| partner.pressure.breaker) else { return Ok(Free::All) };
        Ok(match PartnerHealth::of(integration, &breaker, &*self.replay.breakers, now).await? {
            PartnerHealth::Up => Free::All,
            PartnerHealth::Down => Free::None,
            PartnerHealth::Probed(probes) => Free::Some(probes as usize),
        })
    }

    /// Takes one from what this tick may wake of each partner of the event's flow, if there is one left of all.
    fn takes_from_rates(&mut self, row: &Row) -> bool {
        let flow = self.replay.flows.flow(&row.flow);
        let partners: BTreeSet<&str> =
            flow.into_iter().flat_map(|flow| &flow.effects).filter_map(|effect| effect.integration()).collect();
        let limited: Vec<&str> = partners.into_iter().filter(|name| self.left_of(name).is_some()).collect();
        if limited.iter().any(|name| self.left.get(*name) == Some(&0)) {
            return false;
        }
        limited.iter().for_each(|name| drop(self.left.entry((*name).to_owned()).and_modify(|left| *left -= 1)));
        true
    }

    /// The wakes that are left to a partner, if it has a rate.
    fn left_of(&mut self, integration: &str) -> Option<u32> {
        let rate = self.replay.flows.integration(integration)?.pressure.rate?;
        let a_tick = f64::from(rate.count()) * TICK.as_secs_f64() / rate.per().as_secs_f64();
        // At least one, or a partner that is called once an hour would never be.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is small and positive")]
        let share = (a_tick * SHARE).max(1.0) as u32;
        Some(*self.left.entry(integration.to_owned()).or_insert(share))
    }

    /// Renews the marks of flows that still have waiting events, and removes those that have ended.
    async fn see_to_marks(&self) -> Result<(), Failure> {
        let now = self.began;
        let (mut renewed, mut ended) = (Vec::new(), Vec::new());
        for (flow, mark) in self.board.waits() {
            if self.seen.contains(flow) && mark.is_due(now) {
                renewed.push(flow);
            } else if mark.has_ended(now) && self.is_empty(&mark.on).await? {
                ended.push(flow);
            }
        }
        if renewed.is_empty() && ended.is_empty() {
            return Ok(());
        }
        let change = |board: &Board| {
            let board = ended.iter().fold(board.clone(), |board, flow| board.without_waits(flow, now));
            renewed.iter().fold(board, |board, flow| board.with_waits(flow, &WaitsFor::Moment, now))
        };
        Ok(change_waits(&*self.replay.boards, change).await?)
    }

    async fn is_empty(&self, on: &BTreeSet<WaitsFor>) -> Result<bool, Unavailable> {
        for on in on.iter().chain([&WaitsFor::Moment]) {
            if !waiting(self.replay, on, 1).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The events that are woken to see whether a partner is back: of each entity only the first, because the others would
/// wait behind it; and those first that were woken for it least often, each more and more seldom.
fn probing(rows: Vec<Row>, probes: usize, now: Timestamp) -> Vec<Row> {
    let mut entities = BTreeSet::new();
    let entity = |row: &Row| (row.flow.clone(), row.wait.as_ref().map(|wait| wait.group.clone()));
    let mut first: Vec<Row> = rows.into_iter().filter(|row| entities.insert(entity(row))).collect();
    first.retain(|row| row.wait.as_ref().is_none_or(|wait| now.since(wait.since) >= pause_after(spared(row))));
    first.sort_by_key(spared);
    first.truncate(probes);
    first
}

/// The number of calls of an event that only showed that its partner is down.
fn spared(row: &Row) -> u32 {
    row.effects.values().map(|entry| entry.spared).sum()
}

/// Wakes events side by side, and sends them in order. What the queue did not take is sent again later.
async fn wake_and_send(replay: &Replay, rows: &[&Row], now: Timestamp) -> Result<usize, Unavailable> {
    let events = join_all(rows.iter().map(|row| woken(replay, row, now))).await;
    let events: Vec<Event> = events.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let sent = replay.queue.send_all(&events).await;
    for (event, error) in events.iter().zip(&sent).filter_map(|(event, sent)| Some((event, sent.as_ref().err()?))) {
        let (event, flow, trace_id) = (event.id.as_str(), &event.flow, event.trace.id());
        warn!(event, flow, trace_id, %error, "the message of a woken event was not sent; it is sent again in minutes");
    }
    Ok(sent.iter().filter(|sent| sent.is_ok()).count())
}

/// The message of an event that this tick has woken. The index may lag: the row may have changed since, and then it is
/// not woken.
async fn woken(replay: &Replay, row: &Row, now: Timestamp) -> Result<Option<Event>, Unavailable> {
    let Ok(next) = row.clone().woken(None, now) else { return Ok(None) };
    match replay.records.replace(Some(row), &next).await {
        Ok(()) => Ok(replay.records.kept(&row.id).await?.map(|kept| kept.again(next.replay, next.wake))),
        // What a newer version wrote, a container of that version wakes.
        Err(WriteError::Fenced | WriteError::NewerFormat) => Ok(None),
        Err(WriteError::Unavailable(unavailable)) => Err(unavailable),
    }
}
