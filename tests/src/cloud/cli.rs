//! `ledgerline`, the operator's command, against the local cloud.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use shared::base::time::Timestamp;

use super::flows::{cart, contact};
use super::new_lead;
use super::system::{System, eventually, variable};

/// The command that was built beside this test.
pub(crate) fn binary() -> PathBuf {
    let this = std::env::current_exe().expect("a test has a file");
    let built = this.ancestors().nth(2).expect("a folder of what was built").join("ledgerline");
    assert!(built.is_file(), "{} is not built: cargo build --workspace", built.display());
    built
}

fn ledgerline(arguments: &[&str]) -> Output {
    let function = variable("LEDGERLINE_REPLAY_FUNCTION");
    let stack = function.strip_suffix("-replay").expect("a function of a stack");
    Command::new(binary()).env("LEDGERLINE_STACK", stack).args(arguments).output().expect("it runs")
}

/// What the command came to, by its exit code.
fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The words of a command that has to succeed.
pub(super) fn told(arguments: &[&str]) -> String {
    let output = ledgerline(arguments);
    assert_eq!(code(&output), 0, "{arguments:?}: {}", words(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn json_of(arguments: &[&str]) -> Value {
    let text = told(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
}

/// Leads that are parked because the partner refused them, and a moment before them.
async fn refused_leads(system: &System, count: usize) -> (Vec<String>, String) {
    let since = Timestamp::from_secs(system.now()).to_string();
    (system.dead_leads(422, count).await, since)
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_looks_over_what_is_parked() {
    let system = System::take().await;
    let (ids, since) = refused_leads(&system, 2).await;

    let tail = told(&["dead", "tail", "--json", "--since", &since, "--flow", "lead-routing"]);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for line in tail.lines() {
        let line: Value = serde_json::from_str(line).expect("an object on each line");
        *reasons.entry(line["reason"].as_str().expect("a reason").to_owned()).or_default() += 1;
    }
    assert_eq!(reasons, BTreeMap::from([("terminal".to_owned(), 2)]), "{tail}");

    let none = told(&["dead", "tail", "--json", "--since", &since, "--reason", "attempts_spent"]);
    assert_eq!(none, "", "none died of that");
    let list = told(&["dead", "list", "--since", &since, "--error", "422"]);
    assert!(ids.iter().all(|id| list.contains(id)) && list.contains("crm: answered 422"), "{list}");
    let counted = json_of(&["dead", "reasons", "--since", &since]);
    assert_eq!((&counted["reasons"][0]["reason"], &counted["reasons"][0]["count"]), (&json!("terminal"), &json!(2)));

    let page = told(&["dead", "show", &ids[0]]);
    let trace = json_of(&["dead", "show", &ids[0]])["trace_id"].as_str().expect("a trace").to_owned();
    for part in
        ["lead-routing  terminal", "crm: answered 422", "HISTORY", "PREVIEW (masked)", &trace, "ledgerline replay"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("operated."), "no address of a person: {page}");
    let nobody = ledgerline(&["dead", "show", "nobody", "--json"]);
    assert_eq!((code(&nobody), words(&nobody).contains("there is no event nobody")), (4, true));
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_replays_what_is_named() {
    let system = System::take().await;
    let (ids, _) = refused_leads(&system, 2).await;
    let [first, second] = [&ids[0], &ids[1]];
    let version = json_of(&["dead", "show", first])["version"].as_str().expect("a version").to_owned();

    let stale = ledgerline(&["replay", first, "--seen", "0.0", "--reason", "a test", "--by", "ada"]);
    assert_eq!((code(&stale), words(&stale).contains("has changed since")), (4, true), "{}", words(&stale));
    assert_eq!(system.show(first).await["state"], "dead");

    told(&["replay", first, "--seen", &version, "--reason", "the CRM is back", "--by", "ada"]);
    let page = system.until(first, "succeeded").await;
    assert!(page["history"].to_string().contains("by ada: the CRM is back"), "{page}");

    let some = ledgerline(&["replay", first, second, "--reason", "once more"]);
    assert_eq!(code(&some), 6, "one is at its end: {}", words(&some));
    let page = system.until(second, "succeeded").await;
    assert!(page["history"].to_string().contains(":root: once more"), "AWS knows who: {page}");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_plan_is_applied_exactly_or_not_at_all() {
    let system = System::take().await;
    let (ids, since) = refused_leads(&system, 2).await;
    let plan = json_of(&["plan", "--flow", "lead-routing", "--since", &since]);
    assert_eq!(plan["events"].as_array().map(Vec::len), Some(2), "{plan}");
    let file = std::env::temp_dir().join(format!("ledgerline-plan-{}.json", std::process::id()));
    local::private_files::write(&file, plan.to_string()).expect("the plan is kept");
    let apply = ["apply", "--plan", &file.to_string_lossy(), "--reason", "the CRM is back"].map(str::to_owned);
    let apply: Vec<&str> = apply.iter().map(String::as_str).collect();

    let known = ledgerline(&["resolve", &ids[0], "crm", "--did-not-happen", "--reason", "a test", "--yes"]);
    assert_eq!((code(&known), words(&known).contains("there is nothing to resolve")), (4, true), "{}", words(&known));
    told(&["drop", &ids[0], "--sign-off", "Ada", "--reason", "a test", "--yes"]);
    let changed = ledgerline(&apply);
    assert_eq!((code(&changed), words(&changed).contains("nothing was replayed")), (4, true), "{}", words(&changed));

    let one = json_of(&["plan", &ids[1]]);
    let pair = format!("{}={}", ids[1], one["events"][0]["hash"].as_str().expect("a hash"));
    told(&["apply", &pair, "--reason", "the CRM is back"]);
    system.until(&ids[1], "succeeded").await;
    std::fs::remove_file(file).expect("the plan");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_batch_is_followed_to_its_end_and_a_dry_run_changes_nothing() {
    let system = System::take().await;
    let (ids, since) = refused_leads(&system, 3).await;
    let called = system.calls().await.len();
    let chosen = ["replay", "--flow", "lead-routing", "--since", &since, "--reason-was", "terminal"];

    let dry = told(&[&chosen[..], &["--dry-run"]].concat());
    assert!(dry.contains("3 events would be replayed, 0 blocked. Nothing was changed."), "{dry}");
    let unasked = ledgerline(&[&chosen[..], &["--reason", "the CRM is back"]].concat());
    assert_eq!((code(&unasked), words(&unasked).contains("--yes")), (2, true), "{}", words(&unasked));
    for id in &ids {
        assert_eq!(system.show(id).await["state"], "dead");
    }
    assert_eq!(system.calls().await.len(), called);

    let go = ["--rate", "600", "--max", "50", "--reason", "the CRM is back", "--yes"];
    let done = told(&[&chosen[..], &go].concat());
    assert!(done.contains("is done: 3 events replayed"), "{done}");
    for id in &ids {
        system.until(id, "succeeded").await;
    }
    let status = json_of(&["status"]);
    assert_eq!((&status["batches"][0]["progress"], &status["batches"][0]["replayed"]), (&json!("done"), &json!(3)));
    let stopped = ledgerline(&["stop", "no-such-batch", "--reason", "a test"]);
    assert_eq!((code(&stopped), words(&stopped).contains("there is no batch")), (4, true));
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_answers_and_drops_what_was_shown() {
    let system = System::take().await;
    let email = contact(&system).await;
    let id = cart(&system, &email, json!({"discount_percent": 40})).await;
    system.until(&id, "awaiting_approval").await;
    let unasked = ledgerline(&["approve", &id, "--reason", "a good customer"]);
    assert_eq!(code(&unasked), 2, "{}", words(&unasked));
    assert!(words(&unasked).contains("discount run"), "it shows what would be done: {}", words(&unasked));
    assert_eq!(system.show(&id).await["state"], "awaiting_approval");
    told(&["approve", &id, "--reason", "a good customer", "--yes"]);
    system.until(&id, "succeeded").await;
    assert_eq!(code(&ledgerline(&["reject", &id, "--reason", "too late", "--yes"])), 4);

    let (ids, _) = refused_leads(&system, 1).await;
    told(&["drop", &ids[0], "--sign-off", "Ada, shop lead", "--reason", "a test order", "--yes"]);
    let page = system.show(&ids[0]).await;
    assert_eq!(page["state"], "dropped");
    assert!(page["history"].to_string().contains("Ada, shop lead"), "{page}");
    assert_eq!(code(&ledgerline(&["drop", &ids[0], "--sign-off", "Ada", "--reason", "again", "--yes"])), 4);
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_s_word_on_an_effect_is_gone_by() {
    let system = System::take().await;
    system.tell_partner(json!({"mode": "status", "status": 400})).await;
    let id = system.post(&new_lead("resolved")).await.id();
    system.until_parked(&id).await;
    system.tell_partner(json!({"mode": "ok"})).await;
    let called = system.calls().await.len();

    let word = ["resolve", &id, "crm", "--happened", r#"{"crm_id": "c-1"}"#, "--reason", "saw it in the CRM"];
    let unasked = ledgerline(&word);
    assert_eq!((code(&unasked), words(&unasked).contains("--yes")), (2, true), "{}", words(&unasked));
    let told_so = told(&[&word[..], &["--yes"]].concat());
    assert!(told_so.contains(&format!("ledgerline replay {id}")), "what to do next: {told_so}");
    told(&["replay", &id, "--reason", "the rest of it"]);
    let page = system.until(&id, "succeeded").await;
    assert_eq!(page["effects"]["crm"]["result"]["crm_id"], "c-1", "{page}");
    assert_eq!(system.calls().await.len(), called, "it was not called again");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_turns_switches() {
    let _system = System::take().await;
    let paused =
        told(&["pause", "--integration", "sms", "--for", "10m", "--reason", "the provider moves", "--by", "ada"]);
    assert!(paused.contains("integration sms"), "{paused}");
    told(&["safe-mode", "--flow", "sms-nudge", "--for", "10m", "--reason", "careful"]);
    told(&["policy", "--flow", "sms-nudge", "max_attempts=2", "base=3s", "--reason", "slow"]);
    let status = told(&["status"]);
    for line in ["paused", "safe mode", r#"{"base":"3s","max_attempts":2}"#, "the provider moves"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let wrong = ledgerline(&["policy", "--flow", "sms-nudge", "max_attempts=none", "--reason", "slow"]);
    assert_eq!(code(&wrong), 4, "{}", words(&wrong));

    told(&["resume", "--integration", "sms", "--reason", "it has moved"]);
    told(&["safe-mode", "--flow", "sms-nudge", "--off", "--reason", "all is well"]);
    let normal = told(&["policy", "--flow", "sms-nudge", "--reason", "all is well"]);
    assert!(normal.contains("Nothing is switched"), "{normal}");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_sees_how_long_events_take() {
    let system = System::take().await;
    let latency = ["latency", "--window", "1h", "--percentile", "50,95", "--flow", "lead-routing"];
    let row = eventually("the metrics are there", async || {
        // Another one each time: a metric that could not be put is lost here.
        let id = system.post(&new_lead("timed")).await.id();
        system.until(&id, "succeeded").await;
        let answer = json_of(&latency);
        let rows = answer["latency"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["state"] == "succeeded").ok_or(answer)
    })
    .await;
    assert_eq!(row["flow"], "lead-routing");
    assert!(row["count"].as_f64() >= Some(1.0) && row["p95_ms"].as_f64() >= row["p50_ms"].as_f64(), "{row}");
    let table = told(&latency);
    assert!(table.contains("SETTLED AS") && table.contains("lead-routing  succeeded"), "{table}");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_imports_contacts_and_withdraws_a_consent() {
    let system = System::take().await;
    let email = format!("imported-{}-{}@example.com", system.now(), std::process::id());
    let file = std::env::temp_dir().join(format!("ledgerline-contacts-{}.csv", std::process::id()));
    let rows = format!("email,consent_email,time_zone\n{email},true,\nnobody,true,\n");
    local::private_files::write(&file, rows).expect("the contacts are kept");
    let file = file.to_string_lossy().into_owned();
    let import =
        ["contacts", "import", &file, "--tenant", "acme", "--at", "2026-11-01T00:00:00Z", "--reason", "a test"];
    let counts = |more: &[&str]| {
        let output = ledgerline(&[&import[..], more, &["--json"]].concat());
        assert_eq!(code(&output), 6, "one line is no contact: {}", words(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!(report["rejected"][0]["line"], 3, "{report}");
        report["counts"].clone()
    };
    assert_eq!(counts(&["--dry-run"])["created"], 1);
    assert_eq!(counts(&["--yes"])["created"], 1, "a dry run writes nothing");
    assert_eq!(counts(&["--yes"])["unchanged"], 1, "the same import again changes nothing");

    let shown = told(&["contacts", "show", &email.to_uppercase(), "--tenant", "acme"]);
    assert!(shown.contains("consent_email") && shown.contains("true") && !shown.contains(&email), "{shown}");
    let set =
        ["contacts", "set", &email, "--tenant", "acme", "consent_email=false", "--reason", "a call", "--by", "ada"];
    told(&set);
    assert_eq!(counts(&["--yes"])["newer"], 1, "an older import does not undo it");
    let page = json_of(&["contacts", "show", &email, "--tenant", "acme"]);
    assert_eq!(page["fields"]["consent_email"]["value"], false, "{page}");
    assert!(page["signed_off"].as_str().is_some_and(|by| by.ends_with("by ada: a call")), "{page}");
    let unknown = ledgerline(&["contacts", "show", "nobody@example.com", "--tenant", "acme"]);
    assert_eq!((code(&unknown), words(&unknown).contains("there is no contact")), (4, true), "{}", words(&unknown));

    let id = cart(&system, &email, json!({})).await;
    let page = system.until(&id, "noop").await;
    assert_eq!(page["noop"]["guard"], "consent", "{page}");
    std::fs::remove_file(file).expect("the contacts");
}
