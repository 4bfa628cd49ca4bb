//! Whatever an event says, a request has the shape of its template.

use bolero::{TypeGenerator, check};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use shared::flows::template::{Body, Path, Scope};

use super::each;
use super::payload::Odd;
use crate::fixtures::lead;

/// An event with odd values in its places.
#[derive(Clone, Debug, TypeGenerator)]
struct Event {
    id: Odd,
    name: Odd,
    whole: Option<Odd>,
}

impl Event {
    fn payload(&self) -> Value {
        let mut payload = lead();
        payload["data"]["event_id"] = self.id.value();
        payload["data"]["first_name"] = self.name.value();
        self.whole.as_ref().map(Odd::value).unwrap_or(payload)
    }
}

fn body() -> Value {
    json!({
        "id": "{{ event.data.event_id }}",
        "greeting": "Dear {{ event.data.first_name }},",
        "list": ["{{ event.data.first_name | default(none) }}", {"fixed": 7, "text": "{% if event.data %}x{% endif %}"}],
        "nothing": null,
    })
}

const PATHS: [&str; 5] = [
    "/leads/{{ event.data.event_id }}",
    "/leads/{{ event.data.event_id }}/notes/{{ event.data.first_name }}",
    "/find?key={{ event.data.event_id }}&name={{ event.data.first_name | upper }}",
    "/leads/{{ event.data.event_id }}{{ event.data.first_name }}/",
    "/leads/{{ event.data.event_id | safe }}",
];

/// The same fields and as many items everywhere; a plain leaf is as it was, and a text stays one.
fn assert_shape(template: &Value, rendered: &Value) {
    match (template, rendered) {
        (Value::Object(fields), Value::Object(filled)) => {
            assert!(fields.keys().eq(filled.keys()), "{rendered}");
            fields.iter().for_each(|(name, field)| assert_shape(field, &filled[name]));
        }
        (Value::Array(items), Value::Array(filled)) => {
            assert_eq!(items.len(), filled.len(), "{rendered}");
            items.iter().zip(filled).for_each(|(item, filled)| assert_shape(item, filled));
        }
        // One expression and nothing else: it keeps its value's type.
        (Value::String(leaf), _) if leaf.starts_with("{{") => (),
        (Value::String(_), _) => assert!(rendered.is_string(), "{rendered}"),
        (plain, _) => assert_eq!(plain, rendered),
    }
}

/// Every character that means something in a URL is the template's own, and no value is a step.
fn assert_structure(template: &str, rendered: &str) {
    let marks = |text: &str| -> String { text.chars().filter(|c| "/?&=#@:;\\[]'\" \r\n".contains(*c)).collect() };
    let (mut own, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once("{{") {
        own.push_str(before);
        rest = after.split_once("}}").expect("a whole expression").1;
    }
    own.push_str(rest);
    assert_eq!(marks(&own), marks(rendered), "{template} became {rendered}");
    assert!(rendered.is_ascii() && !rendered.contains(char::is_control), "{rendered:?}");

    let path = rendered.split('?').next().unwrap_or_default();
    let empty = |text: &str| text.split('/').filter(|segment| segment.is_empty()).count();
    assert_eq!(empty(path), if path.ends_with('/') && template.ends_with('/') { 2 } else { 1 }, "{rendered}");
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let step = |segment: &str| segment == "." || segment == "..";
    assert!(!decoded.split(['/', '\\']).any(step), "{template} became {rendered}, which climbs");
}

#[test]
fn target() {
    let tree = body();
    let body: Body = serde_json::from_value(tree.clone()).expect("a body");
    assert_eq!(body.malformed(), [], "a well-formed body");
    let paths = PATHS.map(|path| Path::try_from(path.to_owned()).expect("a well-formed path"));
    each(check!(), |event: &Event| {
        let payload = event.payload();
        let (effects, enrich, flow) = (json!({}), json!({}), json!({}));
        let scope = Scope { effects, enrich, flow, ..Scope::of(&payload) };
        if let Ok(rendered) = body.render(&scope) {
            assert_shape(&tree, &rendered);
            assert_eq!(rendered["id"], payload["data"]["event_id"], "a value changed on its way");
        }
        for (template, path) in PATHS.iter().zip(&paths) {
            if let Ok(rendered) = path.render(&scope) {
                assert_structure(template, &rendered);
            }
        }
    });
}
