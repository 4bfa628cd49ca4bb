//! A rehearsal's report is exact, and its memory stays flat.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use anyhow::Result;
use ledgerline::rehearse::{ChosenRoute, Export, RehearsalReport, RehearsalSetup, RehearsalWorld, rehearse};
use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::flows::{Field, File, Flows};

const FLOW: &str = r#"name: orders
version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [order, customer, total]
  properties:
    type: {type: string}
    timestamp: {type: string}
    order: {type: string}
    customer: {type: string}
    total: {type: integer}
    note: {type: string}
key: {version: 1, fields: [order]}
order_by: customer
ttl: 1h
keep: 1h
guards:
  - expression: {name: worth-it, that: event.total >= 5}
effects:
  - id: crm
    integration: crm
    guarantee: native
    request: {method: POST, path: /orders, body: {order: "{{ event.order }}", note: "{{ event.note }}"}}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#;

fn flows() -> Flows {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files = [
        file("sources.yaml", "shop: {scheme: github, max_body: 64KiB, rate: 1000/s, type_at: type}"),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}"),
        file("flows/orders.yaml", FLOW),
    ];
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

const STARTS_AT: i64 = 1_794_819_600;

/// An export with everything that history has in it, and what is true of it.
fn export(lines: usize) -> (String, RehearsalReport) {
    let mut truth =
        RehearsalReport { starts_at: Timestamp::from_secs(STARTS_AT).to_string(), ..RehearsalReport::default() };
    let (mut text, mut earlier): (String, Vec<Value>) = (String::new(), Vec::new());
    let (mut order, mut clock) = (OrderTruth::default(), STARTS_AT);
    for number in 0..lines {
        truth.lines += 1;
        truth.events += 1;
        let late = if number > 1000 && number % 29 == 0 { 3_000 } else { 0 };
        let at = STARTS_AT + i64::try_from(number).expect("small") * 7 - late;
        let mut event = json!({
            "type": "order", "timestamp": Timestamp::from_secs(at).to_string(), "order": format!("o-{number}"),
            "customer": format!("c-{}", number % 97), "total": number % 50, "note": "quick",
        });
        let mut is_new = true;
        if number % 37 == 36 {
            text += "{\"type\": \"order\", \"order\": \n";
            *truth.rejected.entry("malformed".into()).or_default() += 1;
            truth.without_moment += 1;
            continue;
        } else if number % 41 == 40 {
            event.as_object_mut().expect("an event").remove("order");
            *truth.rejected.entry("invalid-event".into()).or_default() += 1;
            is_new = false;
        } else if number % 53 == 52 {
            event["type"] = json!("refund");
            *truth.rejected.entry("unknown-type".into()).or_default() += 1;
            is_new = false;
        } else if number % 10 == 9 {
            event = earlier[earlier.len() - 1 - number % earlier.len().min(50)].clone();
            truth.duplicates += 1;
            // A no-op and a parked event did nothing, so that a repetition of them would do nothing again.
            truth.effects_spared += usize::from(event["total"].as_i64() >= Some(5) && event.get("note").is_some());
            is_new = false;
        } else if number % 61 == 60 {
            event.as_object_mut().expect("an event").remove("note");
        }
        let moment = Timestamp::parse(event["timestamp"].as_str().expect("a moment")).expect("a moment").secs();
        truth.behind_the_clock += usize::from(moment < clock);
        clock = clock.max(moment);
        if is_new {
            order.accepted(&event["customer"].to_string(), moment);
            truth.accepted += 1;
            match (event["total"].as_i64().expect("a total"), event.get("note")) {
                (..5, _) => *truth.noop.entry("worth-it".into()).or_default() += 1,
                (_, None) => *truth.dead.entry("template".into()).or_default() += 1,
                (_, Some(_)) => {
                    truth.succeeded += 1;
                    *truth.calls.entry("crm".into()).or_default() += 1;
                }
            }
            earlier.push(event.clone());
            if earlier.len() > 60 {
                earlier.remove(0);
            }
        }
        text += &format!("{event}\n");
    }
    order.tell(&mut truth);
    (text, truth)
}

