//! The content of a verified delivery: plain JSON, or CloudEvents 1.0.
//!
//! Only signed content counts. In CloudEvents' binary mode the attributes travel in headers that no
//! scheme signs, so they are not read: the path names the type, and the body is the data. An attacker who
//! could alter a header could otherwise choose the flow, or pass one event for two.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::arrival::delivery::Delivery;

use crate::json;
use crate::rejection::Rejection;

/// The most events of one batch.
pub(crate) const MAX_BATCH: usize = 100;

/// The form of a body, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Plain JSON, or the data of a CloudEvent in binary mode.
    Json,
    /// A CloudEvent in structured mode.
    CloudEvent,
    /// An array of CloudEvents.
    CloudEvents,
    /// Fields of a form, one of which may hold JSON.
    Fields,
}

impl Form {
    /// The form that a content type names, if the intake takes it.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/cloudevents+json" => Some(Form::CloudEvent),
            "application/cloudevents-batch+json" => Some(Form::CloudEvents),
            "application/x-www-form-urlencoded" => Some(Form::Fields),
            "application/json" => Some(Form::Json),
            other if other.starts_with("application/") && other.ends_with("+json") => Some(Form::Json),
            _ => None,
        }
    }
}

/// One event as its sender wrote it, verified and not yet checked against its schema.
#[derive(Debug, PartialEq)]
pub(crate) struct ParsedBody {
    /// Whether the type stands where CloudEvents puts it, and not where the source does.
    pub(crate) cloud_event: bool,
    /// The whole document.
    pub(crate) body: Value,
    /// The JSON pointers of the numbers in it that would change when they are written again.
    pub(crate) changed: Vec<String>,
}

/// The one event of a delivery.
pub(crate) fn open(delivery: &Delivery, form: Form, form_field: Option<&str>) -> Result<ParsedBody, Rejection> {
    let (body, changed) = match form {
        Form::Fields => form_value(&delivery.body, form_field.ok_or(Rejection::UnsupportedMediaType)?)?,
        _ => read(&delivery.body)?,
    };
    match form {
        Form::CloudEvent => cloud_event(body, changed),
        Form::Json if delivery.headers.get("ce-specversion").is_some() => binary(delivery, body, changed),
        Form::Json | Form::Fields => Ok(ParsedBody { cloud_event: false, body, changed }),
        Form::CloudEvents => Err(Rejection::UnsupportedMediaType),
    }
}

/// The events of a batch, in order. A bad event does not spoil its neighbours.
pub(crate) fn open_batch(delivery: &Delivery, form: Form) -> Result<Vec<Result<ParsedBody, Rejection>>, Rejection> {
    let (body, changed) = read(&delivery.body).map_err(|_| Rejection::NotABatch)?;
    let Value::Array(items) = body else { return Err(Rejection::NotABatch) };
    if !(1..=MAX_BATCH).contains(&items.len()) {
        return Err(Rejection::NotABatch);
    }
    let open = |(index, body)| {
        let own = format!("/{index}/");
        let changed = changed.iter().filter_map(|at| Some(format!("/{}", at.strip_prefix(&own)?))).collect();
        match form {
            Form::CloudEvents => cloud_event(body, changed),
            _ => Ok(ParsedBody { cloud_event: false, body, changed }),
        }
    };
    Ok(items.into_iter().enumerate().map(open).collect())
}

/// Strict JSON, and the numbers in it that would change when they are written again.
fn read(bytes: &[u8]) -> Result<(Value, Vec<String>), Rejection> {
    let body = json::parse(bytes).ok_or(Rejection::Malformed)?;
    let changed = json::changed_numbers(bytes, &body);
    Ok((body, changed))
}

/// What stands in an event's `data`, with its places as seen from the event.
fn under_data(changed: Vec<String>) -> impl Iterator<Item = String> {
    changed.into_iter().map(|at| format!("/data{at}"))
}

fn cloud_event(mut body: Value, mut changed: Vec<String>) -> Result<ParsedBody, Rejection> {
    let text = |name: &str| body[name].as_str().is_some_and(|text| !text.is_empty());
    if body["specversion"] != "1.0" || !["id", "source", "type"].into_iter().all(text) {
        return Err(Rejection::Malformed);
    }
    if let Some(encoded) = body.get("data_base64") {
        // With both, two readers could see two events.
        if body.get("data").is_some() {
            return Err(Rejection::Malformed);
        }
        let bytes = encoded.as_str().and_then(|encoded| STANDARD.decode(encoded).ok()).ok_or(Rejection::Malformed)?;
        let (data, inside) = read(&bytes)?;
        body["data"] = data;
        changed.extend(under_data(inside));
    }
    Ok(ParsedBody { cloud_event: true, body, changed })
}

