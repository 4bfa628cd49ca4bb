//! What `flows check` finds in flows that parse, `flows keys` over CSV, and what `flows new` makes.

mod flows_folder;

use std::path::{Path, PathBuf};

use flows_folder::{flows_folder, ledgerline, told};

const SOURCES: &str = "shop: {scheme: github, max_body: 64KiB, rate: 50/s, type_at: type}\n";
const INTEGRATIONS: &str = "\
sms: {uses: twilio, vars: {account_sid: AC1, sender: \"+1\"}}
crm: {base_url: https://crm.example.com, timeout: 3s}
";
const FLOW: &str = r#"name: orders
version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [tags, kind, phone, customer]
  properties:
    type: {type: string}
    tags: {type: array, minItems: 1, items: {type: object, properties: {note: {type: string}}}}
    kind: {enum: [a, b]}
    phone: {type: string}
    customer: {type: string}
    note: {type: string}
key: {version: 1, fields: [customer]}
order_by: customer
ttl: 72h
effects:
  - {id: sms, call: sms.send_message, with: {To: "{{ event.phone }}", Body: "{{ event.note | default('') }}"}}
  - {id: crm, integration: crm, when: "event.kind == 'b'", request: {method: POST, path: /orders}}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#;

fn folder(name: &str, flow: &str, tests: &str) -> PathBuf {
    let files = [("sources.yaml", SOURCES), ("integrations.yaml", INTEGRATIONS), ("flows/orders.yaml", flow)];
    let tests = [("tests/orders.yaml", tests)].into_iter().filter(|(_, text)| !text.is_empty());
    flows_folder(&format!("findings-{name}"), &files.into_iter().chain(tests).collect::<Vec<_>>())
}

#[test]
fn a_flow_without_a_mistake_has_no_findings() {
    let checked = ledgerline(&folder("good", FLOW, ""), &["flows", "check", "."]);
    assert!(checked.status.success(), "{}", told(&checked));
}

#[test]
fn what_would_never_work_is_found() {
    for (name, old, new, finding) in [
        ("list", "fields: [customer]", "fields: [tags]", "the key reads `tags`, which is a list"),
        ("never", "kind == 'b'", "kind == 'c'", "the effect `crm` can never run: its condition asks for `c`"),
        ("false", "\"event.kind == 'b'\"", "\"false\"", "the effect `crm` can never run: its condition is false"),
        (
            "default",
            " | default('')",
            "",
            "the effect `sms` reads `note`, which an event need not have, without a default",
        ),
        ("assigned", "event.kind == 'b'", "event.kind = 'b'", "(`==` compares), in `event.kind = 'b'`"),
        (
            "default in a list",
            "{{ event.note | default('') }}",
            "{{ event.tags[0].note }}",
            "the effect `sms` reads `tags[0].note`, which an event need not have, without a default",
        ),
        (
            "stronger",
            "sms.send_message, with",
            "sms.send_message, guarantee: idempotent, with",
            "is more than is known of `sms.send_message`",
        ),
    ] {
        let flow = FLOW.replace(old, new);
        assert_ne!(flow, FLOW, "{name}");
        let checked = ledgerline(&folder(name, &flow, ""), &["flows", "check", "."]);
        assert_eq!(checked.status.code(), Some(1), "{name}: {}", told(&checked));
        assert!(told(&checked).contains(finding), "{name}: {}", told(&checked));
        assert!(told(&checked).contains("1 problem\n"), "{name}: {}", told(&checked));
    }
}

/// One file with mistakes of its form, of its meaning, and such as only a whole flow shows.
const MANY_MISTAKES: &str = r#"name: orders
version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [tags, kind, phone, customer, lines]
  properties:
    type: {type: string}
    tags: {type: array, items: {type: string}}
    kind: {enum: [a, b]}
    phone: {type: string}
    customer: {type: string}
    note: {type: string}
    lines: {type: array, minItems: 1, items: {type: object, required: [parts], properties: {parts: {type: array}}}}
key: {version: 1, fields: [tags, "lines[0].parts"]}
order_by: customers
ttl: 72h
keep: 900d
colour: red
guards:
  - expression: {name: worth-it, that: "event.kind is shiny"}
effects:
  - id: filter
    integration: crm
    request: {method: POST, path: /a, body: {kind: "{{ event.kind | shout }}"}}
  - id: unknown
    integration: crmm
    request: {method: POST, path: /b}
  - id: waits
    integration: crm
    needs: [nobody]
    request: {method: POST, path: /c}
  - id: optional
    call: sms.send_message
    with: {To: "{{ event.phone }}", Body: "{{ event.note }}"}
  - id: never
    integration: crm
    when: "event.kind == 'c'"
    request: {method: POST, path: /d}
  - id: stronger
    call: sms.send_message
    guarantee: idempotent
    with: {To: "{{ event.phone }}", Body: "x"}
retry: {strategy: fixed, base: soon, max_delay: 2s, max_attempts: 3}
"#;

#[test]
fn every_mistake_of_a_file_is_told_in_one_run() {
    let checked = ledgerline(&folder("many", MANY_MISTAKES, ""), &["flows", "check", ".", "--json"]);
    assert_eq!(checked.status.code(), Some(1), "{}", told(&checked));
    let answer: serde_json::Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let mut lines: Vec<String> = answer["problems"]
        .as_array()
        .expect("problems")
        .iter()
        .map(|it| format!("{:>2}:{:<3} {}", it["line"], it["column"], it["what"].as_str().unwrap_or_default()))
        .collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_mistake_in_one_flow_does_not_hide_those_of_another() {
    let folder = folder("two", &FLOW.replace("ttl: 72h", "ttl: soon"), "");
    let other = FLOW.replace("name: orders", "name: others").replace("type: order}", "type: other}");
    std::fs::write(folder.join("flows/others.yaml"), other.replace("kind == 'b'", "kind == 'c'")).expect("a file");
    let checked = told(&ledgerline(&folder, &["flows", "check", "."]));
    assert!(checked.contains("flows/orders.yaml:16:6") && checked.contains("asks for `c`"), "{checked}");
    assert!(checked.contains("2 problems\n"), "{checked}");
}

#[test]
fn a_name_is_not_missed_from_a_file_that_cannot_be_read() {
    let scenarios = "flow: orders\nscenarios: [{it: works}]\n";
    for (file, text, count) in [
        ("integrations.yaml", "crm: [\n".to_owned(), 1),
        ("integrations.yaml", INTEGRATIONS.replace("timeout: 3s", "timeout: soon, colour: red"), 2),
        ("integrations.yaml", INTEGRATIONS.replace("{base_url: https://crm.example.com, timeout: 3s}", "5"), 1),
        ("sources.yaml", "shop: 5\n".to_owned(), 1),
        ("flows/orders.yaml", "name: [\n".to_owned(), 1),
    ] {
        let folder = folder("unread", FLOW, scenarios);
        std::fs::write(folder.join(file), &text).expect("a file");
        let checked = told(&ledgerline(&folder, &["flows", "check", "."]));
        let problems = if count == 1 { "1 problem\n".to_owned() } else { format!("{count} problems\n") };
        assert!(checked.contains(&problems), "{file}: {text}: {checked}");
    }
}

#[test]
fn an_integration_promises_no_more_than_its_partner() {
    for (integration, finding) in [
        ("pay: {uses: stripe, vars: {version: \"2026-01-01\"}, key_window: 48h}", "is known to remember a key for 24h"),
        (
            "pay: {uses: slack, calls: {post_message: {request: {method: POST, path: /x}, guarantee: idempotent}}}",
            "`idempotent` is more than is known of `slack.post_message`",
        ),
    ] {
        let folder = folder("promises", FLOW, "");
        std::fs::write(folder.join("integrations.yaml"), format!("{INTEGRATIONS}{integration}\n")).expect("a file");
        let checked = told(&ledgerline(&folder, &["flows", "check", "."]));
        assert!(checked.contains(finding) && checked.contains("1 problem\n"), "{checked}");
    }
}

#[test]
fn a_sender_of_the_catalogue_is_checked_as_one() {
    let folder = folder("sender", FLOW, "");
    std::fs::create_dir_all(folder.join("catalog/sources")).expect("a folder");
    let sender = "scheme: github\nbase_url: https://x.example.com\nrate: fast\ntype_at: [type]\n";
    std::fs::write(folder.join("catalog/sources/mine.yaml"), sender).expect("a file");
    let checked = told(&ledgerline(&folder, &["flows", "check", "."]));
    for place in ["mine.yaml:2:", "mine.yaml:3:", "mine.yaml:4:"] {
        assert!(checked.contains(place), "{place}: {checked}");
    }
    assert!(checked.contains("3 problems\n"), "{checked}");
}

#[test]
fn a_scenario_that_switches_what_is_not_there_is_found() {
    let tests = "flow: orders\nscenarios:\n  - it: does less\n    given: [{safe_mode: {for: 1h}}]\n";
    let checked = ledgerline(&folder("safe", FLOW, tests), &["flows", "check", "."]);
    assert_eq!(checked.status.code(), Some(1), "{}", told(&checked));
    assert!(told(&checked).contains("tests/orders.yaml:4:14"), "{}", told(&checked));
}

#[test]
fn names_of_nothing_in_what_is_stated_are_found() {
    for (stated, finding) in [
        ("identity: [custommer]", "neither the event nor the schema has a field `custommer`"),
        (
            "protects: [{channel: sms, who: [customer]}]",
            "no cap of `orders` is on the channel `sms`: there is none yet",
        ),
        ("keeps: {cmr: {guarantee: none}}", "there is no integration `cmr`: did you mean `crm`?"),
        ("settles: {smss: 60s}", "there is no integration `smss`: did you mean `sms`?"),
        ("fixed: [notes]", "neither the event nor the schema has a field `notes`"),
    ] {
        let tests = format!("flow: orders\nprove: {{{stated}}}\nscenarios: []\n");
        let checked = ledgerline(&folder("stated", FLOW, &tests), &["flows", "check", "."]);
        assert_eq!(checked.status.code(), Some(1), "{stated}: {}", told(&checked));
        assert!(
            told(&checked).contains(finding) && told(&checked).contains("tests/orders.yaml:2:"),
            "{}",
            told(&checked)
        );
    }
}

#[test]
fn keys_are_tried_on_csv() {
    let flow = FLOW.replace("required: [tags, kind, phone, customer]", "required: [customer]");
    let folder = folder("csv", &flow, "");
    let export = "type,customer,note\norder,ada,\"one, two\"\norder,ada,\"one, two\"\norder,ada,other\n";
    std::fs::write(folder.join("export.csv"), export).expect("a file");
    let tried = ledgerline(&folder, &["flows", "keys", "export.csv", "--in", "."]);
    let told = told(&tried);
    assert!(told.contains("3 events with 1 different key\n1 event repeats an earlier line"), "{told}");
    assert!(told.contains("2, 3, 4") && told.contains("note"), "lines are those of the file: {told}");
}

#[test]
fn a_cell_of_csv_is_what_its_schema_takes() {
    let flow = FLOW.replace("required: [tags, kind, phone, customer]", "required: [customer, count, paid, size]").replace(
        "    note: {type: string}\n",
        "    note: {type: string}\n    count: {type: integer}\n    paid: {type: [boolean, \"null\"]}\n    size: {enum: [1, 2]}\n",
    );
    let folder = folder("csv-types", &flow, "");
    let export = "type,customer,note,count,paid,size\norder,1001,true,7,true,2\norder,1002,007,8,null,1\norder,1003,x,many,true,1\n";
    std::fs::write(folder.join("export.csv"), export).expect("a file");
    for arguments in [&[][..], &["--flow", "orders"]] {
        let tried = ledgerline(&folder, &[&["flows", "keys", "export.csv", "--in", "."], arguments].concat());
        let told = told(&tried);
        assert!(told.contains("2 events with 2 different keys"), "{told}");
        assert!(
            told.contains("1 line that the intake would not accept") && told.contains("/count breaks `type`"),
            "{told}"
        );
    }
}

#[test]
fn a_new_flow_is_good_and_its_scenario_holds() {
    let folder = folder("new", FLOW, "");
    std::fs::write(
        folder.join("sample.json"),
        r#"{"id": 7, "type": "paid", "email": "ada@example.com", "phone": "+4915112345"}"#,
    )
    .expect("a file");
    let arguments = [
        "flows",
        "new",
        "paid",
        "--source",
        "stripe",
        "--sample",
        "sample.json",
        "--partner",
        "twilio.send_message",
        "--in",
        ".",
    ];
    let made = ledgerline(&folder, &arguments);
    assert!(made.status.success(), "{}", told(&made));
    assert!(told(&made).contains("integrations.yaml:6:") && told(&made).contains("flows test ."), "{}", told(&made));
    let unfilled = ledgerline(&folder, &["flows", "check", "."]);
    assert_eq!(unfilled.status.code(), Some(1), "{}", told(&unfilled));
    assert!(told(&unfilled).contains("this still is `CHANGE-ME`"), "{}", told(&unfilled));
    let integrations = std::fs::read_to_string(folder.join("integrations.yaml")).expect("a text");
    for text in [integrations.clone(), integrations.replace("CHANGE-ME", "AC1")] {
        std::fs::write(folder.join("integrations.yaml"), text).expect("a file");
        let tested = told(&ledgerline(&folder, &["flows", "test", "."]));
        assert!(tested.contains("1 scenario, and all hold"), "{tested}");
    }
    let checked = ledgerline(&folder, &["flows", "check", "."]);
    assert!(checked.status.success(), "{}", told(&checked));
    let again = ledgerline(&folder, &arguments);
    assert_eq!(again.status.code(), Some(2), "what is there is not written over: {}", told(&again));
}

/// Makes a flow of a sample in a folder, for a call of a partner.
fn make(folder: &Path, sample: &str, source: &[&str], partner: &str) -> String {
    std::fs::write(folder.join("sample.json"), sample).expect("a sample");
    std::fs::create_dir_all(folder.join("made")).expect("a folder");
    let common = ["flows", "new", "new", "--sample", "sample.json", "--in", "made", "--partner", partner, "--source"];
    told(&ledgerline(folder, &[&common[..], source].concat()))
}

#[test]
fn a_key_that_the_sample_does_not_show_is_the_authors() {
    let folder = folder("open-key", FLOW, "");
    let made = make(&folder, r#"{"id": 7}"#, &["shopify", "--type", "orders/updated"], "slack.post_message");
    let flow = std::fs::read_to_string(folder.join("made/flows/new.yaml")).unwrap_or_else(|_| panic!("{made}"));
    assert!(flow.contains("take every later `orders/updated` of it for a repetition, and lose it"), "{flow}");
    let checked = told(&ledgerline(&folder, &["flows", "check", "made"]));
    assert!(checked.contains("fields: [$id, CHANGE-ME]") && checked.contains("3 problems"), "{checked}");
    let filled = flow.replace("[$id, CHANGE-ME]", "[$id]").replace("CHANGE-ME", "x");
    std::fs::write(folder.join("made/flows/new.yaml"), filled).expect("a flow");
    let tested = told(&ledgerline(&folder, &["flows", "test", "made"]));
    assert!(tested.contains("1 scenario, and all hold"), "{tested}");
}

#[test]
fn a_new_flow_says_which_argument_is_wrong() {
    let folder = folder("new-wrong", FLOW, "");
    for (source, partner, finding) in [
        (
            &["stripe"][..],
            "twilio.send",
            "--partner twilio.send: `twilio` has no call `send`: did you mean twilio.send_message?",
        ),
        (&["stripe"], "twillio.send", "--partner twillio.send: the catalogue has no partner `twillio`"),
        (&["stripe", "--type", "a.b"], "twilio.send_message", "--type is `a.b`, and the sample is of the type `paid`"),
    ] {
        let told = make(&folder, r#"{"id": "evt_1", "type": "paid"}"#, source, partner);
        assert!(told.contains(finding), "{told}");
        assert!(!folder.join("made/sources.yaml").exists(), "nothing was written");
    }
}
