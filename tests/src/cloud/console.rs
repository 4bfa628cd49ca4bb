//! The console in a real browser.

use std::path::PathBuf;

use local::aws::REGION;
use serde_json::{Value, json};
use shared::adapters::aws::DynamoLedger;
use shared::base::time::Timestamp;
use shared::ledger::Records;

use super::browser::Browser;
use super::system::{System, eventually, variable};
use crate::fixtures::{aws, root};
use crate::memory::{HOSTILE, hostile};

/// The console's address, as `make run` prints it.
fn address(query: &str) -> String {
    format!("{}/console{query}#token={}", variable("LEDGERLINE_URL"), variable("LEDGERLINE_CONTROL_TOKEN"))
}

async fn console() -> Browser {
    Browser::open(&address("")).await
}

/// Keeps what the window shows: below `target`, or where the README's pictures are.
async fn keep_picture(browser: &Browser, name: &str) {
    let folder = std::env::var("LEDGERLINE_PICTURES").map_or_else(|_| root().join("target/console"), PathBuf::from);
    let picture = browser.screenshot().await;
    assert!(picture.len() < 150 * 1024, "{name} is too large for a README: {} bytes", picture.len());
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), picture).expect("a file");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_operator_finds_a_dead_letter_reads_it_plans_a_replay_and_sees_it_succeed() {
    let system = System::take().await;
    system.dead_leads(400, 1).await;
    let id = system.dead_leads(422, 1).await.remove(0);
    let browser = console().await;
    browser.click("//main//a[contains(., 'Parked events')]").await;
    browser.until_text("main td", &id[..12]).await;
    keep_picture(&browser, "list.png").await;

    browser.click(&format!("//main//a[contains(., '{}')]", &id[..12])).await;
    browser.until_text("main .history", "crm 1: answered 422").await;
    browser.click("//button[@id='theme']").await;
    browser.until_text("main .dark pre", "\"company\": \"A***\"").await;
    keep_picture(&browser, "event.png").await;

    browser.write("by", "ada").await;
    browser.write("reason", "the CRM is back").await;
    browser.click("//main//a[.='Plan']").await;
    browser.until_text("main .badge.run", "run").await;
    keep_picture(&browser, "plan.png").await;
    browser.click("//main//a[.='Apply']").await;
    assert!(browser.confirm().await.contains("Replay 1 as planned here?"));
    browser.until_text("dialog[open]", "the event is queued now").await;
    browser.click("//button[@id='close']").await;
    system.until(&id, "succeeded").await;
    browser.click(&format!("//main//a[contains(., '{}')]", &id[..12])).await;
    // Nobody touches the page: it is drawn anew by itself.
    browser.until_text("main h2", "succeeded").await;
    browser.until_text("main .history", "replay 1 by ada: the CRM is back").await;
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_viewer_sees_the_same_without_a_button() {
    let system = System::take().await;
    let id = system.dead_leads(422, 1).await.remove(0);
    let browser = Browser::open(&address(&format!("?dashboard=ledgerline-{REGION}-view"))).await;
    browser.click("//main//a[contains(., 'Parked events')]").await;
    browser.click(&format!("//main//a[contains(., '{}')]", &id[..12])).await;
    browser.until_text("main .history", "dead: terminal").await;
    let buttons = browser.run("return document.querySelectorAll('main cwdb-action[display=popup], main input').length");
    assert_eq!(buttons.await, 0);
}

/// From the lines that the functions print, over the metrics that are made of them, to what people see.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn what_was_counted_is_told_by_status_and_drawn_by_the_console() {
    let system = System::take().await;
    eventually("the figures are read", async || {
        // Another one each time: a metric that could not be put is lost here.
        system.dead_leads(422, 1).await;
        let figures = system.ask(&json!({"op": "status"})).await?["figures"].clone();
        if figures["attempts"]["p50"].is_number() { Ok(()) } else { Err(figures) }
    })
    .await;
    let browser = console().await;
    browser.until_text("main", "The last 3 hours, in steps of 5 minutes").await;
    let told = browser.run("return document.querySelector('main').innerText.includes('cannot be drawn')").await;
    assert_eq!(told, false);
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_hostile_text_in_every_field_stays_text_in_a_browser() {
    let system = System::take().await;
    let ledger = DynamoLedger::new(&aws().await, variable("LEDGERLINE_LEDGER_TABLE"));
    let id = format!("0{}{HOSTILE}", system.now());
    let (mut row, event) = hostile(&id, HOSTILE);
    row.listed_at = Some(Timestamp::from_secs(system.now()));
    ledger.keep(&event, row.expires_at).await.expect("it is kept");
    ledger.replace(None, &row).await.expect("it is new");

    let browser = console().await;
    browser.click("//main//a[contains(., 'Parked events')]").await;
    browser.until_text("main td", SEEN).await;
    assert_harmless(&browser).await;
    browser.click(&format!("//main//a[contains(., '{}')]", &id[..11])).await;
    for part in ["h2", ".facts", ".history"] {
        browser.until_text(&format!("main {part}"), SEEN).await;
    }
    browser.until_text("main pre", "x***").await;
    assert_harmless(&browser).await;

    browser.write("by", HOSTILE).await;
    browser.write("reason", HOSTILE).await;
    browser.click("//main//a[.='Drop']").await;
    browser.confirm().await;
    browser.until_text("dialog[open]", "the event is dropped now").await;
    browser.click("//button[@id='close']").await;
    browser.until_text("main .history", "dropped by x").await;
    assert_harmless(&browser).await;
}

/// A part of it that looks the same in JSON.
const SEEN: &str = "><img src=x onerror=";

/// No element was made of the text, and nothing of it ran.
async fn assert_harmless(browser: &Browser) {
    let made = browser.run("return document.querySelectorAll('main img, main script, dialog img').length").await;
    assert_eq!(made, 0);
    assert_eq!(browser.run("return window.pwned ?? null").await, Value::Null);
}

/// What nobody escaped would not run either: the page's policy knows one script.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn no_script_but_the_pages_own_can_run() {
    let _turn = System::take().await;
    let browser = console().await;
    browser.until_text("main", "Overview").await;
    let inject = r#"
        window.blocked = [];
        addEventListener('securitypolicyviolation', (event) => window.blocked.push(event.effectiveDirective));
        const place = document.getElementById('answer');
        place.innerHTML = '<img src="/x" onerror="window.pwned = 1"><b onclick="window.pwned = 1">x</b>';
        place.querySelector('b').click();
        const script = document.createElement('script');
        script.textContent = 'window.pwned = 1';
        document.body.append(script);
    "#;
    browser.run(inject).await;
    eventually("the policy blocks a handler, a script and a picture", async || {
        let blocked = browser.run("return window.blocked").await;
        let blocks = |directive: &str| blocked.as_array().is_some_and(|all| all.iter().any(|one| one == directive));
        match ["script-src-attr", "script-src-elem", "img-src"].into_iter().all(blocks) {
            true => Ok(()),
            false => Err(blocked),
        }
    })
    .await;
    assert_eq!(browser.run("return window.pwned ?? null").await, Value::Null);
}
