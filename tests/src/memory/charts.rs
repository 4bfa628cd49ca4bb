//! What the console draws of the last hours, and what `status` tells of the last day.

use std::time::Duration;

use replay::{Access, Console, handle, operate, serve};
use serde_json::{Value, json};
use shared::model::Script;

use super::http::HttpRequest;
use super::world::{World, flows_without_breaker};
use crate::fixtures::{by_ada, lead, lead_of};

const ARN: &str = "arn:aws:lambda:eu-central-1:000000000000:function:ledgerline-replay:live";

const MINUTE: Duration = Duration::from_secs(60);

async fn overview(world: &World, access: Access) -> String {
    let console = Console { replay: &world.replay, access, endpoint: ARN, caller: None };
    let call = json!({"page": "overview", "widgetContext": {"forms": {"all": {}}}});
    serve(&console, call).await.expect("a page").as_str().expect("HTML").to_owned()
}

/// Posts a lead, as a sender does it.
async fn post(world: &World, n: u32) {
    let lead = lead_of(&format!("evt_{n}"), &format!("p{n}@example.com"));
    assert_eq!(HttpRequest::of(world, lead.to_string().as_bytes()).send(world).await.status, 202);
}

/// Three leads: one that succeeds, one that is tried again, one that the CRM declines.
async fn busy() -> World {
    let world = World::without_breaker();
    for (n, script) in [(1, vec![]), (2, vec![Script::Status(503)]), (3, vec![Script::Status(400)])] {
        world.partners.script(script);
        post(&world, n).await;
        world.drain().await;
    }
    world.park().await;
    world
}

/// The words of a chart: its title and what it says it shows.
fn described<'p>(page: &'p str, title: &str) -> &'p str {
    let (_, rest) =
        page.split_once(&format!("<title>{title}</title><desc>")).unwrap_or_else(|| panic!("no {title}: {page}"));
    rest.split("</desc>").next().unwrap_or_default()
}

#[tokio::test]
async fn the_overview_draws_what_was_counted_and_says_it_in_words() {
    let world = busy().await;
    for access in [Access::Read, Access::Operate] {
        let page = overview(&world, access).await;
        let jobs = described(&page, "Jobs that went on or ended");
        assert!(jobs.contains("succeeded 2 in all; dead 1 in all; retrying 1 in all"), "{jobs}");
        assert!(described(&page, "lead-routing: received to succeeded (ours)").contains("p95"));
        assert!(described(&page, "crm: its calls (theirs)").contains("p99"));
        let funnel = page.split("Funnel, from received to persisted").nth(2).expect("a funnel");
        assert!(funnel.starts_with(". From 2026-11-16T06:"), "{funnel}");
        assert!(page.contains("received 3; believed 3; new 3; valid 3; ended 3; persisted 2"), "{page}");
        assert!(page.contains("Dead, by reason") && page.contains("terminal 1"), "{page}");
        assert!(
            !page.contains("<script") && !page.contains("<use") && !page.contains("href=\"http"),
            "nothing is loaded"
        );
        assert!(!page.contains("Refused by the intake"), "a chart of nothing is none");
    }
}

/// One is invalid, one succeeds, one dies and succeeds after its replay, and one dies after its replay, too.
#[tokio::test]
async fn each_event_of_the_funnel_ends_once() {
    let world = World::with(flows_without_breaker(|yaml| format!("{yaml}\non_invalid: park\n")));
    let mut unfit = lead_of("evt_0", "p0@example.com");
    unfit["data"]["campaign"] = json!(4711);
    assert_eq!(HttpRequest::of(&world, unfit.to_string().as_bytes()).send(&world).await.status, 202);
    let declined = Script::Status(400);
    for (n, answers) in [(1, vec![]), (2, vec![declined.clone()]), (3, vec![declined.clone(), declined])] {
        world.partners.script(answers);
        post(&world, n).await;
        world.drain().await;
        world.park().await;
        for row in world.ledger.rows().into_iter().filter(|row| row.is_parked() && row.may_replay().is_ok()) {
            handle(&world.replay, by_ada(json!({"op": "replay", "id": row.id}))).await;
        }
        world.drain().await;
        world.park().await;
    }
    let page = overview(&world, Access::Read).await;
    assert!(page.contains("received 4; believed 4; new 4; valid 3; ended 3; persisted 2"), "{page}");
}

#[tokio::test]
async fn a_page_is_bounded_however_much_was_counted() {
    let world = busy().await;
    let page = overview(&world, Access::Read).await;
    assert!(page.len() < 60_000, "{} bytes", page.len());
}

