//! Other values than those of an event, of the same kind.

use std::time::Duration;

use serde_json::{Value, json};
use shared::base::time::Timestamp;

/// Other values of the same kind, the likeliest to be taken first. The schema may take none of them.
pub(super) fn others_of(value: &Value, schema: &Value, by: u64, shift: Duration) -> Vec<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().filter(|other| *other != value).cloned().collect();
    }
    match value {
        Value::String(text) => match Timestamp::parse(text).filter(|_| text.contains('T')) {
            Some(moment) => vec![json!((moment + shift).to_string())],
            None => {
                let others = [Some(longer(text, by)), with_a_later_number(text, by), counted_on(text, by)];
                others.into_iter().flatten().map(|other| json!(other)).collect()
            }
        },
        Value::Number(number) => match (number.as_i64(), i64::try_from(by), number.as_f64()) {
            (Some(whole), Ok(by), _) => {
                [whole.checked_add(by), whole.checked_sub(by)].into_iter().flatten().map(|other| json!(other)).collect()
            }
            (_, _, Some(number)) => vec![json!(number + by as f64), json!(number - by as f64)],
            _ => Vec::new(),
        },
        Value::Bool(value) => vec![json!(!value)],
        _ => Vec::new(),
    }
}

/// A text with something more.
fn longer(text: &str, by: u64) -> String {
    let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '+');
    match digits {
        true => format!("{text}{by}"),
        false if text.contains('@') => format!("x{by}.{text}"),
        false => format!("{text}-{by}"),
    }
}

/// A text whose last number is a later one.
fn with_a_later_number(text: &str, by: u64) -> Option<String> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let begin = text[..end].char_indices().rev().take_while(|(_, c)| c.is_ascii_digit()).last()?.0;
    let number: u64 = text.get(begin..end)?.parse().ok()?;
    let width = end - begin;
    Some(format!("{}{:0width$}{}", &text[..begin], number.checked_add(by)?, &text[end..]))
}

/// A text of the same shape: its digits and letters are counted on like a meter, from its end, each among its own kind.
fn counted_on(text: &str, by: u64) -> Option<String> {
    let (mut chars, mut left): (Vec<char>, u64) = (text.chars().collect(), by);
    for place in chars.iter_mut().rev() {
        let kinds = ['0'..='9', 'a'..='f', 'g'..='z', 'A'..='F', 'G'..='Z'];
        let Some(kind) = kinds.into_iter().find(|kind| kind.contains(place)) else { continue };
        let (first, last) = (u64::from(u32::from(*kind.start())), u64::from(u32::from(*kind.end())));
        let (size, at) = (last - first + 1, u64::from(u32::from(*place)) - first + left);
        *place = u32::try_from(first + at % size).ok().and_then(char::from_u32)?;
        left = at / size;
        if left == 0 {
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_text_is_a_later_one() {
        for (text, by, other) in [("o-9", 1, Some("o-10")), ("o-007b", 2, Some("o-009b")), ("o", 1, None)] {
            assert_eq!(with_a_later_number(text, by).as_deref(), other, "{text}");
        }
    }

    #[test]
    fn a_text_is_counted_on_in_its_own_shape() {
        for (text, by, other) in [
            ("o-1", 1, Some("o-2")),
            ("o-9", 1, Some("p-0")),
            ("o-19", 12, Some("o-31")),
            ("3f-ff", 1, Some("4a-aa")),
            ("SKU", 1, Some("SKV")),
            ("-", 1, None),
            ("9", 1, None),
        ] {
            assert_eq!(counted_on(text, by).as_deref(), other, "{text}");
        }
    }
}
