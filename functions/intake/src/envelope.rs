//! The content of a verified delivery: a JSON document, alone or in the envelope of its source.
//!
//! Only signed content and the source's own configuration say how a body is read. No scheme signs the content type or
//! the `ce-` headers of CloudEvents' binary mode, so they say nothing of the event: an attacker who alters a header
//! could otherwise choose the flow, or pass one event for two. A content type only says whether a body is taken.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use shared::arrival::delivery::Delivery;
use shared::flows::{BodyFormat, Envelope, OtherTypes, PartPlace, Source, Split};

use crate::json;
use crate::rejection::Rejection;

/// The most events of one batch.
pub(crate) const MAX_BATCH: usize = 100;

/// Whether the intake takes a content type from a source: that of forms from one that posts forms, else that of JSON.
pub(crate) fn is_taken(content_type: &str, source: &Source) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match source.posts_forms() {
        true => essence == "application/x-www-form-urlencoded",
        false => essence.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json")),
    }
}

/// One event as its sender wrote it, verified and not yet checked against its schema.
#[derive(Clone, PartialEq)]
pub(crate) struct ParsedBody {
    /// The whole document.
    pub(crate) body: Value,
    /// The JSON pointers of the numbers in it that would change when they are written again.
    pub(crate) changed: Vec<String>,
}

shared::base::masked::prints_only!(ParsedBody as "ParsedBody");

/// The document of a delivery.
pub(crate) fn open(delivery: &Delivery, source: &Source) -> Result<ParsedBody, Rejection> {
    let (body, changed) = match (&source.form, source.format) {
        (Some(field), _) => form_value(&delivery.body, field)?,
        (None, BodyFormat::Form) => (form_fields(&delivery.body)?, Vec::new()),
        (None, BodyFormat::Json) => read(&delivery.body)?,
    };
    unwrap(ParsedBody { body, changed }, source)
}

/// The most events that a delivery is split into: as many as the largest sender, Meta, puts into one.
pub const MAX_PARTS: usize = 1000;

/// The places of the events in a document that holds several. A source that lets other types go by lets a delivery without
/// events go by, too, and each item that holds none.
pub(crate) fn places(document: &ParsedBody, split: &Split, others: OtherTypes) -> Result<Vec<PartPlace>, Rejection> {
    let mut places = split.places(&document.body, MAX_PARTS).ok_or(Rejection::NoEvents)?;
    let least = match others {
        OtherTypes::Ignore => 0,
        OtherTypes::Reject => 1,
    };
    if !(least..=MAX_PARTS).contains(&places.len()) {
        return Err(Rejection::NoEvents);
    }
    if others == OtherTypes::Ignore {
        places.retain(|place| split.is_event(place));
    }
    Ok(places)
}

/// The event at one of these places.
pub(crate) fn part(document: &ParsedBody, split: &Split, place: &PartPlace) -> Result<ParsedBody, Rejection> {
    if !split.is_event(place) {
        return Err(Rejection::NoEvents);
    }
    let changed = document.changed.iter().filter_map(|pointer| split.pointer(pointer, place)).collect();
    Ok(ParsedBody { body: split.part(&document.body, place), changed })
}

/// The events of a batch, in order. A bad event does not spoil its neighbours.
pub(crate) fn open_batch(
    delivery: &Delivery,
    source: &Source,
) -> Result<Vec<Result<ParsedBody, Rejection>>, Rejection> {
    // An item with several events would be acted on by its first.
    if source.split.is_some() {
        return Err(Rejection::NoBatches);
    }
    let (body, changed) = read(&delivery.body).map_err(|_| Rejection::NotABatch)?;
    let Value::Array(items) = body else { return Err(Rejection::NotABatch) };
    if !(1..=MAX_BATCH).contains(&items.len()) {
        return Err(Rejection::NotABatch);
    }
    let open = |(index, body)| {
        let own = format!("/{index}/");
        let changed = changed.iter().filter_map(|at| Some(format!("/{}", at.strip_prefix(&own)?))).collect();
        unwrap(ParsedBody { body, changed }, source)
    };
    Ok(items.into_iter().enumerate().map(open).collect())
}

