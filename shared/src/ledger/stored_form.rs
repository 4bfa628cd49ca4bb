//! The stored form of a row's entries and moments: short, because every write of a row pays for all of it.
//!
//! An entry is a JSON array: what is known of it, its attempts, the moment of the first intent, the milliseconds from
//! there to the last change, and the result or the error, if there is one:
//! `["d",1,"mh3k2x1z",340,{"id":"c-17"}]`. A moment is a text: `mh3k2x1z claimed`. Times are milliseconds since the Unix
//! epoch, to the base 36. The format before this one had a map for each; both are read.

use std::fmt;

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Entry, Moment, Progress};
use crate::base::time::Timestamp;

const BASE: u32 = 36;

/// The mark of an entry that is in doubt, whatever its last outcome.
const DOUBTFUL: char = '?';

/// The mark of an entry whose call happened without a result that the flow needs.
const HAPPENED: char = '!';

/// Stands before the number of calls that were no attempts, where there were some: `f+2`.
const SPARED: char = '+';

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Entry { attempts, since, at, doubtful, happened, spared, progress } = self;
        let letter = match progress {
            Progress::Intent => "i",
            Progress::Failed { .. } => "f",
            Progress::Unknown { .. } => "u",
            Progress::Skipped => "s",
            Progress::Done { .. } => "d",
        };
        let mut known = letter.to_owned();
        known.extend(doubtful.then_some(DOUBTFUL));
        known.extend(happened.then_some(HAPPENED));
        if *spared > 0 {
            known.push_str(&format!("{SPARED}{spared}"));
        }
        let mut entry = serializer.serialize_seq(None)?;
        entry.serialize_element(&known)?;
        entry.serialize_element(attempts)?;
        entry.serialize_element(&short(*since).map_err(S::Error::custom)?)?;
        entry.serialize_element(&(at.millis() - since.millis()))?;
        match progress {
            Progress::Failed { error } | Progress::Unknown { error } => entry.serialize_element(error)?,
            Progress::Done { result } => entry.serialize_element(result)?,
            Progress::Intent | Progress::Skipped => (),
        }
        entry.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored =
            StoredEntry::deserialize(deserializer).map_err(|_| D::Error::custom("an entry is not readable"))?;
        let read = match stored {
            StoredEntry::Short(known, attempts, since, after, rest) => entry(&known, attempts, &since, after, rest),
            StoredEntry::Plain(known, attempts, since, after) => entry(&known, attempts, &since, after, Value::Null),
            StoredEntry::Long(LongEntry { attempts, since, at, doubtful, happened, progress }) => {
                Some(Entry { attempts, since, at, doubtful, happened, spared: 0, progress })
            }
        };
        read.ok_or_else(|| D::Error::custom("an entry is not readable"))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredEntry {
    Short(String, u32, String, i64, Value),
    Plain(String, u32, String, i64),
    Long(LongEntry),
}

/// An entry of the format before this one.
#[derive(Deserialize)]
struct LongEntry {
    attempts: u32,
    since: Timestamp,
    at: Timestamp,
    #[serde(default)]
    doubtful: bool,
    #[serde(default)]
    happened: bool,
    #[serde(flatten)]
    progress: Progress,
}

