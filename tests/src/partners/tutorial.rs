//! The tutorial of a partner that is not in the catalogue: the very request that its files make, and what becomes of it at
//! the stub.

use std::collections::BTreeMap;
use std::sync::Arc;

use local::partners::{Mode, PartnerModel};
use local::prism::requests_of;
use serde_json::{Value, json};
use shared::flows::contract::Contracts;
use shared::flows::{File, Flows};
use shared::ledger::{Progress, Reason, State};

use super::silence::SilentPartner;
use crate::fixtures::root;
use crate::memory::{SECRET, World};

const PAGE: &str = "infra/docs/PARTNERS.md";

/// The files that a part of the page shows, by their paths below `parcels/`: each stands below a line that begins with it.
fn files(part: &str) -> BTreeMap<String, String> {
    let blocks: Vec<&str> = part.split("\n```").collect();
    let file = |pair: &[&str]| {
        let path = pair[0].trim_end().lines().last()?.split('`').nth(1)?.strip_prefix("parcels/")?;
        Some((path.to_owned(), pair.get(1)?.split_once('\n')?.1.to_owned()))
    };
    blocks.chunks(2).filter_map(file).collect()
}

/// The flows of the first six steps, those of the seventh, and the event.
fn tutorial() -> (Flows, Flows, Value) {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page");
    let (own, catalogue) = page.split_once("\n## 7.").expect("the last step");
    let mut own = files(own);
    let event = serde_json::from_str(&own.remove("samples/shipped.json").expect("the event")).expect("JSON");
    let both: BTreeMap<String, String> = own.clone().into_iter().chain(files(catalogue)).collect();
    let parse = |files: BTreeMap<String, String>| {
        let files: Vec<File> = files.into_iter().map(|(path, text)| File { path, text }).collect();
        Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
    };
    (parse(own), parse(both), event)
}

/// Nothing is masked here: method, URL, header fields and body, as Resend would get them.
#[tokio::test]
async fn the_request_of_the_tutorial_is_its_snapshot() {
    let (own, catalogue, event) = tutorial();
    let snapshot = root().join("infra/docs/PARTNERS.notice.http");
    let snapshot = std::fs::read_to_string(snapshot).expect("the snapshot");
    for flows in [own, catalogue] {
        let flow = flows.flow("order-shipped").expect("the flow");
        let (_, event) = Contracts::of(&flows).admit(flow, event.clone()).expect("the event fits");
        let sent = requests_of(&flows, flow, "notice", event).await.expect("a request");
        let [(_, request)] = sent.as_slice() else { panic!("{} requests", sent.len()) };
        assert_eq!(request.text(), snapshot, "the request of {PAGE}");
    }
}

/// A world with the tutorial's flows, and the stub behind them. `times` says what it does with the first call.
async fn run(first: Option<Mode>) -> (World, Arc<PartnerModel>, shared::base::id::EventId) {
    let (flows, _, event) = tutorial();
    let mut world = World::with(flows);
    world.secrets.put("sources/warehouse", SECRET);
    let model = Arc::new(PartnerModel::new("mail"));
    world.processor.partners = Box::new(SilentPartner { model: Arc::clone(&model), clock: world.clock.clone() });
    first.into_iter().for_each(|mode| model.tell_next(mode));
    let id = world.send("warehouse", None, &event, &[]).await.unwrap_or_else(|error| panic!("{error:?}")).id;
    world.drain().await;
    (world, model, id)
}

/// Step 5.
#[tokio::test]
async fn the_tutorial_runs_against_the_stub() {
    let (world, model, id) = run(None).await;
    let row = world.row(&id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.history);
    assert_eq!(row.effects["notice"].progress, Progress::Done { result: json!({"email_id": "mail_1"}) });
    assert_eq!(model.calls().len(), 1);

    let (world, model, id) = run(Some(Mode::Reset { apply: true })).await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    let calls = model.calls();
    assert_eq!((calls.len(), &calls[0].idempotency_key), (2, &calls[1].idempotency_key), "the same key");
    assert_eq!(calls.iter().filter(|call| call.applied).count(), 1, "one mail");

    let body = json!({"statusCode": 422, "name": "missing_required_field", "message": "Missing `subject` field."});
    let Mode::Status { status, retry_after, apply, headers, time, .. } = Mode::status(422, false) else {
        unreachable!()
    };
    let declined = Mode::Status { status, retry_after, apply, body: Some(body), headers, time };
    let (world, model, id) = run(Some(declined)).await;
    let death = world.row(&id).await.death.expect("it is parked");
    assert_eq!(death.reason, Reason::Terminal);
    assert_eq!(death.error, "answered 422 (missing_required_field): Missing `subject` field.");
    assert!(model.calls().iter().all(|call| !call.applied));
}
