//! How much an SQS FIFO queue bears, and what it refuses.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::errors::Unavailable;

/// How much a queue bears. SQS says nothing when it is full: it delivers nothing, as if there were nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The most messages in flight.
    pub in_flight: usize,
    /// The number of messages, from the first, among which free groups are looked for.
    pub searched: usize,
    /// How long a message is kept. After that it is deleted, in flight or not.
    pub retention: Duration,
    /// The longest message, in bytes, with the names, types and values of its attributes.
    pub longest: usize,
    /// What becomes of a message with characters that SQS does not take.
    pub characters: BadCharacters,
}

/// What becomes of a message with characters that SQS does not take. Its documentation says both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCharacters {
    /// The message is refused.
    Refused,
    /// Each is replaced by U+FFFD, and nobody is told.
    Replaced,
}

impl QueueLimits {
    /// What AWS documents for a FIFO queue, and its longest retention.
    pub const REAL: QueueLimits = QueueLimits {
        in_flight: 120_000,
        searched: 120_000,
        retention: Duration::from_secs(14 * 86_400),
        longest: LONGEST_MESSAGE,
        characters: BadCharacters::Refused,
    };

    /// The message as it is kept, or why it is refused.
    pub(super) fn taken(&self, message: SentMessage<'_>) -> Result<(String, BTreeMap<String, String>), Unavailable> {
        let SentMessage { group, deduplication_id, body, attributes } = message;
        if !is_id(group) || !is_id(deduplication_id) {
            return Err(refused("InvalidParameterValue"));
        }
        let of_attributes: usize = attributes.iter().map(|(name, value)| name.len() + TYPE.len() + value.len()).sum();
        if body.is_empty() || body.len() + of_attributes > self.longest || attributes.values().any(String::is_empty) {
            return Err(refused("InvalidParameterValue"));
        }
        let texts = || attributes.values().map(String::as_str).chain([body]);
        match self.characters {
            _ if texts().all(|text| text.chars().all(is_taken)) => Ok((body.to_owned(), attributes)),
            BadCharacters::Refused => Err(refused("InvalidMessageContents")),
            BadCharacters::Replaced => {
                let attributes = attributes.into_iter().map(|(name, value)| (name, replaced(&value))).collect();
                Ok((replaced(body), attributes))
            }
        }
    }
}

/// A message as it is sent.
pub(super) struct SentMessage<'m> {
    pub(super) group: &'m str,
    pub(super) deduplication_id: &'m str,
    pub(super) body: &'m str,
    pub(super) attributes: BTreeMap<String, String>,
}

/// The longest message that SQS takes.
const LONGEST_MESSAGE: usize = 256 * 1024;

/// The type of every attribute that is sent.
const TYPE: &str = "String";

/// The longest time for which a message may be hidden, from its receipt on.
pub(super) const LONGEST_HIDDEN: Duration = Duration::from_secs(12 * 3600);

/// Whether SQS takes a text as a group or as a deduplication id.
fn is_id(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_taken(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn replaced(text: &str) -> String {
    text.chars().map(|character| if is_taken(character) { character } else { char::REPLACEMENT_CHARACTER }).collect()
}

pub(super) fn refused(why: &str) -> Unavailable {
    Unavailable { port: "the queue", why: why.to_owned() }
}
