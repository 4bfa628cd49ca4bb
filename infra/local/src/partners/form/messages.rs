//! Partners that send messages: Twilio, Slack, SendGrid, Mailchimp Transactional. None of them recognises a repetition.

use serde_json::{Value, json};

use super::{FormAnswer, Handled, Made, hex_id};
use crate::journal;
use crate::partners::call::IncomingCall;

pub(super) fn twilio(call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
    if call.method == "GET" {
        let wanted = |made: &&Made| ["To", "From"].iter().all(|name| call.asks(name, &made.sent[name]));
        let messages: Vec<&Value> = made.iter().rev().filter(wanted).map(|made| &made.record).collect();
        let page = json!({"messages": messages, "page": 0, "page_size": 50, "next_page_uri": null});
        return Handled::Tells(FormAnswer::new(200, page));
    }
    let sent = |name: &str| call.body[name].clone();
    let message = json!({
        "sid": hex_id("SM", nth, 32), "status": "queued", "direction": "outbound-api", "api_version": "2010-04-01",
        "to": sent("To"), "from": sent("From"), "body": sent("Body"), "num_segments": "1", "num_media": "0",
        "date_created": journal::rfc2822(call.at), "date_updated": journal::rfc2822(call.at), "date_sent": null,
        "error_code": null, "error_message": null, "price": null, "price_unit": "USD",
        "messaging_service_sid": sent("MessagingServiceSid"),
    });
    Handled::Does(message.clone(), FormAnswer::new(201, message))
}

pub(super) fn twilio_error(status: u16, told: &str) -> Value {
    let code = match status {
        400 => 21211,
        _ => 20000 + u32::from(status),
    };
    json!({"code": code, "message": told, "more_info": format!("https://www.twilio.com/docs/errors/{code}"), "status": status})
}

pub(super) fn slack(call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
    if call.path.contains("/conversations.history") {
        let wanted = |made: &&Made| call.asks("channel", &made.sent["channel"]);
        let messages: Vec<&Value> = made.iter().rev().filter(wanted).map(|made| &made.record).collect();
        let page = json!({"ok": true, "messages": messages, "has_more": false, "pin_count": 0});
        return Handled::Tells(FormAnswer::new(200, page));
    }
    let metadata = call.body["metadata"].as_str().and_then(|text| serde_json::from_str(text).ok());
    let ts = format!("{}.{nth:06}", call.at.as_second());
    let message = json!({
        "type": "message", "bot_id": "B0LOCAL", "ts": ts, "text": call.body["text"],
        "metadata": metadata.unwrap_or(Value::Null),
    });
    let answer = json!({"ok": true, "channel": call.body["channel"], "ts": ts, "message": message});
    Handled::Does(message, FormAnswer::new(200, answer))
}

/// Slack answers most errors with 200.
pub(super) fn slack_error(status: u16) -> Value {
    let error = match status {
        200..=299 => "channel_not_found",
        401 => "invalid_auth",
        429 => "ratelimited",
        _ => "internal_error",
    };
    json!({"ok": false, "error": error})
}

pub(super) fn sendgrid(nth: usize) -> Handled {
    let id = hex_id("", nth, 22);
    Handled::Does(json!({"id": id}), FormAnswer::new(202, Value::Null).with_header("x-message-id", id))
}

pub(super) fn sendgrid_error(told: &str) -> Value {
    json!({"errors": [{"message": told, "field": null, "help": null}]})
}

pub(super) fn mailchimp(call: &IncomingCall, nth: usize) -> Handled {
    let to = call.body["message"]["to"].as_array().cloned().unwrap_or_default();
    let result =
        |to: &Value| json!({"email": to["email"], "status": "sent", "_id": hex_id("", nth, 32), "reject_reason": null});
    let results: Value = to.iter().map(result).collect();
    Handled::Does(results.clone(), FormAnswer::new(200, results))
}

pub(super) fn mailchimp_error(status: u16, told: &str) -> Value {
    let (code, name) = match status {
        401 => (401, "Invalid_Key"),
        402 => (10, "PaymentRequired"),
        500..=599 => (-1, "GeneralError"),
        _ => (-2, "ValidationError"),
    };
    json!({"status": "error", "code": code, "name": name, "message": told})
}
