//! Wakes: events that wait go through the queue again when they can go on.
//!
//! Each event waits on the list of what it waits for, so that a tick reads only events that can go. It wakes the earliest
//! first, no more to a partner than the partner's rate lets through beside new traffic, and few while the queue is long.
//! A row is written before its message is sent, and stays listed until a worker claims it: a crash between the two is
//! found again, and the same wake is sent again.

mod send;
mod wakes_left;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{Listed, PassedOver, Row, SignOff, WaitsFor, pause_after};
use shared::limits::pressure::{BATCHES_HELD, PartnerHealth};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::span::export_sent;
use shared::operate::switchboard::{self, Board, TurnError, change_waits};
use tracing::{info, warn};

use self::send::{WakeFate, stand_in_for_unreadable, wake_and_send};
use self::wakes_left::WakesLeft;
use crate::Replay;
use crate::gauges::count_now;
use crate::operations::{Failure, decline};

/// The most events that one tick wakes.
const MAX_WAKES: usize = 3000;

/// The time that one tick takes at most: it ends well within an invocation.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The number of events on the queue above which few are woken: it may be a backlog. But a long queue may as well be the
/// tail of one entity that cannot go on, and then it holds up nobody else.
const CROWDED: usize = 5000;

/// The most events that one tick wakes while the queue is long.
const CROWDED_WAKES: usize = 600;

/// The number of events on the queue above which none is woken: SQS looks for free groups among 120,000 messages only.
const FULL: usize = 60_000;

/// The number of events that are woken side by side, and sent together.
const SIDE_BY_SIDE: usize = 10;

/// The most events that one tick wakes for a slow partner: what its share of the batches takes on at calls of three
/// seconds. More would only come back.
const SLOW_WAKES: usize = 20 * 10 * BATCHES_HELD as usize;

/// The number of events of a list that cannot go yet, of which those are woken that are too old: they are told so in time.
const LOOKED_AT: usize = 25;

/// The number of events among which those are chosen that are woken to see whether a partner is back.
const PROBED_AMONG: usize = 200;

/// How often one tick looks at a list. Each look passes over what the looks before it found no room for.
const MAX_LOOKS: usize = 20;

/// Later than every moment of a list.
const ALL: Duration = Duration::from_secs(400 * 24 * 3600);

/// One tick at work.
struct WakeTick<'t> {
    replay: &'t Replay,
    board: Board,
    began: Timestamp,
    left: WakesLeft<'t>,
    /// What was woken or cannot be, and the flows whose partners have no more room in this tick.
    passed: PassedOver,
    /// The entities of which an event was not woken, although it could go: those behind it would only wait for it.
    held_up: BTreeSet<Entity>,
    /// Whether the list that is looked at may have more that can go.
    has_more: bool,
    /// The events that this tick has seen to, or that its share of their partners' rates leaves to later ones: their time
    /// is not overdue.
    on_time: BTreeSet<EventId>,
    /// The flows of which events were seen to wait.
    seen: BTreeSet<String>,
    /// How long ago the first of those that this tick should have woken, and did not, should have gone on.
    overdue: Duration,
}

/// A flow and a message group: events of one are done in their order.
type Entity = (String, Option<String>);

/// How many events of a list may go.
enum Free {
    /// As many as the partners bear.
    All,
    /// So many, because the partner is slow.
    AtMost(usize),
    /// So many, to see whether the partner is back.
    Some(usize),
    /// None but those that are too old.
    None,
}

/// The work of the schedule of wakes.
pub(crate) async fn run_wakes(replay: &Replay, unit: &WorkUnit<'_>) -> Result<Value, Failure> {
    let woken = wake_all(replay, unit).await?;
    count_now(replay, unit).await;
    unit.count(&Fact::WakeRan);
    Ok(woken)
}

/// Wakes what can go on. Where no flow has a mark nothing waits, and this one read is all.
pub(crate) async fn wake_all(replay: &Replay, unit: &WorkUnit<'_>) -> Result<Value, Failure> {
    // A switch that this version does not understand stops what it names, and no other flow.
    let (board, _) = switchboard::look(&*replay.boards).await?;
    if board.waits().is_empty() {
        unit.count(&Fact::Overdue(Duration::ZERO));
        return Ok(json!({"woken": 0}));
    }
    let mut tick = WakeTick::of(replay, board);
    let lists = lists(&tick.board);
    let queued = replay.depths.depth().await?.queued;
    let most = match queued {
        _ if queued > FULL => 0,
        _ if queued > CROWDED => CROWDED_WAKES,
        _ => MAX_WAKES,
    };
    let (mut woken, mut lists_left) = (0, lists.len());
    for on in &lists {
        // What one list does not use, of wakes and of time, is for those behind it.
        let share = most.saturating_sub(woken) / lists_left;
        woken += tick.wake_list(unit, on, share, tick.time_for(lists_left)).await?;
        lists_left -= 1;
    }
    unit.count(&Fact::Overdue(tick.overdue));
    tick.see_to_marks(unit).await?;
    if woken > 0 {
        unit.count(&Fact::Woken(woken as u64));
        info!(woken, "waiting events were woken");
    }
    Ok(json!({"woken": woken, "crowded": queued > CROWDED}))
}

