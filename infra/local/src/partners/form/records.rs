//! Partners that keep records: HubSpot, Klaviyo, Mailchimp Marketing, Shopify, Stripe.

use serde_json::{Map, Value, json};

use super::{FormAnswer, Handled, Made, hex_id};
use crate::journal;
use crate::partners::call::IncomingCall;

const FIRST_CONTACT: usize = 50_000;

/// Contacts, known by their email addresses. A contact that is created twice is a conflict.
pub(super) fn hubspot(call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
    let input = call.body.pointer("/inputs/0").unwrap_or(&call.body);
    let in_path = call.path.rsplit('/').next().and_then(|last| last.split('?').next()).unwrap_or_default();
    let email = [&input["id"], &input["properties"]["email"]].into_iter().find_map(Value::as_str).unwrap_or(in_path);
    let email = email.replace("%40", "@").to_lowercase();
    let known = made.iter().rev().find(|made| made.record["properties"]["email"] == email).map(|made| &made.record);
    if call.method == "GET" || (call.method == "PATCH" && known.is_none()) {
        let found = known.map(|record| FormAnswer::new(200, record.clone()));
        return Handled::Tells(found.unwrap_or_else(|| FormAnswer::new(404, hubspot_error(404, "resource not found"))));
    }
    let is_create = call.method == "POST" && !call.path.contains("/batch/");
    if let (true, Some(known)) = (is_create, known) {
        let told = format!("Contact already exists. Existing ID: {}", known["id"].as_str().unwrap_or_default());
        return Handled::Tells(FormAnswer::new(409, hubspot_error(409, &told)));
    }
    let id = known.map_or_else(|| json!((FIRST_CONTACT + nth).to_string()), |known| known["id"].clone());
    let mut properties = known.and_then(|known| known["properties"].as_object().cloned()).unwrap_or_default();
    properties.extend(input["properties"].as_object().cloned().unwrap_or_default());
    properties.insert("email".into(), json!(email));
    let (at, new) = (journal::rfc3339(call.at), known.is_none());
    let record = json!({"id": id, "properties": properties, "createdAt": at, "updatedAt": at, "archived": false});
    let answer = match is_create || call.method == "PATCH" {
        true => record.clone(),
        false => {
            let mut result = record.clone();
            result["new"] = json!(new);
            json!({"status": "COMPLETE", "results": [result], "startedAt": at, "completedAt": at})
        }
    };
    Handled::Does(record, FormAnswer::new(if is_create { 201 } else { 200 }, answer))
}

pub(super) fn hubspot_error(status: u16, told: &str) -> Value {
    let category = match status {
        401 => "INVALID_AUTHENTICATION",
        403 => "MISSING_SCOPES",
        404 => "OBJECT_NOT_FOUND",
        409 => "CONFLICT",
        429 => "RATE_LIMITS",
        _ => "VALIDATION_ERROR",
    };
    let id = "aeb5f871-7f07-4993-9211-075dc63e7cbf";
    json!({"status": "error", "message": told, "correlationId": id, "category": category})
}

/// Events, of which the first with a unique id counts; and profiles, known by their email addresses.
pub(super) fn klaviyo(call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
    if !call.path.contains("/profile-import") {
        return Handled::Does(call.body["data"].clone(), FormAnswer::new(202, Value::Null));
    }
    let attributes = &call.body["data"]["attributes"];
    let is_same = |made: &&Made| made.record["attributes"]["email"] == attributes["email"];
    let known = made.iter().rev().find(is_same).map(|made| made.record["id"].clone());
    let status = if known.is_some() { 200 } else { 201 };
    let id = known.unwrap_or_else(|| json!(format!("01LOCAL{nth:019}")));
    let record = json!({"type": "profile", "id": id, "attributes": attributes});
    Handled::Does(record.clone(), FormAnswer::new(status, json!({"data": record})))
}

/// The unique id counts for one metric and one profile.
pub(super) fn klaviyo_key(call: &IncomingCall) -> Option<String> {
    let attributes = &call.body["data"]["attributes"];
    let id = attributes["unique_id"].as_str()?;
    let metric = &attributes["metric"]["data"]["attributes"]["name"];
    Some(format!("{id} {metric} {}", attributes["profile"]["data"]["attributes"]))
}

pub(super) fn klaviyo_error(status: u16, told: &str) -> Value {
    let (code, title) = match status {
        401 => ("not_authenticated", "Authentication credentials were not provided."),
        429 => ("throttled", "Request was throttled."),
        500..=599 => ("internal_error", "A server error occurred."),
        _ => ("invalid", "Invalid input."),
    };
    let id = "5c1a4d6e-0000-4000-8000-000000000000";
    json!({"errors": [{"id": id, "status": status, "code": code, "title": title, "detail": told, "source": {"pointer": "/data"}}]})
}

