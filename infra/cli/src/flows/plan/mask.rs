//! Requests without the event's values: whoever reads a plan need not be allowed to read the event.

use serde_json::Value;

/// Whether a plan shows the values of its event. Whoever has the event may read them; a plan that is handed on has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Its values, too.
    Values,
    /// Only what the flow itself says.
    Masked,
}

impl Shown {
    pub(super) fn body(self, written: &Value, rendered: Value) -> Value {
        if self == Shown::Masked { body(written, rendered) } else { rendered }
    }

    pub(super) fn field(self, written: &Value, rendered: Value) -> String {
        match self {
            Shown::Masked => field(written, rendered),
            // A value that is its own template is shown as it is.
            Shown::Values => field(&rendered.clone(), rendered),
        }
    }

    pub(super) fn path(self, written: &str, rendered: &str) -> String {
        if self == Shown::Masked { path(written, rendered) } else { rendered.to_owned() }
    }
}

/// A body in which only what the flow itself says can be read.
pub(super) fn body(written: &Value, rendered: Value) -> Value {
    match (written, rendered) {
        (Value::String(template), rendered) if is_template(template) => masked(rendered),
        (Value::Object(written), Value::Object(rendered)) => Value::Object(
            rendered
                .into_iter()
                .map(|(name, value)| (name.clone(), body(written.get(&name).unwrap_or(&Value::Null), value)))
                .collect(),
        ),
        // Where an item was left out, nobody can tell which one is whose.
        (Value::Array(written), Value::Array(rendered)) if written.len() == rendered.len() => {
            written.iter().zip(rendered).map(|(written, value)| body(written, value)).collect()
        }
        (Value::Array(_), Value::Array(rendered)) => rendered.into_iter().map(masked).collect(),
        (Value::String(_), rendered) => rendered,
        (written, rendered) if *written == rendered => rendered,
        (_, rendered) => masked(rendered),
    }
}

/// A header field or a value of the query, in which only what the flow itself says can be read.
pub(super) fn field(written: &Value, rendered: Value) -> String {
    match body(written, rendered) {
        Value::String(text) => text,
        Value::Array(items) => items.into_iter().map(|item| field(&item.clone(), item)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A path in which only what the flow itself says can be read. A value never has a `/`, `?` or `&`, so that the
/// steps are the same; where they are not, the template is shown.
pub(super) fn path(written: &str, rendered: &str) -> String {
    let steps = |path: &str| path.split_inclusive(['/', '?', '&', '=']).map(str::to_owned).collect::<Vec<_>>();
    let (templates, values) = (steps(written), steps(rendered));
    if templates.len() != values.len() {
        return written.to_owned();
    }
    let shown = templates.iter().zip(values).map(|(template, value)| match is_template(template) {
        true => {
            let text = value.trim_end_matches(['/', '?', '&', '=']);
            format!("‹text, {}›{}", text.len(), &value[text.len()..])
        }
        false => value,
    });
    shown.collect()
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

/// Whether a text is made of values. A variable of the integration is none: it stands in a file, beside the flow's own
/// texts. (In the place of a secret one, a word is rendered.)
fn is_template(text: &str) -> bool {
    let is_value = |part: &str| part.split_once("}}").is_none_or(|(read, _)| !is_variable(read.trim()));
    text.contains("{%") || text.split("{{").skip(1).any(is_value)
}

fn is_variable(read: &str) -> bool {
    let name = read.strip_prefix("vars.").unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
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
        assert_eq!(path("/a?email={{ event.email }}&b=1", "/a?email=x%40y&b=1"), "/a?email=‹text, 5›&b=1");
        assert_eq!(path("/{% if a %}x/y{% endif %}", "/"), "/{% if a %}x/y{% endif %}");
    }

    #[test]
    fn no_value_is_shown_where_an_item_was_left_out() {
        let written = json!(["{{ event.note | default(omit) }}", "fixed", "{{ event.email }}"]);
        assert_eq!(body(&written, json!(["fixed", "ada@example.com"])), json!(["‹text, 5›", "‹text, 15›"]));
        assert_eq!(body(&json!({"a": 1}), json!({"a": 1, "b": "ada"})), json!({"a": 1, "b": "‹text, 3›"}));
        assert_eq!(field(&json!(["{{ event.a }}", "b"]), json!(["ada", "b"])), "‹text, 3›, b");
        assert_eq!(field(&json!(7), json!(7)), "7");
        assert_eq!(field(&json!("{{ vars.shop }}.example"), json!("ada.example")), "ada.example");
        for value in [
            "{{ vars.a | replace('b', event.c) }}",
            "{{ vars.a }}{{ event.b }}",
            "{% if event.a %}b{% endif %}",
            "{{ vars",
        ] {
            assert_eq!(field(&json!(value), json!("ada")), "‹text, 3›", "{value}");
        }
    }

    #[test]
    fn names_what_was_dropped_at_its_uppermost_place() {
        let (sent, kept) = (json!({"a": 1, "b": {"c": 2, "d": {"e": 3}}}), json!({"a": 1, "b": {"c": 2}}));
        assert_eq!(dropped(&sent, &kept), ["b.d"]);
    }
}
