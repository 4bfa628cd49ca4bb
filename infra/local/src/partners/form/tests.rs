//! The forms against what the partners' documentation shows.

use serde_json::{Value, json};

use super::*;
use crate::partners::control::{Behaviour, Mode};
use crate::partners::integration::StubIntegration;
use crate::partners::stub::{PartnerStub, StubAnswer};

/// A stub of one integration that uses this partner.
fn stub(partner: &str) -> PartnerStub {
    PartnerStub::new([("it".to_owned(), StubIntegration::of_form(PartnerForm::of(Some(partner))))].into())
}

fn call(method: &str, path: &str, body: Value) -> IncomingCall {
    IncomingCall { integration: "it".into(), method: method.into(), path: path.into(), body, ..IncomingCall::default() }
}

fn status(answer: &StubAnswer) -> u16 {
    answer.status.map_or(0, |status| status.as_u16())
}

#[test]
fn hubspot_knows_contacts_by_their_email_addresses() {
    let mut stub = stub("hubspot");
    let upsert = |name: &str| {
        let input = json!({"idProperty": "email", "id": "Jon@example.com", "properties": {"firstname": name}});
        call("POST", "/it/crm/v3/objects/contacts/batch/upsert", json!({"inputs": [input]}))
    };
    let first = stub.handle_call(upsert("John")).1;
    let second = stub.handle_call(upsert("Jon")).1;
    assert_eq!((status(&first), &first.body["results"][0]["new"]), (200, &json!(true)));
    assert_eq!(
        (&second.body["results"][0]["new"], &second.body["results"][0]["id"]),
        (&json!(false), &first.body["results"][0]["id"])
    );
    let create = call("POST", "/it/crm/v3/objects/contacts", json!({"properties": {"email": "jon@example.com"}}));
    let (logged, conflict) = stub.handle_call(create);
    assert!(!logged.applied);
    assert_eq!((status(&conflict), &conflict.body["category"]), (409, &json!("CONFLICT")));
    assert_eq!(conflict.body["message"], "Contact already exists. Existing ID: 50001");
    let found =
        stub.handle_call(call("GET", "/it/crm/v3/objects/contacts/jon%40example.com?idProperty=email", Value::Null)).1;
    assert_eq!(found.body["properties"]["firstname"], "Jon");
}

#[test]
fn klaviyo_takes_the_first_event_of_a_unique_id() {
    let mut stub = stub("klaviyo");
    let event = |id: &str, email: &str| {
        let metric = json!({"data": {"attributes": {"name": "Placed Order"}}});
        let profile = json!({"data": {"attributes": {"email": email}}});
        let attributes = json!({"unique_id": id, "metric": metric, "profile": profile});
        call("POST", "/it/events", json!({"data": {"type": "event", "attributes": attributes}}))
    };
    let applied = [("k", "a@b.c"), ("k", "a@b.c"), ("k", "d@e.f"), ("l", "a@b.c")].map(|(id, email)| {
        let (call, answer) = stub.handle_call(event(id, email));
        assert_eq!((call.status, answer.body), (Some(202), Value::Null));
        call.applied
    });
    assert_eq!(applied, [true, false, true, true]);
}

#[test]
fn twilio_sends_each_time_and_lists_what_it_sent() {
    let mut stub = stub("twilio");
    let send = || call("POST", "/it/Messages.json", json!({"To": "+1555", "From": "+1556", "Body": "hi"}));
    let sids = [(), ()].map(|()| stub.handle_call(send()).1.body["sid"].clone());
    assert!(sids[0] != sids[1] && sids[0].as_str().is_some_and(|sid| sid.len() == 34), "{sids:?}");
    let list = stub.handle_call(call("GET", "/it/Messages.json?To=%2B1555", Value::Null)).1;
    assert_eq!(list.body["messages"].as_array().map(Vec::len), Some(2));
    let other = stub.handle_call(call("GET", "/it/Messages.json?To=%2B1999", Value::Null)).1;
    assert_eq!(other.body["messages"], json!([]));
    stub.set("it".into(), Behaviour { mode: Mode::status(400, false), ..Behaviour::default() });
    assert_eq!(stub.handle_call(send()).1.body["code"], 21211);
}

#[test]
fn slack_says_no_with_a_200_and_finds_messages_by_their_metadata() {
    let mut stub = stub("slack");
    let metadata = json!({"event_type": "ledgerline", "event_payload": {"key": "e/slack"}}).to_string();
    let post = || call("POST", "/it/chat.postMessage", json!({"channel": "C1", "text": "hi", "metadata": metadata}));
    stub.set("it".into(), Behaviour { mode: Mode::status(200, false), times: Some(1), ..Behaviour::default() });
    let no = stub.handle_call(post()).1;
    assert_eq!((status(&no), no.body), (200, json!({"ok": false, "error": "channel_not_found"})));
    let yes = stub.handle_call(post()).1;
    assert_eq!(yes.body["ok"], true);
    let history = stub.handle_call(call("GET", "/it/conversations.history?channel=C1", Value::Null)).1;
    assert_eq!(history.body["messages"][0]["metadata"]["event_payload"]["key"], "e/slack");
}

#[test]
fn shopify_finds_a_code_that_was_created() {
    let mut stub = stub("shopify");
    let graphql = |query: &str, variables: Value| {
        call("POST", "/it/graphql.json", json!({"query": query, "variables": variables}))
    };
    let ask = || graphql("query { codeDiscountNodeByCode(code: $code) { id } }", json!({"code": "A1"}));
    assert_eq!(stub.handle_call(ask()).1.body["data"]["codeDiscountNodeByCode"], Value::Null);
    let create = graphql("mutation { discountCodeBasicCreate { id } }", json!({"basicCodeDiscount": {"code": "A1"}}));
    assert_eq!(stub.handle_call(create).1.body["data"]["discountCodeBasicCreate"]["userErrors"], json!([]));
    assert!(stub.handle_call(ask()).1.body["data"]["codeDiscountNodeByCode"]["id"].is_string());
}

#[test]
fn errors_have_the_partners_form() {
    for (partner, pointer) in [
        ("hubspot", "/category"),
        ("klaviyo", "/errors/0/detail"),
        ("mailchimp-marketing", "/detail"),
        ("mailchimp-transactional", "/name"),
        ("sendgrid", "/errors/0/message"),
        ("shopify", "/errors"),
        ("slack", "/error"),
        ("stripe", "/error/type"),
        ("twilio", "/code"),
    ] {
        for told in [400, 401, 409, 429, 500] {
            let body = PartnerForm::of(Some(partner)).error(told);
            assert!(body.pointer(pointer).is_some(), "{partner} {told}: {body}");
        }
    }
}

/// Every partner of the catalogue has a form of its own.
#[test]
fn no_partner_of_the_catalogue_is_answered_for_in_the_plain_form() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows/catalog/partners");
    for file in std::fs::read_dir(folder).expect("the catalogue") {
        let name = file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned();
        assert_ne!(PartnerForm::of(Some(&name)), PartnerForm::Plain, "{name}");
    }
}