/// Strict JSON, and the numbers in it that would change when they are written again.
fn read(bytes: &[u8]) -> Result<(Value, Vec<String>), Rejection> {
    let body = json::parse(bytes).ok_or(Rejection::Malformed)?;
    let changed = json::changed_numbers(bytes, &body);
    Ok((body, changed))
}

/// Takes an event out of the envelope of its source.
fn unwrap(event: ParsedBody, source: &Source) -> Result<ParsedBody, Rejection> {
    match source.envelope {
        Envelope::None => Ok(event),
        Envelope::Cloudevents => cloud_event(event),
    }
}

fn cloud_event(ParsedBody { mut body, mut changed }: ParsedBody) -> Result<ParsedBody, Rejection> {
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
        changed.extend(inside.into_iter().map(|at| format!("/data{at}")));
    }
    Ok(ParsedBody { body, changed })
}

/// The most fields of a form.
const MAX_FIELDS: usize = 1000;

/// The fields of a form, each a text. One that stands twice is rejected, as in JSON: readers differ in which they take.
fn form_fields(body: &[u8]) -> Result<Value, Rejection> {
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(body) {
        if fields.len() >= MAX_FIELDS || fields.insert(name.into_owned(), Value::String(value.into_owned())).is_some() {
            return Err(Rejection::Malformed);
        }
    }
    // A body that is no form reads as one field without a value, and nothing as none.
    if fields.is_empty() || std::str::from_utf8(body).is_err() {
        return Err(Rejection::Malformed);
    }
    Ok(Value::Object(fields))
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
    use serde_json::json;
    use shared::arrival::delivery::{Called, Headers};
    use shared::flows::{File, Flows};

    use super::*;

    fn delivery(body: &str) -> Delivery {
        Delivery {
            source: "s".into(),
            event_type: None,
            headers: Headers::default(),
            body: body.into(),
            called: Called::default(),
        }
    }

    fn source(more: &str) -> Source {
        let text = format!("s: {{scheme: github, max_body: 64KiB, rate: 10/s, type_at: type{more}}}");
        let files = [File { path: "sources.yaml".into(), text }];
        Flows::parse(&files).expect("a good source").source("s").expect("it is there").clone()
    }

    #[test]
    fn a_content_type_says_only_whether_a_body_is_taken() {
        let (json, forms) = (source(""), source(", form: payload"));
        for good in ["application/json; charset=utf-8", "Application/Vnd.Acme+JSON", "application/cloudevents+json"] {
            assert!(is_taken(good, &json) && !is_taken(good, &forms), "{good}");
        }
        for bad in ["", "text/json", "text/plain", "image/svg+xml", "json", "application/x-www-form-urlencoded"] {
            assert!(!is_taken(bad, &json), "{bad}");
        }
        assert!(is_taken("application/x-www-form-urlencoded; charset=utf-8", &forms));
    }

    #[test]
    fn a_cloud_event_is_its_own_document() {
        let source = source(", envelope: cloudevents");
        let text = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"eyJhIjoxfQ=="}"#;
        let document = open(&delivery(text), &source).expect("a CloudEvent");
        assert_eq!(document.body["data"], json!({"a": 1}));
        for bad in [
            r#"{"specversion":"0.3","id":"1","source":"/s","type":"t"}"#,
            r#"{"specversion":"1.0","id":"","source":"/s","type":"t"}"#,
            r#"{"specversion":"1.0","id":"1","source":"/s"}"#,
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"%%%"}"#,
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{},"data_base64":"eyJhIjoxfQ=="}"#,
            "[]",
        ] {
            assert_eq!(open(&delivery(bad), &source), Err(Rejection::Malformed), "{bad}");
        }
    }

    #[test]
    fn without_an_envelope_the_body_is_the_event() {
        let text = r#"{"specversion":"0.3","data_base64":"eyJhIjoxfQ=="}"#;
        let document = open(&delivery(text), &source("")).expect("a document");
        assert_eq!(document.body, json!({"specversion": "0.3", "data_base64": "eyJhIjoxfQ=="}));
    }

    #[test]
    fn a_form_holds_json_in_the_field_that_the_source_names() {
        let source = source(", form: payload");
        let slack = delivery("payload=%7B%22type%22%3A%22block_actions%22%7D&x=1");
        let document = open(&slack, &source).expect("JSON in a form");
        assert_eq!(document.body, json!({"type": "block_actions"}));
        let twice = delivery("payload=%7B%7D&payload=%7B%7D");
        assert_eq!(open(&twice, &source), Err(Rejection::Malformed));
    }

    #[test]
    fn a_forms_fields_are_the_event() {
        let source = source(", format: form");
        let form = |text: &str| open(&delivery(text), &source).map(|document| document.body);
        assert_eq!(form("a=1&b=x+y%26&c="), Ok(json!({"a": "1", "b": "x y&", "c": ""})));
        assert_eq!(form("data%5Bemail%5D=a"), Ok(json!({"data[email]": "a"})));
        let many: String = (0..=MAX_FIELDS).map(|n| format!("f{n}=1&")).collect();
        for bad in ["", "&&", "a=1&a=2", &many] {
            assert_eq!(form(bad), Err(Rejection::Malformed), "{bad:.20}");
        }
    }

    #[test]
    fn a_delivery_is_split_into_its_events() {
        let split: Split = "entry[*]".to_owned().try_into().expect("lists");
        let document = |text: &str| open(&delivery(text), &source("")).expect("a document");
        let two =
            document(r#"{"entry": [{"n": 1}, {"n": 1e400}]}"#.replace("1e400", "12345678901234567890123").as_str());
        let found = places(&two, &split, OtherTypes::Reject).expect("two");
        let parts: Vec<ParsedBody> = found.iter().map(|place| part(&two, &split, place).expect("an event")).collect();
        assert_eq!(parts[0].body, json!({"entry": [{"n": 1}]}));
        let none: [String; 0] = [];
        assert_eq!(
            (parts[0].changed.as_slice(), parts[1].changed.as_slice()),
            (&none[..], &["/entry/0/n".to_owned()][..])
        );
        let long = format!(r#"{{"entry": [{}0]}}"#, "0,".repeat(MAX_PARTS));
        let empty = document(r#"{"entry": []}"#);
        assert_eq!(places(&empty, &split, OtherTypes::Ignore), Ok(Vec::new()));
        assert_eq!(places(&empty, &split, OtherTypes::Reject), Err(Rejection::NoEvents));
        for bad in [r#"{"entry": {}}"#, "{}", "[]", &long] {
            for others in [OtherTypes::Reject, OtherTypes::Ignore] {
                assert_eq!(places(&document(bad), &split, others), Err(Rejection::NoEvents), "{bad:.20}");
            }
        }
    }

    #[test]
    fn an_item_without_its_list_goes_by_or_is_rejected_alone() {
        let split: Split = "entry[*].changes[*]".to_owned().try_into().expect("lists");
        let mixed = open(&delivery(r#"{"entry": [{"messaging": [1]}, {"changes": [2]}]}"#), &source("")).expect("JSON");
        let parts = |others| {
            let places = places(&mixed, &split, others).expect("places");
            places.iter().map(|place| part(&mixed, &split, place).map(|event| event.body)).collect::<Vec<_>>()
        };
        let event = Ok(json!({"entry": [{"changes": [2]}]}));
        assert_eq!(parts(OtherTypes::Ignore), std::slice::from_ref(&event));
        assert_eq!(parts(OtherTypes::Reject), [Err(Rejection::NoEvents), event]);
    }

    #[test]
    fn a_batch_is_an_array_of_one_to_a_hundred() {
        let batch = |text: &str| open_batch(&delivery(text), &source("")).map(|items| items.len());
        assert_eq!(batch("[{}, {}]"), Ok(2));
        let long = format!("[{}0]", "0,".repeat(MAX_BATCH));
        for bad in ["[]", "{}", "[", &long] {
            assert_eq!(batch(bad), Err(Rejection::NotABatch));
        }
    }
}