fn entry(known: &str, attempts: u32, since: &str, after: i64, rest: Value) -> Option<Entry> {
    let (known, spared) = match known.split_once(SPARED) {
        Some((known, spared)) => (known, spared.parse().ok()?),
        None => (known, 0),
    };
    let mut marks = known.chars();
    let letter = marks.next()?;
    let marks = marks.as_str();
    let error = || rest.as_str().map(str::to_owned);
    let progress = match letter {
        'i' => Progress::Intent,
        'f' => Progress::Failed { error: error()? },
        'u' => Progress::Unknown { error: error()? },
        's' => Progress::Skipped,
        'd' => Progress::Done { result: rest },
        _ => return None,
    };
    if !marks.chars().all(|mark| mark == DOUBTFUL || mark == HAPPENED) {
        return None;
    }
    let (doubtful, happened) = (marks.contains(DOUBTFUL), marks.contains(HAPPENED));
    let since = long(since)?;
    let at = Timestamp::from_millis(since.millis().checked_add(after)?);
    Some(Entry { attempts, since, at, doubtful, happened, spared, progress })
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{} {}", short(self.at).map_err(S::Error::custom)?, self.what))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let unreadable = || D::Error::custom("a line of the history is not readable");
        match StoredMoment::deserialize(deserializer).map_err(|_| unreadable())? {
            StoredMoment::Long { at, what } => Ok(Moment { at, what }),
            StoredMoment::Short(text) => {
                let (at, what) = text.split_once(' ').ok_or_else(unreadable)?;
                Ok(Moment { at: long(at).ok_or_else(unreadable)?, what: what.to_owned() })
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredMoment {
    Short(String),
    Long { at: Timestamp, what: String },
}

/// A moment to the base 36. No event is older than 1970.
fn short(at: Timestamp) -> Result<String, NotAfter1970> {
    let mut left = u64::try_from(at.millis()).map_err(|_| NotAfter1970)?;
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(u32::try_from(left % u64::from(BASE)).unwrap_or_default(), BASE));
        left /= u64::from(BASE);
        if left == 0 {
            return Ok(digits.into_iter().rev().collect());
        }
    }
}

fn long(text: &str) -> Option<Timestamp> {
    u64::from_str_radix(text, BASE).ok().and_then(|millis| i64::try_from(millis).ok()).map(Timestamp::from_millis)
}

#[derive(Debug)]
struct NotAfter1970;

impl fmt::Display for NotAfter1970 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a moment before 1970 cannot be stored")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SINCE: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn entries() -> Vec<Entry> {
        let progresses = [
            Progress::Intent,
            Progress::Failed { error: "answered 503".into() },
            Progress::Unknown { error: "no answer".into() },
            Progress::Skipped,
            Progress::Done { result: json!({"id": "c-1", "percent": 25.0}) },
            Progress::Done { result: Value::Null },
        ];
        let marks = [(false, false, 0), (true, false, 0), (true, true, 0), (true, false, 12)];
        let made = progresses.iter().flat_map(|progress| marks.map(|marks| (progress.clone(), marks)));
        made.map(|(progress, (doubtful, happened, spared))| {
            let at = Timestamp::from_millis(SINCE.millis() + 340);
            Entry { attempts: 2, since: SINCE, at, doubtful, happened, spared, progress }
        })
        .collect()
    }

    #[test]
    fn an_entry_comes_back_as_it_was_written() {
        for entry in entries() {
            let text = serde_json::to_string(&entry).expect("an entry is JSON");
            assert_eq!(serde_json::from_str::<Entry>(&text).expect("it is readable"), entry, "{text}");
        }
        let done = Entry { progress: Progress::Done { result: json!({"id": "c-1"}) }, ..Entry::intended(SINCE) };
        assert_eq!(json!(done), json!(["d", 1, "mwj18yo0", 0, {"id": "c-1"}]));
    }

    #[test]
    fn an_entry_of_the_format_before_is_read() {
        let text =
            r#"{"attempts":1,"since":1794819600000,"at":1794819600340,"doubtful":true,"is":"failed","error":"503"}"#;
        let entry: Entry = serde_json::from_str(text).expect("it is readable");
        assert_eq!((entry.doubtful, entry.progress), (true, Progress::Failed { error: "503".into() }));
    }

    #[test]
    fn a_moment_comes_back_and_that_of_the_format_before_is_read() {
        let moment = Moment { at: SINCE, what: "replay 1 by ada: it is back".into() };
        assert_eq!(json!(moment), json!("mwj18yo0 replay 1 by ada: it is back"));
        for stored in [json!(moment), json!({"at": SINCE, "what": moment.what})] {
            assert_eq!(serde_json::from_value::<Moment>(stored).expect("it is readable"), moment);
        }
    }

    #[test]
    fn what_no_version_wrote_is_not_read() {
        let texts = [
            r#"["x",1,"mwj18yo0",0]"#,
            r#"["d~",1,"mwj18yo0",0]"#,
            r#"["i+x",1,"mwj18yo0",0]"#,
            r#"["f",1,"mwj18yo0",0]"#,
            "[]",
            "{}",
            "1",
        ];
        for text in texts {
            assert!(serde_json::from_str::<Entry>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Moment>(r#""mwj18yo0""#).is_err());
    }
}
