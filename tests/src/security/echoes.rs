//! What a partner's answer leaves behind: a status, an excerpt of its error, and the results that the flow names. A partner
//! may quote the request in its answer, with the email, the code and the token in it.

use replay::{Access, Console, Operation, operate, serve};
use serde_json::json;
use shared::adapters::HttpPartners;
use shared::ledger::State;
use shared::ledger::batch::Filter;

use super::effects::server;
use crate::fixtures::{lead, lead_of};
use crate::memory::{Log, World};

const EMAIL: &str = "ada@example.com";
const CODE: &str = "SAVE-40-ADA";
const TOKEN: &str = "t0ken-of-the-crm";

/// An answer that quotes everything everywhere: in the status line, in headers, in the body and in names of its JSON.
fn echo(status: u16) -> String {
    let quote = format!("{EMAIL} {CODE} Bearer {TOKEN}");
    let body = json!({"error": quote, EMAIL: quote, "id": {CODE: EMAIL, TOKEN: 1}, "errors": [{"detail": quote}]});
    let body = body.to_string();
    let headers = format!("x-error: {quote}\r\nlocation: https://{CODE}.example/?{TOKEN}\r\nretry-after: {EMAIL}");
    let length = body.len();
    format!("HTTP/1.1 {status} {quote}\r\n{headers}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// A world whose CRM gives this answer over HTTP.
async fn world_with(answer: String) -> World {
    let mut world = World::new();
    let (address, _) = server(answer).await;
    world.processor.partners = Box::new(HttpPartners::new(Some(address)));
    world.secrets.put("integrations/crm", TOKEN);
    world
}

pub(super) async fn pages(world: &World, access: Access) -> String {
    let id = world.ledger.rows()[0].id.clone();
    let console = Console { replay: &world.replay, access, endpoint: "arn:aws:lambda:x:y:z", caller: None };
    let mut seen = String::new();
    for params in
        [json!({}), json!({"page": "list"}), json!({"page": "event", "id": id}), json!({"page": "plan", "id": id})]
    {
        let mut call = params;
        call["widgetContext"] = json!({"params": {}, "forms": {"all": {}}});
        seen += serve(&console, call).await.expect("a page").as_str().expect("HTML");
    }
    seen
}

/// What the command line prints comes from these answers.
pub(super) async fn answers(world: &World) -> String {
    let id = world.ledger.rows()[0].id.clone();
    let mut seen = String::new();
    for operation in [
        Operation::List { limit: 10, only: Filter::default() },
        Operation::Reasons { only: Filter::default() },
        Operation::Plan { ids: vec![id.clone()], only: Filter::default(), max: 1, with_new: false },
        Operation::Show { id },
    ] {
        seen += &operate(&world.replay, operation).await.expect("an answer").to_string();
    }
    seen
}

fn assert_quotes_nothing(status: u16, seen: &str) {
    for canary in [EMAIL, CODE, TOKEN] {
        assert!(!seen.contains(canary), "{status}: {canary} in {seen}");
    }
}

#[tokio::test]
async fn nothing_that_a_partner_quotes_is_kept_logged_or_shown() {
    for status in [301, 400, 401, 409, 422, 429, 500, 503] {
        let log = Log::capture();
        let world = world_with(echo(status)).await;
        let mut lead = lead_of("evt_1", EMAIL);
        lead["data"]["campaign"] = json!(CODE);
        world.post(&lead).await.expect("a good lead");
        for _ in 0..200 {
            world.poll().await;
            world.wake().await;
            world.clock.advance(std::time::Duration::from_secs(600));
        }
        let letters = format!("{:?}", world.dead_letters);
        // A letter holds the event, and so the event's own values.
        assert!(!letters.contains(TOKEN), "{status}: {letters}");
        world.park().await;
        let row = world.ledger.rows().remove(0);
        assert_eq!(row.state, State::Dead, "{status}");
        let stored = serde_json::to_string(&row).expect("JSON");
        let told = format!("answered {status}: *** *** ***");
        assert!(stored.contains(&told) || [401, 429].contains(&status), "the rest is masked: {stored}");
        assert_quotes_nothing(status, &stored);
        assert_quotes_nothing(status, &log.text());
        assert_quotes_nothing(status, &answers(&world).await);
        assert_quotes_nothing(status, &pages(&world, Access::Read).await);
        assert_quotes_nothing(status, &pages(&world, Access::Operate).await);
    }
}

/// A result is kept because the flow names it. Who may only look sees none of what the partner wrote.
#[tokio::test]
async fn a_result_that_quotes_is_shown_to_operators_alone() {
    let log = Log::capture();
    let world = world_with(echo(200)).await;
    world.post(&lead()).await.expect("a good lead");
    world.drain().await;
    let row = world.ledger.rows().remove(0);
    assert_eq!(row.state, State::Succeeded);
    assert_quotes_nothing(200, &log.text());
    assert_quotes_nothing(200, &pages(&world, Access::Read).await);
    assert!(pages(&world, Access::Operate).await.contains(CODE), "an operator compares it with the partner's records");
}