/// What is true of the order of each entity's events.
#[derive(Default)]
struct OrderTruth {
    newest: BTreeMap<String, i64>,
    reordered: BTreeSet<String>,
    out_of_order: usize,
}

impl OrderTruth {
    fn accepted(&mut self, entity: &str, moment: i64) {
        let newest = self.newest.entry(entity.to_owned()).or_insert(moment);
        if *newest > moment {
            self.out_of_order += 1;
            self.reordered.insert(entity.to_owned());
        }
        *newest = moment.max(*newest);
    }

    fn tell(self, truth: &mut RehearsalReport) {
        truth.entities = self.newest.len();
        truth.out_of_order = self.out_of_order;
        truth.reordered_entities = self.reordered.len();
    }
}

/// What the process holds in memory, in KiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// A rehearsal without contacts, before partners that answer so.
fn rehearsed(
    text: impl Into<Vec<u8>>,
    flows: &Flows,
    route: ChosenRoute<'_>,
    partners: Value,
) -> Result<RehearsalReport> {
    let world = RehearsalWorld { partners: serde_json::from_value(partners)?, ..RehearsalWorld::default() };
    let at: Field = "timestamp".parse().map_err(anyhow::Error::msg)?;
    let setup = RehearsalSetup { flows, route, at: &at, starts_at: None, world: &world };
    let report = rehearse(Export::of(Cursor::new(text.into())), &setup, |_| ())?;
    Ok(RehearsalReport { took: Default::default(), ..report })
}

#[test]
fn a_report_is_what_the_generator_knows_and_memory_stays_flat() {
    let (text, truth) = export(10_000);
    let at: Field = "timestamp".parse().expect("a field");
    let (flows, world, mut held) = (flows(), RehearsalWorld::default(), Vec::new());
    let setup =
        RehearsalSetup { flows: &flows, route: ChosenRoute::default(), at: &at, starts_at: None, world: &world };
    let reader = Cursor::new(text.into_bytes());
    let report = rehearse(Export::of(reader), &setup, |_| held.push(memory()));
    let report = RehearsalReport { took: Default::default(), ..report.expect("it is rehearsed") };
    assert_eq!(report, truth);
    assert_eq!(
        report.accepted,
        report.succeeded + report.noop.values().sum::<usize>() + report.dead.values().sum::<usize>()
    );
    // Malformed lines pass some of the moments at which progress is told.
    assert!(held.len() >= 15, "{} times", held.len());
    let (early, last) = (held[held.len() / 4], held[held.len() - 1]);
    println!("{early} KiB after a quarter, {last} KiB at the end");
    // A row with its history takes more than a kilobyte: of 7,500 lines, no row may stay.
    assert!(last < early + 7_500 * 400 / 1024, "{early} KiB after a quarter, {last} KiB at the end");
}

/// All events of the export are known until its end. Of each stays what a repetition is told.
#[test]
fn an_event_that_stays_known_keeps_neither_its_history_nor_its_payload() {
    let (text, truth) = export(10_000);
    let at: Field = "timestamp".parse().expect("a field");
    let file = |path: &str, text: String| File { path: path.into(), text };
    let files = [
        file("sources.yaml", "shop: {scheme: github, max_body: 64KiB, rate: 1000/s, type_at: type}".into()),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}".into()),
        file("flows/orders.yaml", FLOW.replace("ttl: 1h\nkeep: 1h", "ttl: 72h\nkeep: 72h")),
    ];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let (world, mut held) = (RehearsalWorld::default(), Vec::new());
    let setup =
        RehearsalSetup { flows: &flows, route: ChosenRoute::default(), at: &at, starts_at: None, world: &world };
    let report = rehearse(Export::of(Cursor::new(text.into_bytes())), &setup, |_| held.push(memory()));
    let report = RehearsalReport { took: Default::default(), ..report.expect("it is rehearsed") };
    assert_eq!((report.accepted, report.effects_spared), (truth.accepted, truth.effects_spared));
    let (early, last) = (held[held.len() / 4], held[held.len() - 1]);
    println!("{early} KiB after a quarter, {last} KiB at the end");
    assert!(last < early + 7_500 * 1_500 / 1024, "{early} KiB after a quarter, {last} KiB at the end");
}

