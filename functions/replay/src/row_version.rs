//! The version of a row, so that an operator decides on what they saw.

use shared::ledger::{Declined, Row};

/// The row's version: every write changes it.
pub(crate) fn of(row: &Row) -> String {
    format!("{}.{}", row.epoch, row.step)
}

/// Declines a decision on a row that has changed since it was seen. Without a version, any row will do.
pub(crate) fn check(row: &Row, seen: Option<&str>) -> Result<(), Declined> {
    match seen {
        Some(seen) if seen != of(row) => Err(Declined(format!(
            "{} has changed since you looked at it: nothing was done; look again before you decide",
            row.id
        ))),
        _ => Ok(()),
    }
}
