//! What the command writes of scenarios: `flows test --update` and `--junit`, and what `flows prove --save` finds.

mod flows_folder;

use std::path::{Path, PathBuf};

use flows_folder::{flows_folder, ledgerline, told};

const FLOW: &str = r#"name: orders
version: 1
on: {source: shop, type: order}
schema:
  type: object
  required: [order, customer]
  properties: {type: {type: string}, order: {type: string}, customer: {type: string}, at: {type: string}}
key: {version: 1, fields: [order]}
order_by: customer
ttl: 72h
effects:
  - {id: crm, integration: crm, guarantee: native, request: {method: POST, path: /orders, body: {order: "{{ event.order }}"}}}
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#;

const SCENARIOS: &str = r#"# The orders.
flow: orders
event: {type: order, order: o-1, customer: ada, at: "2026-11-16T09:00:00Z"}
scenarios:
  - it: sends <each> order & once # as the shop wants it
    expect:
      ends: [dead]
  - it: takes it
    expect: {answers: [202]}
"#;

fn folder(name: &str, flow: &str, scenarios: &str) -> PathBuf {
    let files = [
        ("sources.yaml", "shop: {scheme: github, max_body: 64KiB, rate: 50/s, type_at: type}\n"),
        ("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}\n"),
        ("flows/orders.yaml", flow),
        ("tests/orders.yaml", scenarios),
    ];
    flows_folder(&format!("scenario-files-{name}"), &files)
}

fn scenarios_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("tests/orders.yaml")).expect("the scenarios")
}

#[test]
fn what_is_seen_is_written_only_after_asking() {
    let folder = folder("update", FLOW, SCENARIOS);
    let unasked = ledgerline(&folder, &["flows", "test", ".", "--update"]);
    assert!(!unasked.status.success() && told(&unasked).contains("--yes"), "{}", told(&unasked));
    assert_eq!(scenarios_of(&folder), SCENARIOS, "without an answer nothing is written");

    let updated = ledgerline(&folder, &["flows", "test", ".", "--update", "--yes"]);
    assert!(updated.status.success() && told(&updated).contains("wrote"), "{}", told(&updated));
    let written = scenarios_of(&folder);
    assert!(written.contains("succeeded") && !written.contains("dead"), "{written}");
    for kept in ["# The orders.", "  - it: takes it\n    expect: {answers: [202]}\n"] {
        assert!(written.contains(kept), "what did not fail stays as it is: {written}");
    }
    let again = ledgerline(&folder, &["flows", "test", "."]);
    assert!(told(&again).contains("2 scenarios, and all hold"), "{}", told(&again));
}

