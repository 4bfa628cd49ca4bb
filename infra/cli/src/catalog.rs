//! The catalogue of partners and senders that comes with this command, for flows folders that have none of their own.

use shared::flows::File;
use shared::flows::catalog::{self, Shelf};

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

/// The senders: the name and the text of each file below `infra/flows/catalog/sources`.
const SOURCES: &[(&str, &str)] = &[
    ("basic", include_str!("../../flows/catalog/sources/basic.yaml")),
    ("calendly", include_str!("../../flows/catalog/sources/calendly.yaml")),
    ("github", include_str!("../../flows/catalog/sources/github.yaml")),
    ("hubspot", include_str!("../../flows/catalog/sources/hubspot.yaml")),
    ("intercom", include_str!("../../flows/catalog/sources/intercom.yaml")),
    ("mailgun", include_str!("../../flows/catalog/sources/mailgun.yaml")),
    ("meta", include_str!("../../flows/catalog/sources/meta.yaml")),
    ("paddle", include_str!("../../flows/catalog/sources/paddle.yaml")),
    ("sendgrid", include_str!("../../flows/catalog/sources/sendgrid.yaml")),
    ("shopify", include_str!("../../flows/catalog/sources/shopify.yaml")),
    ("slack", include_str!("../../flows/catalog/sources/slack.yaml")),
    ("square", include_str!("../../flows/catalog/sources/square.yaml")),
    ("standard-webhooks", include_str!("../../flows/catalog/sources/standard-webhooks.yaml")),
    ("stripe", include_str!("../../flows/catalog/sources/stripe.yaml")),
    ("svix", include_str!("../../flows/catalog/sources/svix.yaml")),
    ("token", include_str!("../../flows/catalog/sources/token.yaml")),
    ("twilio", include_str!("../../flows/catalog/sources/twilio.yaml")),
    ("twilio-json", include_str!("../../flows/catalog/sources/twilio-json.yaml")),
    ("typeform", include_str!("../../flows/catalog/sources/typeform.yaml")),
    ("woocommerce", include_str!("../../flows/catalog/sources/woocommerce.yaml")),
    ("zendesk", include_str!("../../flows/catalog/sources/zendesk.yaml")),
];

/// What comes with this command of one part of the catalogue.
pub(crate) fn shipped(shelf: Shelf) -> &'static [(&'static str, &'static str)] {
    match shelf {
        Shelf::Partners => PARTNERS,
        Shelf::Sources => SOURCES,
    }
}

/// The files with what they use of the catalogue and do not have themselves.
pub(crate) fn complete(mut files: Vec<File>) -> Vec<File> {
    for shelf in Shelf::ALL {
        complete_from(shelf, &mut files);
    }
    files
}

fn complete_from(shelf: Shelf, files: &mut Vec<File>) {
    let users = files.iter().find(|file| file.path == shelf.user());
    let used = users.map(|file| catalog::used(&file.text)).unwrap_or_default();
    let has = |files: &[File], name: &str| files.iter().any(|file| file.path == shelf.path(name));
    // With a name that nobody knows, all of them: one may have been meant.
    let known = |name: &String| shipped(shelf).iter().any(|(known, _)| known == name);
    let unknown = used.iter().any(|name| !has(files, name) && !known(name));
    for (name, text) in shipped(shelf).iter().filter(|(name, _)| unknown || used.contains(*name)) {
        if !has(files, name) {
            files.push(File { path: shelf.path(name), text: (*text).to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn everything_shipped_comes_with_the_command() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows");
        let files = shared::adapters::machine::read_catalog(&folder).expect("the catalogue");
        let on = |shelf: Shelf| shipped(shelf).iter().map(move |(name, text)| (shelf.path(name), (*text).to_owned()));
        let embedded: BTreeSet<_> = Shelf::ALL.into_iter().flat_map(on).collect();
        let files: BTreeSet<_> = files.into_iter().map(|file| (file.path, file.text)).collect();
        assert_eq!(embedded, files, "list every file in infra/cli/src/catalog.rs");
    }
}
