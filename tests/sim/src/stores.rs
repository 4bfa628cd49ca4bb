//! What queues and tables bear in a run, and what is wrong with single items of the tables.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::model::{LARGEST_ITEM, QueueLimits};

/// What queues and tables bear in a run.
#[derive(Clone, Debug)]
pub struct Stores {
    /// What both queues bear. Their retention is that of the queue of events; dead letters are kept for longer.
    pub queue: QueueLimits,
    /// The share of rows that the index of lists shows as they were before their last write, until all is healed.
    pub lag: f64,
    /// The item with which something is wrong for long, or for good.
    pub faulty: Option<FaultyItem>,
    /// When the table deletes what has expired, from the start of a run, and which share of it. In between, and if it
    /// never comes, what has expired is there still.
    pub deletions: Vec<(Duration, f64)>,
    /// The largest row that the table takes, in bytes. The product's rows are small.
    pub largest_row: usize,
}

impl Stores {
    /// As AWS documents them, with nothing wrong.
    pub const REAL: Stores =
        Stores { queue: QueueLimits::REAL, lag: 0.0, faulty: None, deletions: Vec::new(), largest_row: LARGEST_ITEM };
}

/// An item of a table with which something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultyItem {
    /// Which of all items that the fault can befall, in the order in which a run first asks for them.
    pub number: usize,
    /// How many calls about it go well before.
    pub well_for: usize,
    /// What is wrong.
    pub fault: ItemFault,
}

/// What is wrong with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemFault {
    /// Every call about it is throttled for this long: its key is hot. It befalls items of all tables.
    Hot(Duration),
    /// The table takes no more writes of it, and never will. It befalls the rows of events.
    Full,
    /// What is stored cannot be read, and never will be. It befalls the rows of events.
    Unreadable,
}

/// What a call asks of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemCall {
    pub(crate) item: String,
    pub(crate) does: ItemUse,
}

/// What is done with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemUse {
    /// The row of an event is written.
    WritesRow,
    /// The row of an event is read.
    ReadsRow,
    /// The row of an event is written, and what was there is read.
    ClaimsRow,
    /// Something is done with another item.
    Other,
}

/// The items that a run has asked for, and the faulty one among them.
pub(crate) struct FaultyItems {
    plan: Option<FaultyItem>,
    /// The items that the fault can befall, in order.
    items: BTreeMap<String, usize>,
    calls: usize,
    began: Option<Timestamp>,
}

impl FaultyItems {
    pub(crate) fn new(plan: Option<FaultyItem>) -> Self {
        FaultyItems { plan, items: BTreeMap::new(), calls: 0, began: None }
    }

    /// Notes a call, and says what goes wrong with it.
    pub(crate) fn asked(&mut self, call: &ItemCall, now: Timestamp) -> Option<ItemFault> {
        let FaultyItem { number, well_for, fault } = self.plan?;
        if !fault.befalls(call.does) {
            return None;
        }
        let next = self.items.len();
        if *self.items.entry(call.item.clone()).or_insert(next) != number {
            return None;
        }
        self.calls += 1;
        if self.calls <= well_for {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        let over = matches!(fault, ItemFault::Hot(lasts) if began + lasts <= now);
        (!over && fault.hinders(call.does)).then_some(fault)
    }

    /// Whether something is wrong for good with the row of this event, by the short form of its id.
    pub(crate) fn is_broken(&self, item: &str) -> bool {
        let for_good = |plan: FaultyItem| !matches!(plan.fault, ItemFault::Hot(_)) && self.began.is_some();
        self.plan.is_some_and(|plan| for_good(plan) && self.items.get(item) == Some(&plan.number))
    }

    /// The item with which something is wrong for good.
    pub(crate) fn broken(&self) -> Option<String> {
        self.items.keys().find(|item| self.is_broken(item)).cloned()
    }

    pub(crate) fn is_unreadable(&self, item: &str) -> bool {
        self.is_broken(item) && self.plan.is_some_and(|plan| plan.fault == ItemFault::Unreadable)
    }
}

impl ItemFault {
    fn befalls(self, does: ItemUse) -> bool {
        matches!(self, ItemFault::Hot(_)) || does != ItemUse::Other
    }

    /// Whether a call fails by it.
    fn hinders(self, does: ItemUse) -> bool {
        match self {
            ItemFault::Hot(_) => true,
            ItemFault::Full => matches!(does, ItemUse::WritesRow | ItemUse::ClaimsRow),
            ItemFault::Unreadable => matches!(does, ItemUse::ReadsRow | ItemUse::ClaimsRow),
        }
    }

    /// Whether a call that fails by it has changed its item all the same: what could not be read was the answer.
    pub(crate) fn lands(self, does: ItemUse) -> bool {
        self == ItemFault::Unreadable && does == ItemUse::ClaimsRow
    }

    /// What the client is told.
    pub(crate) fn error(self, port: &'static str) -> Unavailable {
        let why = match self {
            ItemFault::Hot(_) => "throttled: the key is hot",
            ItemFault::Full => Unavailable::DECLINED,
            ItemFault::Unreadable => Unavailable::UNREADABLE,
        };
        Unavailable { port, why: why.to_owned() }
    }
}
