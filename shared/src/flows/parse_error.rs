//! The YAML parser's errors, in words for the author of a first flow.

use serde_saphyr::Error;

use super::{File, Problem};
use crate::base::locate::{Place, owner};
use crate::base::suggest::suggest;

/// A parser's error as a problem of this file.
pub(super) fn problem(file: &File, error: &Error) -> Problem {
    let error = innermost(error.without_snippet());
    let place = place(error, &file.text);
    let line = usize::try_from(place.line - 1).ok().and_then(|index| file.text.lines().nth(index)).unwrap_or_default();
    let (what, hint) = sentence(error, line);
    Problem::new(&file.path, place, &what, hint.as_deref())
}

fn place(error: &Error, text: &str) -> Place {
    let noticed = error.location().map_or(Place::START, Place::from);
    match error {
        Error::Eof { .. } => Place::START,
        Error::SerdeMissingField { .. } => owner(text, noticed),
        _ => noticed,
    }
}

/// The error inside an alias: that of the value which it stands for.
fn innermost(error: &Error) -> &Error {
    match error {
        Error::AliasError { error, .. } => innermost(error.without_snippet()),
        error => error,
    }
}

/// The mistake, and a hint. `line` is the text where it was noticed.
fn sentence(error: &Error, line: &str) -> (String, Option<String>) {
    match error {
        Error::Eof { .. } => ("the file says nothing".into(), None),
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("there is no field `{field}` here"), Some(suggest(field, expected.iter().copied())))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("`{variant}` is not known here"), Some(suggest(variant, expected.iter().copied())))
        }
        Error::SerdeMissingField { field, .. } => (format!("the field `{field}` is missing here"), None),
        Error::DuplicateMappingKey { key, .. } => {
            let name = key.as_deref().unwrap_or("this name");
            (format!("`{name}` stands here a second time"), Some("keep one of them".into()))
        }
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            (format!("here is {unexpected}, where {} is expected", plain(expected)), None)
        }
        Error::InvalidScalar { ty, .. } => (format!("here must be {}", plain(ty)), None),
        Error::Unexpected { expected, .. } => {
            (format!("here must be {}", plain(expected)), slip(line, "").map(str::to_owned))
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => (
            "this file grows too large when it is read".into(),
            Some("write values out instead of using `*aliases`".into()),
        ),
        Error::UnknownAnchor { .. } => {
            let hint = "write the value out, or put a text that begins with * in quotes";
            ("this alias stands for nothing: no `&anchor` of this name is before it".into(), Some(hint.into()))
        }
        Error::MultipleDocuments { .. } => {
            ("a second document begins here".into(), Some("one file holds one: remove the line `---`".into()))
        }
        Error::ExternalMessage { msg, .. } => (format!("this is not YAML: {msg}"), slip(line, msg).map(str::to_owned)),
        Error::Message { msg, .. } | Error::SerdeVariantId { msg, .. } => (msg.clone(), None),
        other => (other.to_string(), None),
    }
}

/// The plain name of a type as serde and the parser call it.
fn plain(expected: &str) -> &str {
    match expected {
        "mapping start" | "mapping" | "map" | "a map" => "a mapping, as in `name: value`",
        "mapping end" => "the end of this mapping: it takes one name",
        "sequence start" | "sequence" | "a sequence" => "a list, as in `[one, two]`",
        "string scalar" | "string" | "a string" => "a text",
        "u8" | "u16" | "u32" | "u64" | "usize" | "integer" | "unsigned integer" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" | "float" => "a number",
        "bool" | "boolean" => "`true` or `false`",
        other => other.strip_prefix("struct ").map_or(other, |_| "a mapping, as in `name: value`"),
    }
}

/// The usual slip in such a line.
fn slip(line: &str, msg: &str) -> Option<&'static str> {
    let indent = line.len() - line.trim_start().len();
    let value = line.split_once(": ").map_or("", |(_, value)| value.trim_start());
    if line[..indent].contains('\t') {
        return Some("YAML is indented by spaces, never by tabs");
    }
    if value.starts_with("{{") {
        return Some("a template stands in quotes: \"{{ event.id }}\"");
    }
    if msg.contains("quoted") {
        return Some("perhaps a closing quote is missing above");
    }
    msg.contains("block").then_some("names of one mapping stand exactly below each other")
}
