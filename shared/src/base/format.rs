//! The format of what is stored and sent: rows, payloads, messages, the switchboard, batches.
//!
//! Two versions of the code are at work during each deploy, and again after a roll-back. Each reads every older format.
//! What a newer version wrote, an older one leaves alone: it would drop the fields that it does not know. So every
//! conditional write of a row says "no newer format", and whoever reads a newer message leaves it on its queue.
//!
//! To change a format: raise [`FORMAT`] only where an older writer would do harm. A field that an older writer may drop
//! needs no new format. The first release reads the new format and writes the old one; the next writes it. So a
//! roll-back by one release leaves nothing behind that cannot be worked on.

/// The newest format that this version reads, and the one that it writes.
pub const FORMAT: u32 = 2;

/// The format of what names none: it was written before formats had numbers.
pub const UNNUMBERED: u32 = 1;

/// The format of what names none, for serde.
pub(crate) fn unnumbered() -> u32 {
    UNNUMBERED
}

/// The sentence about what a newer version wrote.
pub fn newer(format: u32) -> String {
    format!("it was written by a newer version of Ledgerline, in format {format}; this version knows up to {FORMAT}")
}
