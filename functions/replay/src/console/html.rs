//! HTML that no value can break out of.
//!
//! Markup is known at compile time, and values only fill its gaps, escaped for text and for quoted
//! attributes alike. Nothing else makes an [`Html`].

use std::fmt::Write as _;

use serde_json::Value;
use shared::base::id::EventId;
use shared::base::visible;

/// Markup of ours, with every value in it escaped.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(String);

shared::base::masked::prints_only!(Html as "Html");

/// A value that can fill a gap.
pub(super) trait Show {
    /// Writes the value so that it cannot be taken for markup.
    fn show(&self, out: &mut String);
}

/// Fills each `{}` of the markup with the next value.
pub(super) fn html(markup: &'static str, values: &[&dyn Show]) -> Html {
    debug_assert_eq!(markup.matches("{}").count(), values.len(), "{markup}");
    let mut out = String::new();
    let mut values = values.iter();
    for (at, piece) in markup.split("{}").enumerate() {
        if let Some(value) = (at > 0).then(|| values.next()).flatten() {
            value.show(&mut out);
        }
        out.push_str(piece);
    }
    Html(out)
}

/// The parameters of a call, as a `<cwdb-action>` holds them. They have no character that means something in
/// HTML, so that a reader of the element's text and a reader of its markup see the same JSON.
pub(super) struct Json(pub(super) Value);

impl Html {
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<I: IntoIterator<Item = Html>>(parts: I) -> Self {
        Html(parts.into_iter().map(Html::into_text).collect())
    }
}

impl Show for Html {
    fn show(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

impl Show for &str {
    fn show(&self, out: &mut String) {
        for c in visible::on_lines(self).chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                c => out.push(c),
            }
        }
    }
}

impl Show for String {
    fn show(&self, out: &mut String) {
        self.as_str().show(out);
    }
}

impl Show for EventId {
    fn show(&self, out: &mut String) {
        self.as_str().show(out);
    }
}

impl Show for u32 {
    fn show(&self, out: &mut String) {
        self.to_string().show(out);
    }
}

impl Show for usize {
    fn show(&self, out: &mut String) {
        self.to_string().show(out);
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self, out: &mut String) {
        if let Some(value) = self {
            value.show(out);
        }
    }
}

impl Show for Json {
    fn show(&self, out: &mut String) {
        for c in visible::in_json(&self.0.to_string()).chars() {
            match c {
                '<' | '>' | '&' | '\'' => {
                    // Writing to a `String` never fails.
                    let _ = write!(out, "\\u{:04x}", c as u32);
                }
                c => out.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "</td>\"'><img src=x onerror=alert(1)>&amp;{}\u{202e}\u{9b}";

    #[test]
    fn a_value_stays_text_in_text_and_in_attributes() {
        let page = html(r#"<td title="{}">{}</td>"#, &[&HOSTILE, &HOSTILE.to_owned()]).into_text();
        assert_eq!(page.matches('<').count(), 2, "{page}");
        assert_eq!(page.matches('"').count(), 2, "{page}");
        assert!(!page.contains('\''), "{page}");
        assert!(!page.chars().any(visible::is_invisible) && page.contains(r"\u{202e}\u{9b}"), "{page}");
        assert!(page.contains("&amp;amp;{}"), "what is a gap in a value is no gap: {page}");
    }

    #[test]
    fn parameters_come_back_as_they_went_and_are_no_markup() {
        let params = json!({HOSTILE: [HOSTILE, 1, null]});
        let text = html("{}", &[&Json(params.clone())]).into_text();
        assert!(!text.contains(['<', '>', '&', '\'']) && !text.chars().any(visible::is_invisible), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), params);
    }

    #[test]
    fn what_is_markup_already_is_not_escaped_again() {
        let cells: Html = ["a", "<b>"].iter().map(|cell| html("<td>{}</td>", &[cell])).collect();
        assert_eq!(html("<tr>{}</tr>", &[&cells]).into_text(), "<tr><td>a</td><td>&lt;b&gt;</td></tr>");
    }
}
