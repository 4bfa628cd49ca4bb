//! The risks of a change to the flow files: what could happen again, or be forgotten, for events that are on their way,
//! parked, or sent again.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use shared::base::time::duration;

/// How long a partner remembers our key, unless its integration says so.
const KEY_WINDOW: Duration = Duration::from_secs(24 * 3600);

const OLD_BECOMES_NEW: &str = "a sender's repetition of an old event is not recognised, and its effects happen again: \
    change it when no sender repeats old events any more";

/// A partner that is another one, or takes our key in another way.
pub(super) const ANOTHER_PARTNER: &str = "the new partner knows nothing of a call in doubt, and its repetition happens \
    again: wait until no event is in doubt";
pub(super) const SHORTER_KEY_WINDOW: &str = "a call in doubt that is older than the new window is parked, not repeated: \
    `resolve` what is in doubt first";
pub(super) const WEAKER_GUARANTEE: &str = "a call whose outcome is unknown is parked, and no longer cleared up by itself: be \
    ready to `resolve`";
pub(super) const ANOTHER_GUARANTEE: &str = "a call that is in doubt by now is repeated or looked up by the new guarantee, and \
    may happen again: `resolve` what is in doubt first";
pub(super) const ANOTHER_LOOKUP: &str = "a call in doubt is looked up in the new way; if that does not find an old call, it \
    happens again: `resolve` what is in doubt first";
pub(super) const ANOTHER_REQUEST: &str = "a partner that knows the key of a call in doubt rejects another request under it, \
    or answers from its memory: wait until no event is in doubt";

pub(super) const OTHER_ANSWERS: &str = "an answer to a call that is on its way is read in another way: what was in doubt may be \
    repeated, and happens again, or what failed may be taken for done: be sure that each row is true of the partner";

/// The sentence about a change, if it can make an effect happen again or be forgotten. `keyed` says whether the place
/// belongs to an effect whose partner knows our key.
pub(super) fn risk(
    file: &str,
    at: &[String],
    old: Option<&Value>,
    new: Option<&Value>,
    keyed: bool,
) -> Option<&'static str> {
    let place: Vec<&str> = at.iter().map(String::as_str).collect();
    match (file, place.as_slice()) {
        ("sources.yaml", [_, "id_at", ..]) => Some(OLD_BECOMES_NEW),
        ("integrations.yaml", [_, "key_window"]) => shorter(old, new, KEY_WINDOW).then_some(SHORTER_KEY_WINDOW),
        ("integrations.yaml", [_, "answers", ..]) => Some(OTHER_ANSWERS),
        ("integrations.yaml", [_, "idempotency_header" | "base_url" | "invoke"]) => Some(
            "the partner may not know the key of a call in doubt any more, and its repetition happens again: wait until \
             no event is in doubt",
        ),
        (file, place) if file.starts_with("flows/") => of_flow(place, old, new, keyed),
        _ => None,
    }
}

fn of_flow(place: &[&str], old: Option<&Value>, new: Option<&Value>, keyed: bool) -> Option<&'static str> {
    match place {
        ["name" | "key", ..] => Some(OLD_BECOMES_NEW),
        ["order_by", ..] => Some(
            "events that are on their way and later ones of the same entity are in different groups, and may overtake \
             each other: wait until the queue is empty",
        ),
        ["ttl"] => shorter(old, new, Duration::ZERO).then_some(
            "a sender's repetition that comes after the new `ttl` is a new event, and its effects happen again: keep it \
             longer than your senders repeat",
        ),
        ["effects", _] if new.is_none() => Some(
            "events that are on their way are not done with it, and what the ledger knows of it is forgotten: if it has \
             another name now, say `was: [old-id]` there",
        ),
        ["effects", _] if old.is_none() => Some(
            "events that are on their way are done with it too; if it is an old effect under a new name, it happens \
             again: say `was: [old-id]`",
        ),
        ["effects", _, "was", ..] => new.is_none_or(|new| loses_names(old, new)).then_some(
            "what the ledger and the partner know of the effect under its earlier name is forgotten, and it happens \
             again: leave `was` where it is",
        ),
        ["effects", _, "integration" | "invoke"] => Some(ANOTHER_PARTNER),
        ["effects", _, "guarantee"] if strength(new) < strength(old) => Some(WEAKER_GUARANTEE),
        ["effects", _, "guarantee"] => Some(ANOTHER_GUARANTEE),
        ["effects", _, "lookup", ..] => Some(ANOTHER_LOOKUP),
        ["effects", _, "answers", ..] => Some(OTHER_ANSWERS),
        ["effects", _, "request" | "with", ..] if keyed => Some(ANOTHER_REQUEST),
        // Whether the partner of the effect knows our key, what is in force says.
        ["safe_mode", "requests", _, ..] => Some(ANOTHER_REQUEST),
        _ => None,
    }
}

/// Whether a duration became shorter. Without a value, it is `otherwise`; one that is not known counts as an hour.
fn shorter(old: Option<&Value>, new: Option<&Value>, otherwise: Duration) -> bool {
    let read = |value: Option<&Value>| match value {
        None => Some(otherwise),
        Some(value) if value == "not known" => Some(Duration::from_secs(3600)),
        Some(value) => Written::deserialize(value).ok().map(|w| w.0),
    };
    read(old).zip(read(new)).is_some_and(|(old, new)| new < old)
}

#[derive(Deserialize)]
struct Written(#[serde(deserialize_with = "duration")] Duration);

/// Whether a list lacks a name that it had, or names another one as the oldest.
fn loses_names(old: Option<&Value>, new: &Value) -> bool {
    let names = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (before, after) = (old.map(names).unwrap_or_default(), names(new));
    before.iter().any(|name| !after.contains(name))
        || before.first().is_some_and(|oldest| after.first() != Some(oldest))
}

/// How much a guarantee can clear up by itself.
fn strength(guarantee: Option<&Value>) -> u8 {
    match guarantee.and_then(Value::as_str) {
        Some("native" | "idempotent") => 2,
        Some("lookup") => 1,
        _ => 0,
    }
}
