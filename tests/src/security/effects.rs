//! What an event or a partner could make us call: nothing but what the flow names.

use std::time::Duration;

use serde_json::json;
use shared::adapters::HttpPartners;
use shared::arrival::signature::Secret;
use shared::effects::body::RequestBody;
use shared::effects::credentials::Credentials;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::Flows;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::fixtures::{files, lead_of};
use crate::memory::{World, flows_with};

/// Values that would leave their place if a URL were built from text.
const HOSTILE: [&str; 14] = [
    "..",
    ".",
    "../../admin",
    "..\\..\\admin",
    "/admin",
    "//evil.example/",
    "https://evil.example/",
    "@evil.example",
    ".evil.example",
    ":8080",
    "x?admin=1",
    "x&admin=1",
    "x#",
    "x\r\nX-Admin: 1\r\n\r\nDELETE / HTTP/1.1",
];

/// A flow whose value stands in a path, in a query, and in a body.
fn world() -> World {
    World::with(flows_with(|yaml| {
        yaml.replace(
            "path: /leads/{{ event.data.event_id }}",
            "path: '/leads/{{ event.data.event_id }}/notes?of={{ event.data.event_id }}&all=no'",
        )
    }))
}

#[tokio::test]
async fn an_event_changes_neither_host_nor_path_nor_query() {
    for value in HOSTILE {
        let world = world();
        world.post(&lead_of(value, "ada@example.com")).await.expect("the schema takes any text");
        world.drain().await;
        for (_, request) in world.partners.calls() {
            assert_eq!(request.base_url, "https://api.crm.example.com/v2", "{value:?}");
            let (path, query) = request.path.split_once('?').expect("the template has a query");
            let segments: Vec<&str> = path.split('/').collect();
            assert!(matches!(segments[..], ["", "leads", own, "notes"] if !own.is_empty()), "{value:?}: {path}");
            let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
            assert_eq!(pairs.len(), 2, "{value:?}: {query}");
            assert_eq!((pairs[0].1.as_ref(), pairs[1].1.as_ref()), (value, "no"), "{value:?}: {query}");
            assert!(!request.headers.iter().any(|(_, value)| value.contains(['\r', '\n'])), "{value:?}");
        }
    }
}

/// A value that means a step in a path, even encoded, is not sent at all: proxies decode before they climb.
#[tokio::test]
async fn an_event_that_would_climb_is_dead_and_calls_nobody() {
    for value in ["..", ".", "../../admin", "..\\..\\admin", "a/../b"] {
        let world = world();
        let id = world.post(&lead_of(value, "ada@example.com")).await.expect("the schema takes any text").id;
        world.drain().await;
        assert!(world.partners.calls().is_empty(), "{value:?}: {:?}", world.partners.calls());
        assert!(world.row(&id).await.death.is_some(), "{value:?}");
    }
}

#[test]
fn a_partner_is_called_over_tls_alone() {
    for base_url in
        ["http://api.example.com", "HTTP://api.example.com", "//api.example.com", "ftp://x", "api.example.com", "''"]
    {
        let mut files = files();
        files[1].text = files[1].text.replace("https://api.crm.example.com/v2", base_url);
        let problems = Flows::parse(&files).expect_err(base_url).to_string();
        assert!(problems.contains("integrations.yaml") && problems.contains("https://"), "{base_url}: {problems}");
    }
}

/// A server that gives one answer to everything, and tells what it was asked.
pub(super) async fn server(answer: String) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (asked, questions) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut question = vec![0; 16 * 1024];
            let length = stream.read(&mut question).await.unwrap_or(0);
            asked.send(String::from_utf8_lossy(&question[..length]).into_owned()).ok();
            stream.write_all(answer.as_bytes()).await.ok();
        }
    });
    (address, questions)
}

pub(super) fn request(base_url: &str, path: &str) -> PartnerRequest {
    PartnerRequest {
        method: "POST",
        integration: "crm".into(),
        base_url: base_url.to_owned(),
        path: path.to_owned(),
        headers: vec![("Idempotency-Key".into(), "evt/crm".into())],
        credentials: Credentials::bearer(&Secret::new("t0ken")),
        body: Some(RequestBody::of_json(&json!({"note": "x\r\nX-Admin: 1"}))),
        timeout: Duration::from_secs(10),
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (elsewhere, mut reached) = server(ok.into()).await;
    for status in [301, 302, 303, 307, 308] {
        let head = format!("HTTP/1.1 {status} Go\r\nlocation: {elsewhere}/steal\r\ncontent-length: 0");
        let (partner, mut asked) = server(format!("{head}\r\nconnection: close\r\n\r\n")).await;
        let answer = HttpPartners::new(None).call(request(&partner, "/leads")).await.expect("an answer");
        assert_eq!((answer.status, answer.body), (status, None));
        assert!(asked.recv().await.is_some_and(|question| question.starts_with("POST /leads HTTP/1.1\r\n")));
    }
    assert!(reached.try_recv().is_err(), "the redirect was followed");
}

/// The status came in time, and says that it was done. The body drips for longer than anybody waits.
#[tokio::test]
async fn a_status_that_came_in_time_counts_also_if_its_body_does_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let partner = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n{").await;
            while sent.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                sent = stream.write_all(b" ").await;
            }
        }
    });
    // A machine that stands still for a while gets more time for the head.
    for millis in [300, 3_000, 30_000] {
        let slow = PartnerRequest { timeout: Duration::from_millis(millis), ..request(&partner, "/leads") };
        match HttpPartners::new(None).call(slow).await {
            Ok(answer) => return assert_eq!((answer.status, answer.body), (200, None)),
            Err(why) => assert_eq!(why, NoAnswer::Lost(format!("timed out after {millis} ms"))),
        }
    }
    panic!("a status is an answer");
}

/// What is on the wire is one request, with the headers that we set and no others.
#[tokio::test]
async fn a_value_adds_no_header_and_no_second_request() {
    let (partner, mut asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into()).await;
    let partners = HttpPartners::new(None);
    partners.call(request(&partner, "/leads/x%0D%0AX%2DAdmin%3A%201")).await.expect("an answer");
    let question = asked.recv().await.expect("it was asked").to_lowercase();
    let (head, body) = question.split_once("\r\n\r\n").expect("a head");
    let names: Vec<&str> = head.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
    let expected = ["user-agent", "idempotency-key", "authorization", "content-type", "content-length", "host"];
    assert!(names.iter().all(|name| expected.contains(name)) && names.len() == expected.len(), "{names:?}");
    assert_eq!(body, r#"{"note":"x\r\nx-admin: 1"}"#);

    let mut injected = request(&partner, "/leads");
    injected.headers[0].1.push_str("\r\nX-Admin: 1");
    let mut pasted = request(&partner, "/leads");
    pasted.credentials = Credentials::bearer(&Secret::new("t0ken\r\nX-Admin: 1"));
    for bad in [injected, pasted] {
        assert!(matches!(partners.call(bad).await, Err(NoAnswer::NotSent(why)) if !why.contains("t0ken")));
    }
    assert!(asked.try_recv().is_err(), "nothing was sent");
}
