//! The one timestamp type, and the one place for its arithmetic.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// A moment, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The moment `secs` seconds after the Unix epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, as DynamoDB's TTL wants them.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Reads a moment as senders write it: RFC 3339, or seconds since the Unix epoch.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(secs) = text.parse() {
            return Some(Self::from_secs(secs));
        }
        let moment: jiff::Timestamp = text.parse().ok()?;
        Some(Self(moment.as_millisecond()))
    }

    /// The start of the period of this length that the moment lies in.
    #[must_use]
    pub fn floor(self, every: Duration) -> Self {
        let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
        Self(self.0.div_euclid(every).saturating_mul(every))
    }

    /// The time since `earlier`; zero if this moment is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, duration: Duration) -> Timestamp {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(millis))
    }
}

/// The units to which a moment can be cut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// One day, in UTC.
    Day,
}

impl Unit {
    /// The length of the unit.
    pub fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3600,
            Unit::Day => 24 * 3600,
        })
    }
}

/// RFC 3339 in UTC, to the millisecond.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// A time of day, as `21:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String", extend("pattern" = "^[0-9]{2}:[0-9]{2}$")))]
#[serde(try_from = "String")]
pub struct HourMinute(jiff::civil::Time);

impl TryFrom<String> for HourMinute {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let time = jiff::civil::Time::strptime("%H:%M", &text);
        time.map(HourMinute).map_err(|_| format!("`{text}` is not a time of day; write `21:00`"))
    }
}

/// Whether there is a time zone of this name.
pub fn is_time_zone(name: &str) -> bool {
    jiff::tz::TimeZone::get(name).is_ok()
}

/// The end of the hours from `from` until `to`, in this time zone, if `now` lies in them; `None` otherwise. A
/// name that is no time zone counts as UTC.
pub fn within_until(now: Timestamp, from: HourMinute, to: HourMinute, zone: &str) -> Option<Timestamp> {
    let zone = jiff::tz::TimeZone::get(zone).unwrap_or(jiff::tz::TimeZone::UTC);
    let local = zone.to_datetime(jiff::Timestamp::from_millisecond(now.0).ok()?);
    let time = local.time();
    let within = if from.0 <= to.0 { (from.0..to.0).contains(&time) } else { time >= from.0 || time < to.0 };
    if !within {
        return None;
    }
    let day = if time < to.0 { local.date() } else { local.date().tomorrow().ok()? };
    let end = day.to_datetime(to.0).to_zoned(zone).ok()?;
    Some(Timestamp(end.timestamp().as_millisecond()))
}

/// A duration as flow files write it: `500ms`, `2s`, `48h`, `1h30m`, `30d`. For `#[serde(with = "DurationText")]`.
#[derive(Debug)]
pub struct DurationText;

impl DurationText {
    /// Reads a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        duration(deserializer)
    }
}

/// Reads a duration as flow files write it.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Reads a duration as flow files write it, or says how it is written.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!(
            "`{text}` is not a duration; its units are ms, s, m and h, or d alone; write `500ms`, `2s`, `48h`, `30d`"
        )
    };
    read_duration(text).ok_or_else(bad)
}

/// Reads a duration in the one accepted form: jiff would take `5 minutes` and `PT5M`, too.
fn read_duration(text: &str) -> Option<Duration> {
    // jiff takes no days: those of a calendar differ in length. Ours have 24 hours.
    if let Some(days) = text.strip_suffix('d').filter(|days| days.bytes().all(|byte| byte.is_ascii_digit())) {
        return days.parse::<u64>().ok()?.checked_mul(24 * 3600).map(Duration::from_secs);
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"hms".contains(&byte));
    let signed: SignedDuration = text.parse().ok().filter(|_| plain)?;
    Duration::try_from(signed).ok()
}

impl fmt::Display for HourMinute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