const SPLIT_FLOW: &str = r#"version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [events]
  properties:
    timestamp: {type: string}
    events:
      type: array
      minItems: 1
      items:
        type: object
        required: [order, customer, total]
        properties: {order: {type: string}, customer: {type: string}, total: {type: integer}}
key: {version: 1, fields: ["events[0].order"]}
order_by: events[0].customer
ttl: 1h
keep: 1h
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#;

/// Two flows that take each event of a delivery with several.
fn split_flows() -> Flows {
    split_flows_of("max_body: 64KiB, rate: 1000/s")
}

fn split_flows_of(limits: &str) -> Flows {
    let file = |path: &str, text: String| File { path: path.into(), text };
    let effect = |name: &str| {
        format!("effects: [{{id: a, integration: {name}, guarantee: native, request: {{method: POST, path: /x}}}}]\n")
    };
    let guard = "guards: [{expression: {name: worth-it, that: \"event.events[0].total >= 5\"}}]\n";
    let files = [
        file(
            "sources.yaml",
            format!(
                "shop: {{scheme: github, {limits}, split: \"events[*]\", type_at: \"events[0].type\", other_types: ignore}}"
            ),
        ),
        file(
            "integrations.yaml",
            "crm: {base_url: https://crm.example.com, timeout: 3s}\nmail: {base_url: https://mail.example.com, timeout: 3s}"
                .into(),
        ),
        file("flows/book.yaml", format!("name: book\n{SPLIT_FLOW}{guard}{}", effect("crm"))),
        file("flows/thank.yaml", format!("name: thank\n{SPLIT_FLOW}{}", effect("mail"))),
    ];
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

/// An export of deliveries with several events, repeated by their sender, and what is true of it.
fn split_export(lines: usize) -> (String, RehearsalReport) {
    let mut truth =
        RehearsalReport { starts_at: Timestamp::from_secs(STARTS_AT).to_string(), ..RehearsalReport::default() };
    let (mut text, mut earlier): (String, Vec<String>) = (String::new(), Vec::new());
    let (mut order, mut clock) = (OrderTruth::default(), STARTS_AT);
    for number in 0..lines {
        truth.lines += 1;
        let at = STARTS_AT + i64::try_from(number).expect("small") * 7;
        if number % 23 == 22 {
            text += "{\"events\": [\n";
            truth.events += 1;
            truth.without_moment += 1;
            *truth.rejected.entry("malformed".into()).or_default() += 1;
            continue;
        }
        if number % 31 == 30 {
            let moment = Timestamp::from_secs(at).to_string();
            let is_empty = number % 2 == 0;
            let line = if is_empty { json!({"timestamp": moment, "events": []}) } else { json!({"timestamp": moment}) };
            text += &format!("{line}\n");
            clock = at;
            truth.events += 1;
            match is_empty {
                true => truth.ignored += 1,
                false => *truth.rejected.entry("no-events".into()).or_default() += 1,
            }
            continue;
        }
        let is_again = number % 5 == 4;
        if is_again {
            earlier.push(earlier[earlier.len() - 1 - number % earlier.len().min(8)].clone());
        } else {
            let item = |index: usize| {
                let (kind, total) = (if index == 1 { "ping" } else { "order" }, (number + index) % 9);
                let mut item = json!({"type": kind, "order": format!("o-{number}-{index}"), "total": total});
                if (number + index) % 11 != 10 {
                    item["customer"] = json!(format!("c-{}", (number * 3 + index) % 41));
                }
                item
            };
            let items: Vec<Value> = (0..1 + number % 4).map(item).collect();
            let line = json!({"timestamp": Timestamp::from_secs(at).to_string(), "events": items});
            earlier.push(line.to_string());
        }
        let line: Value = serde_json::from_str(earlier.last().expect("a line")).expect("JSON");
        let moment = Timestamp::parse(line["timestamp"].as_str().expect("a text")).expect("a moment").secs();
        truth.behind_the_clock += usize::from(moment < clock);
        clock = clock.max(moment);
        for item in line["events"].as_array().expect("events") {
            truth.events += 1;
            let books = item["total"].as_i64() >= Some(5);
            match (item["type"] == "ping", item.get("customer"), is_again) {
                (true, ..) => truth.ignored += 1,
                (false, None, _) => *truth.rejected.entry("invalid-event".into()).or_default() += 1,
                (false, Some(_), true) => {
                    truth.duplicates += 2;
                    truth.effects_spared += 1 + usize::from(books);
                }
                (false, Some(customer), false) => {
                    truth.accepted += 2;
                    truth.succeeded += 1 + usize::from(books);
                    *truth.calls.entry("mail".into()).or_default() += 1;
                    match books {
                        true => *truth.calls.entry("crm".into()).or_default() += 1,
                        false => *truth.noop.entry("worth-it".into()).or_default() += 1,
                    }
                    for flow in ["book", "thank"] {
                        order.accepted(&format!("{flow} {customer}"), moment);
                    }
                }
            }
        }
        text += &format!("{}\n", earlier.last().expect("a line"));
    }
    order.tell(&mut truth);
    (text, truth)
}

#[test]
fn events_are_counted_one_by_one_and_once_for_each_flow() {
    let (text, mut truth) = split_export(1_000);
    // The first call to the CRM is answered badly, and made again.
    *truth.calls.get_mut("crm").expect("calls") += 1;
    let partners = json!({"crm": [{"status": 503}]});
    let report = rehearsed(text, &split_flows(), ChosenRoute::default(), partners).expect("it is rehearsed");
    assert_eq!(report, truth);
}

#[test]
fn a_delivery_that_holds_ignored_events_is_no_accepted_one() {
    let item = |kind: &str, order: &str| json!({"type": kind, "order": order, "customer": "c", "total": 9});
    let line = |items: &[Value]| json!({"timestamp": "2026-11-16T09:00:00Z", "events": items}).to_string() + "\n";
    let mixed = line(&[item("order", "a"), item("order", "b"), item("ping", "c")]);
    let text = format!("{mixed}{mixed}{mixed}{}", line(&[item("ping", "d")]));
    let report = rehearsed(text, &split_flows(), ChosenRoute::default(), json!({})).expect("it is rehearsed");
    let counts = [report.lines, report.events, report.accepted, report.duplicates, report.ignored, report.succeeded];
    assert_eq!(counts, [4, 10, 4, 8, 4, 4]);
    assert_eq!(report.effects_spared, 8);
}

#[test]
fn a_source_over_its_rate_is_counted_by_lines_and_turns_no_order_round() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files = [
        file("sources.yaml", "shop: {scheme: github, max_body: 64KiB, rate: {limit: 20/min, burst: 1}, type_at: type}"),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}"),
        file("flows/orders.yaml", FLOW),
    ];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let line = |second: u32, order: &str| {
        json!({"type": "order", "timestamp": format!("2026-11-16T09:00:{second:02}Z"), "order": order, "customer": "c",
               "total": 9, "note": "n"})
        .to_string()
    };
    // The third line comes while the clock is ahead of it by what the second had to wait; only the last is late.
    let text = [line(0, "a"), line(0, "b"), line(1, "c"), line(30, "d"), line(2, "e")].join("\n");
    let report = rehearsed(text, &flows, ChosenRoute::default(), json!({})).expect("it is rehearsed");
    assert_eq!((report.accepted, report.throttled, report.behind_the_clock), (5, 3, 1));
    assert!(report.to_string().contains("3 lines over the rate of their source"), "{report}");
}

