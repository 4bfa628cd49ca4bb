//! The snapshot of a request: its text, and what Prism said of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::breakage::BROKEN_IN;
use super::wire::WireRequest;

/// A snapshot of a request, with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What Prism said. Nothing, where the partner has no description: then the documentation alone speaks for it.
    pub accepted: Option<Seal>,
    /// The request, as text.
    pub text: String,
}

/// What Prism said of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The description by which it accepted the request.
    pub description: String,
    /// The hash of what it accepted: the request, and what was added for it alone.
    pub hash: String,
    /// The header fields that were added for Prism alone, because an old description demands them. We never send them.
    pub extra: BTreeMap<String, String>,
    /// What it said of the request broken in each of [`BROKEN_IN`]: `refused: …`, or `not demanded: …`.
    pub broken: [String; 4],
}

/// What a verdict on a broken request begins with.
pub const REFUSED: &str = "refused: ";
/// What stands in the place of a verdict where there is nothing to break.
pub const NOT_DEMANDED: &str = "not demanded: ";

const ACCEPTED: &str = "# accepted by Prism: ";
const EXTRA: &str = "# for Prism alone: ";
const DOCUMENTATION: &str = "# documentation only";

impl Snapshot {
    /// The snapshot of a request that no description is there for.
    pub fn documented(request: &WireRequest) -> Self {
        Self { accepted: None, text: request.text() }
    }

    /// The snapshot of a request that Prism accepted by this description, and refused when it was broken.
    pub fn judged(
        request: &WireRequest,
        description: String,
        extra: BTreeMap<String, String>,
        broken: [String; 4],
    ) -> Self {
        let text = request.text();
        Self { accepted: Some(Seal { description, hash: hash(&extra, &text), extra, broken }), text }
    }

    /// Whether Prism accepted this very text, with these additions.
    pub fn is_sealed(&self) -> bool {
        self.accepted.as_ref().is_none_or(|seal| seal.hash == hash(&seal.extra, &self.text))
    }

    /// Reads a snapshot's file.
    pub fn parse(file: &str) -> Option<Self> {
        let (first, mut rest) = file.split_once('\n')?;
        if first == DOCUMENTATION {
            return Some(Self { accepted: None, text: rest.to_owned() });
        }
        let (description, hash) = first.strip_prefix(ACCEPTED)?.split_once(' ')?;
        let mut extra = BTreeMap::new();
        while let Some(line) = rest.strip_prefix(EXTRA) {
            let (field, after) = line.split_once('\n')?;
            let (name, value) = field.split_once(": ")?;
            extra.insert(name.to_owned(), value.to_owned());
            rest = after;
        }
        let mut broken = [const { String::new() }; 4];
        for (what, told) in BROKEN_IN.iter().zip(&mut broken) {
            let (line, after) = rest.strip_prefix(&format!("# {what} "))?.split_once('\n')?;
            *told = line.to_owned();
            rest = after;
        }
        let (description, hash) = (description.to_owned(), hash.to_owned());
        Some(Self { accepted: Some(Seal { description, hash, extra, broken }), text: rest.to_owned() })
    }

    /// The snapshot's file.
    pub fn file(&self) -> String {
        let Some(seal) = &self.accepted else { return format!("{DOCUMENTATION}\n{}", self.text) };
        let mut head = format!("{ACCEPTED}{} {}\n{}", seal.description, seal.hash, additions(&seal.extra));
        for (what, told) in BROKEN_IN.iter().zip(&seal.broken) {
            // Writing to a `String` never fails.
            let _ = writeln!(head, "# {what} {told}");
        }
        head + &self.text
    }
}

fn additions(extra: &BTreeMap<String, String>) -> String {
    extra.iter().map(|(name, value)| format!("{EXTRA}{name}: {value}\n")).collect()
}

fn hash(extra: &BTreeMap<String, String>, text: &str) -> String {
    let digest = Sha256::digest(additions(extra) + text);
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

    fn judged(extra: &[(&str, &str)]) -> Snapshot {
        let extra = extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let told = BROKEN_IN.map(|what| format!("{REFUSED}it lacks its {what}"));
        Snapshot::judged(&request(), "messages.json".into(), extra, told)
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written() {
        for snapshot in [Snapshot::documented(&request()), judged(&[]), judged(&[("token", "unused"), ("x", "y: z")])] {
            assert!(snapshot.is_sealed());
            assert_eq!(Snapshot::parse(&snapshot.file()), Some(snapshot));
        }
        assert_eq!(Snapshot::parse("POST /\n"), None);
        let file = judged(&[]).file();
        for what in BROKEN_IN {
            let kept: Vec<&str> = file.lines().filter(|line| !line.starts_with(&format!("# {what} "))).collect();
            assert_eq!(Snapshot::parse(&kept.join("\n")), None, "without a verdict on its {what}");
        }
    }

    #[test]
    fn a_request_that_changed_has_a_broken_seal() {
        let mut snapshot = judged(&[("token", "unused")]);
        snapshot.text = snapshot.text.replace("/messages", "/message");
        assert!(!snapshot.is_sealed());
        let mut snapshot = judged(&[("token", "unused")]);
        snapshot.accepted.as_mut().expect("a seal").extra.clear();
        assert!(!snapshot.is_sealed(), "what was added counts, too");
    }
}
