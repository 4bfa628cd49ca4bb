//! Filters that partners need: digests, encodings, phone numbers.
//!
//! Each is a function of its arguments alone, so that a retry renders what the first call sent. `none` stays `none`: an
//! optional value is left out after a filter as before it. A wrong argument is found when the files are read.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::environment::plain_text;
use super::phone;
use crate::base::id::hex;

/// The longest text that a filter takes, in bytes. An event is smaller.
const MAX_TEXT: usize = 1 << 20;

/// The beginning of an error about an argument, which does not depend on an event.
const ARGUMENT: &str = "its argument ";

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("sha256", |state: &State<'_, '_>, value: &Value, how: Option<String>| {
        digest::<Sha256>(state, value, how.as_deref())
    });
    environment.add_filter("sha1", |state: &State<'_, '_>, value: &Value, how: Option<String>| {
        digest::<Sha1>(state, value, how.as_deref())
    });
    environment.add_filter("md5", |state: &State<'_, '_>, value: &Value, how: Option<String>| {
        digest::<Md5>(state, value, how.as_deref())
    });
    environment.add_filter("hmac", keyed_digest);
    environment.add_filter("base64", base64);
    environment.add_filter("hex", |state: &State<'_, '_>, value: &Value| {
        of_text(state, value, |text| Ok(hex(text.as_bytes()).into()))
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("e164", e164);
    // Jinja's own would make the word "none" of what is none, and a digest of that.
    environment.add_filter("lower", |state: &State<'_, '_>, value: &Value| {
        of_text(state, value, |text| Ok(text.to_lowercase().into()))
    });
    environment.add_filter("upper", |state: &State<'_, '_>, value: &Value| {
        of_text(state, value, |text| Ok(text.to_uppercase().into()))
    });
    environment.add_filter("trim", |state: &State<'_, '_>, value: &Value, characters: Option<String>| {
        of_text(state, value, |text| Ok(trimmed(text, characters.as_deref()).into()))
    });
}

fn trimmed<'t>(text: &'t str, characters: Option<&str>) -> &'t str {
    characters.map_or_else(|| text.trim(), |characters| text.trim_matches(|c| characters.contains(c)))
}

/// The result of a filter over a text. What is `none` stays it, and what is undefined is an error where that is one.
pub(super) fn of_text(
    state: &State<'_, '_>,
    value: &Value,
    filter: impl FnOnce(&str) -> Result<Value, Error>,
) -> Result<Value, Error> {
    if value.is_undefined() {
        return undefined(state);
    }
    if value.is_none() {
        return Ok(value.clone());
    }
    match plain_text(value) {
        Some(text) if text.len() <= MAX_TEXT => filter(&text),
        Some(_) => Err(Error::new(ErrorKind::InvalidOperation, "the text is too long for a filter")),
        None => Err(Error::new(ErrorKind::InvalidOperation, "a filter takes a text or a number")),
    }
}

pub(super) fn undefined(state: &State<'_, '_>) -> Result<Value, Error> {
    match state.undefined_behavior() {
        UndefinedBehavior::Strict | UndefinedBehavior::SemiStrict => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Ok(Value::UNDEFINED),
    }
}

/// An error that says what is wrong with a filter's argument.
pub(super) fn bad_argument(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{ARGUMENT}{what}"))
}

/// Whether an error is about the template itself, and not about what it is rendered from.
pub(super) fn is_mistake(error: &Error) -> bool {
    is_unknown_name(error)
        || matches!(error.kind(), ErrorKind::MissingArgument | ErrorKind::TooManyArguments)
        || error.detail().is_some_and(|detail| detail.starts_with(ARGUMENT))
}

/// Whether an error is about a filter, a test or a function that is not there.
pub(super) fn is_unknown_name(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction)
}

fn digest<D: Digest>(state: &State<'_, '_>, value: &Value, how: Option<&str>) -> Result<Value, Error> {
    let written = encoding(how)?;
    of_text(state, value, |text| Ok(written(&D::digest(text.as_bytes())).into()))
}

