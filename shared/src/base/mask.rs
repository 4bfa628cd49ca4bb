//! Masked payloads: people may see their shape, and not their contents.

use serde_json::{Value, json};

/// The value with every text and number hidden. The first letter of a text stays, to tell one from
/// another.
pub fn mask(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), mask(value))).collect(),
        Value::Array(items) => items.iter().map(mask).collect(),
        Value::String(text) => json!(format!("{}***", text.chars().take(1).collect::<String>())),
        Value::Number(_) => json!("***"),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

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
    fn a_preview_is_ten_lines_at_most() {
        assert_eq!(preview(&json!((0..50).collect::<Vec<_>>())).len(), PREVIEW_LINES);
    }
}
