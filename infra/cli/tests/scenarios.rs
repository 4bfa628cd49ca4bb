//! The scenarios of the shipped flows: they hold, they touch every part of each flow, and each of them fails when what it
//! touches, or what its sentence is about, is another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ledgerline::flows::test::{FileResult, coverage_of, run_file};
use ledgerline::scenarios::coverage::Covered;
use ledgerline::scenarios::folder::{self, ReadScenarios};
use serde_json::{Value, json};
use shared::adapters::machine::read_files;
use shared::flows::{File, Flows};
use sim::FlowsVersion;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows")
}

fn scenarios() -> Vec<ReadScenarios> {
    let (read, broken) = folder::read(&shipped()).expect("the scenarios");
    assert!(broken.is_empty(), "{:?}", broken.iter().map(|(_, problem)| problem.to_string()).collect::<Vec<_>>());
    read
}

fn flows(files: &[File]) -> Flows {
    Flows::parse(files).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_shipped_scenarios_hold_and_touch_every_part() {
    let flows = flows(&read_files(&shipped()).expect("the flows"));
    let version = FlowsVersion::of(flows.clone());
    let (read, before) = (scenarios(), cpu_seconds());
    let results: Vec<FileResult> = read.into_iter().map(|read| run_file(&version, read, "")).collect();
    if let (Some(before), Some(after)) = (before, cpu_seconds()) {
        assert!(after - before < 3.0, "the scenarios take {:.1} s of CPU", after - before);
    }
    for FileResult { read, scenarios } in &results {
        for scenario in scenarios {
            let failed: Vec<String> =
                scenario.failed.iter().map(|difference| difference.problem(&read.file).to_string()).collect();
            assert!(failed.is_empty(), "{}: it {}\n{}", read.written.flow, scenario.it, failed.join("\n"));
        }
    }
    for line in coverage_of(&flows, &results) {
        let missing: Vec<String> = line.missing.iter().map(ToString::to_string).collect();
        assert!(missing.is_empty(), "in no scenario of {}: {}", line.flow, missing.join("; "));
    }
}

/// The CPU that this thread has used, where the machine tells: a play has no other thread.
fn cpu_seconds() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: f64 = told.split_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e9)
}

/// A scenario, by its flow and its sentence.
type Sentence = (String, String);

/// What is judged: which scenarios saw a mutation, and which overlooked one.
#[derive(Default)]
struct Judged {
    by: BTreeMap<Sentence, usize>,
    overlooked: BTreeSet<String>,
}

impl Judged {
    fn judge(&mut self, read: &ReadScenarios, number: usize, mutant: &FlowsVersion, what: &str) {
        let mut alone = read.clone();
        alone.written.scenarios = vec![read.written.scenarios[number].clone()];
        let (flow, it) = (&read.written.flow, &read.written.scenarios[number].it);
        *self.by.entry((flow.clone(), it.clone())).or_default() += 1;
        if run_file(mutant, alone, "").scenarios[0].failed.is_empty() {
            self.overlooked.insert(format!("{flow}: it {it}: overlooks another {what}"));
        }
    }
}