/// Wakes one event now, whatever it waits for. If it still cannot go on, it waits again.
pub(crate) async fn wake_one(replay: &Replay, row: &Row, sign_off: SignOff<'_>) -> Result<Row, Failure> {
    let now = replay.clock.now();
    let next = row.clone().woken(Some(sign_off), now)?;
    replay.records.replace(Some(row), &next).await?;
    let kept = replay.records.kept(&row.id).await?;
    let kept = kept.ok_or_else(|| decline(format!("{} has changed meanwhile: look again", row.id)))?;
    replay.queue.send(&kept.again(next.replay, next.wake)).await?;
    export_sent(&*replay.spans, &next, now, replay.clock.now());
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

impl<'t> WakeTick<'t> {
    fn of(replay: &'t Replay, board: Board) -> Self {
        let (left, began) = (WakesLeft::of(&replay.flows), replay.clock.now());
        let (passed, held_up, has_more, on_time, seen, overdue) = Default::default();
        WakeTick { replay, board, began, left, passed, held_up, has_more, on_time, seen, overdue }
    }

    /// The moment until which the next of so many lists may take.
    fn time_for(&self, lists_left: usize) -> Timestamp {
        let now = self.replay.clock.now();
        now + MAX_TIME.saturating_sub(now.since(self.began)) / u32::try_from(lists_left).unwrap_or(u32::MAX)
    }

    /// Wakes the events of one list, up to `most`, and no longer than until a moment. Returns how many.
    ///
    /// What cannot go does not hide what stands behind it: the list is looked at again without that.
    async fn wake_list(
        &mut self,
        unit: &WorkUnit<'_>,
        on: &WaitsFor,
        most: usize,
        until: Timestamp,
    ) -> Result<usize, Failure> {
        let free = self.free(on).await?;
        let mut woken = 0;
        for _ in 0..MAX_LOOKS {
            let passed_before = self.passed.clone();
            self.has_more = false;
            let rows = match free {
                Free::None => self.too_old(unit, on).await?,
                Free::All => self.due(unit, on, most - woken).await?,
                Free::AtMost(few) => self.due(unit, on, most.min(few).saturating_sub(woken)).await?,
                // Who stands behind a probe of its entity is none.
                Free::Some(_) if woken > 0 => Vec::new(),
                Free::Some(probes) => {
                    let among = self.due(unit, on, PROBED_AMONG.min(most)).await?;
                    probing(among, &self.held_up, probes, self.began)
                }
            };
            woken += self.wake_rows(unit, &rows, until).await;
            self.note_overdue(on, &rows);
            // A probe that could not be sent is no probe: another event is.
            self.has_more |= matches!(free, Free::Some(_)) && woken == 0 && !rows.is_empty();
            let is_done = !self.has_more || woken >= most || self.passed == passed_before;
            if is_done || self.replay.clock.now() > until {
                break;
            }
        }
        Ok(woken)
    }

    /// Wakes rows, as far as their partners have room and there is time. Returns how many.
    async fn wake_rows(&mut self, unit: &WorkUnit<'_>, rows: &[Row], until: Timestamp) -> usize {
        let mut sent = 0;
        for rows in rows.chunks(SIDE_BY_SIDE) {
            let now = self.replay.clock.now();
            if now > until {
                break;
            }
            let goes =
                |tick: &mut Self, row: &Row| !tick.held_up.contains(&entity(row)) && tick.takes_from_partners(row);
            let taken: Vec<&Row> = rows.iter().filter(|row| goes(self, row)).collect();
            let outcomes = wake_and_send(self.replay, unit, &taken, now).await;
            for (row, outcome) in taken.into_iter().zip(outcomes) {
                self.passed.events.insert(row.id.clone());
                sent += usize::from(outcome == WakeFate::Sent);
                self.see_to_unsent(row, outcome);
            }
        }
        sent
    }

    /// Takes one from what this tick may wake of each partner of the event's flow, if there is one left of all.
    fn takes_from_partners(&mut self, row: &Row) -> bool {
        let has_room = self.left.take(&row.flow);
        if !has_room {
            self.passed.flows.insert(row.flow.clone());
            self.on_time.insert(row.id.clone());
        }
        has_room
    }

    /// What was taken for an event that was not woken is for another one, which may have been passed over for it.
    fn see_to_unsent(&mut self, row: &Row, outcome: WakeFate) {
        if outcome != WakeFate::Sent {
            self.left.give_back(&row.flow);
            self.has_more |= !self.passed.flows.is_empty();
            self.passed.flows.clear();
        }
        match outcome {
            WakeFate::Sent | WakeFate::Parked => drop(self.on_time.insert(row.id.clone())),
            WakeFate::NotNow => drop(self.held_up.insert(entity(row))),
        }
    }

    async fn due(&mut self, unit: &WorkUnit<'_>, on: &WaitsFor, most: usize) -> Result<Vec<Row>, Unavailable> {
        let until = match on {
            WaitsFor::Moment => self.began,
            WaitsFor::Flow(_) | WaitsFor::Integration(_) => self.began + ALL,
        };
        // Where none may be woken, the first one still says how long all have waited.
        let looked_at = if most == 0 && *on == WaitsFor::Moment { 1 } else { most };
        if looked_at == 0 {
            return Ok(Vec::new());
        }
        let listed = self.replay.lines.listed_past(&self.passed, on, until, looked_at).await?;
        let rows = self.seen_to(unit, listed).await;
        self.has_more |= rows.len() >= looked_at;
        if most == 0 {
            self.note_overdue(on, &rows);
            return Ok(Vec::new());
        }
        self.seen.extend(rows.iter().map(|row| row.flow.clone()));
        Ok(rows)
    }

    /// The rows of a part of a list. What of it cannot be read is seen to.
    async fn seen_to(&mut self, unit: &WorkUnit<'_>, listed: Listed) -> Vec<Row> {
        if listed.has_newer {
            unit.count(&Fact::NewerFormat);
        }
        let is_late = |tick: &Self| tick.replay.clock.now().since(tick.began) > MAX_TIME;
        for id in listed.unreadable {
            if !is_late(self) && self.passed.events.insert(id.clone()) {
                stand_in_for_unreadable(self.replay, unit, &id, self.replay.clock.now()).await;
            }
        }
        listed.rows
    }

    /// The first one that was not woken says how long all have waited: for their moment, or since they are too old.
    fn note_overdue(&mut self, on: &WaitsFor, rows: &[Row]) {
        let late = rows.iter().filter(|row| !self.on_time.contains(&row.id));
        let due = |row: &Row| if *on == WaitsFor::Moment { row.listed_at } else { self.expired_at(row) };
        let overdue = late.filter_map(due).min().map(|due| self.began.since(due));
        self.overdue = self.overdue.max(overdue.unwrap_or_default());
    }

    /// The moment from which on an event is too old, if that has passed.
    fn expired_at(&self, row: &Row) -> Option<Timestamp> {
        let ends = row.queued_at + self.replay.flows.flow(&row.flow)?.max_age;
        (ends < self.began).then_some(ends)
    }

    /// The oldest events of a list whose `max_age` is over.
    async fn too_old(&mut self, unit: &WorkUnit<'_>, on: &WaitsFor) -> Result<Vec<Row>, Unavailable> {
        let rows = self.due(unit, on, LOOKED_AT).await?;
        Ok(rows.into_iter().filter(|row| self.expired_at(row).is_some()).collect())
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
            PartnerHealth::Slow => Free::AtMost(SLOW_WAKES),
            PartnerHealth::Down => Free::None,
            PartnerHealth::Probed(probes) => Free::Some(probes as usize),
        })
    }

    /// Renews the marks of flows that still have waiting events, and removes those that have ended.
    async fn see_to_marks(&mut self, unit: &WorkUnit<'_>) -> Result<(), Failure> {
        let now = self.began;
        let (mut renewed, mut ended) = (Vec::new(), Vec::new());
        let waits = self.board.waits().clone();
        for (flow, mark) in &waits {
            if self.seen.contains(flow) && mark.is_due(now) {
                renewed.push(flow);
            } else if mark.has_ended(now) && self.is_empty(unit, &mark.on).await? {
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
        match change_waits(&*self.replay.boards, change).await {
            Err(TurnError::Unavailable(unavailable)) => Err(unavailable.into()),
            Err(error) => {
                warn!(%error, "the marks of waiting events were not renewed or removed; the next tick tries it again");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether nothing is on these lists. What cannot be read is seen to, also where it is not due yet: nobody reads the
    /// lists any more when the mark is gone. What a newer version wrote, that version wakes.
    async fn is_empty(&mut self, unit: &WorkUnit<'_>, on: &BTreeSet<WaitsFor>) -> Result<bool, Unavailable> {
        for on in on.iter().chain([&WaitsFor::Moment]) {
            let listed = self.replay.lines.listed_past(&PassedOver::default(), on, self.began + ALL, 1).await?;
            let has_newer = listed.has_newer;
            if !self.seen_to(unit, listed).await.is_empty() || has_newer {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The events that are woken to see whether a partner is back: of each entity only the first, because the others would
/// wait behind it; and those first that were woken for it least often, each more and more seldom.
fn probing(rows: Vec<Row>, held_up: &BTreeSet<Entity>, probes: usize, now: Timestamp) -> Vec<Row> {
    let mut entities = held_up.clone();
    let mut first: Vec<Row> = rows.into_iter().filter(|row| entities.insert(entity(row))).collect();
    first.retain(|row| row.wait.as_ref().is_none_or(|wait| now.since(wait.since) >= pause_after(spared(row))));
    first.sort_by_key(spared);
    first.truncate(probes);
    first
}

fn entity(row: &Row) -> Entity {
    (row.flow.clone(), row.wait.as_ref().map(|wait| wait.group.clone()))
}

/// The number of calls of an event that only showed that its partner is down.
fn spared(row: &Row) -> u32 {
    row.effects.values().map(|entry| entry.spared).sum()
}