#[test]
fn a_delivery_of_as_many_events_as_the_intake_takes_is_counted_whole() {
    let note = "x".repeat(1800);
    let item = |n: usize, total: u32| json!({"type": "order", "order": format!("o-{n}"), "customer": format!("c-{}", n % 550), "total": total, "note": note});
    let line = |items: Vec<Value>| json!({"timestamp": "2026-11-16T09:00:00Z", "events": items}).to_string();
    let (all, other) = (line((0..600).map(|n| item(n, 9)).collect()), line(vec![item(599, 8)]));
    assert!(all.len() > 1024 * 1024, "{} bytes", all.len());
    let flows = split_flows_of("max_body: 2MiB, rate: {limit: 1000/s, burst: 4000}");
    let report = rehearsed(format!("{all}\n{other}\n"), &flows, ChosenRoute::default(), json!({}));
    let report = report.expect("it is rehearsed");
    let counts = [report.lines, report.events, report.accepted, report.other_payloads, report.entities];
    assert_eq!(counts, [2, 601, 1200, 2, 1100], "{report}");
}

#[test]
fn another_payload_under_a_known_key_is_no_duplicate() {
    let line = |order: &str, total: u64| {
        let at = "2026-11-16T09:00:00Z";
        json!({"type": "order", "timestamp": at, "order": order, "customer": "c", "total": total, "note": "n"})
            .to_string()
    };
    let text = [line("a", 9), line("a", 9), line("a", 10), line("b", 9)].join("\n");
    let report = rehearsed(text, &flows(), ChosenRoute::default(), json!({})).expect("it is rehearsed");
    assert_eq!((report.accepted, report.duplicates, report.other_payloads, report.effects_spared), (2, 1, 1, 1));
    let told = report.to_string();
    assert!(told.contains("same key   1: another payload") && told.contains("ledgerline flows keys"), "{told}");
}

