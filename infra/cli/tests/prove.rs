//! What `flows prove` finds: each planted mistake, as a scenario that repeats it; and nothing in the shipped flows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ledgerline::flows::prove::{
    AT_MOST_ONCE, Aim, Draws, EACH_ACTS, IDENTITY, LEDGER_IS_TRUE, NOTHING_DIES, PROTECTED, ProvedFlow, prove,
};
use ledgerline::flows::test::run_file;
use ledgerline::scenarios::folder;
use shared::adapters::machine::{read_catalog, read_files};
use shared::flows::{File, Flows};
use sim::FlowsVersion;

const SOURCES: &str =
    "shop: {scheme: standard-webhooks, max_body: 64KiB, rate: 100/s, type_at: type, id_at: {header: webhook-id}}\n";

const INTEGRATIONS: &str = "\
crm: {base_url: https://crm.example.com, timeout: 3s}
sms: {uses: twilio, vars: {account_sid: AC0123456789abcdef0123456789abcdef, sender: \"+15555550100\"}}
events: {uses: klaviyo}
";

/// A flow that keeps its promises. A mistake is planted by another line in the place of one of these.
const FLOW: &str = r#"name: orders
version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [order, customer, phone, at]
  properties:
    type: {type: string}
    order: {type: string, maxLength: 40}
    customer: {type: string, maxLength: 40}
    phone: {type: string, maxLength: 40}
    at: {type: string, maxLength: 40}
    note: {type: string, maxLength: 40}
key: {version: 1, fields: [order]}
order_by: customer
ttl: 72h
max_age: 24h
contact: {tenant: shop, email: "{{ event.customer }}@example.com"}
guards:
  - quiet_hours: {from: "21:00", to: "08:00", zone: UTC}
  - cap: {channel: sms, limit: 2, per: 24h}
effects:
  - id: crm
    integration: crm
    guarantee: native
    request: {method: POST, path: /orders, body: {order: "{{ event.order }}", note: "{{ event.note | default(none) }}"}}
  - id: sms
    call: sms.send_message
    guarantee: lookup
    with: {To: "{{ event.phone }}", From: "{{ vars.sender }}", Body: "Order {{ event.order }}"}
  - id: told
    call: events.create_event
    with: {metric: Ordered, profile: {external_id: "{{ event.customer }}"}}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#;

const SCENARIOS: &str = r#"flow: orders
event: {type: order, order: o-1, customer: ada, phone: "+4915112345", at: "2026-11-16T09:00:00Z", note: quick}
prove:
  identity: [order]
  protects: [{channel: sms, who: [customer]}]
  again_within: 48h
scenarios: []
"#;

/// A mistake: what is planted, and where; and the promise that it breaks.
struct Planted {
    what: &'static str,
    promise: &'static str,
    /// The file, a text in it, and the text in its place.
    changes: &'static [(&'static str, &'static str, &'static str)],
}

const FLOW_FILE: &str = "flows/orders.yaml";
const TESTS_FILE: &str = "tests/orders.yaml";

