//! The export: one event a line, read one at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use intake::MAX_PARTS;
use serde_json::Value;
use sha2::{Digest, Sha256};
use shared::base::id::hex;
use shared::base::time::Timestamp;
use shared::flows::{Field, MAX_SPLIT_BODY, Source};

/// The longest line that is read: twice the largest body that any source may send, for what may stand around it.
const LONGEST: u64 = 2 * MAX_SPLIT_BODY as u64;

/// How much of an export's beginning tells it from others, beside its length.
const HEAD: u64 = 64 * 1024;

/// An export under way.
pub struct Export {
    reader: BufReader<Box<dyn Read>>,
    bytes: u64,
    position: u64,
    number: usize,
    identity: String,
}

/// One line of an export.
pub struct ExportLine {
    /// Its number, from 1.
    pub number: usize,
    /// The body, as the export has it.
    pub body: Vec<u8>,
    /// The header fields that the export has of it, without those of its signature.
    pub headers: Vec<(String, String)>,
    /// The body as JSON, if it is JSON.
    pub json: Option<Value>,
}

impl Export {
    /// Opens an export.
    pub fn open(path: &Path) -> Result<Self> {
        let unread = || format!("cannot read the export {}", path.display());
        let mut file = File::open(path).with_context(unread)?;
        let bytes = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        let mut head = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut head).with_context(unread)?;
        file.seek(SeekFrom::Start(0)).with_context(unread)?;
        let identity = format!("{bytes}-{}", hex(&Sha256::digest(&head)));
        Ok(Export { bytes, identity, ..Export::of(file) })
    }

    /// An export from anything that can be read.
    pub fn of(reader: impl Read + 'static) -> Self {
        let identity = String::new();
        Export { reader: BufReader::new(Box::new(reader)), bytes: 0, position: 0, number: 0, identity }
    }

    /// How long it is, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How much of it was read, in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What tells it from another export under the same name: its length, and a hash of its beginning.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The next line that is not empty.
    pub fn next_line(&mut self) -> Result<Option<ExportLine>> {
        loop {
            let mut text = Vec::new();
            let read = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut text);
            let mut read = read.context("the export cannot be read to its end")? as u64;
            if read == 0 {
                return Ok(None);
            }
            // The rest of a line that is too long is passed over, piece by piece.
            while read >= LONGEST && text.last() != Some(&b'\n') {
                let mut rest = Vec::new();
                let more = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut rest)? as u64;
                read += more;
                if more == 0 || rest.last() == Some(&b'\n') {
                    break;
                }
            }
            self.position += read;
            self.number += 1;
            if !text.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(ExportLine::new(self.number, &text)));
            }
        }
    }
}

impl ExportLine {
    fn new(number: usize, text: &[u8]) -> Self {
        let text = text.trim_ascii();
        let json: Option<Value> = serde_json::from_slice(text).ok();
        let wrapped = json.as_ref().and_then(Value::as_object).filter(|fields| {
            fields.len() == 2 && fields.contains_key("body") && fields.get("headers").is_some_and(Value::is_object)
        });
        let Some(fields) = wrapped else {
            return ExportLine { number, body: text.to_vec(), headers: Vec::new(), json };
        };
        let own = |name: &str| !is_signature(name);
        let headers = fields["headers"].as_object().into_iter().flatten();
        let headers = headers
            .filter(|(name, _)| own(name))
            .filter_map(|(name, value)| Some((name.to_ascii_lowercase(), value.as_str()?.to_owned())));
        let (headers, body) = (headers.collect(), fields["body"].clone());
        ExportLine { number, body: body.to_string().into_bytes(), headers, json: Some(body) }
    }

    /// The events in the line, as its source splits them.
    pub fn events(&self, source: &Source) -> Vec<Value> {
        let posted = self.json.clone().map(|json| source.as_posted(json));
        posted.map(|posted| source.events_in(&posted, MAX_PARTS)).unwrap_or_default()
    }

    /// When the line's events happened, as it says itself; in a list, as the first that says it.
    pub fn moment(&self, at: &Field) -> Option<Timestamp> {
        let json = self.json.as_ref()?;
        moment_of(json, at).or_else(|| json.as_array()?.iter().find_map(|event| moment_of(event, at)))
    }

    /// A header field.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// What tells this body from others.
    pub fn fingerprint(&self) -> String {
        format!("line-{}", &hex(&Sha256::digest(&self.body))[..16])
    }
}

/// When an event happened, as its field says.
pub(super) fn moment_of(event: &Value, at: &Field) -> Option<Timestamp> {
    as_moment(at.of(event)?)
}

/// The fields of an event that look like moments, for who named another.
pub(super) fn moments_in(event: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_moments(event, "", &mut found);
    found
}

fn collect_moments(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            collect_moments(value, &if at.is_empty() { name.clone() } else { format!("{at}.{name}") }, found);
        }),
        Value::Array(items) => {
            items.iter().take(1).for_each(|item| collect_moments(item, &format!("{at}[0]"), found));
        }
        _ if as_moment(value).is_some_and(|moment| THIS_AGE.contains(&moment.secs())) => found.push(at.to_owned()),
        _ => (),
    }
}

/// Moments that an export can be of: 2001 to 2096. Other numbers are rather amounts.
const THIS_AGE: std::ops::Range<i64> = 1_000_000_000..4_000_000_000;

/// A moment: RFC 3339, or seconds or milliseconds since the Unix epoch. A form has numbers as texts.
fn as_moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => Timestamp::parse(text).or_else(|| of_number(text.parse().ok()?)),
        Value::Number(number) => of_number(number.as_f64()?),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a moment of our age fits, and so do its milliseconds")]
fn of_number(number: f64) -> Option<Timestamp> {
    let millis = if number < 1e11 { number * 1000.0 } else { number };
    (0.0..1e14).contains(&millis).then(|| Timestamp::from_millis(millis.round() as i64))
}

/// Whether a header field proves who sent something: it is made anew.
fn is_signature(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "content-type"
        || name == "content-length"
        || name == "authorization"
        || name.contains("signature")
        || name.contains("hmac")
        || name == "webhook-timestamp"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_moment_is_read_as_senders_write_it() {
        let at: Field = "t".parse().expect("a field");
        let moment = Timestamp::from_secs(1_794_819_600);
        for written in
            [json!("2026-11-16T09:00:00Z"), json!(1_794_819_600), json!(1_794_819_600_000_i64), json!("1794819600")]
        {
            assert_eq!(moment_of(&json!({ "t": written }), &at), Some(moment), "{written}");
        }
        let fraction = Timestamp::from_millis(1_794_819_600_250);
        assert_eq!(moment_of(&json!({"t": 1_794_819_600.25}), &at), Some(fraction));
        for bad in [json!("soon"), json!(-1), json!(null), json!([])] {
            assert_eq!(moment_of(&json!({ "t": bad }), &at), None, "{bad}");
        }
    }

    #[test]
    fn fields_that_look_like_moments_are_found() {
        let event = json!({"id": 7, "created_at": "2026-11-16T09:00:00Z", "data": {"at": 1_794_819_600, "total": 12},
                           "items": [{"time": 1_794_819_600_000_i64}]});
        assert_eq!(moments_in(&event), ["created_at", "data.at", "items[0].time"]);
    }
}
