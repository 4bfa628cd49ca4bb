//! The catalogue: partners and senders whose noise is written once, in `catalog/partners/<name>.yaml` and
//! `catalog/sources/<name>.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// One part of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// The partners, which integrations use.
    Partners,
    /// The senders, which sources use.
    Sources,
}

impl Shelf {
    /// Both parts.
    pub const ALL: [Shelf; 2] = [Shelf::Partners, Shelf::Sources];

    /// Its folder, inside the flows folder.
    pub fn folder(self) -> &'static str {
        match self {
            Shelf::Partners => "catalog/partners/",
            Shelf::Sources => "catalog/sources/",
        }
    }

    /// The file whose entries use it.
    pub fn user(self) -> &'static str {
        match self {
            Shelf::Partners => "integrations.yaml",
            Shelf::Sources => "sources.yaml",
        }
    }

    /// The file of an entry, inside the flows folder.
    pub fn path(self, name: &str) -> String {
        format!("{}{name}.yaml", self.folder())
    }

    /// The entry whose file this is, if it is one's.
    pub fn name(self, path: &str) -> Option<&str> {
        path.strip_prefix(self.folder())?.strip_suffix(".yaml").filter(|name| is_name(name))
    }

    /// The shelf in whose folder a file is.
    pub fn of(path: &str) -> Option<Shelf> {
        Shelf::ALL.into_iter().find(|shelf| path.starts_with(shelf.folder()))
    }
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(plain)
}

/// What the entries of a file use, so that no other file of the catalogue has to be read. A text that is no YAML uses
/// nothing; its mistakes are told when it is parsed.
pub fn used(entries: &str) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Uses {
        uses: Option<String>,
    }
    // Most folders use none, and a cold start should not read the file twice for them.
    if !entries.contains("uses") {
        return BTreeSet::new();
    }
    let read = serde_saphyr::from_str::<BTreeMap<String, Uses>>(entries).unwrap_or_default();
    read.into_values().filter_map(|entry| entry.uses).filter(|name| is_name(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_used_is_named_and_only_by_plain_names() {
        let text = "a: {uses: twilio}\nb: {base_url: x}\nc:\n  uses: ../../secrets\nd: {uses: twilio, vars: {e: 1}}\n";
        assert_eq!(used(text), ["twilio".to_owned()].into());
        assert_eq!(used("a: {base_url: x}"), BTreeSet::new());
        assert_eq!(used("uses: ["), BTreeSet::new());
    }

    #[test]
    fn a_file_names_its_partner() {
        let name = |path| Shelf::Partners.name(path);
        assert_eq!(name("catalog/partners/twilio.yaml"), Some("twilio"));
        assert_eq!(Shelf::Sources.name(&Shelf::Sources.path("meta")), Some("meta"));
        assert_eq!(Shelf::of("catalog/sources/meta.yaml"), Some(Shelf::Sources));
        for other in ["catalog/partners/a/b.yaml", "catalog/partners/A.yaml", "catalog/partners/a.yml", "flows/a.yaml"]
        {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