const PLANTED: &[Planted] = &[
    Planted {
        what: "a guarantee that the partner does not keep",
        promise: AT_MOST_ONCE,
        changes: &[(FLOW_FILE, "    guarantee: lookup\n", "    guarantee: idempotent\n")],
    },
    Planted {
        what: "a guarantee that the author knows to be less",
        promise: AT_MOST_ONCE,
        changes: &[(TESTS_FILE, "  again_within", "  keeps: {crm: {guarantee: none}}\n  again_within")],
    },
    Planted {
        what: "a partner that forgets our key sooner than the file says",
        promise: AT_MOST_ONCE,
        changes: &[(
            TESTS_FILE,
            "  again_within",
            "  keeps: {crm: {guarantee: native, key_window: 10s}}\n  again_within",
        )],
    },
    Planted {
        what: "a key with what differs from delivery to delivery",
        promise: IDENTITY,
        changes: &[(FLOW_FILE, "fields: [order]}", "fields: [order, at]}")],
    },
    Planted {
        what: "a key of the delivery, which a sender makes anew",
        promise: IDENTITY,
        changes: &[(FLOW_FILE, "fields: [order]}", "fields: [$id]}")],
    },
    Planted {
        what: "a key that misses a part of the stated identity",
        promise: EACH_ACTS,
        changes: &[(TESTS_FILE, "identity: [order]", "identity: [order, note]")],
    },
    Planted {
        what: "a lookup that asks too early",
        promise: AT_MOST_ONCE,
        changes: &[(
            FLOW_FILE,
            "    guarantee: lookup\n",
            "    guarantee: lookup\n    lookup: {after: 2s, request: {path: /Messages.json, query: {To: \"{{ with.To }}\"}}, found: /messages/0/sid}\n",
        )],
    },
    Planted {
        what: "a cap on the wrong entity",
        promise: PROTECTED,
        changes: &[(
            FLOW_FILE,
            "cap: {channel: sms, limit: 2, per: 24h}",
            "cap: {channel: sms, limit: 2, per: 24h, entity: \"{{ event.order }}\"}",
        )],
    },
    Planted {
        what: "a key that misses a part of the stated identity, whose shape is narrow",
        promise: EACH_ACTS,
        changes: &[
            (FLOW_FILE, "note: {type: string, maxLength: 40}", "note: {type: string, pattern: \"^[a-z]{5}$\"}"),
            (TESTS_FILE, "identity: [order]", "identity: [order, note]"),
        ],
    },
    Planted {
        what: "an event of another day that is too old when the night is over",
        promise: NOTHING_DIES,
        changes: &[
            (FLOW_FILE, "fields: [order]}", "fields: [order], window: {field: at, within: 5m}}"),
            (FLOW_FILE, "max_age: 24h", "max_age: 8h"),
            (TESTS_FILE, "at: \"2026-11-16T09:00:00Z\"", "at: \"2026-12-01T09:00:00Z\""),
            (TESTS_FILE, "prove:\n", "starts_at: 2026-12-01T09:00:00Z\nprove:\n"),
        ],
    },
    Planted {
        what: "a window that is shorter than one thing takes",
        promise: IDENTITY,
        changes: &[
            (FLOW_FILE, "fields: [order]}", "fields: [customer], window: {field: at, within: 5m}}"),
            (TESTS_FILE, "identity: [order]", "identity: {fields: [customer], within: 20m}"),
        ],
    },
    Planted {
        what: "a key that is forgotten before its sender stops sending",
        promise: AT_MOST_ONCE,
        changes: &[(FLOW_FILE, "ttl: 72h", "ttl: 25h")],
    },
    Planted {
        what: "a field that need not be there, without a default",
        promise: NOTHING_DIES,
        changes: &[(FLOW_FILE, "{{ event.note | default(none) }}", "{{ event.note }}")],
    },
    Planted {
        what: "an event that is too old when the night is over",
        promise: NOTHING_DIES,
        changes: &[(FLOW_FILE, "max_age: 24h", "max_age: 8h")],
    },
    Planted {
        what: "an answer that is said to have done nothing",
        promise: AT_MOST_ONCE,
        changes: &[(
            FLOW_FILE,
            "    guarantee: lookup\n",
            "    guarantee: lookup\n    answers: [{status: 503, means: retry}]\n",
        )],
    },
    Planted {
        what: "an answer that is said to be a refusal",
        promise: LEDGER_IS_TRUE,
        changes: &[(
            FLOW_FILE,
            "    guarantee: lookup\n",
            "    guarantee: lookup\n    answers: [{status: 500..599, means: failed}]\n",
        )],
    },
];

/// A flow of which one delivery holds several events, and something that it does not take.
const SPLIT: Project = Project {
    sources: "shop: {scheme: standard-webhooks, max_body: 64KiB, rate: 100/s, split: \"orders[*]\", type_at: \"orders[0].type\", other_types: ignore}\n",
    flow: r#"name: orders
version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [orders]
  properties:
    sent: {type: string, maxLength: 40}
    orders:
      type: array
      minItems: 1
      items:
        type: object
        required: [order, shop, phone]
        properties:
          type: {type: string}
          order: {type: string, maxLength: 40}
          shop: {type: string, maxLength: 40}
          phone: {type: string, maxLength: 40}
key: {version: 1, fields: ["orders[0].order"]}
order_by: "orders[0].order"
ttl: 72h
effects:
  - id: sms
    call: sms.send_message
    guarantee: lookup
    with: {To: "{{ event.orders[0].phone }}", From: "{{ vars.sender }}", Body: "Order {{ event.orders[0].order }}"}
  - id: told
    integration: crm
    guarantee: native
    request: {method: POST, path: /orders, body: {order: "{{ event.orders[0].order }}"}}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#,
    other: None,
    tests: r#"flow: orders
event:
  sent: monday
  orders:
    - {type: order, order: o-1, shop: s-1, phone: "+4915112345"}
    - {type: order, order: o-2, shop: s-1, phone: "+4915112346"}
    - {type: like}
prove:
  identity: ["orders[0].order"]
  again_within: 48h
scenarios: []
"#,
};

