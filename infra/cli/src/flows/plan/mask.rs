//! Requests without the event's values: whoever reads a plan need not be allowed to read the event.

use serde_json::Value;

/// A body in which only what the flow itself says can be read.
pub(super) fn body(written: &Value, rendered: Value) -> Value {
    match (written, rendered) {
        (Value::String(template), rendered) if is_template(template) => masked(rendered),
        (Value::Object(written), Value::Object(rendered)) => Value::Object(
            rendered.into_iter().map(|(name, value)| (name.clone(), body(&written[&name], value))).collect(),
        ),
        (Value::Array(written), Value::Array(rendered)) => {
            written.iter().zip(rendered).map(|(written, value)| body(written, value)).collect()
        }
        (_, rendered) => rendered,
    }
}

/// A path in which only what the flow itself says can be read. A value never has a `/`, so that the
/// steps are the same; where they are not, the template is shown.
pub(super) fn path(written: &str, rendered: &str) -> String {
    let (templates, values): (Vec<&str>, Vec<&str>) = (written.split('/').collect(), rendered.split('/').collect());
    if templates.len() != values.len() {
        return written.to_owned();
    }
    let shown = templates.iter().zip(values).map(|(template, value)| match is_template(template) {
        true => format!("‹text, {}›", value.len()),
        false => value.to_owned(),
    });
    shown.collect::<Vec<_>>().join("/")
}

/// The fields of a body that the payload does not have.
pub(super) fn dropped(body: &Value, payload: &Value) -> Vec<String> {
    let mut places = Vec::new();
    missing(body, payload, "", &mut places);
    places
}

fn missing(body: &Value, payload: &Value, at: &str, places: &mut Vec<String>) {
    let Value::Object(fields) = body else { return };
    for (name, value) in fields {
        let place = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match payload.get(name) {
            Some(kept) => missing(value, kept, &place, places),
            None => places.push(place),
        }
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn masked(value: Value) -> Value {
    let shape = match &value {
        Value::Null => return value,
        Value::Bool(_) => "‹true or false›".into(),
        Value::Number(_) => "‹number›".into(),
        // What stands for an earlier effect's answer is ours.
        Value::String(text) if text.starts_with('‹') => text.clone(),
        Value::String(text) => format!("‹text, {}›", text.chars().count()),
        Value::Array(items) => format!("‹list of {}›", items.len()),
        Value::Object(fields) => format!("‹mapping of {}›", fields.len()),
    };
    Value::String(shape)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_is_shown_and_every_constant_is() {
        let written =
            json!({"to": "{{ event.email }}", "kind": "lead", "tags": ["vip", "{{ event.n }}"], "none": "{{ x }}"});
        let rendered = json!({"to": "ada@example.com", "kind": "lead", "tags": ["vip", 7], "none": null});
        let shown = json!({"to": "‹text, 15›", "kind": "lead", "tags": ["vip", "‹number›"], "none": null});
        assert_eq!(body(&written, rendered), shown);
        assert_eq!(path("/leads/{{ event.id }}/notes", "/leads/evt%5F1/notes"), "/leads/‹text, 7›/notes");
        assert_eq!(path("/{% if a %}x/y{% endif %}", "/"), "/{% if a %}x/y{% endif %}");
    }

    #[test]
    fn names_what_was_dropped_at_its_uppermost_place() {
        let (sent, kept) = (json!({"a": 1, "b": {"c": 2, "d": {"e": 3}}}), json!({"a": 1, "b": {"c": 2}}));
        assert_eq!(dropped(&sent, &kept), ["b.d"]);
    }
}
