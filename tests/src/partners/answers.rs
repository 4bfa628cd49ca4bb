//! What the partners' answers mean, by the tables of the catalogue.

use local::partners::documented_answer;
use local::prism::requests;
use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::effects::outcome::{NoAnswer, Outcome, classify};
use shared::flows::{Flows, PartnerAnswer};
use shared::ledger::Doubt;

use super::{catalogue, effect_of};
use crate::fixtures::root;

const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

fn outcome(flows: &Flows, call: &str, called: Result<PartnerAnswer, NoAnswer>) -> Outcome {
    let effect = effect_of(flows, call);
    classify(&called, flows, effect, flows.trust(effect, NOW, NOW), NOW)
}

/// The outcome in a word. `again` is repeated although it may have happened: the partner lets it be.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Retryable { doubt: Doubt::None, .. } => "retry",
        Outcome::Retryable { .. } => "again",
        Outcome::Terminal(_) => "failed",
        Outcome::Unknown { .. } => "unknown",
        Outcome::CredentialsRejected(_) => "credentials",
    }
}

/// What the stub answers as a partner is done, with every result: the partner's documented success.
#[tokio::test]
async fn the_documented_success_of_every_call_is_done() {
    let catalogue = catalogue();
    for sample in requests(&root()).await.expect("requests") {
        let call = sample.name.strip_prefix(&format!("{}.", sample.partner)).expect("its partner's name");
        if call.ends_with(".lookup") {
            continue;
        }
        let answer = documented_answer(&sample.partner, &sample.request);
        let read = outcome(&catalogue[&sample.partner], call, Ok(answer));
        assert_eq!(word(&read), "done", "{}: {read:?}", sample.name);
    }
}

#[test]
fn silence_is_unknown_where_the_partner_promises_nothing() {
    for (partner, call, expected) in [
        ("klaviyo", "create_event", "again"),
        ("klaviyo", "import_profile", "again"),
        ("hubspot", "upsert_contact", "again"),
        ("mailchimp-marketing", "upsert_member", "again"),
        ("mailchimp-transactional", "send_message", "unknown"),
        ("sendgrid", "send_mail", "unknown"),
        ("shopify", "create_discount_code", "unknown"),
        ("slack", "post_message", "unknown"),
        ("stripe", "create_refund", "again"),
        ("twilio", "send_message", "unknown"),
    ] {
        let flows = &catalogue()[partner];
        let lost = outcome(flows, call, Err(NoAnswer::Lost("timed out".into())));
        assert_eq!(word(&lost), expected, "{partner}.{call}");
    }
}

