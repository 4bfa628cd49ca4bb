//! Reading a list: its shards side by side, page after page, merged into one order.
//!
//! A store keeps a shard in the order of its moments, and those of one moment in any order. A list has them in the order of
//! their places: whoever stands behind another event of its entity is listed for the same moment, as a rule.

use std::cmp::Ordering;

use futures::future::try_join_all;

use super::{Listed, PassedOver, Row};
use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::time::Timestamp;

/// The most rows of a shard that are read at once. A row has some kilobytes.
const PAGE: usize = 200;

/// The same where the store leaves out the rows of some flows: what it reads does not reach us.
const PAGE_PASSED_OVER: usize = 1000;

/// The most pages of each shard that are read while something is passed over.
const MAX_PAGES_PASSED_OVER: usize = 40;

/// The most pages of each shard that are read beyond a full list, because their rows are of the moment at which it ends.
const MAX_PAGES_OF_A_MOMENT: usize = 40;

/// Which end of a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// The oldest rows first.
    OldestFirst,
    /// The newest rows first.
    NewestFirst,
}

impl ListOrder {
    fn of(self, one: Option<Timestamp>, other: Option<Timestamp>) -> Ordering {
        match self {
            ListOrder::OldestFirst => one.cmp(&other),
            ListOrder::NewestFirst => other.cmp(&one),
        }
    }
}

/// A page of a shard.
#[derive(Clone, Debug)]
pub struct ShardPage<K> {
    /// The rows, in the order of their moments.
    pub rows: Vec<Row>,
    /// The events whose rows cannot be read.
    pub unreadable: Vec<EventId>,
    /// Whether a newer version of the code wrote a row that this one cannot read.
    pub has_newer: bool,
    /// Where the next page begins, if there is one.
    pub next: Option<K>,
}

/// The first rows of these shards, up to `limit`, without what is passed over. A shard is read a page at a time, and on
/// only while it may have a row that belongs among them. `page_of` reads a shard from a key on, so many rows of it.
pub async fn read_list<K, P>(
    shards: &[&str],
    order: ListOrder,
    passed: &PassedOver,
    limit: usize,
    page_of: impl Fn(&str, Option<K>, usize) -> P,
) -> Result<Listed, Unavailable>
where
    P: Future<Output = Result<ShardPage<K>, Unavailable>>,
{
    let (first, others) = page_sizes(shards.len(), passed, limit);
    let mut pages_left = if passed.is_empty() { limit / PAGE + MAX_PAGES_OF_A_MOMENT } else { MAX_PAGES_PASSED_OVER };
    let mut listed = Listed::default();
    let mut open: Vec<(&str, Option<K>)> = shards.iter().map(|shard| (*shard, None)).collect();
    let mut size = first;
    while !open.is_empty() && pages_left > 0 {
        pages_left -= 1;
        let (names, froms): (Vec<&str>, Vec<Option<K>>) = open.into_iter().unzip();
        let pages = try_join_all(names.iter().zip(froms).map(|(shard, from)| page_of(shard, from, size))).await?;
        let mut cut = Vec::new();
        for (shard, page) in names.into_iter().zip(pages) {
            let end = page.rows.last().map(|row| row.listed_at);
            cut.extend(page.next.map(|next| (shard, Some(next), end)));
            listed.rows.extend(page.rows.into_iter().filter(|row| !passed.has(row)));
            listed.unreadable.extend(page.unreadable);
            listed.has_newer |= page.has_newer;
        }
        let rows = &mut listed.rows;
        rows.sort_by(|one, other| order.of(one.listed_at, other.listed_at).then(one.place.cmp(&other.place)));
        rows.truncate(limit);
        let last = rows.last().filter(|_| rows.len() == limit).map(|row| row.listed_at);
        // A shard whose page ends at the very moment of the last row may have more of that moment, and of earlier places.
        let ends = |end: Option<_>| end.zip(last).is_some_and(|(end, last)| order.of(end, last) == Ordering::Greater);
        open = cut.into_iter().filter_map(|(shard, key, end)| (!ends(end)).then_some((shard, key))).collect();
        size = others;
    }
    Ok(listed)
}

/// The sizes of a shard's first page and of those behind it.
fn page_sizes(shards: usize, passed: &PassedOver, limit: usize) -> (usize, usize) {
    if !passed.flows.is_empty() {
        return (PAGE_PASSED_OVER, PAGE_PASSED_OVER);
    }
    ((limit / shards).saturating_mul(2).saturating_add(8).min(PAGE), PAGE)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use std::cell::Cell;
    use std::future::ready;

    use super::*;
    use crate::arrival::event::Event;

    /// A row that is listed for this second, at this place in its line.
    fn row(number: i64, second: i64, place: i64) -> Row {
        let event = Event::malformed(&format!("{number}"), "", Timestamp::from_secs(0));
        let at = |secs| Some(Timestamp::from_secs(secs));
        Row { listed_at: at(second), place: at(place), ..Row::admitted(&event, Timestamp::from_secs(0)) }
    }

    /// The places of the first rows of these shards, and how many pages were read.
    fn places(shards: &[Vec<Row>], limit: usize) -> (Vec<i64>, usize) {
        let pages = Cell::new(0);
        let names: Vec<String> = (0..shards.len()).map(|shard| shard.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let page_of = |shard: &str, from: Option<usize>, size: usize| {
            pages.set(pages.get() + 1);
            let (rows, from) = (&shards[shard.parse::<usize>().expect("a number")], from.unwrap_or_default());
            let end = (from + size).min(rows.len());
            let (rows, next) = (rows[from..end].to_vec(), (end < rows.len()).then_some(end));
            ready(Ok(ShardPage { rows, unreadable: Vec::new(), has_newer: false, next }))
        };
        let nothing = PassedOver::default();
        let listed = block_on(read_list(&names, ListOrder::OldestFirst, &nothing, limit, page_of));
        let rows = listed.expect("pages").rows;
        (rows.iter().map(|row| row.place.expect("a place").secs()).collect(), pages.get())
    }

    #[test]
    fn of_one_moment_the_first_places_are_listed_wherever_their_shards_have_them() {
        // As DynamoDB may have them: in no order.
        let shard = |from: i64| (from..4000).step_by(4).map(|n| row(n, 5, 4000 - n)).collect::<Vec<_>>();
        let shards: Vec<Vec<Row>> = (0..4).map(shard).collect();
        assert_eq!(places(&shards, 10).0, (1..=10).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_listed_for_later_is_not_read() {
        let early = (0..100).map(|n| row(n, 1, n)).chain((0..5000).map(|n| row(n, 2, 0))).collect();
        let (found, pages) = places(&[early], 20);
        assert_eq!((found, pages), ((0..20).collect(), 2), "the rest of the moment, and no more");
    }

    #[test]
    fn a_moment_of_very_many_is_not_read_to_its_end() {
        let many = (0..40_000).map(|n| row(n, 1, 0)).collect();
        assert_eq!(places(&[many], 10).1, MAX_PAGES_OF_A_MOMENT);
    }
}