/// Whatever a scenario touches, and what its sentence is about, is made another in its flow: the scenario must see it.
#[test]
fn every_scenario_fails_when_what_it_touches_is_another() {
    let files = read_files(&shipped()).expect("the flows");
    let version = FlowsVersion::of(flows(&files));
    let mut mutated: BTreeMap<Covered, FlowsVersion> = BTreeMap::new();
    let mut judged = Judged::default();
    let mut about: BTreeMap<Sentence, Vec<&About>> = BTreeMap::new();
    for one in ABOUT {
        about.entry((one.flow.to_owned(), one.it.to_owned())).or_default().push(one);
    }
    let mut never = Vec::new();
    for read in scenarios() {
        let result = run_file(&version, read.clone(), "");
        for (number, scenario) in result.scenarios.iter().enumerate() {
            let seen = scenario.seen.as_ref().expect("it was played");
            for part in seen.covered.iter().filter(|part| part.flow() == read.written.flow) {
                let mutant = mutated.entry(part.clone());
                let mutant = mutant.or_insert_with(|| FlowsVersion::of(flows(&without(&files, part))));
                judged.judge(&read, number, mutant, &part.to_string());
            }
            let sentence = (read.written.flow.clone(), scenario.it.clone());
            for one in about.remove(&sentence).unwrap_or_default() {
                judged.judge(&read, number, &FlowsVersion::of(flows(&one.planted(&files))), one.part);
            }
            if !judged.by.contains_key(&sentence) {
                never.push(format!("{}: it {}", sentence.0, sentence.1));
            }
        }
    }
    assert!(judged.overlooked.is_empty(), "{}", judged.overlooked.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(never.is_empty(), "no mutation is judged by:\n{}", never.join("\n"));
    assert!(about.is_empty(), "there are no such scenarios: {:?}", about.keys());
    let parts: BTreeSet<&str> = ABOUT.iter().map(|one| one.part).collect();
    assert_eq!(
        parts,
        BTreeSet::from(["answers", "body", "guarantee", "key", "lookup", "other types", "retry", "schema", "split",])
    );
}

/// What a scenario's sentence is about, made another.
struct About {
    flow: &'static str,
    it: &'static str,
    part: &'static str,
    /// The file, and the place in it; the flow's own file, where it is empty.
    file: &'static str,
    at: &'static str,
    /// What stands there instead, as JSON; nothing, where it is taken away.
    other: &'static str,
}

impl About {
    fn planted(&self, files: &[File]) -> Vec<File> {
        let mut files = files.to_vec();
        let path = if self.file.is_empty() { format!("flows/{}.yaml", self.flow) } else { self.file.to_owned() };
        change(&mut files, &path, |value| {
            let (above, name) = self.at.rsplit_once('/').expect("a pointer");
            let around = value.pointer_mut(above).unwrap_or_else(|| panic!("{path} has no {above}"));
            let fields = around.as_object_mut().unwrap_or_else(|| panic!("{path}: {above} has no fields"));
            match self.other {
                "" => drop(fields.remove(name).unwrap_or_else(|| panic!("{path} has no {}", self.at))),
                other => drop(fields.insert(name.to_owned(), serde_json::from_str(other).expect("JSON"))),
            }
        });
        files
    }
}

const fn about(
    flow: &'static str,
    it: &'static str,
    part: &'static str,
    at: &'static str,
    other: &'static str,
) -> About {
    About { flow, it, part, file: "", at, other }
}

const META_VALUE: &str = "/schema/properties/entry/items/properties/changes/items/properties/value/required";
const TRIED_AGAIN: &str = r#"[{"status": 400, "means": "retry"}]"#;
const OTHER_LOOKUP: &str = r#"{"after": "2s", "request": {"path": "/Messages.json", "query": {"To": "{{ with.To }}"}}, "found": "/messages/0/sid"}"#;

const LEADS: &str = "lead-routing";
const CARTS: &str = "cart-recovery";
const ORDERS: &str = "shopify-order-paid";

const ABOUT: &[About] = &[
    about(
        LEADS,
        "tells the CRM and the analytics, and takes no lead twice",
        "key",
        "/key",
        r#"{"version": 1, "header": "required"}"#,
    ),
    about(
        LEADS,
        "tells the CRM and the analytics, and takes no lead twice",
        "body",
        "/effects/0/request/body/campaign",
        r#""x""#,
    ),
    about(
        LEADS,
        "calls the CRM again with the same key where an answer is lost",
        "guarantee",
        "/effects/0/guarantee",
        r#""none""#,
    ),
    about(LEADS, "calls the CRM again with the same key where an answer is lost", "retry", "/retry/base", r#""4s""#),
    about(
        LEADS,
        "does not do again what is done when the processor goes down before it has said so",
        "guarantee",
        "/effects/0/guarantee",
        r#""none""#,
    ),
    about(CARTS, "sends one code and one mail", "key", "/key/window/within", r#""1m""#),
    about(CARTS, "sends one code and one mail", "body", "/effects/1/request/body/data/code", r#""none""#),
    about(
        CARTS,
        "keeps to the code that it has when the mail has to be sent again",
        "guarantee",
        "/effects/1/guarantee",
        r#""none""#,
    ),
    about(CARTS, "parks a cart for which there is no code", "answers", "/effects/0/answers", TRIED_AGAIN),
    about(
        "contact-intake",
        "takes a key for one form alone",
        "key",
        "/key",
        r#"{"version": 1, "fields": ["data.email"]}"#,
    ),
    about("push-nudge", "reminds once, however often it is told", "body", "/effects/0/request/body/text", r#""x""#),
    about("push-nudge", "reminds no more often than people bear", "key", "/key/fields", r#"["store_id"]"#),
    about("push-nudge", "parks a reminder that is refused", "answers", "/effects/0/answers", TRIED_AGAIN),
    about(
        "push-nudge",
        "tells the sender what is missing",
        "schema",
        "/schema/required",
        r#"["store_id", "cart_id", "email"]"#,
    ),
    about("sms-nudge", "reminds once, however often it is told", "body", "/effects/0/request/body/text", r#""x""#),
    about("sms-nudge", "reminds no more often than people bear", "key", "/key/fields", r#"["store_id"]"#),
    about("sms-nudge", "parks a reminder that is refused", "answers", "/effects/0/answers", TRIED_AGAIN),
    about(
        "sms-nudge",
        "tells the sender what is missing",
        "schema",
        "/schema/required",
        r#"["store_id", "cart_id", "email"]"#,
    ),
    about(ORDERS, "tells all four, and takes no order twice", "key", "/key/version", "2"),
    about(
        ORDERS,
        "tells all four, and takes no order twice",
        "body",
        "/effects/2/with/properties/lifecyclestage",
        r#""lead""#,
    ),
    about(
        ORDERS,
        "asks Twilio before it sends an SMS again, and finds it",
        "lookup",
        "/effects/1/lookup",
        OTHER_LOOKUP,
    ),
    about(
        ORDERS,
        "asks Twilio before it sends an SMS again, and finds it",
        "guarantee",
        "/effects/1/guarantee",
        r#""idempotent""#,
    ),
    about(ORDERS, "sends an SMS again that Twilio does not find", "lookup", "/effects/1/guarantee", r#""none""#),
    about(
        ORDERS,
        "asks a human where the answer of Slack is lost",
        "guarantee",
        "/effects/3/guarantee",
        r#""idempotent""#,
    ),
    about(ORDERS, "asks a human where Slack cannot say", "guarantee", "/effects/3/guarantee", r#""idempotent""#),
    about(ORDERS, "tries HubSpot again where a batch of one is not all done", "retry", "/retry/max_attempts", "1"),
    about(ORDERS, "parks an order that Klaviyo refuses", "answers", "/effects/0/answers", TRIED_AGAIN),
    about(
        "typeform-lead",
        "makes a member of whoever agreed, known by the MD5 of the address, and takes no response twice",
        "body",
        "/effects/0/with/status_if_new",
        r#""pending""#,
    ),
    about(
        "typeform-lead",
        "asks whoever did not agree first",
        "body",
        "/effects/0/with/status_if_new",
        r#""subscribed""#,
    ),
    about("typeform-lead", "parks a member that Mailchimp refuses", "answers", "/effects/0/answers", TRIED_AGAIN),
    about(
        "meta-leads",
        "tells sales of each lead, and of none twice",
        "key",
        "/key/fields",
        r#"["entry[0].changes[0].value.form_id"]"#,
    ),
    about("meta-leads", "tells sales of each lead, and of none twice", "body", "/effects/0/with/text", r#""x""#),
    about(
        "meta-leads",
        "looks in the channel where Slack cannot say, and tells it again if it is not there",
        "lookup",
        "/effects/0/guarantee",
        r#""none""#,
    ),
    about("meta-leads", "tells Meta of a lead without its form", "schema", META_VALUE, r#"["leadgen_id"]"#),
    About {
        flow: "meta-leads",
        it: "rejects a delivery of another form",
        part: "split",
        file: "catalog/sources/meta.yaml",
        at: "/split",
        other: r#""changes[*]""#,
    },
    About {
        flow: "meta-leads",
        it: "lets a delivery without a lead go by",
        part: "other types",
        file: "catalog/sources/meta.yaml",
        at: "/other_types",
        other: "",
    },
];

/// The files with this part made another.
fn without(files: &[File], part: &Covered) -> Vec<File> {
    let mut files = files.to_vec();
    let path = format!("flows/{}.yaml", part.flow());
    match part {
        Covered::Effect(_, effect) => {
            change(&mut files, &path, |flow| effect_of(flow, effect)["when"] = json!("false"))
        }
        Covered::Condition(_, effect, _) => change(&mut files, &path, |flow| {
            let when = &mut effect_of(flow, effect)["when"];
            *when = json!(format!("not ({})", when.as_str().expect("a condition")));
        }),
        Covered::Guard(_, guard) if guard == "cap" => change(&mut files, &path, |flow| {
            // Safe mode may make a cap tighter, so it has to be there.
            for guard in flow["guards"].as_array_mut().expect("guards") {
                if let Some(cap) = guard.get_mut("cap") {
                    cap["limit"] = json!(50);
                }
            }
        }),
        // An approval that was refused is a no-op of its own.
        Covered::Guard(_, guard) if guard == "approval" => change(&mut files, &path, remove("approval")),
        Covered::Guard(_, guard) => change(&mut files, &path, |flow| {
            let guards = flow["guards"].as_array_mut().expect("guards");
            let before = guards.len();
            guards.retain(|known| known.get(guard).is_none() && known["expression"]["name"] != guard.as_str());
            assert!(guards.len() < before, "{guard}");
        }),
        Covered::Approval(_) => change(&mut files, &path, remove("approval")),
        Covered::SafeMode(_) => change(&mut files, &path, remove("safe_mode")),
        Covered::Answer(_, effect, row) => mutate_row(&mut files, &path, effect, *row),
        Covered::End(_, end) if end == "rejected" => {
            change(&mut files, &path, |flow| flow["on_invalid"] = json!("park"))
        }
        Covered::End(_, end) if end == "dead: invalid" => {
            change(&mut files, &path, |flow| flow["on_invalid"] = json!("reject"));
        }
        Covered::End(_, end) => change(&mut files, &path, |flow| ends_otherwise(flow, end)),
    }
    files
}

/// The flow changed so that events which ended so end otherwise.
fn ends_otherwise(flow: &mut Value, end: &str) {
    match end {
        "succeeded" => {
            let guards = flow["guards"].as_array().cloned().unwrap_or_default();
            let never = json!({"expression": {"name": "never", "that": "false"}});
            flow["guards"] = [never].into_iter().chain(guards).collect();
        }
        "noop" => {
            // A safe mode has caps, and needs theirs.
            let fields = flow.as_object_mut().expect("a flow");
            fields.retain(|name, _| !["guards", "approval", "safe_mode"].contains(&name.as_str()));
        }
        "dead: terminal" => {
            answer_first(flow, &json!([{"status": "400..422", "means": "retry"}]));
            // Slack refuses in the body of a 200.
            for effect in flow["effects"].as_array_mut().expect("effects") {
                if effect["call"].as_str().is_some_and(|call| call.starts_with("slack.")) {
                    effect["answers"] = json!([{"status": 200, "when": "body.ok == false", "means": "retry"}]);
                }
            }
        }
        "dead: result_missing" => answer_first(flow, &json!([{"status": 200, "means": "failed"}])),
        "dead: attempts_spent" => {
            let most = flow["retry"]["max_attempts"].as_u64().expect("a number");
            flow["retry"]["max_attempts"] = json!(most + 1);
        }
        "dead: budget_exhausted" => drop(flow["retry"].as_object_mut().expect("a policy").remove("budget_per_contact")),
        "dead: unknown_outcome" => {
            for effect in flow["effects"].as_array_mut().expect("effects") {
                effect["guarantee"] = json!("idempotent");
            }
        }
        other => panic!("no flow is known to end otherwise than by {other}"),
    }
}

/// Rows before those that the effects have.
fn answer_first(flow: &mut Value, rows: &Value) {
    for effect in flow["effects"].as_array_mut().expect("effects") {
        let own = effect["answers"].as_array().cloned().unwrap_or_default();
        effect["answers"] = rows.as_array().into_iter().flatten().cloned().chain(own).collect();
    }
}

fn change(files: &mut [File], path: &str, change: impl FnOnce(&mut Value)) {
    let file = files.iter_mut().find(|file| file.path == path).unwrap_or_else(|| panic!("{path}"));
    let mut value: Value = serde_saphyr::from_str(&file.text).expect("YAML");
    change(&mut value);
    file.text = value.to_string();
}

fn remove(name: &'static str) -> impl FnOnce(&mut Value) {
    move |flow| drop(flow.as_object_mut().expect("a flow").remove(name))
}

fn parsed(files: &[File], path: &str) -> Value {
    let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path}"));
    serde_saphyr::from_str(&file.text).expect("YAML")
}

fn effect_of<'f>(flow: &'f mut Value, effect: &str) -> &'f mut Value {
    let effects = flow["effects"].as_array_mut().expect("effects");
    effects.iter_mut().find(|known| known["id"] == effect).expect("the effect")
}

/// Another meaning for a row. Rows stand in the effect, in its call, in its integration, and in the catalogue.
fn mutate_row(files: &mut [File], path: &str, effect: &str, row: usize) {
    let mut flow = parsed(files, path);
    let effect_value = effect_of(&mut flow, effect).clone();
    let call = effect_value["call"].as_str().map(|call| call.split_once('.').expect("a call"));
    let integration =
        call.map_or_else(|| effect_value["integration"].as_str().expect("an integration"), |(name, _)| name);
    let integrations = parsed(files, "integrations.yaml");
    let uses = integrations[integration]["uses"].as_str().map(|name| format!("catalog/partners/{name}.yaml"));
    let partner = uses.as_ref().map(|path| parsed(files, path)).unwrap_or_default();
    let effects = path.to_owned();
    let own = format!(
        "/effects/{}/answers",
        flow["effects"].as_array().expect("effects").iter().position(|e| e["id"] == effect).expect("it")
    );
    let of_call = call.map(|(_, name)| format!("/calls/{name}/answers")).unwrap_or_default();
    let places = [
        (Some(effects), own),
        (uses.clone(), of_call),
        (Some("integrations.yaml".to_owned()), format!("/{integration}/answers")),
        (uses, "/answers".to_owned()),
    ];
    let mut left = row - 1;
    for (file, pointer) in places {
        let Some(file) = file.filter(|_| !pointer.is_empty()) else { continue };
        let value = if file.starts_with("catalog") { partner.clone() } else { parsed(files, &file) };
        let count = value.pointer(&pointer).and_then(Value::as_array).map_or(0, Vec::len);
        if left < count {
            return change(files, &file, |value| {
                let row = value.pointer_mut(&format!("{pointer}/{left}")).expect("the row");
                let other = match row["means"].as_str().expect("a meaning") {
                    "done" => "in_doubt",
                    "failed" => "retry",
                    _ => "failed",
                };
                match row["when"].as_str().filter(|_| other == "in_doubt") {
                    // A table that judges a success by its body has to say which one is: it fits nothing any more.
                    Some(when) => row["when"] = json!(format!("({when}) and status == 299")),
                    None => row["means"] = json!(other),
                }
                row.as_object_mut().expect("a row").remove("result");
            });
        }
        left -= count;
    }
    panic!("{effect} has no row {row}");
}

const TWO_CAPS: &str = r#"name: orders
version: 1
on: {source: shop, type: order}
schema: {type: object, required: [order], properties: {type: {}, order: {type: string}, kind: {type: string}}}
key: {version: 1, fields: [order]}
order_by: order
ttl: 72h
guards:
  - cap: {channel: sms, limit: 1, per: 1h, entity: all}
  - cap: {channel: sms, limit: 2, per: 24h, entity: all}
effects:
  - id: told
    integration: crm
    guarantee: none
    when: event.kind == 'told'
    request: {method: POST, path: /orders}
safe_mode: {skip: [told]}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3, budget_per_contact: {count: 1, window: 1h}}
"#;

/// Each cap counts, a skip of safe mode is no condition that was false, and ends follow from what the file says.
#[test]
fn what_stands_in_a_flow_is_in_its_coverage() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files = [
        file("sources.yaml", "shop: {scheme: github, max_body: 64KiB, rate: 50/s, type_at: type}"),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}"),
        file("flows/orders.yaml", TWO_CAPS),
    ];
    let flows = flows(&files);
    let tests = "flow: orders\nevent: {type: order, order: o-1, kind: told}\nscenarios:\n  - it: is capped\n    given: \
                 [{deliver: {}}, {deliver: {with: {order: o-2}}}]\n  - it: is safe\n    given: [{safe_mode: {for: 1h}}, {deliver: {}}]\n";
    let read = folder::of_text("tests/orders.yaml", tests.into(), Path::new("tests/orders.yaml"));
    let read = read.unwrap_or_else(|unread| panic!("{}", unread.1));
    let results = [run_file(&FlowsVersion::of(flows.clone()), read, "")];
    let line = coverage_of(&flows, &results).remove(0);
    let missing: Vec<String> = line.missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        missing,
        [
            "condition of told: false",
            "guard cap 2",
            "end dead: attempts_spent",
            "end dead: budget_exhausted",
            "end dead: terminal",
            "end dead: unknown_outcome",
            "end rejected"
        ]
    );
}
