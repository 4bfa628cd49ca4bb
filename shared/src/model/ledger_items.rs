//! What DynamoDB does with the ledger's items beside writing them: it declines what is too large, deletes late what has
//! expired, and shows in its index what was.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::machine::Chance;
use crate::ledger::{Progress, Row};
use crate::model::ModelChance;

/// The largest item that a table takes, in bytes.
pub const LARGEST_ITEM: usize = 400 * 1024;

/// The most that names, keys, moments and numbers add to the texts of a row.
const AROUND: usize = 2 * 1024;

/// A payload that is kept, and when its item expires.
#[derive(Clone, Debug)]
pub(super) struct KeptPayload {
    pub(super) event: Event,
    pub(super) expires_at: i64,
}

/// A place in a line: the wake number under which its event joined, and when its item expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePlace {
    pub(super) wake: u32,
    pub(super) expires_at: i64,
}

/// Declines a row whose item would be larger than this.
pub(super) fn takes_row(row: &Row, largest: usize) -> Result<(), Unavailable> {
    let progress = |progress: &Progress| match progress {
        Progress::Done { result } => length(result),
        other => other.error().map_or(0, str::len),
    };
    let effects: usize = row.effects.iter().map(|(name, entry)| name.len() + progress(&entry.progress) + 64).sum();
    let enriched: usize = row.enrich.iter().map(|(name, found)| name.len() + length(found)).sum();
    let history: usize = row.history.iter().map(|moment| moment.what.len() + 16).sum();
    let death = row.death.as_ref().map_or(0, |death| death.error.len());
    takes(AROUND + effects + enriched + history + death, largest)
}

/// Declines a payload whose item would be too large.
pub(super) fn takes_payload(event: &Event) -> Result<(), Unavailable> {
    takes(serde_json::to_string(event).map_or(usize::MAX, |text| text.len()) + 256, LARGEST_ITEM)
}

fn takes(bytes: usize, largest: usize) -> Result<(), Unavailable> {
    if bytes <= largest {
        return Ok(());
    }
    Err(Unavailable { port: "the ledger", why: Unavailable::DECLINED.to_owned() })
}

/// The length of a value as JSON, or a little more.
fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| length(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + length(field) + 4).sum::<usize>() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 24,
    }
}

/// How the index of lists lags behind the rows.
#[derive(Debug)]
pub(super) struct IndexLag {
    /// The share of rows that a query finds as they were before their last write.
    share: f64,
    chance: ModelChance,
    /// The rows as they were before their last write.
    before: BTreeMap<EventId, Row>,
}

impl IndexLag {
    pub(super) fn new(share: f64, chance: ModelChance) -> Self {
        IndexLag { share, chance, before: BTreeMap::new() }
    }

    /// A row is written over this one.
    pub(super) fn was(&mut self, before: Option<&Row>) {
        self.before.extend(before.map(|row| (row.id.clone(), row.clone())));
    }

    /// The row as a query finds it: as it is, or as it was.
    pub(super) fn shows<'r>(&'r self, row: &'r Row) -> Option<&'r Row> {
        if self.chance.unit() < self.share { self.before.get(&row.id) } else { Some(row) }
    }
}
