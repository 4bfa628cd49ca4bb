//! Guards in flow files: for which events nothing is done.

use std::time::Duration;

use serde::Deserialize;

use super::template::{Body, Condition};
use super::{Flow, Flows};
use crate::base::time::{DurationText, HourMinute, is_time_zone};
use crate::base::wrong::Wrong;

/// A guard: a condition that must hold before anything is done that cannot be undone. A block is no error: the
/// event ends as a no-op that names its guard.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// The contact wants to hear from us on this channel.
    Consent(Consent),
    /// The contact was not reached too often.
    Cap(Cap),
    /// The contact's quiet hours are over. Until then the event waits.
    QuietHours(QuietHours),
    /// An expression over the event is true.
    Expression(Expression),
}

/// A guard on consent: the contact's field `consent_<channel>` must be true.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Consent {
    /// The channel: `email`, `sms`, `push` …
    pub channel: String,
}

impl Consent {
    /// The contact's field that says whether it consents.
    pub fn field(&self) -> String {
        format!("consent_{}", self.channel)
    }
}

/// A guard on frequency: at most so many events reach one entity on one channel in any stretch of time this long.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// The channel: `email`, `sms`, `push` … Flows that name the same channel share the count.
    pub channel: String,
    /// The entity that the cap protects. Without one, the contact.
    #[serde(default)]
    pub entity: Option<Body>,
    /// The most events that reach the entity in that time.
    pub limit: u32,
    /// The stretch of time that the cap looks back on.
    #[serde(with = "DurationText")]
    pub per: Duration,
}

/// A guard on the time of day: a contact is left alone from one time until another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// The first quiet minute, as `21:00`.
    pub from: HourMinute,
    /// The first minute that is not quiet.
    pub to: HourMinute,
    /// The contact's time zone, unless its field `time_zone` names one: `Europe/Berlin`.
    pub zone: String,
}

/// A guard with an expression, and its name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Expression {
    /// The guard's name in the no-op.
    pub name: String,
    /// The expression that must be true.
    pub that: Condition,
}

impl Guard {
    /// The guard's name, as a no-op shows it.
    pub fn name(&self) -> &str {
        match self {
            Guard::Consent(_) => "consent",
            Guard::Cap(_) => "cap",
            Guard::QuietHours(_) => "quiet_hours",
            Guard::Expression(expression) => &expression.name,
        }
    }

    /// The guard, if it is a cap.
    pub fn as_cap(&self) -> Option<&Cap> {
        match self {
            Guard::Cap(cap) => Some(cap),
            _ => None,
        }
    }

    fn needs_contact(&self) -> bool {
        match self {
            Guard::Consent(_) | Guard::QuietHours(_) => true,
            Guard::Cap(cap) => cap.entity.is_none(),
            Guard::Expression(_) => false,
        }
    }
}

impl Flows {
    /// The longest stretch of time that a cap on this channel looks back on, of any flow: they share the count.
    pub fn longest_cap(&self, channel: &str) -> Duration {
        let caps = self.all().flat_map(Flow::caps).filter(|cap| cap.channel == channel).map(|cap| cap.per);
        let tight = self.all().filter_map(|flow| flow.safe_mode.as_ref()?.caps.get(channel)).map(|cap| cap.per);
        caps.chain(tight).max().unwrap_or_default()
    }
}

impl Flow {
    /// The caps among the flow's guards.
    pub fn caps(&self) -> impl Iterator<Item = &Cap> {
        self.guards.iter().filter_map(Guard::as_cap)
    }
}

/// The largest limit of a cap: the places live in one small item.
const MAX_LIMIT: u32 = 50;

/// The longest stretch of time that a cap looks back on.
const MAX_PER: Duration = Duration::from_secs(31 * 24 * 3600);

/// The mistakes in a flow's guards.
pub(super) fn check(flow: &Flow) -> Vec<Wrong> {
    let guards = flow.guards.iter().enumerate();
    guards
        .flat_map(|(index, guard)| check_one(flow, guard).map(move |w| w.under(&format!("/guards/{index}"))))
        .collect()
}

fn check_one<'c>(flow: &'c Flow, guard: &'c Guard) -> impl Iterator<Item = Wrong> + use<'c> {
    let nobody = (guard.needs_contact() && flow.contact.is_none()).then(|| {
        Wrong::at("", format!("the guard `{}` asks about a contact, but the flow does not say which", guard.name()))
            .hint("add `contact: {tenant: …, email: …}` to the flow")
    });
    let wrong = match guard {
        Guard::Consent(Consent { channel }) => name_of_channel(channel).map(|w| w.under("/consent")),
        Guard::Cap(cap) => check_cap(cap).map(|w| w.under("/cap")),
        Guard::QuietHours(quiet) => check_quiet(quiet).map(|w| w.under("/quiet_hours")),
        Guard::Expression(_) => None,
    };
    [nobody, wrong].into_iter().flatten()
}

fn check_cap(cap: &Cap) -> Option<Wrong> {
    if !(1..=MAX_LIMIT).contains(&cap.limit) {
        return Some(Wrong::at("/limit", format!("a cap's limit must be from 1 to {MAX_LIMIT}")));
    }
    if cap.per.is_zero() || cap.per > MAX_PER {
        return Some(Wrong::at("/per", "a cap must look back on more than nothing and at most 744h"));
    }
    name_of_channel(&cap.channel)
}

fn check_quiet(quiet: &QuietHours) -> Option<Wrong> {
    if quiet.from == quiet.to {
        return Some(Wrong::at("/to", "quiet hours that end when they begin would be none, or all"));
    }
    let unknown =
        || Wrong::at("/zone", format!("`{}` is no time zone", quiet.zone)).hint("write it as `Europe/Berlin`");
    (!is_time_zone(&quiet.zone)).then(unknown)
}

fn name_of_channel(channel: &str) -> Option<Wrong> {
    let legal = !channel.is_empty() && channel.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    (!legal).then(|| Wrong::at("/channel", format!("`{channel}` is no channel: a to z and _ only")))
}