/// A flow that shares its source, its events and its partner with another one.
const SHARED: Project = Project {
    other: Some(
        r#"name: notes
version: 1
on: {source: shop, type: order}
schema: {type: object, required: [order], properties: {order: {type: string}, note: {type: string}}}
key: {version: 1, fields: [order]}
order_by: order
ttl: 72h
effects:
  - id: noted
    integration: crm
    guarantee: none
    request: {method: POST, path: /notes, body: {order: "{{ event.order }}"}}
  - id: sms
    integration: crm
    guarantee: none
    request: {method: POST, path: /sms, body: {order: "{{ event.order }}"}}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#,
    ),
    ..ALONE
};

const PLANTED_IN_A_SPLIT: &[Planted] = &[
    Planted {
        what: "a guarantee that the partner does not keep",
        promise: AT_MOST_ONCE,
        changes: &[(FLOW_FILE, "    guarantee: lookup\n", "    guarantee: idempotent\n")],
    },
    Planted {
        what: "a key that is the same for all events of a delivery",
        promise: EACH_ACTS,
        changes: &[(FLOW_FILE, "fields: [\"orders[0].order\"]", "fields: [\"orders[0].shop\"]")],
    },
    Planted {
        what: "a key with what differs from delivery to delivery",
        promise: IDENTITY,
        changes: &[
            (FLOW_FILE, "fields: [\"orders[0].order\"]", "fields: [\"orders[0].order\", sent]"),
            (FLOW_FILE, "required: [orders]", "required: [orders, sent]"),
        ],
    },
];

const PLANTED_BESIDE_ANOTHER: &[Planted] = &[
    Planted {
        what: "a guarantee that the partner does not keep",
        promise: AT_MOST_ONCE,
        changes: &[(FLOW_FILE, "    guarantee: lookup\n", "    guarantee: idempotent\n")],
    },
    Planted {
        what: "a key with what differs from delivery to delivery",
        promise: IDENTITY,
        changes: &[(FLOW_FILE, "fields: [order]}", "fields: [order, at]}")],
    },
];

/// What is asked: a flow, and what stands beside it.
#[derive(Clone, Copy)]
struct Project {
    sources: &'static str,
    flow: &'static str,
    /// Another flow of the same events.
    other: Option<&'static str>,
    tests: &'static str,
}

const ALONE: Project = Project { sources: SOURCES, flow: FLOW, other: None, tests: SCENARIOS };

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows")
}

/// The files with a mistake, or without one.
fn planted(project: Project, changes: &[(&str, &str, &str)]) -> (Vec<File>, String) {
    let catalogue = read_catalog(&shipped()).expect("the catalogue");
    let used = catalogue.into_iter().filter(|file| file.path.contains("twilio") || file.path.contains("klaviyo"));
    let own = [("sources.yaml", project.sources), ("integrations.yaml", INTEGRATIONS), (FLOW_FILE, project.flow)];
    let own = own.into_iter().chain(project.other.map(|text| ("flows/notes.yaml", text)));
    let own = own.map(|(path, text)| File { path: path.into(), text: text.into() });
    let mut files: Vec<File> = own.chain(used).collect();
    let mut tests = project.tests.to_owned();
    for (path, old, new) in changes {
        let text = match *path {
            TESTS_FILE => &mut tests,
            path => &mut files.iter_mut().find(|file| file.path == path).expect("a file").text,
        };
        assert!(text.contains(old), "{path} has no `{old}`");
        *text = text.replacen(old, new, 1);
    }
    (files, tests)
}

