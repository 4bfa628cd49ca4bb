//! What must not be seen in a partner's words, and how it is masked.

use std::collections::{BTreeMap, BTreeSet};

use base64::prelude::*;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::arrival::signature::Secret;
use crate::base::mask::mask_name;

/// Everything that must not be seen in a partner's words: values of the event, results, secrets.
///
/// A value is found as it stands, in any case, and in the forms in which requests and answers write it: in URLs, forms,
/// JSON, HTML, base64 and hex. The words of a short value are found alone, because a partner may quote a surname. What
/// looks like an email address, or has seven digits in a row, is masked whosever it is.
#[derive(Clone, Default)]
pub struct Mask {
    /// The folded forms, by their first character.
    forms: BTreeMap<char, BTreeSet<Vec<char>>>,
    /// Folded words.
    words: BTreeSet<String>,
    /// Texts that are too short to be masked inside of words.
    short: BTreeSet<String>,
}

/// It holds what must not be seen.
impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask(…)")
    }
}

/// The shortest value that is masked wherever it stands, in characters. A shorter one is masked as a word of its own.
const SHORTEST: usize = 4;

/// The most words of a value that are masked one by one: a name and an address, not a letter.
const FEW_WORDS: usize = 6;

/// The fewest digits that are taken for a number of a person.
const MANY_DIGITS: usize = 7;

const MASK: &str = "***";

impl Mask {
    /// Hides the plain values in these, at any depth, and these secrets.
    pub fn new<'v>(values: impl IntoIterator<Item = &'v Value>, secrets: &[Secret]) -> Self {
        let mut masked = Mask::default();
        values.into_iter().for_each(|value| masked.add(value));
        secrets.iter().for_each(|secret| masked.add_forms(secret.expose().trim()));
        masked
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_text(text.trim()),
            Value::Number(number) => self.add_text(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| {
                // A sender may use an email address as a name. Plain names are the flow's own words.
                if mask_name(name) != *name {
                    self.add_text(name);
                }
                self.add(field);
            }),
            Value::Bool(_) | Value::Null => (),
        }
    }

    fn add_text(&mut self, text: &str) {
        if text.chars().count() < SHORTEST {
            let is_word = text.chars().any(char::is_alphabetic);
            self.short.extend(is_word.then(|| text.to_owned()));
            return;
        }
        self.add_forms(text);
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        if words.len() <= FEW_WORDS {
            let long = |word: &&&str| word.chars().count() >= SHORTEST && word.chars().any(char::is_alphabetic);
            self.words.extend(words.iter().filter(long).map(|word| fold(word)));
        }
    }

    fn add_forms(&mut self, text: &str) {
        for form in forms(text) {
            let form: Vec<char> = fold(&form).chars().collect();
            if let Some(first) = form.first() {
                self.forms.entry(*first).or_default().insert(form);
            }
        }
    }

    /// The text with everything masked that must not be seen.
    pub fn mask(&self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let mut hidden = vec![false; chars.len()];
        self.hide_forms(&chars, &mut hidden);
        self.hide_words(&chars, &mut hidden);
        hide_addresses(&chars, &mut hidden);
        hide_numbers(&chars, &mut hidden);
        masked_text(&chars, &hidden)
    }

    fn hide_forms(&self, chars: &[char], hidden: &mut [bool]) {
        // Folding may make two characters of one; each keeps the place that it came from.
        let folded: Vec<(char, usize)> =
            chars.iter().enumerate().flat_map(|(at, c)| c.to_lowercase().map(move |c| (c, at))).collect();
        for start in 0..folded.len() {
            let Some(forms) = self.forms.get(&folded[start].0) else { continue };
            let stands_here = |form: &&Vec<char>| {
                folded.get(start..start + form.len()).is_some_and(|here| here.iter().map(|(c, _)| c).eq(form.iter()))
            };
            let longest = forms.iter().filter(stands_here).map(Vec::len).max();
            for (_, at) in folded.iter().skip(start).take(longest.unwrap_or(0)) {
                hidden[*at] = true;
            }
        }
    }

    fn hide_words(&self, chars: &[char], hidden: &mut [bool]) {
        for (start, end) in runs(chars, |c| c.is_alphanumeric()) {
            let word: String = chars[start..end].iter().collect();
            if self.short.contains(&word) || self.words.contains(&fold(&word)) {
                hidden[start..end].fill(true);
            }
        }
    }
}

/// The forms in which a text may stand in an answer.
fn forms(text: &str) -> Vec<String> {
    let percent = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    // Libraries differ in what they leave as it is: the characters that RFC 3986 calls unreserved, and a few more.
    let kept = |of: &[(&str, &str)]| of.iter().fold(percent.clone(), |text, (code, c)| text.replace(code, c));
    let unreserved = [("%2D", "-"), ("%2E", "."), ("%5F", "_"), ("%7E", "~")];
    let in_path = [&unreserved[..], &[("%40", "@"), ("%2B", "+"), ("%3A", ":"), ("%2C", ",")]].concat();
    let in_form = [&unreserved[..], &[("%20", "+")]].concat();
    let json = serde_json::to_string(text).unwrap_or_default();
    let json = json.trim_matches('"').to_owned();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let plain = [
        kept(&unreserved),
        kept(&in_path),
        kept(&in_form),
        ascii_json(&json),
        json,
        html.replace('\'', "&#39;"),
        html.replace('\'', "&#x27;"),
        html.replace('\'', "&apos;"),
        hex(text),
        percent,
        text.to_owned(),
    ];
    plain.into_iter().chain((0..3).flat_map(|before| base64_after(before, text))).collect()
}