#[test]
fn partners_answer_as_they_are_told() {
    let (text, _) = export(12);
    let partners = json!({"crm": [{"status": 400}, {"status": 503, "acted": false}]});
    let route = ChosenRoute { flow: Some("orders"), ..ChosenRoute::default() };
    let report = rehearsed(text, &flows(), route, partners).expect("it is rehearsed");
    assert_eq!(report.dead, BTreeMap::from([("terminal".to_owned(), 1)]));
    // One was answered twice: the second time well.
    assert_eq!(report.calls["crm"], report.succeeded + 2);
}

/// Lines without an end, none of which says when it happened in the field that is named.
struct Endless(Cursor<Vec<u8>>);

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0.position() == self.0.get_ref().len() as u64 {
            self.0.set_position(0);
        }
        self.0.read(buffer)
    }
}

#[test]
fn an_export_without_a_clock_is_refused_after_a_few_lines() {
    let line = json!({"type": "order", "order": "o", "created_at": "2026-11-16T09:00:00Z", "note": "x".repeat(5000)});
    let (flows, world, at) = (flows(), RehearsalWorld::default(), "timestamp".parse().expect("a field"));
    let setup =
        RehearsalSetup { flows: &flows, route: ChosenRoute::default(), at: &at, starts_at: None, world: &world };
    let endless = Endless(Cursor::new(format!("{line}\n").into_bytes()));
    let refused = rehearse(Export::of(endless), &setup, |_| ()).expect_err("it has no clock").to_string();
    assert!(refused.contains("none of the first 200 lines") && refused.contains("for --at: created_at"), "{refused}");
    let short = Export::of(Cursor::new(b"{\"order\": 1}\n".to_vec()));
    let refused = rehearse(short, &setup, |_| ()).expect_err("it has no clock").to_string();
    assert!(refused.contains("say with --starts-at when the export begins"), "{refused}");
    let setup = RehearsalSetup { starts_at: Some(Timestamp::from_secs(STARTS_AT)), ..setup };
    let short = Export::of(Cursor::new(b"{\"order\": 1}\n".to_vec()));
    assert_eq!(rehearse(short, &setup, |_| ()).expect("it has one").without_moment, 1);
}

