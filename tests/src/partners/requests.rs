//! The snapshots of the catalogue's requests, and the hashes of what Prism accepted.

use std::collections::BTreeSet;

use local::prism::{BROKEN_IN, NOT_DEMANDED, REFUSED, SNAPSHOTS, Snapshot, requests, samples, snapshot_file};
use shared::adapters::machine::read_catalog;
use shared::flows::CheckedAgainst;
use shared::flows::catalog::Shelf;

use super::catalogue;
use crate::fixtures::{files_below, root};

const AGAIN: &str = "take it through Prism again: make partners PARTNERS=<folder with the descriptions>";

#[tokio::test]
async fn every_request_is_the_one_that_prism_accepted() {
    for sample in requests(&root()).await.unwrap_or_else(|error| panic!("{error:#}")) {
        let file = snapshot_file(&root(), &sample.name);
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{} has no snapshot: {AGAIN}", sample.name));
        let snapshot = Snapshot::parse(&text).unwrap_or_else(|| panic!("{} is no snapshot", file.display()));
        assert!(snapshot.is_sealed(), "{}: Prism accepted something else: {AGAIN}", sample.name);
        assert_eq!(sample.request.text(), snapshot.text, "{} has changed: {AGAIN}", sample.name);
    }
}

#[tokio::test]
async fn there_is_no_snapshot_of_what_is_gone() {
    let wanted: BTreeSet<String> =
        requests(&root()).await.expect("requests").iter().map(|sample| format!("{}.http", sample.name)).collect();
    let name = |path: &std::path::PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(files_below(SNAPSHOTS, "http").iter().map(name).collect::<BTreeSet<_>>(), wanted);
}

/// Whatever Prism accepted, it refused in every way in which it can be broken: in another thing each time, by its own words.
#[tokio::test]
async fn every_request_that_prism_accepted_was_refused_when_it_was_broken() {
    let mut bodies = 0;
    for sample in requests(&root()).await.expect("requests") {
        let file = std::fs::read_to_string(snapshot_file(&root(), &sample.name)).expect("a snapshot");
        let Some(seal) = Snapshot::parse(&file).and_then(|snapshot| snapshot.accepted) else { continue };
        let refused = |told: &String| told.strip_prefix(REFUSED).is_some_and(|why| why.len() > 10);
        let nothing_there = |told: &String| told.strip_prefix(NOT_DEMANDED).is_some_and(|why| why.len() > 10);
        let [auth, header, content_type, field] = &seal.broken;
        assert!(refused(auth), "{}: {auth}", sample.name);
        assert!(refused(header) || nothing_there(header), "{}: {header}", sample.name);
        if sample.request.body.is_empty() {
            assert!(nothing_there(content_type) && nothing_there(field), "{}: {:?}", sample.name, seal.broken);
            continue;
        }
        bodies += 1;
        assert!(refused(content_type) && refused(field), "{}: {:?}", sample.name, seal.broken);
        let said: BTreeSet<&String> = seal.broken.iter().collect();
        assert_eq!(said.len(), BROKEN_IN.len(), "{}: each breakage is another one: {:?}", sample.name, seal.broken);
    }
    assert_eq!(bodies, 9, "calls with a body and a description");
}

/// Every partner of the catalogue, and every call of it, is in the samples.
#[test]
fn every_call_of_the_catalogue_has_a_sample() {
    let files = read_catalog(&root().join("infra/flows")).expect("the catalogue");
    let sampled = samples(&root()).expect("the samples");
    let partners = files.iter().filter(|file| Shelf::of(&file.path) == Some(Shelf::Partners));
    assert_eq!(partners.count(), sampled.len());
    for (name, flows) in catalogue() {
        let integration = flows.integration(&name).expect("the integration");
        let calls: BTreeSet<&String> = integration.calls.keys().collect();
        assert_eq!(calls, sampled[&name].calls.keys().collect(), "{name}");
    }
}

/// A file that says `openapi` has requests that Prism accepted, and every file names its sources and their month.
#[test]
fn every_partner_says_what_it_was_checked_against() {
    for (name, flows) in catalogue() {
        let about = flows.integration(&name).and_then(|it| it.about.clone()).unwrap_or_else(|| panic!("{name}: about"));
        assert!(about.checked.starts_with("20") && about.checked.len() == 7, "{name}: {}", about.checked);
        let accepted = files_below(SNAPSHOTS, "http")
            .iter()
            .filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}."))))
            .filter_map(|path| Snapshot::parse(&std::fs::read_to_string(path).ok()?))
            .filter(|snapshot| snapshot.accepted.is_some())
            .count();
        assert_eq!(accepted > 0, about.against == CheckedAgainst::Openapi, "{name}");
    }
}
