//! The ids of events.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// An event's id: the SHA-256 of its key, in hex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(String);

impl EventId {
    /// An id as an operator or a sender writes it. There may be no such event.
    pub fn named(id: impl Into<String>) -> Self {
        EventId(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A hash over texts, each behind its length, so that `ab`+`c` is not `a`+`bc`.
pub(crate) struct Parts(Sha256);

impl Parts {
    /// A hash that starts with its purpose, so that no id is ever a group.
    pub(crate) fn new(purpose: &str) -> Self {
        Parts(Sha256::new()).and(purpose)
    }

    pub(crate) fn and(self, part: &str) -> Self {
        self.and_bytes(part.as_bytes())
    }

    pub(crate) fn and_bytes(mut self, part: &[u8]) -> Self {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
        self
    }

    /// The hash's first bytes, as a number.
    pub(crate) fn first_bytes(self) -> u64 {
        let hash = self.0.finalize();
        hash[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The hash as an event's id.
    pub(crate) fn id(self) -> EventId {
        EventId(self.hex())
    }

    pub(crate) fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four_bits: u8| char::from(DIGITS[usize::from(four_bits)]);
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
        text
    })
}