/// Members of a list, each at its own path.
pub(super) fn mailchimp(call: &IncomingCall, made: &[Made]) -> Handled {
    let path = call.path.split('?').next().unwrap_or_default();
    if call.method == "GET" {
        let found = made.iter().rev().find(|made| made.path == path).map(|made| made.record.clone());
        let missing = || FormAnswer::new(404, mailchimp_error(404, "The requested resource could not be found."));
        return Handled::Tells(found.map_or_else(missing, |record| FormAnswer::new(200, record)));
    }
    if path.ends_with("/tags") {
        return Handled::Does(call.body.clone(), FormAnswer::new(204, Value::Null));
    }
    let mut member = call.body.as_object().cloned().unwrap_or_default();
    member.insert("id".into(), json!(path.rsplit('/').next()));
    let status = member.get("status_if_new").or(member.get("status")).cloned().unwrap_or(json!("subscribed"));
    member.insert("status".into(), status);
    Handled::Does(json!(member), FormAnswer::new(200, json!(member)))
}

pub(super) fn mailchimp_error(status: u16, told: &str) -> Value {
    let title = match status {
        401 => "API Key Invalid",
        403 => "Forbidden",
        404 => "Resource Not Found",
        429 => "Too Many Requests",
        500..=599 => "Internal Server Error",
        _ => "Invalid Resource",
    };
    let docs = "https://mailchimp.com/developer/marketing/docs/errors/";
    json!({"type": docs, "title": title, "status": status, "detail": told, "instance": "c5a1b2d3-0000-4000-8000-000000000000"})
}

/// Mutations by their names: each answers with its payload, which has no user errors. A code that exists is such an error.
pub(super) fn shopify(call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
    let (query, variables) = (call.body["query"].as_str().unwrap_or_default(), &call.body["variables"]);
    if query.contains("codeDiscountNodeByCode") {
        let is_it = |made: &&Made| made.sent.pointer("/variables/basicCodeDiscount/code") == variables.get("code");
        let node = made.iter().find(is_it).map_or(Value::Null, |made| json!({"id": made.record["id"]}));
        return Handled::Tells(shopify_data("codeDiscountNodeByCode", node));
    }
    let mutation =
        ["tagsAdd", "metafieldsSet", "discountCodeBasicCreate"].into_iter().find(|name| query.contains(name));
    let Some(mutation) = mutation else {
        let error =
            json!({"message": "the partner stub knows no such mutation", "extensions": {"code": "undefinedField"}});
        return Handled::Tells(FormAnswer::new(200, json!({"errors": [error]})));
    };
    let code = |sent: &Value| sent.pointer("/variables/basicCodeDiscount/code").cloned();
    if code(&call.body).is_some_and(|new| made.iter().any(|made| code(&made.sent).as_ref() == Some(&new))) {
        let taken = json!({"field": ["basicCodeDiscount", "code"], "message": "Code must be unique", "code": "TAKEN"});
        return Handled::Tells(shopify_data(mutation, json!({"codeDiscountNode": null, "userErrors": [taken]})));
    }
    let id = format!("gid://shopify/{mutation}/{nth}");
    let mut payload = Map::from_iter([("userErrors".to_owned(), json!([]))]);
    payload.extend(match mutation {
        "tagsAdd" => vec![("node".to_owned(), json!({"id": variables["id"]}))],
        "metafieldsSet" => vec![("metafields".to_owned(), json!([{"id": id}]))],
        _ => vec![("codeDiscountNode".to_owned(), json!({"id": id}))],
    });
    Handled::Does(json!({"id": id}), shopify_data(mutation, Value::Object(payload)))
}

fn shopify_data(name: &str, value: Value) -> FormAnswer {
    let throttle = json!({"maximumAvailable": 2000.0, "currentlyAvailable": 1990, "restoreRate": 100.0});
    let cost = json!({"requestedQueryCost": 10, "actualQueryCost": 10, "throttleStatus": throttle});
    FormAnswer::new(200, json!({"data": {name: value}, "extensions": {"cost": cost}}))
}

/// The key of the directive `@idempotent`.
pub(super) fn shopify_key(call: &IncomingCall) -> Option<String> {
    call.body["variables"]["key"].as_str().map(str::to_owned)
}

/// Shopify answers errors of GraphQL with 200.
pub(super) fn shopify_error(status: u16, told: &str) -> Value {
    match status {
        200..=299 => json!({"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]}),
        401 => json!({"errors": "[API] Invalid API key or access token (unrecognized login or wrong password)"}),
        _ => json!({"errors": told}),
    }
}

/// Objects of every kind, by the path at which they are created.
pub(super) fn stripe(call: &IncomingCall, nth: usize) -> Handled {
    let path = call.path.split('?').next().unwrap_or_default();
    let (prefix, object) = match path.rsplit('/').next() {
        Some("customers") => ("cus_", "customer"),
        Some("refunds") => ("re_", "refund"),
        _ => ("obj_", "object"),
    };
    let mut record = call.body.as_object().cloned().unwrap_or_default();
    record.insert("id".into(), json!(hex_id(prefix, nth, 14)));
    record.insert("object".into(), json!(object));
    record.insert("created".into(), json!(call.at.as_second()));
    Handled::Does(json!(record), FormAnswer::new(200, json!(record)))
}

pub(super) fn stripe_error(status: u16, told: &str) -> Value {
    let (kind, code) = match status {
        402 => ("card_error", "card_declined"),
        409 => ("idempotency_error", "idempotency_key_in_use"),
        429 => ("invalid_request_error", "rate_limit"),
        500..=599 => ("api_error", "api_error"),
        _ => ("invalid_request_error", "resource_missing"),
    };
    json!({"error": {"type": kind, "code": code, "message": told}})
}
