//! The catalogue: partners whose noise is written once, in `catalog/partners/<name>.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The folder of the catalogue's partners, inside the flows folder.
pub const PARTNERS: &str = "catalog/partners/";

/// The file of a partner, inside the flows folder.
pub fn path(name: &str) -> String {
    format!("{PARTNERS}{name}.yaml")
}

/// The partner whose file this is, if it is one's.
pub fn name(path: &str) -> Option<&str> {
    path.strip_prefix(PARTNERS)?.strip_suffix(".yaml").filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(plain)
}

/// The partners that these integrations use, so that no other file of the catalogue has to be read. A text that is no
/// YAML uses none; its mistakes are told when it is parsed.
pub fn used(integrations: &str) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Uses {
        uses: Option<String>,
    }
    // Most folders use none, and a cold start should not read the file twice for them.
    if !integrations.contains("uses") {
        return BTreeSet::new();
    }
    let read = serde_saphyr::from_str::<BTreeMap<String, Uses>>(integrations).unwrap_or_default();
    read.into_values().filter_map(|integration| integration.uses).filter(|name| is_name(name)).collect()
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
        assert_eq!(name("catalog/partners/twilio.yaml"), Some("twilio"));
        for other in ["catalog/partners/a/b.yaml", "catalog/partners/A.yaml", "catalog/partners/a.yml", "flows/a.yaml"]
        {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
