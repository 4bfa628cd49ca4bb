//! Masked payloads and results: people may see their shape, and not their contents.

use serde_json::{Value, json};

/// The value with every text and number hidden. The first letter of a text stays, to tell one from
/// another, unless it would tell too much of a short one or is no letter: a sender may write what a terminal obeys. The name of a field stays too, unless it is no plain name: a sender may use an email as one.
pub fn mask(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (mask_name(name), mask(value))).collect(),
        Value::Array(items) => items.iter().map(mask).collect(),
        Value::String(text) => json!(mask_text(text)),
        Value::Number(_) => json!("***"),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

/// A kept result with its values hidden. Its own names come from the flow and stay; what is below them the partner
/// wrote, names included.
pub fn mask_result(result: &Value) -> Value {
    let below = |value: &Value| match value {
        Value::Object(_) | Value::Array(_) => json!("***"),
        plain => mask(plain),
    };
    match result {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), below(value))).collect(),
        other => below(other),
    }
}

/// The name of a field, or its first letter where it is no plain name.
pub fn mask_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    if is_name { name.to_owned() } else { mask_text(name) }
}

/// The longest name that is shown.
const MAX_NAME: usize = 40;

fn mask_text(text: &str) -> String {
    let long_enough = text.chars().nth(MIN_SHOWN - 1).is_some();
    let first = text.chars().next().filter(|first| long_enough && first.is_alphanumeric());
    first.map_or_else(|| "***".into(), |first| format!("{first}***"))
}

/// The shortest text whose first letter is shown.
const MIN_SHOWN: usize = 4;

/// The first lines of a masked payload.
pub fn preview(payload: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(&mask(payload)).unwrap_or_default();
    text.lines().take(PREVIEW_LINES).map(str::to_owned).collect()
}

/// The most lines of a payload that a preview shows.
const PREVIEW_LINES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_shows_the_shape_and_not_the_contents() {
        let payload = json!({"email": "ada@example.com", "phone": 442079460018u64, "tags": ["vip"], "optin": true});
        let preview = preview(&payload).join("\n");
        for secret in ["ada", "4420", "vip"] {
            assert!(!preview.contains(secret), "{preview}");
        }
        assert!(preview.contains("\"email\": \"a***\""), "{preview}");
        assert!(preview.contains("\"optin\": true"), "{preview}");
    }

    #[test]
    fn a_short_text_is_hidden_whole_and_no_first_character_but_a_letter_is_shown() {
        for text in ["", "a", "ab", "abc", "+44 20 7946", "\u{202e}abcd", "\u{9b}31mx", "\u{1b}[2Jx", "\u{200b}abcd"] {
            assert_eq!(mask(&json!(text)), json!("***"), "{text:?}");
        }
        assert_eq!(mask(&json!(["abcd", "Ж-12", "4711"])), json!(["a***", "Ж***", "4***"]));
    }

    #[test]
    fn a_name_that_is_none_is_hidden() {
        let masked = mask(&json!({"ada@example.com": {"first_name": 1}, "+44 20 7946": 2, "x".repeat(41): 3, "": 4}));
        assert_eq!(masked, json!({"a***": {"first_name": "***"}, "***": "***", "x***": "***"}));
    }

    #[test]
    fn a_result_shows_the_flows_names_and_nothing_that_the_partner_wrote() {
        let result =
            json!({"code": "SAVE-40", "by": {"ada@example.com": 1, "SAVE-40": 2}, "all": ["SAVE-40"], "new": true});
        assert_eq!(mask_result(&result), json!({"code": "S***", "by": "***", "all": "***", "new": true}));
        assert_eq!(mask_result(&json!("SAVE-40")), json!("S***"));
    }

    #[test]
    fn a_preview_is_ten_lines_at_most() {
        assert_eq!(preview(&json!((0..50).collect::<Vec<_>>())).len(), PREVIEW_LINES);
    }
}