/// A shop, and a sender of forms that signs fields of its body or the URL.
fn two_sources(other: &str) -> Flows {
    let file = |path: &str, text: String| File { path: path.into(), text };
    let flow = |name: &str, source: &str, kind: &str| {
        let on = format!("on: {{source: {source}, type: {kind}}}");
        FLOW.replace("name: orders", &format!("name: {name}")).replace("on: {source: shop, type: order}", &on)
    };
    let sources = format!("shop: {{scheme: github, max_body: 64KiB, rate: 1000/s, type_at: type}}\n{other}");
    let mut files = vec![
        file("sources.yaml", sources),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}".into()),
        file("flows/orders.yaml", flow("orders", "shop", "order")),
        file("flows/others.yaml", flow("others", "other", "sms").replace("total: {type: integer}", "total: {}")),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows");
    files.extend(["twilio", "mailgun"].into_iter().filter(|name| other.contains(name)).map(|name| {
        let path = format!("catalog/sources/{name}.yaml");
        let text = std::fs::read_to_string(folder.join(&path)).expect("a sender");
        file(&path, text)
    }));
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_malformed_line_is_a_counted_rejection_whatever_its_source_signs() {
    let good = json!({"timestamp": "2026-11-16T09:00:00Z", "order": "o", "customer": "c", "total": 9, "note": "n"});
    for (sender, more) in [("twilio", ""), ("mailgun", ", type_at: type")] {
        let flows = two_sources(&format!("other: {{uses: {sender}, max_body: 64KiB, rate: 100/s{more}}}\n"));
        let route = ChosenRoute { flow: Some("others"), ..ChosenRoute::default() };
        let text = format!("{good}\n{{\"order\":\n[1]\n{good}\n");
        let report = rehearsed(text, &flows, route, json!({})).expect("it is rehearsed");
        assert_eq!(report.rejected.get("malformed"), Some(&2), "{sender}: {report:?}");
        assert_eq!((report.accepted, report.duplicates), (1, 1), "{sender}: {report:?}");
    }
}

#[test]
fn a_source_is_never_guessed() {
    let flows = two_sources("other: {scheme: stripe, max_body: 64KiB, rate: 100/s, type_at: type}\n");
    let good = json!({"type": "order", "timestamp": "2026-11-16T09:00:00Z", "order": "o", "customer": "c", "total": 9, "note": "n"});
    let text = format!("{good}\nno event\n");
    let refused = rehearsed(text.clone(), &flows, ChosenRoute::default(), json!({})).expect_err("it is a guess");
    assert!(refused.to_string().contains("line 2") && refused.to_string().contains("--source"), "{refused}");
    let route = ChosenRoute { source: Some("shop"), ..ChosenRoute::default() };
    let report = rehearsed(text, &flows, route, json!({})).expect("it is rehearsed");
    assert_eq!((report.accepted, report.rejected.get("malformed")), (1, Some(&1)));
}

#[test]
fn guards_ask_the_contacts_that_are_known() {
    let file = |path: &str, text: String| File { path: path.into(), text };
    let flow = FLOW
        .replace(
            "order_by: customer\n",
            "order_by: customer\ncontact: {tenant: acme, email: \"{{ event.customer }}\"}\n",
        )
        .replace("guards:\n", "guards:\n  - consent: {channel: email}\n");
    let files = [
        file("sources.yaml", "shop: {scheme: github, max_body: 64KiB, rate: 1000/s, type_at: type}".into()),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}".into()),
        file("flows/orders.yaml", flow),
    ];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rehearse-contacts");
    std::fs::create_dir_all(folder.join("flows")).expect("a folder");
    files.iter().for_each(|file| std::fs::write(folder.join(&file.path), &file.text).expect("a file"));
    let line = |email: &str| json!({"type": "order", "timestamp": "2026-11-16T09:00:00Z", "order": email, "customer": email, "total": 9, "note": "n"});
    let text = format!("{}\n{}\n", line("ada@example.com"), line("bob@example.com"));
    let without = rehearsed(text.clone(), &flows, ChosenRoute::default(), json!({})).expect("it is rehearsed");
    assert_eq!((without.succeeded, without.noop.values().sum::<usize>()), (0, 2));
    std::fs::write(folder.join("export.jsonl"), text).expect("an export");
    std::fs::write(folder.join("crm.csv"), "email,consent_email\nada@example.com,true\n").expect("contacts");
    let scenario = "flow: orders\nscenarios:\n  - {it: is down, partners: {crm: [{status: 400}]}}\n  - {it: is well}\n";
    std::fs::write(folder.join("scenario.yaml"), scenario).expect("a scenario");
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_ledgerline"))
        .current_dir(&folder)
        .args(["--json", "rehearse", "export.jsonl", "--in", ".", "--contacts", "crm.csv", "--tenant", "acme"])
        .args(["--scenario", "scenario.yaml", "--only", "down"])
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!((&report["dead"], &report["noop"]), (&json!({"terminal": 1}), &json!({"consent": 1})), "{told}");
}