#[test]
fn a_report_for_ci_names_each_scenario_and_each_difference() {
    let folder = folder("junit", FLOW, SCENARIOS);
    let tested = ledgerline(&folder, &["flows", "test", ".", "--junit", "report.xml"]);
    assert_eq!(tested.status.code(), Some(1), "{}", told(&tested));
    let report = std::fs::read_to_string(folder.join("report.xml")).expect("the report");
    for part in [
        "<testsuite name=\"orders\" tests=\"2\" failures=\"1\">",
        "<testcase classname=\"orders\" name=\"sends &lt;each&gt; order &amp; once\"",
        "<failure message=",
        "tests/orders.yaml:7:",
        "name=\"takes it\"",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!(report.matches("<failure").count(), 1, "{report}");
}

#[test]
fn what_was_found_is_a_scenario_that_fails_again() {
    // Two deliveries that differ in their moment alone are one thing to the author, and two events to the flow.
    let flow = FLOW.replace("required: [order, customer]", "required: [order, customer, at]");
    let flow = flow.replace("fields: [order]", "fields: [order, at]");
    let stated = SCENARIOS.replace("scenarios:\n", "prove: {identity: [order]}\nscenarios:\n");
    let stated = &stated[..stated.find("  - it: sends").expect("the first scenario")];
    let folder = folder("prove", &flow, &format!("{}[]\n", stated.trim_end().to_owned() + " "));
    let proven = ledgerline(&folder, &["flows", "prove", ".", "--seeds", "50", "--save", "tests/found.yaml"]);
    assert_eq!(proven.status.code(), Some(1), "{}", told(&proven));
    let found = std::fs::read_to_string(folder.join("tests/found.yaml")).expect("what was found");
    assert!(found.contains("flow: orders"), "{found}");
    let tested = ledgerline(&folder, &["flows", "test", "."]);
    assert_eq!(tested.status.code(), Some(1), "{}", told(&tested));
    assert!(told(&tested).contains("1 of 1 scenario fail"), "{}", told(&tested));

    // With the key mended the same scenario holds.
    std::fs::write(folder.join("flows/orders.yaml"), flow.replace("fields: [order, at]", "fields: [order]"))
        .expect("a file");
    let mended = ledgerline(&folder, &["flows", "test", "."]);
    assert!(mended.status.success(), "{}\n{found}", told(&mended));
}

/// A flow that asks Twilio whether a message was sent.
fn asking(name: &str, scenarios: &str) -> PathBuf {
    let effect = "call: sms.send_message, guarantee: lookup, with: {To: \"{{ event.customer }}\", Body: \"Order {{ event.order }}\"}}";
    let start = FLOW.find("  - {id: crm").expect("the effect");
    let end = FLOW.find("retry:").expect("what follows");
    let flow = format!("{}  - {{id: text, {effect}\n{}", &FLOW[..start], &FLOW[end..]);
    let folder = folder(name, &flow, scenarios);
    let integrations = "sms: {uses: twilio, vars: {account_sid: AC1, sender: \"+1\"}}\n";
    std::fs::write(folder.join("integrations.yaml"), integrations).expect("a file");
    folder
}

#[test]
fn the_scenario_with_a_lookup_in_the_docs_holds() {
    let docs =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/FLOWS.md")).expect("the docs");
    let start = docs.find("```yaml\nflow: orders\n").expect("the example") + "```yaml\n".len();
    let example = docs[start..].split("```").next().expect("its end");
    let tested = told(&ledgerline(&asking("docs", example), &["flows", "test", "."]));
    assert!(tested.contains("1 scenario, and all hold"), "{tested}");
}

#[test]
fn a_lookup_without_an_answer_fails_and_its_trace_is_folded() {
    let scenarios = "flow: orders\nevent: {type: order, order: o-1, customer: \"+4915112345\"}\nscenarios:\n  \
                     - it: asks\n    partners: {sms: [{acted: true, then: silence}]}\n    expect: {answers: [202]}\n";
    let folder = asking("unanswered", scenarios);
    let tested = ledgerline(&folder, &["flows", "test", ".", "--only", "asks"]);
    let told = told(&tested);
    assert_eq!(tested.status.code(), Some(1), "{told}");
    assert!(told.contains("the lookup of sms was asked") && told.contains("lookup: true, effect: text"), "{told}");
    assert!(told.contains("lines as above") && told.lines().count() < 200, "{} lines: {told}", told.lines().count());
}

#[test]
fn a_test_that_is_not_complete_ends_with_that() {
    let holds = SCENARIOS.replace("ends: [dead]", "ends: [succeeded]");
    let tested = ledgerline(&folder("complete", FLOW, &holds), &["flows", "test", ".", "--complete"]);
    assert_eq!(tested.status.code(), Some(1), "{}", told(&tested));
    let last = told(&tested).trim_end().lines().last().unwrap_or_default().to_owned();
    assert!(
        last.starts_with("2 scenarios, and all hold; --complete fails: ") && last.ends_with(" in no scenario"),
        "{last}"
    );
}

#[test]
fn a_test_of_nothing_does_not_hold() {
    let holds = SCENARIOS.replace("ends: [dead]", "ends: [succeeded]");
    let folder = folder("nothing", FLOW, &holds);
    let tested = ledgerline(&folder, &["flows", "test", ".", "--only", "tipo"]);
    assert_eq!(tested.status.code(), Some(1), "{}", told(&tested));
    assert!(told(&tested).contains("no scenario was played: `tipo` is in no flow's name"), "{}", told(&tested));
    std::fs::remove_dir_all(folder.join("tests")).expect("the folder goes");
    let tested = ledgerline(&folder, &["flows", "test", "."]);
    assert_eq!(tested.status.code(), Some(1), "{}", told(&tested));
    assert!(told(&tested).contains("write tests/<flow>.yaml"), "{}", told(&tested));
}

#[test]
fn what_a_scenario_does_not_do_fails_it() {
    let expect = "expect: {ends: [succeeded]}";
    let faulty = |fault: &str| format!("faults: [{fault}], {expect}");
    for (scenario, finding) in [
        (
            faulty("{at: processor clos, fault: crash_before}"),
            "the fault at `processor clos` never struck: did you mean `processor close`?",
        ),
        (
            faulty("{at: processor close, nth: 9, fault: crash_before}"),
            "never struck: it was made 1 times, and the fault is for the 9th",
        ),
        (faulty("{at: procesor close, fault: crash_before}"), "names no call: write the function and its call"),
        ("expect: {acted: {crmm: 0}}".into(), "has no effect `crmm`: "),
        ("expect: {acted: {}}".into(), "this expects nothing"),
        (
            format!("given: [{{deliver: {{}}}}, {{drop: 1, replay: 1}}], {expect}"),
            "a step does one thing: write `drop` in a step",
        ),
        (format!("given: [{{deliver: {{}}, declined: no}}], {expect}"), "only what an operator asks for is declined"),
        (format!("given: [{{deliver: {{}}}}, {{schedule: false}}], {expect}"), "the schedule never comes by itself"),
        (format!("given: [{{deliver: {{}}}}, {{}}], {expect}"), "nothing happens in this step"),
        (format!("partners: {{crm: [{{effect: crmm}}]}}, {expect}"), "no effect `crmm` calls `crm`"),
    ] {
        let head = &SCENARIOS[..SCENARIOS.find("  - it: sends").expect("the first scenario")];
        let folder = folder("undone", FLOW, &format!("{head}  - {{it: works, {scenario}}}\n"));
        let tested = ledgerline(&folder, &["flows", "test", "."]);
        assert_eq!(tested.status.code(), Some(1), "{scenario}: {}", told(&tested));
        assert!(told(&tested).contains(finding), "{scenario}: {}", told(&tested));
        let is_play = finding.contains("never struck");
        let checked = ledgerline(&folder, &["flows", "check", "."]);
        assert_eq!(told(&checked).contains(finding), !is_play, "{scenario}: {}", told(&checked));
    }
}

#[test]
fn a_lookup_may_stay_unanswered_only_where_its_effect_is_counted() {
    let scenario = |acted: &str| {
        format!(
            "flow: orders\nevent: {{type: order, order: o-1, customer: \"+4915112345\"}}\nscenarios:\n  - it: asks\n    \
             partners: {{sms: [{{acted: true, then: silence}}]}}\n    expect: {{{acted}}}\n"
        )
    };
    let tested = ledgerline(&asking("counted", &scenario("acted: {text: 1}")), &["flows", "test", "."]);
    assert!(tested.status.success(), "{}", told(&tested));
    let tested = ledgerline(&asking("counted", &scenario("answers: [202], calls: []")), &["flows", "test", "."]);
    assert!(told(&tested).contains("the lookup of sms was asked"), "{}", told(&tested));
}

#[test]
fn what_is_written_says_as_much_as_before_and_only_a_second_play_says_that_it_holds() {
    let head = &SCENARIOS[..SCENARIOS.find("scenarios:").expect("the scenarios")];
    let scenarios = format!(
        "{head}scenarios: # of the shop\n  - expect:\n      calls:\n        - {{call: POST crm /order, headers: \
         {{idempotency-key: k}}}}\n    it: calls\n  - {{it: is in one line, expect: {{ends: [dead]}}}}\n"
    );
    let folder = folder("update-kept", FLOW, &scenarios);
    let updated = ledgerline(&folder, &["flows", "test", ".", "--update", "--yes"]);
    let (written, told) = (scenarios_of(&folder), told(&updated));
    assert!(written.contains("scenarios: # of the shop\n  - expect:\n"), "{written}");
    assert!(written.contains("POST crm /orders") && written.contains("idempotency-key: "), "{written}");
    assert_eq!(written.matches("expect:").count(), 2, "{written}");
    assert!(written.ends_with("  - {it: is in one line, expect: {ends: [dead]}}\n"), "{written}");
    assert!(told.contains("\"it is in one line\" cannot be written where it stands"), "{told}");
    assert_eq!(updated.status.code(), Some(1), "one of them still fails: {told}");
    assert!(told.contains("1 scenario still fail"), "{told}");
}

#[test]
fn a_report_for_ci_names_a_file_that_cannot_be_read() {
    let folder = folder("junit-unread", FLOW, &SCENARIOS.replace("ends: [dead]", "ends: [succeeded]"));
    std::fs::write(folder.join("tests/other.yaml"), "flow: orders\nscenarioss: []\n").expect("a file");
    let tested = ledgerline(&folder, &["flows", "test", ".", "--junit", "report.xml"]);
    assert_eq!(tested.status.code(), Some(1), "{}", told(&tested));
    let report = std::fs::read_to_string(folder.join("report.xml")).expect("the report");
    assert!(
        report.contains("<testsuite name=\"tests/other.yaml\" tests=\"1\" failures=\"0\" errors=\"1\">"),
        "{report}"
    );
    assert!(report.contains("<error message="), "{report}");
}

#[test]
fn a_flow_of_which_nothing_is_asked_is_not_said_to_keep_anything() {
    let folder = folder("prove-none", FLOW, SCENARIOS);
    let other = FLOW.replace("name: orders", "name: others").replace("type: order}", "type: other}");
    std::fs::write(folder.join("flows/others.yaml"), other).expect("a file");
    std::fs::write(folder.join("tests/more.yaml"), "flow: orders\nscenarios: []\n").expect("a file");
    let proven = ledgerline(&folder, &["flows", "prove", ".", "--seeds", "1"]);
    assert_eq!(proven.status.code(), Some(1), "{}", told(&proven));
    for line in ["orders keeps its promises in ", "others is not proven: no scenario file has an event to begin with"] {
        assert!(told(&proven).contains(line), "{line}: {}", told(&proven));
    }
    let proven = ledgerline(&folder, &["flows", "prove", ".", "--seeds", "1", "--flow", "orders"]);
    assert!(proven.status.success(), "{}", told(&proven));
    let proven = ledgerline(&folder, &["flows", "prove", ".", "--flow", "ordes"]);
    assert!(!proven.status.success() && told(&proven).contains("did you mean `orders`?"), "{}", told(&proven));

    // Of a flow that always asks, somebody has to answer.
    let asks = FLOW
        .replace("effects:\n", "approval: {channel: slack, integration: crm, room: C0ROOM, expires: 24h}\neffects:\n");
    std::fs::write(folder.join("flows/orders.yaml"), asks).expect("a file");
    let proven = ledgerline(&folder, &["flows", "prove", ".", "--seeds", "5", "--flow", "orders"]);
    assert!(proven.status.success(), "{}", told(&proven));

    let guarded =
        FLOW.replace("effects:\n", "guards: [{expression: {name: never, that: event.order == 'x'}}]\neffects:\n");
    std::fs::write(folder.join("flows/orders.yaml"), guarded).expect("a file");
    let proven = ledgerline(&folder, &["flows", "prove", ".", "--seeds", "1", "--flow", "orders"]);
    assert_eq!(proven.status.code(), Some(1), "{}", told(&proven));
    assert!(told(&proven).contains("orders is not proven: 2 things could not be seen"), "{}", told(&proven));
    assert!(told(&proven).contains("not seen   whether `crm` is done at most once"), "{}", told(&proven));
}
