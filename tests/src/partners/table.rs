//! The table of partners in `FLOWS.md`.

use std::collections::BTreeMap;

use local::prism::{Snapshot, snapshot_file};
use shared::flows::{CheckedAgainst, Guarantee};

use super::{catalogue, effect_of};
use crate::fixtures::root;

/// The rows of the table: partner and call, guarantee, how it was checked.
fn rows() -> BTreeMap<(String, String), (String, String)> {
    let page = std::fs::read_to_string(root().join("infra/docs/FLOWS.md")).expect("the page");
    let (_, rest) = page.split_once("| partner | call |").expect("the table of partners");
    let lines = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    lines.map(cells).map(|row| ((row[1].clone(), row[2].clone()), (row[4].clone(), row[5].clone()))).collect()
}

#[test]
fn every_row_is_what_the_catalogue_says() {
    let rows = rows();
    let mut calls = 0;
    for (partner, flows) in catalogue() {
        let integration = flows.integration(&partner).expect("the integration");
        for call in integration.calls.keys() {
            calls += 1;
            let effect = effect_of(&flows, call);
            let row =
                rows.get(&(partner.clone(), call.clone())).unwrap_or_else(|| panic!("no row for {partner}.{call}"));
            let guarantee = match effect.guarantee {
                Guarantee::Native => "native",
                Guarantee::Idempotent => "idempotent",
                Guarantee::Lookup => "lookup",
                Guarantee::None => "none",
            };
            let asked = effect.lookup.is_some() && effect.guarantee != Guarantee::Lookup;
            let guarantee = if asked { format!("{guarantee}, can be asked") } else { guarantee.to_owned() };
            let snapshot = std::fs::read_to_string(snapshot_file(&root(), &format!("{partner}.{call}")));
            let snapshot = Snapshot::parse(&snapshot.expect("a snapshot")).expect("a snapshot");
            let against = integration.about.as_ref().map(|about| about.against);
            let checked = match (snapshot.accepted, against) {
                (Some(_), _) => "API description",
                (None, Some(CheckedAgainst::Library)) => "client library",
                (None, _) => "documentation only",
            };
            assert_eq!(*row, (guarantee, checked.to_owned()), "{partner}.{call}");
        }
    }
    assert_eq!(rows.len(), calls, "a row of the table has no call");
}
