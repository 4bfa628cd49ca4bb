//! What worlds are made to show, and whether one of them did. A promise that no world could break was not kept, either.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use shared::flows::{Effect, Flow};
use shared::ledger::{Progress, Row};

use super::judge::{FlowInQuestion, all_taken};
use super::worlds::SmallWorld;
use crate::scenarios::play::Observed;
use crate::scenarios::written::Statements;

/// What a world is made to show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// Nothing goes wrong, and the event is acted on.
    Calm,
    /// An effect is done, and its partner, if it has one, behaves badly.
    Effect(String),
    /// One thing comes again.
    Identity,
    /// Two things come that differ in this field.
    EachActs(String),
    /// One person has more events than a cap of this channel allows.
    Protected(String),
    /// The event comes again after as long as the author says.
    AgainWithin,
}

impl Aim {
    /// What has to be shown of a flow, and of what its author states.
    pub(super) fn of(flow: &Flow, stated: &Statements) -> BTreeSet<Aim> {
        let mut aims = BTreeSet::from([Aim::Calm]);
        aims.extend(flow.effects.iter().map(|effect| Aim::Effect(effect.id.clone())));
        aims.extend(stated.identity.iter().map(|_| Aim::Identity));
        let fields = stated.identity.iter().flat_map(|identity| &identity.fields);
        let may_differ =
            fields.filter(|field| !stated.fixed.contains(field) && !is_constant(field.in_schema(&flow.schema)));
        aims.extend(may_differ.map(|field| Aim::EachActs(field.to_string())));
        aims.extend(stated.protects.iter().map(|protected| Aim::Protected(protected.channel.clone())));
        aims.extend(stated.again_within.iter().map(|_| Aim::AgainWithin));
        aims
    }

    /// What a world showed.
    pub(super) fn shown(asked: FlowInQuestion<'_>, world: &SmallWorld, seen: &Observed) -> BTreeSet<Aim> {
        let flow = asked.flow;
        let inner = flow.effects.iter().filter(|effect| effect.integration().is_none());
        let inner = inner.filter(|effect| times_done(flow, effect, seen) > 0);
        let inner = inner.map(|effect| Aim::Effect(effect.id.clone()));
        inner.chain(world.aim.clone().filter(|aim| aim.is_shown(flow, seen))).collect()
    }

    fn is_shown(&self, flow: &Flow, seen: &Observed) -> bool {
        let acted = || flow.effects.iter().any(|effect| times_done(flow, effect, seen) > 0);
        match self {
            Aim::Calm | Aim::Identity | Aim::EachActs(_) => all_taken(seen) && acted(),
            Aim::AgainWithin => acted(),
            Aim::Effect(id) => flow.effects.iter().filter(|effect| effect.id == *id).any(|effect| {
                let answered = effect.integration().is_none_or(|name| !seen.unused.iter().any(|left| left == name));
                answered && times_done(flow, effect, seen) > 0
            }),
            Aim::Protected(channel) => {
                let mut own = seen.rows.iter().filter(|row| row.flow == flow.name);
                own.any(|row| is_capped(row, channel))
            }
        }
    }
}

/// Whether a schema takes one value alone.
fn is_constant(schema: &Value) -> bool {
    !schema["const"].is_null() || schema["enum"].as_array().is_some_and(|values| values.len() == 1)
}

/// Whether a cap of this channel blocked an event.
fn is_capped(row: &Row, channel: &str) -> bool {
    row.noop.as_ref().is_some_and(|noop| noop.guard == "cap" && noop.facts["channel"] == channel)
}

/// How often an effect was done: what its partner did or, where it calls nobody, what the ledger says.
pub(super) fn times_done(flow: &Flow, effect: &Effect, seen: &Observed) -> usize {
    if effect.integration().is_some() {
        return seen.acts.iter().filter(|act| act.effect == effect.id).count();
    }
    let own = seen.rows.iter().filter(|row| row.flow == flow.name);
    let done = |row: &&Row| row.entry(effect).is_some_and(|entry| matches!(entry.progress, Progress::Done { .. }));
    own.filter(done).count()
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aim::Calm => {
                write!(f, "whether an event lives where nothing goes wrong: in no world of an hour is anything done")
            }
            Aim::Effect(effect) => write!(f, "whether `{effect}` is done at most once: in no world is it done"),
            Aim::Identity => write!(f, "`identity`: in no world is a thing acted on that comes again"),
            Aim::EachActs(field) => {
                write!(f, "`identity`: no two events that differ in `{field}` are taken and acted on")
            }
            Aim::Protected(channel) => write!(f, "`protects`: in no world does a cap of `{channel}` block an event"),
            Aim::AgainWithin => write!(f, "`again_within`: in no world is anything done for what comes again so late"),
        }
    }
}
