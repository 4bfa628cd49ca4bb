//! The catalogue of partners that comes with this command, for flows folders that have none of their own.

use shared::flows::{File, catalog};

/// The partners: the name and the text of each file below `infra/flows/catalog/partners`.
const PARTNERS: &[(&str, &str)] = &[
    ("hubspot", include_str!("../../flows/catalog/partners/hubspot.yaml")),
    ("klaviyo", include_str!("../../flows/catalog/partners/klaviyo.yaml")),
    ("mailchimp-marketing", include_str!("../../flows/catalog/partners/mailchimp-marketing.yaml")),
    ("mailchimp-transactional", include_str!("../../flows/catalog/partners/mailchimp-transactional.yaml")),
    ("sendgrid", include_str!("../../flows/catalog/partners/sendgrid.yaml")),
    ("shopify", include_str!("../../flows/catalog/partners/shopify.yaml")),
    ("slack", include_str!("../../flows/catalog/partners/slack.yaml")),
    ("stripe", include_str!("../../flows/catalog/partners/stripe.yaml")),
    ("twilio", include_str!("../../flows/catalog/partners/twilio.yaml")),
];

/// The files with the partners that they use and do not have themselves.
pub(crate) fn complete(mut files: Vec<File>) -> Vec<File> {
    let integrations = files.iter().find(|file| file.path == "integrations.yaml");
    let used = integrations.map(|file| catalog::used(&file.text)).unwrap_or_default();
    let has = |files: &[File], name: &str| files.iter().any(|file| file.path == catalog::path(name));
    // With a name that nobody knows, all of them: one may have been meant.
    let unknown = used.iter().any(|name| !has(&files, name) && PARTNERS.iter().all(|(known, _)| known != name));
    let shipped = PARTNERS.iter().filter(|(name, _)| unknown || used.contains(*name));
    for (name, text) in shipped {
        if !has(&files, name) {
            files.push(File { path: catalog::path(name), text: (*text).to_owned() });
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_shipped_partner_comes_with_the_command() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows");
        let shipped = shared::adapters::machine::read_catalog(&folder).expect("the catalogue");
        let embedded = PARTNERS.iter().map(|(name, text)| (catalog::path(name), (*text).to_owned()));
        let shipped: BTreeSet<_> = shipped.into_iter().map(|file| (file.path, file.text)).collect();
        assert_eq!(embedded.collect::<BTreeSet<_>>(), shipped, "list every file in infra/cli/src/catalog.rs");
    }
}
