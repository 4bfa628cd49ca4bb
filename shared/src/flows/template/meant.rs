//! What the author of a template that is malformed may have meant.

use crate::base::suggest::suggest;

/// The filters that there are: ours, and Jinja's.
const FILTERS: &str = "abs attr base64 batch bool capitalize chain count date_add date_format date_parse date_unix date_zone \
    default dictsort e164 escape first float format groupby hex hmac indent int items join last length lines list lower map max \
    md5 min pprint reject rejectattr replace reverse round safe select selectattr sha1 sha256 since slice sort split string sum \
    title tojson trim unique upper zip";

/// The tests that there are.
const TESTS: &str = "boolean defined divisibleby endingwith even false float integer iterable mapping none number odd \
    startingwith string undefined";

/// What may have been meant, by what the engine says of a text.
pub(super) fn meant(told: &str, text: &str) -> Option<String> {
    let named = |kind: &str| told.strip_prefix(kind)?.strip_suffix(" is unknown");
    let known = |name: &str, known: &'static str| {
        Some(suggest(name, known.split_whitespace())).filter(|hint| hint.starts_with("did you mean"))
    };
    if let Some(name) = named("filter ") {
        return known(name, FILTERS);
    }
    if let Some(name) = named("test ") {
        return known(name, TESTS);
    }
    (told.starts_with("unexpected") && !text.contains("{%") && assigns(text)).then(|| "`==` compares".to_owned())
}

/// Whether a text has a single `=` outside of quotes and of the arguments of a call.
fn assigns(text: &str) -> bool {
    let (mut quote, mut depth, mut before) = (None, 0_usize, ' ');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => (),
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, '=') if depth == 0 && !"=!<>".contains(before) && chars.peek() != Some(&'=') => return true,
            _ => (),
        }
        before = c;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::unknown_names;
    use super::*;

    #[test]
    fn a_slip_is_told_with_what_was_meant() {
        for (told, text, hint) in [
            ("filter lenght is unknown", "a | lenght", Some("did you mean `length`?")),
            ("test difined is unknown", "a is difined", Some("did you mean `defined`?")),
            ("filter shout is unknown", "a | shout", None),
            ("unexpected `=`", "event.kind = 'b'", Some("`==` compares")),
            ("unexpected `)`", "event.kind == '=' and a >= b)", None),
            ("unexpected `)`", "a | round(precision=2))", None),
        ] {
            assert_eq!(meant(told, text).as_deref(), hint, "{text}");
        }
    }

    #[test]
    fn what_is_suggested_is_there() {
        for name in FILTERS.split_whitespace() {
            assert_eq!(unknown_names(&format!("event | {name}")).err().filter(|why| why.contains("unknown")), None);
        }
        for name in TESTS.split_whitespace() {
            assert_eq!(unknown_names(&format!("event is {name}")).err().filter(|why| why.contains("unknown")), None);
        }
    }
}
