//! How a real payload is spoiled.

use bolero::TypeGenerator;
use serde_json::{Value, json};

/// What was done to a payload. As data, so that an engine can guide it and shrink it.
#[derive(Clone, Debug, TypeGenerator)]
pub(super) struct Spoiled {
    seed: u8,
    #[generator(bolero::produce::<Vec<Edit>>().with().len(0..6usize))]
    edits: Vec<Edit>,
}

/// One change. Places are counted around the end.
#[derive(Clone, Debug, TypeGenerator)]
enum Edit {
    /// This byte stands there instead.
    Put(u16, u8),
    /// This word of the target's stands there too.
    Insert(u16, u8),
    /// This word of the target's stands in the place of the piece of that number, between two breaks.
    Swap(u16, u8),
    /// So many bytes are gone.
    Cut(u16, u8),
    /// So many bytes stand there again and again.
    Repeat(u16, u8, u8),
}

impl Spoiled {
    /// One of `seeds` with the changes made, with `words` to insert.
    pub(super) fn bytes(&self, seeds: &[impl AsRef<[u8]>], words: &[&str]) -> Vec<u8> {
        let seed = seeds[usize::from(self.seed) % seeds.len()].as_ref().to_vec();
        self.edits.iter().fold(seed, |bytes, edit| edit.on(bytes, words))
    }

    /// The same, where only text will do.
    pub(super) fn text(&self, seeds: &[impl AsRef<[u8]>], words: &[&str]) -> String {
        String::from_utf8_lossy(&self.bytes(seeds, words)).into_owned()
    }
}

impl Edit {
    fn on(&self, mut bytes: Vec<u8>, words: &[&str]) -> Vec<u8> {
        let length = bytes.len();
        let place = |at: u16| usize::from(at) % (length + 1);
        let word = |index: u8| words[usize::from(index) % words.len()].bytes();
        match *self {
            Edit::Put(at, byte) => match bytes.get_mut(place(at)) {
                Some(there) => *there = byte,
                None => bytes.push(byte),
            },
            Edit::Insert(at, index) => drop(bytes.splice(place(at)..place(at), word(index))),
            Edit::Swap(number, index) => {
                let pieces: Vec<&[u8]> = bytes.split_inclusive(|byte| BREAKS.contains(byte)).collect();
                let (before, after) = pieces.split_at(usize::from(number) % (pieces.len() + 1));
                let start = before.concat().len();
                let end = start + after.first().map_or(0, |piece| piece.len().saturating_sub(1));
                drop(bytes.splice(start..end, word(index)));
            }
            Edit::Cut(at, count) => {
                let start = place(at);
                bytes.drain(start..length.min(start + usize::from(count)));
            }
            Edit::Repeat(at, count, times) => {
                let start = place(at);
                let again = bytes[start..length.min(start + usize::from(count))].repeat(times.into());
                drop(bytes.splice(start..start, again));
            }
        }
        bytes
    }
}

/// Where one thing ends and another begins, in every format of ours.
const BREAKS: &[u8] = b"\n\",}]&;= ";

/// A value that nobody expects in its place.
#[derive(Clone, Debug, TypeGenerator)]
pub(super) enum Odd {
    Null,
    Bool(bool),
    Whole(i64),
    Natural(u64),
    Fraction(f64),
    Text(String),
    Known(u8),
    List(#[generator(bolero::produce::<Vec<String>>().with().len(0..4usize))] Vec<String>),
    Object(String, u8),
    Deep(u8),
}

impl Odd {
    pub(super) fn value(&self) -> Value {
        match self {
            Odd::Null => Value::Null,
            Odd::Bool(value) => json!(value),
            Odd::Whole(number) => json!(number),
            Odd::Natural(number) => json!(number),
            // JSON has no infinity: `json!` makes null of it.
            Odd::Fraction(number) => json!(number),
            Odd::Text(text) => json!(text),
            Odd::Known(index) => json!(known(*index)),
            Odd::List(items) => json!(items),
            Odd::Object(name, index) => json!({ (name): known(*index) }),
            Odd::Deep(depth) => (0..*depth % 100).fold(json!(known(*depth)), |inner, _| json!([inner])),
        }
    }
}

/// Texts that have hurt somebody before.
const KNOWN: [&str; 24] = [
    "",
    ".",
    "..",
    "../admin",
    "..\\admin",
    "%2e%2e",
    "/",
    "//evil.example",
    "https://evil.example/",
    "@evil.example",
    ":8080",
    "?a=b",
    "a&b=c",
    "#top",
    "\r\nX-Evil: 1",
    "\0",
    "{{ event }}",
    "{% for x in range(9) %}{{ x }}{% endfor %}",
    "\"}, \"x\": {\"",
    "__class__",
    "$ref",
    "<script>",
    "\u{202e}\u{feff}",
    "169.254.169.254",
];

fn known(index: u8) -> &'static str {
    KNOWN[usize::from(index) % KNOWN.len()]
}
