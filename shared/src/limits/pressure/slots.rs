//! A partner's slots: the calls that are made now, and until when each can last.

use async_trait::async_trait;
use std::collections::BTreeMap;

use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// The leases of one partner's slots, by their holders.
///
/// All leases are one item, not one item for each slot. So one conditional write takes any free slot,
/// where a search for the last free one of a hundred items would try many; a write that fails returns
/// every lease, so that those of crashed holders are found at once; and a changed limit counts the slots
/// that are held under the old one. The price is that the takers of one partner's slots meet on one item, which
/// bears about five hundred calls a second. Takers do not fail one another while there is room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotLeases(BTreeMap<String, Timestamp>);

impl SlotLeases {
    /// Whether this holder has a slot.
    pub fn held_by(&self, holder: &str) -> bool {
        self.0.contains_key(holder)
    }

    /// The number of slots that are taken, lapsed leases included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no slot is taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes this holder's lease. Returns whether it had one.
    pub fn give(&mut self, holder: &str) -> bool {
        self.0.remove(holder).is_some()
    }
}

impl FromIterator<(String, Timestamp)> for SlotLeases {
    fn from_iter<I: IntoIterator<Item = (String, Timestamp)>>(leases: I) -> Self {
        SlotLeases(leases.into_iter().collect())
    }
}

/// A conditional write that takes a slot.
///
/// Its condition is not that the leases are as they were last seen, only that there is room once the lapsed
/// leases that it removes are gone, and that these are still what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeSlot {
    /// The holder: a number that no other holder has drawn.
    pub holder: String,
    /// The moment when the slot is free again, whatever becomes of the holder.
    pub until: Timestamp,
    /// The leases of crashed holders, which the write removes.
    pub lapsed: Vec<(String, Timestamp)>,
    /// There is room if fewer than this are taken before the write; `None` says that the item must not exist.
    pub below: Option<usize>,
}

impl TakeSlot {
    /// The write to try when nothing is known: most often there is room.
    pub fn blind(holder: String, until: Timestamp, limit: u32) -> TakeSlot {
        TakeSlot { holder, until, lapsed: Vec::new(), below: Some(room(limit)) }
    }

    /// The write to try next, after a failed one that returned the leases; `None` if all slots are taken.
    pub fn knowing(self, found: Option<&SlotLeases>, limit: u32, now: Timestamp) -> Option<TakeSlot> {
        let Some(SlotLeases(found)) = found else { return Some(TakeSlot { lapsed: Vec::new(), below: None, ..self }) };
        let lapsed: Vec<_> = found.iter().filter(|(_, until)| **until <= now).map(|(h, u)| (h.clone(), *u)).collect();
        let below = room(limit) + lapsed.len();
        (found.len() < below).then_some(TakeSlot { lapsed, below: Some(below), ..self })
    }

    /// The leases after the write, or `None` if its condition fails. The adapters' conditions say
    /// the same.
    pub fn applied_to(&self, found: Option<&SlotLeases>) -> Option<SlotLeases> {
        let mut leases = match (found, self.below) {
            (None, None) => BTreeMap::new(),
            (Some(SlotLeases(found)), Some(below)) if found.len() < below => found.clone(),
            _ => return None,
        };
        if leases.contains_key(&self.holder) {
            return None;
        }
        for (holder, until) in &self.lapsed {
            if leases.remove(holder) != Some(*until) {
                return None;
            }
        }
        leases.insert(self.holder.clone(), self.until);
        Some(SlotLeases(leases))
    }
}

fn room(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The result of taking a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The slot is the taker's until its lease lapses.
    Yours,
    /// The slots are not as the write supposes. These are their leases, if the store returned them.
    Moved(Option<SlotLeases>),
}

/// The store of the slots of partners.
#[async_trait]
pub trait Slots: Send + Sync {
    /// Takes a slot. One conditional write, no read. A write that lands twice takes one slot.
    async fn take(&self, slots: &str, take: &TakeSlot) -> Result<Taken, Unavailable>;

    /// Gives a slot back. One conditional write; nothing happens if the holder has none any more.
    async fn give(&self, slots: &str, holder: &str) -> Result<(), Unavailable>;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn leases(held: &[(&str, u64)]) -> SlotLeases {
        held.iter().map(|(holder, secs)| ((*holder).to_owned(), NOW + Duration::from_secs(*secs))).collect()
    }

    fn take(limit: u32) -> TakeSlot {
        TakeSlot::blind("me".into(), NOW + Duration::from_secs(30), limit)
    }

    #[test]
    fn the_first_take_makes_the_item() {
        assert_eq!(take(2).applied_to(None), None);
        let first = take(2).knowing(None, 2, NOW).expect("there is room");
        assert_eq!(first.applied_to(None), Some(leases(&[("me", 30)])));
        assert_eq!(first.applied_to(Some(&leases(&[]))), None, "somebody was first");
    }

    #[test]
    fn no_slot_is_taken_beyond_the_limit() {
        let (one, two) = (leases(&[("a", 9)]), leases(&[("a", 9), ("b", 9)]));
        assert_eq!(take(2).applied_to(Some(&one)), Some(leases(&[("a", 9), ("me", 30)])));
        assert_eq!(take(2).applied_to(Some(&two)), None);
        assert_eq!(take(2).knowing(Some(&two), 2, NOW), None);
    }

    #[test]
    fn the_crashed_make_room_once() {
        let later = NOW + Duration::from_secs(9);
        let full = leases(&[("a", 9), ("b", 10)]);
        let over = take(2).knowing(Some(&full), 2, later).expect("one has lapsed");
        assert_eq!(over.applied_to(Some(&full)), Some(leases(&[("b", 10), ("me", 30)])));
        assert_eq!(over.applied_to(Some(&leases(&[("b", 10), ("c", 30)]))), None, "another was faster");
    }

    #[test]
    fn under_a_lowered_limit_the_crashed_do_not_block() {
        let full = leases(&[("a", 1), ("b", 1), ("c", 1), ("d", 20)]);
        let later = NOW + Duration::from_secs(2);
        assert_eq!(take(1).knowing(Some(&full), 1, later), None, "d is at work");
        let over = take(2).knowing(Some(&full), 2, later).expect("three have lapsed");
        assert_eq!(over.applied_to(Some(&full)), Some(leases(&[("d", 20), ("me", 30)])));
    }
}