fn binary(delivery: &Delivery, data: Value, changed: Vec<String>) -> Result<ParsedBody, Rejection> {
    let event_type = delivery.event_type.as_deref().ok_or(Rejection::UnknownType)?;
    if delivery.headers.get("ce-specversion") != Some("1.0") {
        return Err(Rejection::Malformed);
    }
    let body = json!({"type": event_type, "data": data});
    Ok(ParsedBody { cloud_event: true, body, changed: under_data(changed).collect() })
}

/// The JSON inside a form's field, as Slack's interactive callbacks have it.
fn form_value(body: &[u8], field: &str) -> Result<(Value, Vec<String>), Rejection> {
    let mut values = form_urlencoded::parse(body).filter(|(name, _)| name == field);
    match (values.next(), values.next()) {
        (Some((_, text)), None) => read(text.as_bytes()),
        _ => Err(Rejection::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(event_type: Option<&str>, headers: &[(&str, &str)], body: &str) -> Delivery {
        Delivery {
            source: "s".into(),
            event_type: event_type.map(str::to_owned),
            headers: headers.iter().copied().collect(),
            body: body.into(),
        }
    }

    #[test]
    fn content_types_name_their_forms() {
        assert_eq!(Form::of("application/json; charset=utf-8"), Some(Form::Json));
        assert_eq!(Form::of("Application/Vnd.Acme+JSON"), Some(Form::Json));
        assert_eq!(Form::of("application/cloudevents+json"), Some(Form::CloudEvent));
        assert_eq!(Form::of("application/cloudevents-batch+json"), Some(Form::CloudEvents));
        for bad in ["", "text/json", "text/plain", "image/svg+xml", "json"] {
            assert_eq!(Form::of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_structured_cloud_event_is_its_own_document() {
        let text = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"eyJhIjoxfQ=="}"#;
        let document = open(&delivery(None, &[], text), Form::CloudEvent, None).expect("a CloudEvent");
        assert_eq!(document.body["data"], json!({"a": 1}));
        for bad in [
            r#"{"specversion":"0.3","id":"1","source":"/s","type":"t"}"#,
            r#"{"specversion":"1.0","id":"","source":"/s","type":"t"}"#,
            r#"{"specversion":"1.0","id":"1","source":"/s"}"#,
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"%%%"}"#,
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{},"data_base64":"eyJhIjoxfQ=="}"#,
            "[]",
        ] {
            assert_eq!(open(&delivery(None, &[], bad), Form::CloudEvent, None), Err(Rejection::Malformed), "{bad}");
        }
    }

    #[test]
    fn binary_mode_believes_the_path_and_the_body_alone() {
        let headers = [("ce-specversion", "1.0"), ("ce-type", "forged"), ("ce-id", "forged")];
        let document = open(&delivery(Some("t"), &headers, r#"{"a":1}"#), Form::Json, None);
        let body = json!({"type": "t", "data": {"a": 1}});
        let expected = ParsedBody { cloud_event: true, body, changed: Vec::new() };
        assert_eq!(document, Ok(expected));
        let unnamed = open(&delivery(None, &headers, r#"{"a":1}"#), Form::Json, None);
        assert_eq!(unnamed, Err(Rejection::UnknownType));
    }

    #[test]
    fn a_form_holds_json_in_the_field_that_the_source_names() {
        let slack = delivery(None, &[], "payload=%7B%22type%22%3A%22block_actions%22%7D&x=1");
        let document = open(&slack, Form::Fields, Some("payload")).expect("JSON in a form");
        assert_eq!(document.body, json!({"type": "block_actions"}));
        assert_eq!(open(&slack, Form::Fields, None), Err(Rejection::UnsupportedMediaType));
        let twice = delivery(None, &[], "payload=%7B%7D&payload=%7B%7D");
        assert_eq!(open(&twice, Form::Fields, Some("payload")), Err(Rejection::Malformed));
    }

    #[test]
    fn a_batch_is_an_array_of_one_to_a_hundred() {
        let batch = |text: &str| open_batch(&delivery(None, &[], text), Form::Json).map(|items| items.len());
        assert_eq!(batch("[{}, {}]"), Ok(2));
        let long = format!("[{}0]", "0,".repeat(MAX_BATCH));
        for bad in ["[]", "{}", "[", &long] {
            assert_eq!(batch(bad), Err(Rejection::NotABatch));
        }
    }
}
