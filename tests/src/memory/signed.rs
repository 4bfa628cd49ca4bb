//! The requests that `local sign` prints, through the gateway's rules to the intake: each flow takes its own.

use std::collections::BTreeMap;

use local::secrets::senders_secret;
use local::signed_request::example_for;
use shared::adapters::machine::{SystemClock, read_flows};
use shared::arrival::signature::receivers_secret;

use super::http::{EVENT, HttpRequest, TYPED};
use super::world::World;
use crate::fixtures::root;

const SIGNING: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const URL: &str = "http://127.0.0.1:8787";

#[tokio::test]
async fn every_shipped_flow_takes_the_request_that_is_made_for_it() {
    let flows = read_flows(&root().join("infra/flows")).unwrap_or_else(|problems| panic!("{problems}"));
    let mut world = World::with(flows.clone());
    world.intake.clock = Box::new(SystemClock);
    world.intake.public_url = Some(URL.into());
    for (name, source) in flows.sources() {
        let secret = senders_secret(&source.scheme, SIGNING).expect("a secret");
        let kept = receivers_secret(&source.scheme, &secret).expect("a secret");
        world.secrets.put(&format!("sources/{name}"), kept.expose());
    }
    let mut admitted: BTreeMap<String, usize> = BTreeMap::new();
    for flow in flows.all() {
        let pasted = example_for(&flows, flow, URL, SIGNING).unwrap_or_else(|error| panic!("{}: {error:#}", flow.name));
        let (call, query) = match pasted.request().url.split_once('?') {
            Some((call, query)) => (call, query),
            None => (pasted.request().url.as_str(), ""),
        };
        let path = call.strip_prefix(URL).expect("its own cloud");
        let mut names = path.trim_start_matches("/v1/events/").splitn(2, '/');
        let (source, event_type) = (names.next().unwrap_or_default(), names.next());
        let bare = HttpRequest { headers: Vec::new(), ..HttpRequest::at(b"", 0) };
        let bare = bare.with("content-type", pasted.content_type()).called(path, query);
        let headers = pasted.request().headers.iter();
        let signed = headers.fold(bare, |request, (name, value)| request.with(&name.to_lowercase(), value));
        let request = signed.in_base64(&pasted.request().body).to(EVENT, "source", source);
        let request = match event_type {
            Some(name) => request.to(TYPED, "type", name),
            None => request,
        };
        let rows = world.ledger.rows().len();
        let answer = request.send(&world).await;
        assert!((200..300).contains(&answer.status), "{}: {} {}", flow.name, answer.status, answer.body);
        assert_ne!(answer.body["status"], "ignored", "{}", flow.name);
        *admitted.entry(flow.name.clone()).or_default() += world.ledger.rows().len() - rows;
    }
    assert!(admitted.len() >= 9 && admitted.values().all(|rows| *rows == 1), "{admitted:?}");
}
