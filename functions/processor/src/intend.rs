//! Intents of effects, written before the calls: conditions, permits, caps.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use serde_json::json;
use shared::base::errors::WriteError;
use shared::effects::cap::{self, Count, CountError, Counter};
use shared::flows::template::TemplateError;
use shared::flows::{Cap, Effect, Flow};
use shared::ledger::{Lease, Reason};

use crate::ends::{Stop, delay_without_time};
use crate::look_up::give_up;
use crate::permits::{enter_all, release_unused_permits};
use crate::retry::spare_attempts_of_outage;
use crate::work::{Run, Work};

/// The number of tries to write a count while other workers write it, too.
const COUNT_TRIES: usize = 10;

/// Records the intents to call these effects, if they may be called. `None` says that the run goes on.
pub(crate) async fn intend<'r>(run: &mut Run<'r>, effects: &[&'r Effect]) -> Result<Option<Stop<'r>>, WriteError> {
    match skip(run, effects) {
        Ok(true) => return Ok(None),
        Ok(false) => (),
        Err(stop) => return Ok(Some(stop)),
    }
    if let Some(spent) = without_attempts(run, effects) {
        return Ok(Some(give_up(run, spent, Reason::AttemptsSpent, "no attempt is left".into())));
    }
    if !run.work.has_time(Some(run.flow)) {
        return Ok(Some(Stop::Retry(delay_without_time(run))));
    }
    // Before the intent: a call that is deferred was never intended.
    match enter_all(run.work, effects).await {
        Ok(entered) => run.permits.extend(entered),
        Err(hindrance) => {
            spare_attempts_of_outage(run, effects).await;
            return Ok(Some(Stop::Defer(hindrance)));
        }
    }
    let recorded = record_intents(run, effects).await;
    if !matches!(recorded, Ok(None)) {
        release_unused_permits(run.work, &mut run.permits, effects).await;
    }
    recorded
}

/// Skips the effects whose conditions are false, and returns whether there were any. A call that may have happened is
/// not skipped: what came of it has to be known.
fn skip<'r>(run: &mut Run<'r>, effects: &[&'r Effect]) -> Result<bool, Stop<'r>> {
    let Run { work, flow, lease, .. } = run;
    let mut skipped = false;
    for effect in effects {
        if lease.row().entry(effect).is_some_and(|entry| entry.in_doubt()) {
            continue;
        }
        if lease.row().safe && flow.skips_in_safe_mode(effect) {
            lease.skip(effect, work.now());
            skipped = true;
            continue;
        }
        let Some(when) = &effect.when else { continue };
        match when.holds(&lease.row().scope(work.event, effect)) {
            Ok(true) => continue,
            Ok(false) => lease.skip(effect, work.now()),
            Err(error) => return Err(Stop::template(Some(effect), &error)),
        }
        skipped = true;
    }
    Ok(skipped)
}

/// The first effect that was tried as often as the policy allows.
fn without_attempts<'r>(run: &Run<'_>, effects: &[&'r Effect]) -> Option<&'r Effect> {
    let most = run.work.board.policy(run.flow).max_attempts;
    effects.iter().find(|effect| run.lease.attempts(effect) >= most).copied()
}

/// Writes the intents, and the counts where the flow has caps: both or neither.
async fn record_intents<'r>(run: &mut Run<'r>, effects: &[&Effect]) -> Result<Option<Stop<'r>>, WriteError> {
    let Run { work, flow, lease, .. } = run;
    let mut intending = lease.clone();
    effects.iter().for_each(|effect| intending.intend(effect, work.now()));
    if flow.caps().next().is_none() {
        let recorded = work.processor.ledger.record(&intending).await;
        *lease = intending;
        return recorded.map(|()| None);
    }
    for _ in 0..COUNT_TRIES {
        let counts = match counts(work, flow, lease).await? {
            Ok(counts) => counts,
            Err(stop) => return Ok(Some(stop)),
        };
        match work.processor.caps.record(&intending, &counts).await {
            Ok(()) => {
                *lease = intending;
                return Ok(None);
            }
            Err(CountError::Moved) => continue,
            Err(CountError::Write(error)) => {
                *lease = intending;
                return Err(error);
            }
        }
    }
    // Many events reach the same entity at once. This one can as well be tried in a moment.
    Ok(Some(Stop::Retry(Duration::from_secs(1))))
}

/// A place for this event under each of the flow's caps.
async fn counts<'r>(work: &Work<'_>, flow: &Flow, lease: &Lease) -> Result<Result<Vec<Count>, Stop<'r>>, WriteError> {
    let mut counts: Vec<Count> = Vec::new();
    // Caps on one channel share a counter, which is read and written once: a transaction takes no item twice.
    let mut counters: BTreeMap<String, Counter> = BTreeMap::new();
    for (place, cap) in flow.guards.iter().enumerate().filter_map(|(place, guard)| Some((place, guard.as_cap()?))) {
        let entity = match entity(work, flow, cap, lease) {
            Ok(entity) => entity,
            Err(error) => return Ok(Err(Stop::template(None, &error))),
        };
        let key = cap::key(&cap.channel, &entity);
        let now = work.now();
        let counter = match counters.entry(key.clone()) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(unread) => unread.insert(work.processor.caps.read(&key).await?),
        };
        let by = &lease.row().known_as();
        let room = counter.has_room(cap.limit, cap.per, by, now);
        work.export_guard(lease.row(), place, "cap", if room.is_ok() { "passed" } else { "blocked" }, now);
        match room {
            Ok(()) if counts.iter().any(|count| count.key == key) => (),
            Ok(()) => {
                let longest = work.processor.flows.longest_cap(&cap.channel).max(cap.per);
                counts.push(Count::new(key, counter.with_place(longest, by, now), longest, now));
            }
            Err(full) => {
                let facts = json!({
                    "channel": cap.channel, "limit": cap.limit, "per_seconds": cap.per.as_secs(),
                    "free_at": full.free_at.to_string(),
                });
                return Ok(Err(Stop::Block { guard: "cap".into(), facts }));
            }
        }
    }
    Ok(Ok(counts))
}

/// The entity that a cap protects.
fn entity(work: &Work<'_>, flow: &Flow, cap: &Cap, lease: &Lease) -> Result<String, TemplateError> {
    match (&cap.entity, &flow.contact) {
        (Some(entity), _) => entity.text(&lease.row().scope_of(work.event)),
        (None, Some(contact)) => {
            let id = work.contact_id(contact, lease)?;
            Ok(id.map_or_else(|| work.event.group.clone(), |id| id.to_string()))
        }
        (None, None) => Ok(work.event.group.clone()),
    }
}
