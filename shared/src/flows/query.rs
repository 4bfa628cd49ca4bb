//! Queries in flow files: the names and values behind the `?` of a URL.

use std::collections::BTreeMap;

use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use serde_json::Value;

use super::template::{Body, NOT_UNRESERVED, TemplateError, Values};
use crate::base::wrong::{Wrong, step};

/// A query: a name and a template each, or a list of them, which repeats the name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(transparent)]
pub struct QueryTemplates(pub(super) BTreeMap<String, Body>);

impl QueryTemplates {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a value of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Body)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// These values over others: one of the same name goes before.
    pub fn over(&self, others: &QueryTemplates) -> QueryTemplates {
        let mut all = others.0.clone();
        all.extend(self.0.clone());
        QueryTemplates(all)
    }

    /// The query, encoded, over that of others: `a=1&b=x%20y`. What is `none` or `omit` is left out.
    pub fn render(&self, others: &QueryTemplates, values: &Values) -> Result<String, TemplateError> {
        let others = others.0.iter().filter(|(name, _)| !self.0.contains_key(*name));
        let mut query = String::new();
        for (name, value) in others.chain(&self.0) {
            match value.render_unless_omitted(values)? {
                Some(Value::Array(items)) => items.iter().try_for_each(|item| append(&mut query, name, item))?,
                Some(value) => append(&mut query, name, &value)?,
                None => (),
            }
        }
        Ok(query)
    }

    /// The mistakes in the names and shapes of the query.
    pub(super) fn check(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (name, value) in &self.0 {
            let nameless = name.is_empty().then(|| Wrong::at("", "a value of the query has no name"));
            let nested = is_nested(value.written());
            let nested =
                nested.then(|| Wrong::at("", format!("`{name}` of the query must be a value, or a list of values")));
            let all = nameless.into_iter().chain(nested);
            wrong.extend(all.map(|wrong| wrong.under(&step(name))));
        }
        wrong
    }
}

fn append(query: &mut String, name: &str, value: &Value) -> Result<(), TemplateError> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => {
            return Err(TemplateError::new(format!("`{name}` of the query takes a value, or a list of values")));
        }
    };
    let separator = if query.is_empty() { "" } else { "&" };
    let (name, text) = (utf8_percent_encode(name, NOT_UNRESERVED), utf8_percent_encode(&text, NOT_UNRESERVED));
    *query += &format!("{separator}{name}={text}");
    Ok(())
}

fn is_nested(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| item.is_array() || item.is_object()),
        value => value.is_object(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(yaml: &str) -> QueryTemplates {
        serde_saphyr::from_str(yaml).expect("a query")
    }

    #[test]
    fn a_query_has_values_and_lists_of_values() {
        assert_eq!(query("{a: 1, b: [x, \"{{ event.y }}\"], c: \"{{ vars.z }}\"}").check(), []);
        for bad in ["{a: {b: 1}}", "{a: [[1]]}", "{'': 1}"] {
            assert_eq!(query(bad).check().len(), 1, "{bad}");
        }
    }

    #[test]
    fn an_own_value_goes_before_its_namesake() {
        assert_eq!(query("{a: 1}").over(&query("{a: 2, b: 3}")), query("{a: 1, b: 3}"));
    }
}
