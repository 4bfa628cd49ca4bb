//! A request as it goes over the wire, and its snapshot.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// A request to a partner, as the HTTP client sends it, without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRequest {
    /// The HTTP method.
    pub method: String,
    /// The whole URL, with its query.
    pub url: String,
    /// The header fields, under lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body; empty where there is none.
    pub body: String,
}

impl WireRequest {
    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The same request without a header field.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    /// The same request with this value of a header field.
    #[must_use]
    pub fn with_header(self, name: &str, value: &str) -> Self {
        let mut request = self.without_header(name);
        request.headers.push((name.to_owned(), value.to_owned()));
        request
    }

    /// The request as text: what a snapshot holds.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}\n", self.method, self.url);
        for (name, value) in &self.headers {
            // Writing to a `String` never fails.
            let _ = writeln!(text, "{name}: {value}");
        }
        if !self.body.is_empty() {
            let _ = writeln!(text, "\n{}", self.body);
        }
        text
    }
}

/// A snapshot of a request, with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The description by which Prism accepted the request, and the hash of what it accepted. Nothing, where the partner
    /// has no description: then the documentation alone speaks for it.
    pub accepted: Option<(String, String)>,
    /// The request, as text.
    pub text: String,
}

const ACCEPTED: &str = "# accepted by Prism: ";
const DOCUMENTATION: &str = "# documentation only";

impl Snapshot {
    /// The snapshot of a request that Prism accepted by this description, or that no description is there for.
    pub fn new(request: &WireRequest, description: Option<&str>) -> Self {
        let text = request.text();
        Self { accepted: description.map(|name| (name.to_owned(), hash(&text))), text }
    }

    /// Whether Prism accepted this very text.
    pub fn is_sealed(&self) -> bool {
        self.accepted.as_ref().is_none_or(|(_, accepted)| *accepted == hash(&self.text))
    }

    /// Reads a snapshot's file.
    pub fn parse(file: &str) -> Option<Self> {
        let (first, text) = file.split_once('\n')?;
        let accepted = match first.strip_prefix(ACCEPTED) {
            Some(seal) => Some(seal.split_once(' ').map(|(name, hash)| (name.to_owned(), hash.to_owned()))?),
            None if first == DOCUMENTATION => None,
            None => return None,
        };
        Some(Self { accepted, text: text.to_owned() })
    }

    /// The snapshot's file.
    pub fn file(&self) -> String {
        match &self.accepted {
            Some((description, hash)) => format!("{ACCEPTED}{description} {hash}\n{}", self.text),
            None => format!("{DOCUMENTATION}\n{}", self.text),
        }
    }
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold("sha256:".to_owned(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> WireRequest {
        WireRequest {
            method: "POST".into(),
            url: "https://api.example.com/v1/messages?a=b".into(),
            headers: vec![("authorization".into(), "Bearer x".into())],
            body: "{}".into(),
        }
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written() {
        for description in [None, Some("messages.json")] {
            let snapshot = Snapshot::new(&request(), description);
            assert!(snapshot.is_sealed());
            assert_eq!(Snapshot::parse(&snapshot.file()), Some(snapshot));
        }
        assert_eq!(Snapshot::parse("POST /\n"), None);
    }

    #[test]
    fn a_request_that_changed_has_a_broken_seal() {
        let mut snapshot = Snapshot::new(&request(), Some("messages.json"));
        snapshot.text = snapshot.text.replace("/messages", "/message");
        assert!(!snapshot.is_sealed());
    }
}