/// The knowledge of the catalogue, row by row: an answer as the partner's documentation or its users show it.
#[test]
fn answers_mean_what_is_known_of_them() {
    let slack = |error: &str| json!({"ok": false, "error": error});
    let shopify = |code: &str| json!({"errors": [{"message": "x", "extensions": {"code": code}}]});
    let user_error =
        json!({"data": {"tagsAdd": {"node": null, "userErrors": [{"field": ["id"], "message": "Invalid id"}]}}});
    let exists =
        json!({"status": "error", "category": "CONFLICT", "message": "Contact already exists. Existing ID: 51"});
    let mandrill = |name: &str| json!({"status": "error", "code": -1, "name": name, "message": "x"});
    let taken = |node: Value| {
        let errors = json!([{"field": ["basicCodeDiscount", "code"], "message": "Code must be unique"}]);
        json!({"data": {"discountCodeBasicCreate": {"codeDiscountNode": node, "userErrors": errors}}})
    };
    let catalogue = catalogue();
    for (partner, call, status, body, expected) in [
        ("hubspot", "upsert_contact", 409, json!({"category": "CONFLICT"}), "again"),
        ("hubspot", "upsert_contact", 423, json!({}), "retry"),
        ("hubspot", "upsert_contact", 477, json!({}), "retry"),
        ("hubspot", "upsert_contact", 429, json!({"policyName": "TEN_SECONDLY_ROLLING"}), "retry"),
        ("hubspot", "upsert_contact", 400, json!({"category": "VALIDATION_ERROR"}), "failed"),
        ("hubspot", "upsert_contact", 502, json!({}), "again"),
        ("hubspot", "upsert_contact", 401, json!({}), "credentials"),
        ("hubspot", "create_contact", 409, exists, "done"),
        ("hubspot", "create_contact", 409, json!({"message": "something else"}), "again"),
        ("klaviyo", "create_event", 429, json!({}), "retry"),
        ("klaviyo", "create_event", 400, json!({"errors": [{"code": "invalid"}]}), "failed"),
        ("klaviyo", "create_event", 503, json!({}), "again"),
        ("mailchimp-marketing", "upsert_member", 429, Value::Null, "retry"),
        ("mailchimp-marketing", "upsert_member", 400, json!({"title": "Member In Compliance State"}), "failed"),
        ("mailchimp-transactional", "send_message", 200, json!([{"status": "rejected", "_id": "a"}]), "failed"),
        ("mailchimp-transactional", "send_message", 200, json!([]), "unknown"),
        ("mailchimp-transactional", "send_message", 500, mandrill("ValidationError"), "failed"),
        ("mailchimp-transactional", "send_message", 500, mandrill("Invalid_Key"), "retry"),
        ("mailchimp-transactional", "send_message", 500, mandrill("GeneralError"), "unknown"),
        ("mailchimp-transactional", "send_message", 402, mandrill("PaymentRequired"), "failed"),
        ("mailchimp-transactional", "send_message", 402, json!({}), "unknown"),
        ("sendgrid", "send_mail", 429, json!({}), "retry"),
        ("sendgrid", "send_mail", 400, json!({"errors": [{"message": "x"}]}), "failed"),
        ("sendgrid", "send_mail", 500, json!({}), "unknown"),
        ("shopify", "add_tags", 200, shopify("THROTTLED"), "retry"),
        ("shopify", "add_tags", 200, shopify("ACCESS_DENIED"), "failed"),
        ("shopify", "add_tags", 200, shopify("INTERNAL_SERVER_ERROR"), "again"),
        ("shopify", "add_tags", 200, user_error, "failed"),
        ("shopify", "create_discount_code", 200, taken(json!(null)), "failed"),
        ("shopify", "create_discount_code", 200, taken(json!({"id": "gid://shopify/1"})), "unknown"),
        ("shopify", "create_discount_code", 200, shopify("INTERNAL_SERVER_ERROR"), "unknown"),
        ("slack", "post_message", 200, slack("channel_not_found"), "failed"),
        ("slack", "post_message", 200, slack("missing_scope"), "failed"),
        ("slack", "post_message", 200, slack("an_error_of_tomorrow"), "unknown"),
        ("slack", "post_message", 200, json!({"ok": false}), "unknown"),
        ("slack", "post_message", 200, slack("ratelimited"), "retry"),
        ("slack", "post_message", 200, slack("token_revoked"), "retry"),
        ("slack", "post_message", 200, slack("internal_error"), "unknown"),
        ("slack", "post_message", 200, json!({}), "unknown"),
        ("slack", "post_message", 429, Value::Null, "retry"),
        ("stripe", "create_refund", 400, json!({"error": {"type": "idempotency_error"}}), "again"),
        ("stripe", "create_refund", 400, json!({"error": {"type": "invalid_request_error"}}), "failed"),
        ("stripe", "create_refund", 402, json!({"error": {"type": "card_error"}}), "failed"),
        ("stripe", "create_refund", 409, json!({"error": {"code": "idempotency_key_in_use"}}), "again"),
        ("stripe", "create_refund", 500, json!({"error": {"type": "api_error"}}), "again"),
        ("twilio", "send_message", 400, json!({"code": 21211}), "failed"),
        ("twilio", "send_message", 429, json!({"code": 20429}), "retry"),
        ("twilio", "send_message", 500, json!({"code": 20500}), "unknown"),
    ] {
        let answer = PartnerAnswer {
            status,
            body: Some(body.clone()).filter(|body| !body.is_null()),
            ..PartnerAnswer::default()
        };
        let read = outcome(&catalogue[partner], call, Ok(answer));
        assert_eq!(word(&read), expected, "{partner}.{call} {status} {body}: {read:?}");
    }
}
