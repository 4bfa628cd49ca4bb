//! Texts of others, as people see them: nothing in them moves the cursor, turns the text around or hides.
//!
//! Senders and partners write what they like. What a terminal or a browser would obey is written out, and not left out:
//! whoever reads it sees that it is there.

use std::fmt::Write as _;

/// Whether a character acts instead of being seen: the control characters, those that turn the direction of a text
/// around, and those without a width. Joiners stay: names of people have them.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

/// A text on one line, with everything invisible written out: `\\n`, `\\u{202e}`.
pub fn on_one_line(text: &str) -> String {
    escaped(text, |c| is_invisible(c).then(|| c.escape_default().to_string()))
}

/// A text with its lines and tabs as they are, and everything else that is invisible written out.
pub fn on_lines(text: &str) -> String {
    let kept = |c| matches!(c, '\n' | '\t');
    escaped(text, |c| (is_invisible(c) && !kept(c)).then(|| c.escape_default().to_string()))
}

/// JSON text with everything invisible in its strings written as JSON writes it: the same value to every parser.
pub fn in_json(json: &str) -> String {
    escaped(json, |c| (is_invisible(c) && c != '\n').then(|| json_escape(c)))
}

fn json_escape(c: char) -> String {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().fold(String::new(), |mut escape, unit| {
        // Writing to a `String` never fails.
        let _ = write!(escape, "\\u{unit:04x}");
        escape
    })
}

fn escaped(text: &str, escape: impl Fn(char) -> Option<String>) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match escape(c) {
            Some(escape) => out.push_str(&escape),
            None => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{7f}\r\n\t\u{202e}b\u{2066}\u{200b}\u{feff}\u{e0041}é مرحبا 👩‍👩";

    #[test]
    fn nothing_invisible_is_left_and_nothing_is_lost() {
        let line = on_one_line(HOSTILE);
        assert!(!line.chars().any(is_invisible), "{line}");
        assert!(line.contains(r"\r\n\t\u{202e}b\u{2066}") && line.ends_with("é مرحبا 👩‍👩"), "{line}");
        let lines = on_lines(HOSTILE);
        assert!(lines.chars().all(|c| !is_invisible(c) || matches!(c, '\n' | '\t')), "{lines}");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = json!({HOSTILE: [HOSTILE, {"x": 1}]});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = in_json(&text);
            assert!(shown.chars().all(|c| !is_invisible(c) || c == '\n'), "{shown}");
            assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), value);
        }
    }
}
