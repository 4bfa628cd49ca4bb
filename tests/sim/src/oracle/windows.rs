//! Windows: what is close in time is done once, and what is far apart is not taken for one.
//!
//! The anchors are not asked. What counts is what senders sent, and what partners did for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::{Flow, Part};

use super::{CLOCKS, Oracle, WINDOW, report, violated};
use crate::partner::Arrival;
use crate::recipe::EventPost;
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

/// The flow of an event and the values of its key's fields, as its sender wrote them.
type SentKey = (String, Vec<String>);

/// What was sent to flows with windows, and what was done for it.
#[derive(Default)]
pub(super) struct SentWindows {
    /// Every moment of a key that was sent, accepted or not.
    moments: BTreeMap<SentKey, Vec<Timestamp>>,
    /// The last sending of each sender, by the sender's trace.
    sendings: BTreeMap<String, Sending>,
    /// The events that an effect was applied for.
    done: BTreeMap<(SentKey, String), BTreeSet<EventId>>,
    /// The first and the last moment that were told the same id.
    told: BTreeMap<EventId, (Timestamp, Timestamp)>,
}

#[derive(Clone)]
struct Sending {
    key: SentKey,
    moment: Timestamp,
    within: Duration,
    /// By how much clocks may differ about the moment.
    blur: Duration,
}

impl Sending {
    fn of(flow: &Flow, post: &EventPost, now: Timestamp) -> Option<Self> {
        let window = flow.key.window.as_ref()?;
        let (moment, blur) = match &window.field {
            Some(field) => (Timestamp::parse(field.of(&post.body)?.as_str()?)?, Duration::ZERO),
            None => (now, CLOCKS),
        };
        let values = flow.key.fields.iter().map(|key| match &key.part {
            Part::Id => post.delivery_id.clone(),
            // Where a flow normalises, two spellings are one.
            Part::Field(field) => match field.of(&post.body).map(Value::to_string).unwrap_or_default() {
                value if key.normalize.is_empty() => value,
                value => value.replace(' ', "").to_lowercase(),
            },
        });
        Some(Sending { key: (flow.name.clone(), values.collect()), moment, within: window.within, blur })
    }
}

impl Oracle {
    /// A sender sends an event under its trace.
    pub(crate) fn posted(&self, post: &EventPost, trace: &str, now: Timestamp) {
        let mut flows = self.versions.iter().flat_map(|flows| flows.all());
        let by_body = |flow: &Flow| {
            let source = self.versions.iter().find_map(|flows| flows.source(&flow.on.source));
            source.and_then(|source| source.type_of(&post.body).map(str::to_owned))
        };
        let takes = |flow: &&Flow| {
            let event_type = post.event_type.clone().or_else(|| by_body(flow));
            flow.on.source == post.source && event_type.as_deref() == Some(&flow.on.event_type)
        };
        let Some(sending) = flows.find(takes).and_then(|flow| Sending::of(flow, post, now)) else { return };
        let windows = &mut self.seen().windows;
        windows.moments.entry(sending.key.clone()).or_default().push(sending.moment);
        windows.sendings.insert(trace.to_owned(), sending);
    }

    /// A sender is told the id of what it sent last. All that is told one id lies around one moment.
    pub(crate) fn told(&self, trace: &str, id: &EventId) -> Result<(), BrokenInvariant> {
        let windows = &mut self.seen().windows;
        let Some(Sending { moment, within, blur, .. }) = windows.sendings.get(trace).cloned() else { return Ok(()) };
        let (first, last) = windows.told.entry(id.clone()).or_insert((moment, moment));
        (*first, *last) = (moment.min(*first), moment.max(*last));
        if last.since(*first) > within * 2 + blur {
            return Err(violated(WINDOW, format!("{first} and {last} are taken for one event, {id}")));
        }
        Ok(())
    }

    /// A partner did something. It does so no more often than moments were sent that are farther apart than the window.
    pub(crate) fn applied_within(&self, arrival: &Arrival, scheduler: &Scheduler) {
        let Some((event, effect)) = arrival.effect() else { return };
        let windows = &mut self.seen().windows;
        let Some(sending) = windows.sendings.get(&arrival.trace).cloned() else { return };
        let mut moments = windows.moments.get(&sending.key).cloned().unwrap_or_default();
        moments.sort();
        let most = farther_apart(&moments, sending.within.saturating_sub(sending.blur));
        let done = windows.done.entry((sending.key, effect.clone())).or_default();
        done.insert(event);
        let seen = format!("`{effect}` is applied for {} events, and only {most} moments are apart", done.len());
        report(scheduler, if done.len() > most { Err(violated(WINDOW, seen)) } else { Ok(()) });
    }
}

/// The most moments that all lie farther apart than this.
fn farther_apart(sorted: &[Timestamp], apart: Duration) -> usize {
    let mut chosen: Vec<Timestamp> = Vec::new();
    for moment in sorted {
        if chosen.last().is_none_or(|last| moment.since(*last) > apart) {
            chosen.push(*moment);
        }
    }
    chosen.len()
}