fn keyed_digest(
    state: &State<'_, '_>,
    value: &Value,
    key: &Value,
    algorithm: Option<String>,
    how: Option<String>,
) -> Result<Value, Error> {
    let written = encoding(how.as_deref())?;
    let mac: fn(&[u8], &[u8]) -> Vec<u8> = match algorithm.as_deref() {
        None | Some("sha256") => mac::<Hmac<Sha256>>,
        Some("sha1") => mac::<Hmac<Sha1>>,
        Some("sha512") => mac::<Hmac<Sha512>>,
        Some(other) => return Err(bad_argument(format!("`{other}` is no algorithm: write sha256, sha1 or sha512"))),
    };
    if key.is_undefined() {
        return undefined(state);
    }
    let key = plain_text(key).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "a key is a text"))?;
    of_text(state, value, |text| Ok(written(&mac(key.as_bytes(), text.as_bytes())).into()))
}

fn mac<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// The way in which the bytes of a digest are written.
fn encoding(how: Option<&str>) -> Result<fn(&[u8]) -> String, Error> {
    match how {
        None | Some("hex") => Ok(hex),
        Some("base64") => Ok(|bytes| STANDARD.encode(bytes)),
        Some(other) => Err(bad_argument(format!("`{other}` is no encoding: write hex or base64"))),
    }
}

fn base64(state: &State<'_, '_>, value: &Value, alphabet: Option<String>) -> Result<Value, Error> {
    let engine = match alphabet.as_deref() {
        None => &STANDARD,
        Some("url") => &URL_SAFE_NO_PAD,
        Some(other) => return Err(bad_argument(format!("`{other}` is no alphabet: write url, or nothing"))),
    };
    of_text(state, value, |text| Ok(engine.encode(text).into()))
}

/// Any value as JSON in a text, for partners that want JSON inside of JSON.
fn tojson(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return undefined(state);
    }
    let json = serde_json::to_string(value).map_err(|_| Error::new(ErrorKind::BadSerialization, "this is no JSON"))?;
    Ok(json.into())
}

/// A phone number in E.164. It rejects nothing that an event says: a `country` or a `trunk` that cannot be used counts as
/// not given, and what is no text and no number comes out as it is.
fn e164(state: &State<'_, '_>, value: &Value, country: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let trunk: Option<Value> = named.get("trunk")?;
    named.assert_all_used()?;
    if value.is_undefined() {
        return undefined(state);
    }
    let Some(text) = plain_text(value).filter(|text| text.len() <= MAX_TEXT) else { return Ok(value.clone()) };
    let country = country.and_then(|country| phone::country(&plain_text(&country)?));
    let trunk = trunk.and_then(|trunk| phone::trunk(&plain_text(&trunk)?));
    Ok(phone::e164(&text, country.as_deref(), trunk.as_deref().unwrap_or("0")).into())
}

/// The same where a file is only tried out: what stands in the file can be put right.
fn e164_of_a_file(state: &State<'_, '_>, value: &Value, country: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let written = |value: &Option<Value>| value.as_ref().filter(|it| !it.is_undefined() && !it.is_none()).cloned();
    if let Some(bad) = written(&country).filter(|it| plain_text(it).and_then(|text| phone::country(&text)).is_none()) {
        return Err(bad_argument(format!("`{bad}` is no calling code: write `'49'`, or nothing")));
    }
    let trunk = written(&named.peek("trunk").ok());
    if let Some(bad) = trunk.filter(|it| plain_text(it).and_then(|text| phone::trunk(&text)).is_none()) {
        return Err(bad_argument(format!("`{bad}` is no trunk prefix: write `trunk='0'`")));
    }
    e164(state, value, country, named)
}

/// Filters that find fault with arguments which stand in a file, and would bear them in an event.
pub(super) fn add_strict(environment: &mut Environment<'static>) {
    environment.add_filter("e164", e164_of_a_file);
}

#[cfg(test)]
mod tests;
