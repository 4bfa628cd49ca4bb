//! A partner's slots: who calls it now, and until when that can be true.

use async_trait::async_trait;
use std::collections::BTreeMap;

use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// The leases of one partner's slots, by their holders.
///
/// All of them are one item, not one item a slot. So one conditional write takes any free slot,
/// where somebody who looks for the last free one of a hundred items would try many; a refusal shows
/// every lease, so that those of the crashed are found at once; and a changed limit counts what is
/// held under the old one. The price is that the takers of one partner's slots meet on one item, which
/// bears about five hundred calls a second. Takers do not refuse one another while there is room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotLeases(BTreeMap<String, Timestamp>);

impl SlotLeases {
    /// Whether this holder has a slot.
    pub fn held_by(&self, holder: &str) -> bool {
        self.0.contains_key(holder)
    }

    /// How many slots are taken, lapsed leases included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no slot is taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes this holder's lease away. Says whether it had one.
    pub fn give(&mut self, holder: &str) -> bool {
        self.0.remove(holder).is_some()
    }
}

impl FromIterator<(String, Timestamp)> for SlotLeases {
    fn from_iter<I: IntoIterator<Item = (String, Timestamp)>>(leases: I) -> Self {
        SlotLeases(leases.into_iter().collect())
    }
}

/// One conditional write that takes a slot.
///
/// It does not ask that the leases are as they were last seen, only that there is room once those
/// that it clears away are gone, and that these are still what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeSlot {
    /// Who takes it: a number that nobody else has drawn.
    pub holder: String,
    /// When the slot is free again, whatever becomes of the holder.
    pub until: Timestamp,
    /// The leases of the crashed, which it clears away.
    pub lapsed: Vec<(String, Timestamp)>,
    /// There is room if fewer than this are taken before it; without any, the item must be unknown.
    pub below: Option<usize>,
}

impl TakeSlot {
    /// The write to try when nothing is known: most often there is room.
    pub fn blind(holder: String, until: Timestamp, limit: u32) -> TakeSlot {
        TakeSlot { holder, until, lapsed: Vec::new(), below: Some(room(limit)) }
    }

    /// The write to try next, after a refusal that showed the leases; nothing if all slots are taken.
    pub fn knowing(self, found: Option<&SlotLeases>, limit: u32, now: Timestamp) -> Option<TakeSlot> {
        let Some(SlotLeases(found)) = found else { return Some(TakeSlot { lapsed: Vec::new(), below: None, ..self }) };
        let lapsed: Vec<_> = found.iter().filter(|(_, until)| **until <= now).map(|(h, u)| (h.clone(), *u)).collect();
        let below = room(limit) + lapsed.len();
        (found.len() < below).then_some(TakeSlot { lapsed, below: Some(below), ..self })
    }

    /// What becomes of the leases, or nothing if the take is refused. The adapters' conditions say
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

/// What came of taking a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the taker's until its lease lapses.
    Yours,
    /// The slots are not as the take supposes. These are their leases, if anybody knows them.
    Moved(Option<SlotLeases>),
}

/// The slots of partners that bear only so many calls at once.
#[async_trait]
pub trait Slots: Send + Sync {
    /// Takes a slot. One conditional write, no read. One that lands twice takes one slot.
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
