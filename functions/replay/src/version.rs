//! Which version of a row somebody saw.

use shared::ledger::{Declined, Row};

/// The row's version: every write changes it.
pub(crate) fn of(row: &Row) -> String {
    format!("{}.{}", row.epoch, row.step)
}

/// Refuses a decision on a row that is not as it was seen. Without a version, whatever it is will do.
pub(crate) fn check(row: &Row, seen: Option<&str>) -> Result<(), Declined> {
    match seen {
        Some(seen) if seen != of(row) => {
            Err(Declined(format!("{} has changed since you looked at it: look again before you decide", row.id)))
        }
        _ => Ok(()),
    }
}