/// Each series that is asked for has its price, and a dashboard that is open asks again and again.
#[tokio::test]
async fn what_was_read_within_a_minute_is_not_read_again_nor_is_what_did_not_answer() {
    let world = busy().await;
    for down in [false, true] {
        world.metrics.down(down);
        world.clock.advance(MINUTE + MINUTE);
        let before = world.metrics.reads();
        overview(&world, Access::Read).await;
        overview(&world, Access::Read).await;
        assert_eq!(world.metrics.reads(), before + 1);
    }
}

#[tokio::test]
async fn a_page_does_not_fail_for_want_of_its_charts() {
    let world = busy().await;
    world.metrics.down(true);
    let page = overview(&world, Access::Operate).await;
    assert!(page.contains("They cannot be drawn now: the metrics did not answer"), "{page}");
    assert!(page.contains("Top reasons"), "the rest is there: {page}");
}

async fn figures(world: &World) -> Value {
    handle(&world.replay, json!({"op": "status"})).await["figures"].clone()
}

#[tokio::test]
async fn status_tells_the_five_figures_of_the_last_day() {
    let world = busy().await;
    let nothing = figures(&World::new()).await;
    assert_eq!((&nothing["protected_effects_percent"], &nothing["attempts"]["p50"]), (&Value::Null, &Value::Null));
    post(&world, 1).await;
    let dead = operate(&world.replay, serde_json::from_value(json!({"op": "list"})).expect("an operation")).await;
    let id = dead.expect("a list")["parked"][0]["id"].clone();
    world.clock.advance(MINUTE * 60);
    handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
    world.drain().await;
    let told = figures(&world).await;
    assert_eq!(told["duplicates_percent"], json!(25.0), "one of four deliveries: {told}");
    assert_eq!(told["protected_effects_percent"], json!(100.0), "{told}");
    assert_eq!(told["replays_within_a_day_percent"], json!(100.0), "{told}");
    assert_eq!(told["attempts"], json!({"p50": 1.0, "p95": 2.0}), "{told}");
    assert!(told["time_to_signal_seconds"]["p50"].as_f64().is_some_and(|secs| secs < 60.0), "{told}");
    world.clock.advance(MINUTE * 60 * 25);
    assert_eq!(figures(&world).await["duplicates_percent"], Value::Null, "that was yesterday");
}

#[tokio::test]
async fn status_tells_the_switches_also_where_the_figures_cannot_be_read() {
    let world = World::new();
    world.metrics.down(true);
    world.post(&lead()).await.expect("a good lead");
    let status = handle(&world.replay, json!({"op": "status"})).await;
    assert!(status["error"].is_null() && status["board"].is_object(), "{status}");
    assert!(status["figures"]["unavailable"].as_str().is_some_and(|why| why.contains("down")), "{status}");
}

/// A lead that was tried again, died, and was replayed: its page has a bar for each span.
#[tokio::test]
async fn the_page_of_an_event_has_its_timeline() {
    let world = World::without_breaker();
    world.partners.script([Script::Status(503), Script::Body(400, Some(json!({"error": {"code": "E42"}})))]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    world.clock.advance(MINUTE * 150);
    handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
    world.drain().await;
    let told = handle(&world.replay, json!({"op": "show", "id": id})).await["timeline"].clone();
    let kinds: Vec<&str> =
        told["spans"].as_array().into_iter().flatten().filter_map(|span| span["kind"].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "called").count(), 3, "{told}");
    assert!(kinds.contains(&"waited") && kinds.contains(&"replayed"), "{told}");
    for (access, by_whom) in [(Access::Operate, true), (Access::Read, false)] {
        let console = Console { replay: &world.replay, access, endpoint: ARN, caller: None };
        let call = json!({"page": "event", "id": id, "widgetContext": {"forms": {"all": {}}}});
        let page = serve(&console, call).await.expect("a page").as_str().expect("HTML").to_owned();
        let (_, timeline) = page.split_once("<h3>Timeline</h3>").expect("a timeline");
        let timeline = timeline.split("</table>").next().expect("a table");
        for kind in ["waiting", "working", "failed"] {
            assert!(timeline.contains(&format!("<rect class=\"{kind}\"")), "no {kind}: {timeline}");
        }
        assert!(timeline.contains("crm, attempt 2: answered 400"), "{timeline}");
        assert!(timeline.contains("2 h"), "the wait for an operator: {timeline}");
        assert_eq!(timeline.contains("by ada: the CRM is back"), by_whom, "{timeline}");
        let logs =
            "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:logs-insights";
        assert!(page.contains(logs), "{page}");
    }
}
