//! Phone numbers as partners take them: a plus and digits.
//!
//! Without the metadata of numbering plans on purpose: a strict library rejects numbers that are good, and nobody hears
//! of those people again. A partner says itself what it does not take.

/// A number as E.164 writes it: a plus, and digits. It never rejects one.
///
/// - With a plus or `00` before it, a number is international. `(0)` in it is the trunk prefix, which is not dialled.
/// - Any other is national where a `country` is declared: its trunk prefix is taken off, and the country goes before it.
///   Where none is, it is taken for international.
/// - What follows a letter, `;`, `,` or `#` behind the number is an extension, and is left out.
/// - What has no digit comes out as it is.
pub(super) fn e164(text: &str, country: Option<&str>, trunk: &str) -> String {
    let number = text.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '+');
    let end = number.find(|c: char| c.is_alphabetic() || matches!(c, ';' | ',' | '#')).unwrap_or(number.len());
    let number = &number[..end];
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let whole = digits(number);
    if whole.is_empty() {
        return text.to_owned();
    }
    if number.starts_with('+') {
        return format!("+{}", digits(&number.replacen("(0)", "", 1)));
    }
    if let Some(international) = whole.strip_prefix("00").filter(|rest| !rest.is_empty()) {
        return format!("+{international}");
    }
    match country {
        Some(country) => format!("+{country}{}", whole.strip_prefix(trunk).unwrap_or(&whole)),
        None => format!("+{whole}"),
    }
}

/// A calling code: one to three digits, with or without a plus.
pub(super) fn country(text: &str) -> Option<String> {
    digits(text.trim().trim_start_matches('+')).filter(|digits| !digits.is_empty())
}

/// A trunk prefix: up to three digits.
pub(super) fn trunk(text: &str) -> Option<String> {
    digits(text.trim())
}

fn digits(text: &str) -> Option<String> {
    (text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        for (text, country, trunk, expected) in [
            ("+49 151 1234567", None, "0", "+491511234567"),
            ("+49 (0)151/123-45.67", None, "0", "+491511234567"),
            ("0049 151 1234567", None, "0", "+491511234567"),
            ("tel:+1-555-0100;ext=5", None, "0", "+15550100"),
            ("+1 555 0100 x12", None, "0", "+15550100"),
            ("0151 1234567", Some("49"), "0", "+491511234567"),
            ("(555) 010-0199", Some("1"), "1", "+15550100199"),
            ("1 555 010 0199", Some("1"), "1", "+15550100199"),
            ("06 1234567", Some("39"), "", "+39061234567"),
            ("491511234567", None, "0", "+491511234567"),
            ("+44 20 7946 0018", Some("49"), "0", "+442079460018"),
            ("0044 20 7946 0018", Some("49"), "0", "+442079460018"),
            ("ask Ada", Some("49"), "0", "ask Ada"),
            ("", None, "0", ""),
            ("+", None, "0", "+"),
            ("00", None, "0", "+00"),
        ] {
            assert_eq!(e164(text, country, trunk), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_a_plus_and_digits_or_comes_out_as_it_is(text in any::<String>(), country in prop::option::of("[1-9][0-9]{0,2}")) {
            let number = e164(&text, country.as_deref(), "0");
            let digits = number.strip_prefix('+').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
            prop_assert!(digits || number == text);
        }

        #[test]
        fn a_number_that_is_one_stays_it(digits in "[1-9][0-9]{6,14}") {
            let number = format!("+{digits}");
            prop_assert_eq!(e164(&number, Some("49"), "0"), number);
        }
    }
}
