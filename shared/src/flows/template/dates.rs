//! Filters for moments and dates.
//!
//! A moment is RFC 3339 with an offset, as in `now`, or a number of Unix seconds. Every other spelling is read by
//! `date_parse`, which says how it is written. No filter knows what time it is: a retry renders what the first call sent.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::fmt::{rfc2822, strtime, temporal::DateTimeParser};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use super::filters::{bad_argument, of_text, undefined};
use crate::base::time::parse_duration;

/// The longest format that is taken, in bytes: each directive of it makes a few characters.
const MAX_FORMAT: usize = 100;

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("date_parse", date_parse);
    environment.add_filter("date_format", date_format);
    environment.add_filter("date_add", date_add);
    environment.add_filter("date_zone", date_zone);
    environment.add_filter("date_unix", date_unix);
}

/// A text in some spelling as a moment. Without a format: RFC 3339, RFC 2822, or a date. What has no offset is in `zone`.
fn date_parse(state: &State<'_, '_>, value: &Value, format: Option<String>, named: Kwargs) -> Result<Value, Error> {
    let zone = zone(named.get("zone")?)?.unwrap_or(TimeZone::UTC);
    named.assert_all_used()?;
    let format = format.map(checked_format).transpose()?;
    of_text(state, value, |text| {
        let moment = match &format {
            Some(format) => with_format(text, format, &zone),
            None => spelled(text, &zone),
        };
        moment.map(|moment| moment.to_string().into()).ok_or_else(|| bad_value("the text is no date in this spelling"))
    })
}

fn with_format(text: &str, format: &str, zone: &TimeZone) -> Option<Timestamp> {
    let parts = strtime::parse(format, text).ok()?;
    if let Ok(moment) = parts.to_timestamp() {
        return Some(moment);
    }
    let local = parts.to_datetime().or_else(|_| parts.to_date().map(DateTime::from)).ok()?;
    zone.to_timestamp(local).ok()
}

fn spelled(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let text = text.trim();
    let with_offset = text.parse().ok().or_else(|| rfc2822::DateTimeParser::new().parse_timestamp(text).ok());
    let local = || text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(DateTime::from));
    with_offset.or_else(|| zone.to_timestamp(local()?).ok())
}

/// A moment in a format of `strftime`, in the zone that is said, else at the moment's own offset.
fn date_format(state: &State<'_, '_>, value: &Value, format: &Value, named: Kwargs) -> Result<Value, Error> {
    let zone = zone(named.get("zone")?)?;
    named.assert_all_used()?;
    let Some(format) = text(format)? else { return undefined(state) };
    let format = checked_format(format)?;
    of_moment(state, value, |moment| {
        let moment = zone.map_or(moment.clone(), |zone| moment.with_time_zone(zone));
        let text = strtime::format(&format, &moment).map_err(|_| bad_value("the moment cannot be written so"))?;
        Ok(text.into())
    })
}

/// A moment some time later, or earlier with a minus.
fn date_add(state: &State<'_, '_>, value: &Value, time: &Value) -> Result<Value, Error> {
    let Some(time) = text(time)? else { return undefined(state) };
    let (earlier, length) = time.strip_prefix('-').map_or((false, time.as_str()), |rest| (true, rest));
    let length = parse_duration(length).map_err(bad_argument)?;
    of_moment(state, value, |moment| {
        let later = moved(&moment, length, earlier).ok_or_else(|| bad_value("there is no such moment"))?;
        Ok(written(&later).into())
    })
}

fn moved(moment: &Zoned, length: Duration, earlier: bool) -> Option<Zoned> {
    let length = SignedDuration::try_from(length).ok()?;
    if earlier { moment.checked_sub(length).ok() } else { moment.checked_add(length).ok() }
}

/// A moment as it is written in a zone, with the offset of that zone.
fn date_zone(state: &State<'_, '_>, value: &Value, name: &Value) -> Result<Value, Error> {
    let Some(name) = text(name)? else { return undefined(state) };
    let zone = zone(Some(name))?.unwrap_or(TimeZone::UTC);
    of_moment(state, value, |moment| Ok(written(&moment.with_time_zone(zone)).into()))
}

/// A moment as Unix seconds.
fn date_unix(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    of_moment(state, value, |moment| Ok(moment.timestamp().as_second().into()))
}

/// An argument that has to be a text; nothing, where it is undefined.
fn text(argument: &Value) -> Result<Option<String>, Error> {
    match argument.as_str() {
        _ if argument.is_undefined() => Ok(None),
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(bad_argument("must be a text")),
    }
}

fn of_moment(
    state: &State<'_, '_>,
    value: &Value,
    filter: impl FnOnce(Zoned) -> Result<Value, Error>,
) -> Result<Value, Error> {
    if value.is_undefined() {
        return undefined(state);
    }
    let moment = match value.kind() {
        ValueKind::None => return Ok(value.clone()),
        ValueKind::Number => unix(value).map(|moment| moment.to_zoned(TimeZone::UTC)),
        _ => value.as_str().and_then(at_its_offset),
    };
    filter(moment.ok_or_else(|| bad_value("this is no moment: read it with date_parse"))?)
}

fn unix(value: &Value) -> Option<Timestamp> {
    match i64::try_from(value.clone()) {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => {
            let seconds = f64::try_from(value.clone()).ok().filter(|seconds| seconds.is_finite())?;
            Timestamp::from_duration(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
        }
    }
}

/// A moment of RFC 3339 at the offset that it is written with.
fn at_its_offset(text: &str) -> Option<Zoned> {
    let moment: Timestamp = text.trim().parse().ok()?;
    let pieces = DateTimeParser::new().parse_pieces(text.trim()).ok()?;
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    Some(moment.to_zoned(TimeZone::fixed(offset)))
}

/// A moment as RFC 3339, with the offset of its zone; `Z` where that is none. RFC 3339 knows no seconds in an offset, as
/// zones had them before there was standard time: at whole minutes, it is still the same moment.
fn written(moment: &Zoned) -> String {
    let seconds = moment.offset().seconds();
    match Offset::from_seconds(seconds - seconds % 60) {
        Ok(Offset::UTC) | Err(_) => moment.timestamp().to_string(),
        Ok(offset) => moment.timestamp().display_with_offset(offset).to_string(),
    }
}

fn zone(name: Option<String>) -> Result<Option<TimeZone>, Error> {
    let get = |name: String| TimeZone::get(&name).map_err(|_| bad_argument(format!("`{name}` is no time zone")));
    name.map(get).transpose()
}

fn checked_format(format: String) -> Result<String, Error> {
    let now = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    if format.len() > MAX_FORMAT || strtime::format(&format, &now).is_err() {
        return Err(bad_argument(format!("`{}` is no format of a date", format.chars().take(40).collect::<String>())));
    }
    Ok(format)
}

fn bad_value(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

#[cfg(test)]
mod tests;