/// Reads a duration as flow files write it, for a field that may be absent.
pub fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(from: &str, to: &str, zone: &str, now: &str) -> Option<String> {
        let time = |text: &str| HourMinute::try_from(text.to_owned()).expect("a time of day");
        let now = Timestamp::parse(now).expect("a moment");
        within_until(now, time(from), time(to), zone).map(|until| until.to_string())
    }

    #[test]
    fn hours_may_cross_midnight_and_are_local() {
        let berlin = |now| hours("21:00", "08:00", "Europe/Berlin", now);
        assert_eq!(berlin("2026-11-16T19:59:59Z"), None);
        assert_eq!(berlin("2026-11-16T20:00:00Z"), Some("2026-11-17T07:00:00.000Z".into()));
        assert_eq!(berlin("2026-11-17T02:00:00Z"), Some("2026-11-17T07:00:00.000Z".into()));
        assert_eq!(berlin("2026-11-17T07:00:00Z"), None);
        assert_eq!(
            hours("12:00", "14:00", "America/New_York", "2026-11-16T18:00:00Z"),
            Some("2026-11-16T19:00:00.000Z".into())
        );
        assert_eq!(hours("12:00", "14:00", "UTC", "2026-11-16T14:00:00Z"), None);
    }

    /// The night in which Berlin's clocks are set back is an hour longer.
    #[test]
    fn hours_keep_to_the_clock_on_the_wall() {
        assert_eq!(
            hours("21:00", "08:00", "Europe/Berlin", "2026-10-24T19:30:00Z"),
            Some("2026-10-25T07:00:00.000Z".into())
        );
    }

    #[test]
    fn shows_rfc_3339_to_the_millisecond() {
        assert_eq!(Timestamp::from_millis(1_763_287_200_042).to_string(), "2025-11-16T10:00:00.042Z");
    }

    #[test]
    fn a_moment_before_is_no_time_ago() {
        let (early, late) = (Timestamp::from_secs(10), Timestamp::from_secs(17));
        assert_eq!(late.since(early), Duration::from_secs(7));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn reads_a_moment_as_senders_write_it() {
        let noon = Some(Timestamp::from_secs(1_794_830_400));
        assert_eq!(Timestamp::parse("2026-11-16T12:00:00Z"), noon);
        assert_eq!(Timestamp::parse("2026-11-16T13:00:00+01:00"), noon);
        assert_eq!(Timestamp::parse("1794830400"), noon);
        for bad in ["", "noon", "2026-11-16", "2026-11-16T12:00:00", "1e9"] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_stretch_starts_where_it_starts() {
        let five = Duration::from_secs(300);
        assert_eq!(Timestamp::from_secs(1_794_830_699).floor(five), Timestamp::from_secs(1_794_830_400));
        assert_eq!(Timestamp::from_secs(1_794_830_700).floor(five), Timestamp::from_secs(1_794_830_700));
        assert_eq!(Timestamp::from_millis(-1).floor(five), Timestamp::from_secs(-300));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::from_millis(i64::MAX) + Duration::MAX, Timestamp::from_millis(i64::MAX));
        assert_eq!(Timestamp::from_millis(i64::MIN) - Duration::MAX, Timestamp::from_millis(i64::MIN));
    }

    #[test]
    fn reads_the_durations_of_flow_files() {
        #[derive(Deserialize)]
        struct Wait {
            #[serde(deserialize_with = "duration")]
            wait: Duration,
        }
        let read = |text: &str| serde_json::from_value::<Wait>(serde_json::json!({ "wait": text })).map(|w| w.wait);
        assert_eq!(read("500ms").ok(), Some(Duration::from_millis(500)));
        assert_eq!(read("48h").ok(), Some(Duration::from_secs(48 * 3600)));
        assert_eq!(read("1h30m").ok(), Some(Duration::from_secs(90 * 60)));
        assert_eq!(read("30d").ok(), Some(Duration::from_secs(30 * 24 * 3600)));
        for bad in ["", "soon", "-2s", "2", "5 minutes", "PT5M", "1.5h", "d", "1d2h"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