fn proof(project: Project, changes: &[(&str, &str, &str)], seeds: u64) -> (Flows, ProvedFlow) {
    let (flows, proof) = asked(project, changes, seeds);
    (flows, proof.expect("it can be asked"))
}

fn asked(project: Project, changes: &[(&str, &str, &str)], seeds: u64) -> (Flows, anyhow::Result<ProvedFlow>) {
    let (files, tests) = planted(project, changes);
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let read = folder::of_text(TESTS_FILE, tests, Path::new(TESTS_FILE)).map_err(|unread| unread.1.to_string());
    let read = read.expect("scenarios");
    let proof = prove(&files, &flows, &read, Draws::Seeds(seeds));
    (flows, proof)
}

#[test]
fn of_an_event_that_is_not_taken_nothing_is_said_to_hold() {
    for (changes, why) in [
        (&[(TESTS_FILE, "order: o-1", "order: 7")][..], "422 invalid-event"),
        (
            &[(TESTS_FILE, "order: o-1", "order: 7"), (FLOW_FILE, "ttl: 72h", "on_invalid: park\nttl: 72h")],
            "is parked at once",
        ),
        (
            &[(TESTS_FILE, "channel: sms", "channel: smss")],
            "no cap of `orders` is on the channel `smss`: did you mean `sms`?",
        ),
        (
            &[(TESTS_FILE, "identity: [order]", "identity: [orders]")],
            "neither the event nor the schema has a field `orders`",
        ),
    ] {
        let refused = asked(ALONE, changes, 0).1.err().map(|why| why.to_string()).unwrap_or_default();
        assert!(refused.contains(why), "{why}: {refused}");
    }
}

/// Mistakes in flows that are not the good one otherwise, either.
#[test]
fn a_mistake_is_found_where_it_takes_operators_or_little_time_between_events() {
    let approval = "approval: {channel: slack, integration: sms, room: C0APPROVALS, expires: 24h}\nguards:\n";
    let hourly = "cap: {channel: sms, limit: 6, per: 1h, entity: \"{{ event.order }}\"}";
    for (changes, promise, effect) in [
        (
            &[
                (FLOW_FILE, "guards:\n", approval),
                (FLOW_FILE, "    guarantee: lookup\n", "    guarantee: idempotent\n"),
            ][..],
            AT_MOST_ONCE,
            "`sms`",
        ),
        (&[(FLOW_FILE, "cap: {channel: sms, limit: 2, per: 24h}", hourly)], PROTECTED, "reached 7 times"),
    ] {
        let (_, proof) = proof(ALONE, changes, 0);
        let found = proof.found.expect("it is found");
        assert!(found.broken.promise == promise && found.broken.seen.contains(effect), "{}", found.broken.seen);
    }
}

#[test]
fn what_no_world_shows_is_not_said_to_be_kept() {
    let effect = |name: &str| Aim::Effect(name.to_owned());
    let consent = (FLOW_FILE, "guards:\n", "guards:\n  - consent: {channel: sms}\n");
    let all = vec![Aim::Calm, effect("crm"), effect("sms"), effect("told"), Aim::Identity];
    let all = all.into_iter().chain([Aim::EachActs("order".into()), Aim::Protected("sms".into()), Aim::AgainWithin]);
    let not_reached = (
        FLOW_FILE,
        "    call: events.create_event\n",
        "    call: events.create_event\n    when: event.order == 'no'\n",
    );
    let narrow =
        (FLOW_FILE, "note: {type: string, maxLength: 40}", "note: {type: string, pattern: \"^(quick|slow)$\"}");
    for (changes, not_seen) in [
        (&[consent][..], all.collect()),
        (&[not_reached], vec![effect("told")]),
        (&[narrow, (TESTS_FILE, "identity: [order]", "identity: [order, note]")], vec![Aim::EachActs("note".into())]),
    ] {
        let (_, proof) = proof(ALONE, changes, 0);
        let found = proof.found.map(|found| found.broken);
        assert_eq!((found, Vec::from_iter(proof.not_seen)), (None, not_seen), "{changes:?}");
    }
}

