//! Clues: what a partner said of an error, as far as a dead letter may quote it.
//!
//! A partner writes what it likes, and often quotes the request: an email, a phone number, a token. So only the fields
//! are read that the integration points at, or where errors usually stand; everything is masked that came from the
//! event, from results or from our secrets, and whatever looks like an address or a number of a person; and what is left
//! is short. It is kept in the row, where operators see it, and is never logged.

mod masked;

use serde_json::Value;

pub use masked::Mask;

use crate::base::visible::on_one_line;
use crate::flows::{ErrorAt, PartnerAnswer};
use crate::ledger::Clue;

/// What the partner said of its error, or nothing where it said nothing that may be quoted.
pub fn clue(answer: &PartnerAnswer, at: &ErrorAt, masked: &Mask) -> Option<Clue> {
    let body = answer.body.as_ref()?;
    let code = at.code.iter().find_map(|pointer| words(body.pointer(pointer)?));
    let message = match &at.message {
        Some(pointer) => body.pointer(pointer).and_then(words),
        None => usual_message(body),
    };
    let code = code.and_then(|code| excerpt(&code, masked, MAX_CODE));
    let message = message.and_then(|message| excerpt(&message, masked, MAX_MESSAGE));
    (code.is_some() || message.is_some()).then_some(Clue { code, message })
}

/// The most bytes of a code.
const MAX_CODE: usize = 40;

/// The most bytes of a message.
const MAX_MESSAGE: usize = 160;

/// A message that is longer than this is not quoted: what a cut leaves of a value could not be recognised.
const MAX_READ: usize = 2048;

/// Where errors usually say what is wrong: problem details, then what most APIs do.
fn usual_message(body: &Value) -> Option<String> {
    let at = |pointer: &str| body.pointer(pointer).and_then(words);
    match (at("/title"), at("/detail")) {
        (Some(title), Some(detail)) => return Some(format!("{title}: {detail}")),
        (Some(one), None) | (None, Some(one)) => return Some(one),
        (None, None) => (),
    }
    ["/error/message", "/errors/0/detail", "/message"].into_iter().find_map(at)
}

/// A plain value as text. An object may hold anything, under any name.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The text on one line, with everything masked, and no longer than so many bytes. It is masked before it is cut.
fn excerpt(text: &str, masked: &Mask, most: usize) -> Option<String> {
    if text.chars().nth(MAX_READ).is_some() {
        return None;
    }
    let line = on_one_line(&masked.mask(text)).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    if line.len() <= most {
        return Some(line);
    }
    let end = line.floor_char_boundary(most - '…'.len_utf8());
    Some(format!("{}…", line[..end].trim_end()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::arrival::signature::Secret;

    fn said(body: Value, at: &ErrorAt) -> Option<Clue> {
        let event = json!({"email": "ada@example.com", "name": "Ada Lovelace", "order": "o-1001"});
        let masked = Mask::new([&event], &[Secret::new("whsec_c2VjcmV0")]);
        clue(&PartnerAnswer { status: 422, body: Some(body), ..PartnerAnswer::default() }, at, &masked)
    }

    fn message(body: Value) -> Option<String> {
        said(body, &ErrorAt::default())?.message
    }

    #[test]
    fn errors_are_read_where_they_usually_stand() {
        for (body, told) in [
            (json!({"title": "Invalid Resource", "detail": "no such list"}), "Invalid Resource: no such list"),
            (json!({"title": "Invalid Resource"}), "Invalid Resource"),
            (json!({"error": {"message": "No such customer"}}), "No such customer"),
            (json!({"errors": [{"detail": "The phone number is wrong"}]}), "The phone number is wrong"),
            (json!({"message": "Property \"tier\" does not exist"}), "Property \"tier\" does not exist"),
        ] {
            assert_eq!(message(body).as_deref(), Some(told));
        }
        for nothing in [json!({}), json!([]), json!("no"), json!({"message": {"a": 1}}), json!({"message": "  "})] {
            assert_eq!(said(nothing.clone(), &ErrorAt::default()), None, "{nothing}");
        }
    }

    #[test]
    fn only_what_the_integration_points_at_is_quoted() {
        let at = ErrorAt { code: Some("/code".into()), message: Some("/why".into()) };
        let body = json!({"code": 21211, "why": "The 'To' number is invalid", "message": "something else"});
        let expected = Clue { code: Some("21211".into()), message: Some("The 'To' number is invalid".into()) };
        assert_eq!(said(body, &at), Some(expected));
        assert_eq!(said(json!({"message": "something else"}), &at), None);
    }

    #[test]
    fn values_and_secrets_are_masked_before_the_cut() {
        let quote = "o-1001 for Ada Lovelace (ADA@example.com) with whsec_c2VjcmV0 failed";
        assert_eq!(message(json!({"message": quote})).as_deref(), Some("*** for *** (***) with *** failed"));
        let long = format!("{} ada@example.com is not known", "x".repeat(MAX_MESSAGE - 8));
        let cut = message(json!({"message": long})).expect("an excerpt");
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('…') && !cut.contains("ada"), "{cut}");
        assert_eq!(message(json!({"message": "y".repeat(MAX_READ + 1)})), None);
    }

    #[test]
    fn nothing_in_it_acts_and_sqs_takes_every_character() {
        let hostile = "a\u{1b}[2J\u{202e}b\u{fffe}\u{ffff}\nc";
        let told = message(json!({"message": hostile})).expect("an excerpt");
        assert_eq!(told, "a\\u{1b}[2J\\u{202e}b\u{fffd}\u{fffd}\\nc");
    }

    #[test]
    fn it_is_bounded_in_bytes_whatever_it_is_written_in() {
        let told = message(json!({"message": "é👩‍👩ж".repeat(200)})).expect("an excerpt");
        assert!(told.len() <= MAX_MESSAGE, "{}", told.len());
    }
}