/// The text in base64 after so many bytes of something else, as in `user:password`: only what depends on the text alone.
fn base64_after(before: usize, text: &str) -> Vec<String> {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(text.bytes()).collect();
    let whole = (bytes.len() * 8) / 6;
    let from = (before * 8).div_ceil(6);
    let encoded = [BASE64_STANDARD_NO_PAD.encode(&bytes), BASE64_URL_SAFE_NO_PAD.encode(&bytes)];
    let own = encoded.iter().filter_map(|text| text.get(from..whole)).filter(|own| own.len() >= SHORTEST);
    own.map(str::to_owned).collect()
}

/// JSON as many libraries write it: in ASCII alone.
fn ascii_json(json: &str) -> String {
    let mut units = [0; 2];
    let escaped = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    json.chars().map(escaped).collect()
}

fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The stretches of characters of one kind.
fn runs(chars: &[char], is_of: impl Fn(char) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, c) in chars.iter().enumerate().filter(|(_, c)| is_of(**c)) {
        let _ = c;
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

/// Hides whatever looks like an email address, also in a URL.
fn hide_addresses(chars: &[char], hidden: &mut [bool]) {
    let is_part = |c: char| c.is_alphanumeric() || "@%._+-~!#$&*=?^|'/".contains(c);
    for (start, end) in runs(chars, is_part) {
        let run: String = chars[start..end].iter().collect();
        let has_at = run.contains('@') || fold(&run).contains("%40");
        if has_at && end - start > 2 {
            hidden[start..end].fill(true);
        }
    }
}

/// Hides whatever has as many digits in a row as a phone number, however they are set apart.
fn hide_numbers(chars: &[char], hidden: &mut [bool]) {
    let is_part = |c: char| c.is_numeric() || matches!(c, '+' | '-' | '.' | ' ' | '(' | ')' | '/' | '\u{a0}');
    for (start, end) in runs(chars, is_part) {
        let digits = || (start..end).filter(|at| chars[*at].is_numeric());
        if digits().count() >= MANY_DIGITS {
            let (first, last) = (digits().min().unwrap_or(start), digits().max().unwrap_or(start));
            let plus = usize::from(first > start && chars[first - 1] == '+');
            hidden[first - plus..=last].fill(true);
        }
    }
}

fn masked_text(chars: &[char], hidden: &[bool]) -> String {
    let mut text = String::new();
    for (at, c) in chars.iter().enumerate() {
        match hidden[at] {
            true if at > 0 && hidden[at - 1] => (),
            true => text.push_str(MASK),
            false => text.push(*c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn masked(event: Value, text: &str) -> String {
        Mask::new([&event], &[]).mask(text)
    }

    #[test]
    fn a_value_is_found_in_every_form() {
        let event = json!({"note": "Zoë \"Z\" O'Hara & <co>", "path": "a b/c+d"});
        for form in forms("Zoë \"Z\" O'Hara & <co>").into_iter().chain(forms("a b/c+d")) {
            for form in [form.to_uppercase(), form] {
                let told = masked(event.clone(), &format!("bad ({form}) value"));
                assert_eq!(told, "bad (***) value", "{form}");
            }
        }
    }

    #[test]
    fn values_of_every_kind_at_every_depth_are_masked() {
        let event = json!({"lines": [{"sku": "AB-12"}], "total": 1234, "by": {"ada@example.com": "x"}, "city": "Ulm"});
        let told = masked(event, "AB-12 of 1234 by ada@example.com in Ulm, not in Ulmer");
        assert_eq!(told, "*** of *** by *** in ***, not in Ulmer");
    }

    #[test]
    fn the_words_of_a_name_are_masked_alone_and_those_of_a_letter_are_not() {
        assert_eq!(masked(json!("Ada Lovelace"), "no LOVELACE here"), "no *** here");
        let letter = json!("please send the invoice of my order to the new address");
        assert_eq!(masked(letter, "no such order"), "no such order");
    }

    #[test]
    fn addresses_and_numbers_of_anybody_are_masked() {
        for (text, told) in [
            ("to x.y+z@mail.example.org now", "to *** now"),
            ("at /contacts/eve%40x.org?", "at ***"),
            ("The 'To' number +1 (555) 010-0123 is wrong", "The 'To' number *** is wrong"),
            ("Existing ID: 51234567", "Existing ID: ***"),
            ("error 21211, 400", "error 21211, 400"),
            ("v 2026.1", "v 2026.1"),
        ] {
            assert_eq!(masked(json!({}), text), told);
        }
    }

    #[test]
    fn a_secret_is_masked_however_short() {
        let masked = Mask::new([], &[Secret::new("k9!"), Secret::new("t0ken-of-the-crm")]);
        assert_eq!(masked.mask("key k9! is wrong"), "key *** is wrong");
        assert_eq!(format!("{masked:?}"), "Mask(…)");
        for user in ["", "a", "ab", "abc", "AC0123"] {
            let basic = BASE64_STANDARD.encode(format!("{user}:t0ken-of-the-crm"));
            let told = masked.mask(&format!("Basic {basic}"));
            let left = told.trim_start_matches("Basic ").replace("***", "");
            assert!(left.len() <= user.len() * 2 + 4, "{told}");
        }
    }

    proptest! {
        #[test]
        fn no_value_is_left(value in "[^*\\p{C}]{4,20}", before in "[^*]{0,9}", after in "[^*]{0,9}", form in 0..12usize) {
            prop_assume!(value.trim().chars().count() >= SHORTEST);
            let value = value.trim();
            let told = masked(json!({"value": value}), &format!("{before}{}{after}", forms(value)[form]));
            prop_assert!(!fold(&told).contains(&fold(value)), "{told}");
        }
    }
}
