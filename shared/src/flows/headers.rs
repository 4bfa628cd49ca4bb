//! Header fields in flow files: their names, their templates, and which of them a flow may not set.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::template::{Body, TemplateError, Values};
use crate::base::wrong::{Wrong, step};

/// Header fields: a name and a template each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(transparent)]
pub struct HeaderTemplates(pub(super) BTreeMap<String, Body>);

/// The fields that belong to the connection, to the message's length, or to the trace.
const OURS: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "traceparent",
    "tracestate",
];

impl HeaderTemplates {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Body)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether a field of this name is there, in capitals or not.
    pub fn contains(&self, name: &str) -> bool {
        self.0.keys().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// These fields over others: a field of the same name goes before.
    pub fn over(&self, others: &HeaderTemplates) -> HeaderTemplates {
        let others = others.0.iter().filter(|(name, _)| !self.contains(name));
        HeaderTemplates(others.chain(&self.0).map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The fields with their values, over those of others. What is `none` or `omit` is left out. A value with a control
    /// character is an error: stripped of it, it would be another value.
    pub fn render(&self, others: &HeaderTemplates, values: &Values) -> Result<Vec<(String, String)>, TemplateError> {
        let others = others.0.iter().filter(|(name, _)| !self.contains(name));
        let rendered = others.chain(&self.0).map(|(name, value)| Ok((name.clone(), render(name, value, values)?)));
        let rendered: Vec<(String, Option<String>)> = rendered.collect::<Result<_, TemplateError>>()?;
        Ok(rendered.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    /// The mistakes in the names and shapes of the fields. `taken` are the names that the integration itself sets, each with what sets it.
    pub(super) fn check(&self, taken: &[(&str, &str)]) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (index, (name, value)) in self.0.iter().enumerate() {
            let twice = self.0.keys().take(index).any(|other| other.eq_ignore_ascii_case(name));
            let told = declined(name, taken).or_else(|| twice.then(|| "stands twice, in other capitals".into()));
            let told = told.map(|what| Wrong::at("", format!("the header `{name}` {what}")));
            let shaped = !value.written().is_object() && !value.written().is_array();
            let shaped = (!shaped).then(|| Wrong::at("", format!("the header `{name}` must be one text")));
            let all = told.into_iter().chain(shaped);
            wrong.extend(all.map(|wrong| wrong.under(&step(name))));
        }
        wrong
    }
}

fn render(name: &str, value: &Body, values: &Values) -> Result<Option<String>, TemplateError> {
    let text = match value.render_unless_omitted(values)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(_) => return Err(TemplateError::new(format!("the header `{name}` takes one text"))),
    };
    if text.contains(char::is_control) {
        return Err(TemplateError::new(format!("the header `{name}` has a control character in it")));
    }
    Ok(Some(text))
}

/// The reason why a flow may not set a field of this name, if there is one.
pub(super) fn declined(name: &str, taken: &[(&str, &str)]) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Some("has a name that HTTP does not know: letters, digits and - make one".into());
    }
    if lower == "content-type" {
        return Some("is set by `format`, or by the request's `content_type`".into());
    }
    if OURS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        return Some("belongs to the connection, and no flow sets it".into());
    }
    let taken = taken.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
    taken.map(|(_, by)| format!("is set by the integration's `{by}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(yaml: &str) -> HeaderTemplates {
        serde_saphyr::from_str(yaml).expect("header fields")
    }

    #[test]
    fn what_belongs_to_the_connection_or_the_integration_is_declined() {
        let names =
            OURS.into_iter().chain(["Host", "Content-Type", "Proxy-Authorization", "authorization", "a b", "ä"]);
        for name in names.chain(["", "x\r\ny", "Idempotency-Key"]) {
            let own = HeaderTemplates([(name.to_owned(), Body::of("x".into()))].into());
            let taken = [("Authorization", "auth"), ("idempotency-key", "idempotency_header")];
            assert_eq!(own.check(&taken).len(), 1, "{name}");
        }
        let good = headers("{revision: '2024-10-15', X-Shop: \"{{ vars.shop }}\", X-Count: 3}");
        assert_eq!(good.check(&[("Authorization", "auth")]), []);
    }

    #[test]
    fn a_field_is_one_text_under_one_name() {
        assert_eq!(headers("{X-A: 1, x-a: 2}").check(&[]).len(), 1);
        assert_eq!(headers("{X-A: [1]}").check(&[]).len(), 1);
    }

    #[test]
    fn a_field_goes_before_its_namesake_in_any_capitals() {
        let merged = headers("{REVISION: b}").over(&headers("{revision: a, X-B: c}"));
        assert_eq!(merged, headers("{REVISION: b, X-B: c}"));
    }
}
