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