#[test]
fn a_flow_without_a_mistake_keeps_its_promises() {
    let (_, proof) = proof(ALONE, &[], 60);
    let found = proof.found.map(|found| format!("{}: {}\n{}", found.broken.promise, found.broken.seen, found.scenario));
    assert_eq!((found, proof.not_seen), (None, BTreeSet::new()));
    assert!(proof.worlds > 200, "{} worlds", proof.worlds);
    let told = proof.assumed.join("\n");
    assert!(told.contains("sms does again what it is asked again, and can be asked, as the catalogue says"), "{told}");
}

#[test]
fn a_flow_whose_deliveries_hold_several_events_keeps_its_promises() {
    holds(SPLIT);
}

#[test]
fn a_flow_beside_another_one_of_the_same_events_keeps_its_promises() {
    holds(SHARED);
}

fn holds(project: Project) {
    let (_, proof) = proof(project, &[], 10);
    let found = proof.found.map(|found| format!("{}: {}\n{}", found.broken.promise, found.broken.seen, found.scenario));
    assert_eq!((found, proof.not_seen), (None, BTreeSet::new()));
}

#[test]
fn every_planted_mistake_is_found_and_repeated_by_its_scenario() {
    every_mistake_is_found(ALONE, PLANTED);
}

#[test]
fn every_mistake_is_found_where_a_delivery_holds_several_events() {
    every_mistake_is_found(SPLIT, PLANTED_IN_A_SPLIT);
}

#[test]
fn every_mistake_is_found_where_several_flows_take_an_event() {
    every_mistake_is_found(SHARED, PLANTED_BESIDE_ANOTHER);
}

fn every_mistake_is_found(project: Project, mistakes: &[Planted]) {
    let mut overlooked = Vec::new();
    for Planted { what, promise, changes } in mistakes {
        let (flows, proof) = proof(project, changes, 0);
        let Some(found) = proof.found else {
            overlooked.push(format!("{what}: nothing was found in {} worlds", proof.worlds));
            continue;
        };
        if found.broken.promise != *promise {
            overlooked
                .push(format!("{what}: breaks {} ({})\n{}", found.broken.promise, found.broken.seen, found.scenario));
            continue;
        }
        assert!(!found.timeline.is_empty(), "{what}");
        let repeated = |flows: &Flows| {
            let read = folder::of_text(TESTS_FILE, found.scenario.clone(), Path::new(TESTS_FILE));
            let read = read.unwrap_or_else(|unread| panic!("{what}: {}\n{}", unread.1, found.scenario));
            run_file(&FlowsVersion::of(flows.clone()), read, "").scenarios.remove(0).failed
        };
        assert!(!repeated(&flows).is_empty(), "{what}: `flows test` does not repeat it:\n{}", found.scenario);
        // Where the mistake stands in the flow's file, the flow without it holds in the same scenario.
        if changes.iter().all(|(path, ..)| *path == FLOW_FILE) {
            let (files, _) = planted(project, &[]);
            let good = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(repeated(&good), [], "{what}: the scenario fails without the mistake, too:\n{}", found.scenario);
        }
    }
    assert!(overlooked.is_empty(), "{}", overlooked.join("\n\n"));
}

#[test]
fn the_shipped_flows_keep_their_promises() {
    shipped_flows_keep_their_promises(|flow| flow != ASKS_FOR_LONG);
}

/// A flow of whose partner only an author knows how a lookup is answered: its worlds take a day of lookups each.
const ASKS_FOR_LONG: &str = "meta-leads";

#[test]
fn a_shipped_flow_that_asks_for_long_keeps_its_promises() {
    shipped_flows_keep_their_promises(|flow| flow == ASKS_FOR_LONG);
}

fn shipped_flows_keep_their_promises(wanted: impl Fn(&str) -> bool) {
    let files = read_files(&shipped()).expect("the flows");
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let (read, _) = folder::read(&shipped()).expect("the scenarios");
    for read in read.iter().filter(|read| wanted(&read.written.flow)) {
        let proof = prove(&files, &flows, read, Draws::Seeds(10)).expect("it can be asked");
        let found =
            proof.found.map(|found| format!("{}: {}\n{}", found.broken.promise, found.broken.seen, found.scenario));
        assert_eq!((found, proof.not_seen), (None, BTreeSet::new()), "{}", proof.flow);
    }
}
