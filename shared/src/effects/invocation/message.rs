//! What a function says of its outcome, as far as an operator may read it.
//!
//! It is the team's own sentence, and still it may quote the event. Such a sentence is left out whole.

use serde_json::Value;

use crate::base::mask::mask_name;
use crate::base::visible::on_one_line;

/// The message on one line, unless it is long or quotes a value of the document that the function got.
pub(super) fn quotable(message: &str, document: &str) -> Option<String> {
    let told = message.trim();
    let bounded = !told.is_empty() && told.chars().count() <= MAX_MESSAGE;
    let document: Value = serde_json::from_str(document).ok()?;
    let said = ["event", "effects", "enrich", "with"].iter().any(|part| quotes(&told.to_lowercase(), &document[part]));
    (bounded && !said && !looks_personal(told)).then(|| on_one_line(told))
}

/// The most characters of a message.
const MAX_MESSAGE: usize = 200;

/// The shortest value that is looked for. Shorter ones stand in every sentence.
const SHORTEST: usize = 4;

/// The fewest digits that are taken for a number of a person.
const MANY_DIGITS: usize = 7;

fn quotes(told: &str, value: &Value) -> bool {
    let has = |text: &str| text.chars().count() >= SHORTEST && told.contains(&text.trim().to_lowercase());
    match value {
        Value::String(text) => has(text),
        Value::Number(number) => has(&number.to_string()),
        Value::Array(items) => items.iter().any(|item| quotes(told, item)),
        Value::Object(fields) => fields.iter().any(|(name, field)| {
            // A sender may use an email address as a name. Plain names are the flow's own words.
            quotes(told, field) || mask_name(name) != *name && has(name)
        }),
        Value::Bool(_) | Value::Null => false,
    }
}

fn looks_personal(told: &str) -> bool {
    told.contains('@') || told.chars().filter(char::is_ascii_digit).count() >= MANY_DIGITS
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_is_told_unless_it_quotes_the_event() {
        let document = json!({"event": {"name": "Ada Lovelace", "order": 10_012, "by": {"a b c d": 1}},
            "effects": {"crm": {"id": "crm_77"}}, "enrich": {}, "with": {"list": "vips"}, "key": "k/retry"})
        .to_string();
        let told = |message: &str| quotable(message, &document);
        assert_eq!(told(" no such list\n").as_deref(), Some("no such list"));
        assert_eq!(told("the partner answered 422").as_deref(), Some("the partner answered 422"));
        for quote in [
            "ada lovelace is unknown",
            "order 10012 is gone",
            "no contact crm_77",
            "not in VIPS",
            "bad name a b c d",
            "eve@example.com",
            "call +44 20 7946 0018",
            "",
            &"x".repeat(MAX_MESSAGE + 1),
        ] {
            assert_eq!(told(quote), None, "{quote}");
        }
        assert_eq!(quotable("fine", "no document"), None);
    }
}
