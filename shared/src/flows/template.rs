//! Templates: how a request is made from an event.
//!
//! A body is a JSON tree whose string leaves are templates, so a value keeps its type and can never
//! break out of its place. In a path each value is percent-encoded, and must be plain and there:
//! `/leads/` is another resource than `/leads/7`. An undefined value is an error, never an empty string in
//! a person's email.

mod names;

use minijinja::value::{Serde, Value as Jinja, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use names::{ROOTS, Read};

use crate::base::wrong::{Wrong, step};

/// The values that a template may read.
///
/// All of them stay the same over retries and replays: a partner that knows our key rejects another body
/// under it.
#[derive(Clone, Debug, Serialize)]
pub struct Scope<'a> {
    /// The event's payload.
    pub event: &'a Value,
    /// The results of the effects that are done, by their ids.
    pub effects: Value,
    /// The results of the enrichments, by their ids.
    pub enrich: Value,
    /// The flow's name, and the version of the schema that the event matched.
    pub flow: Value,
    /// The moment of the effect's first intent, as RFC 3339; before that, the moment when the event was received.
    pub now: String,
}

/// The reason why a template could not be rendered from an event. It names the place, never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        TemplateError(error.kind().to_string())
    }
}

/// A JSON tree whose string leaves are templates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(transparent)]
pub struct Body(Value);

impl Body {
    /// The tree as it is written.
    pub fn written(&self) -> &Value {
        &self.0
    }

    /// The malformed leaves, each with its place: an error while the tree is read could not name it.
    pub fn malformed(&self) -> Vec<Wrong> {
        let environment = text_environment();
        let mut wrong = Vec::new();
        each_leaf(&self.0, "", &mut |at, leaf| {
            wrong.extend(compile(&environment, leaf).err().map(|what| Wrong::at(at, what)));
        });
        wrong
    }

    /// The tree with each leaf rendered.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Value, TemplateError> {
        let scope = Jinja::from(Serde(scope));
        fill(&text_environment(), &self.0, &scope)
    }

    /// Renders a template that stands for a text: a number or a boolean is written out.
    pub fn text(&self, scope: &Scope<'_>) -> Result<String, TemplateError> {
        Ok(match self.render(scope)? {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }
}

/// A URL path whose values are percent-encoded.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "String")]
pub struct Path(String);

impl Path {
    /// The path as it is written.
    pub fn written(&self) -> &str {
        &self.0
    }

    /// The path with each value rendered and encoded.
    pub fn render(&self, scope: &Scope<'_>) -> Result<String, TemplateError> {
        let path = path_environment().render_str(&self.0, Jinja::from(Serde(scope)))?;
        if climbs(&path) { Err(TemplateError("a value climbs in the path".into())) } else { Ok(path) }
    }
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if !text.starts_with('/') || text.starts_with("//") {
            return Err(format!("the path `{text}` must start with one /: only base_url names a host"));
        }
        compile(&path_environment(), &text)?;
        Ok(Path(text))
    }
}

/// A condition: an expression that is true or false of an event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "String")]
pub struct Condition(String);

impl Condition {
    /// The expression, as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the expression is true. An undefined value is an error: a typo must not decide.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, TemplateError> {
        let environment = text_environment();
        let value = environment.compile_expression(&self.0)?.eval(Jinja::from(Serde(scope)))?;
        if value.is_undefined() {
            return Err(TemplateError(format!("`{}` is undefined", self.0)));
        }
        Ok(value.is_true())
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    /// Takes an expression with or without the braces of a template.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let inner = expression(&text).unwrap_or(&text).to_owned();
        let compiled = text_environment().compile_expression(&inner).map(drop);
        compiled.map_err(|error| format!("the condition is malformed: {}, in `{inner}`", why(&error)))?;
        Ok(Condition(inner))
    }
}

fn text_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

/// Every character but those that RFC 3986 calls unreserved: an encoded `_` names the same resource, and not every
/// partner knows that.
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The environment for paths. Every character of a value that could mean something in a URL is encoded. A list or an
/// object has no place there, an empty value would name another resource, and a boolean is spelled as in JSON.
fn path_environment() -> Environment<'static> {
    let mut environment = text_environment();
    environment.set_formatter(|out, _, value| {
        let text = match value.kind() {
            ValueKind::String => value.to_string(),
            ValueKind::Bool | ValueKind::Number => serde_json::to_string(value).unwrap_or_default(),
            _ => String::new(),
        };
        if text.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOperation, "a path takes plain values that are there"));
        }
        Ok(write!(out, "{}", utf8_percent_encode(&text, NOT_UNRESERVED))?)
    });
    environment
}

/// Whether a decoded path has a step `.` or `..` in it. Proxies decode before they resolve, so an encoded
/// `..` climbs as well as a plain one.
fn climbs(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded.split(['/', '\\']).any(|segment| segment == "." || segment == "..")
}

fn compile(environment: &Environment<'_>, text: &str) -> Result<(), String> {
    match expression(text) {
        Some(expression) => environment.compile_expression(expression).map(drop),
        None => environment.template_from_str(text).map(drop),
    }
    .and_then(|()| try_out(text))
    .map_err(|error| format!("the template is malformed: {}, in `{text}`", why(&error)))
}

fn why(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

/// The unknown filter, test or function of an expression, if it has one.
pub(super) fn unknown_names(expression: &str) -> Result<(), String> {
    try_out(&format!("{{{{ {expression} }}}}")).map_err(|error| why(&error))
}

/// Renders a template without an event, to find unknown filters and functions: they are looked up only then. Any
/// other error says nothing about an event.
fn try_out(text: &str) -> Result<(), minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    let unknown = [ErrorKind::UnknownFilter, ErrorKind::UnknownTest, ErrorKind::UnknownFunction];
    match environment.render_str(text, ()) {
        Err(error) if unknown.contains(&error.kind()) => Err(error),
        _ => Ok(()),
    }
}

fn each_leaf(tree: &Value, at: &str, visit: &mut impl FnMut(&str, &str)) {
    match tree {
        Value::String(leaf) => visit(at, leaf),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| each_leaf(item, &format!("{at}/{index}"), visit));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| each_leaf(value, &format!("{at}{}", step(name)), visit));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn fill(environment: &Environment<'_>, tree: &Value, scope: &Jinja) -> Result<Value, TemplateError> {
    Ok(match tree {
        Value::String(leaf) => match expression(leaf) {
            Some(expression) => evaluate(environment, expression, scope)?,
            None => Value::String(environment.render_str(leaf, scope.clone())?),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| fill(environment, item, scope)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, value)| Ok((name.clone(), fill(environment, value, scope)?)))
                .collect::<Result<_, TemplateError>>()?,
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => tree.clone(),
    })
}

/// Renders a leaf that is one expression. It keeps its value's type.
fn evaluate(environment: &Environment<'_>, expression: &str, scope: &Jinja) -> Result<Value, TemplateError> {
    let value = environment.compile_expression(expression)?.eval(scope.clone())?;
    if value.is_undefined() {
        return Err(TemplateError(format!("`{expression}` is undefined")));
    }
    serde_json::to_value(value).map_err(|_| TemplateError(format!("`{expression}` is not a JSON value")))
}

/// The expression of a text that is nothing but `{{ expression }}`.
pub(super) fn expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn scope(event: &Value, effects: Value) -> Scope<'_> {
        Scope { event, effects, enrich: json!({}), flow: json!({"name": "f"}), now: "2026-11-16T09:00:00Z".into() }
    }

    fn body(tree: Value, event: &Value) -> Result<Value, TemplateError> {
        let body = Body(tree);
        assert_eq!(body.malformed(), []);
        body.render(&scope(event, json!({"crm": {"id": 7}})))
    }

    fn path(template: &str, event: &Value) -> Result<String, TemplateError> {
        let path = Path::try_from(template.to_owned()).expect("a well-formed template");
        path.render(&scope(event, json!({})))
    }

    #[test]
    fn a_value_keeps_its_type() {
        let event = json!({"n": 3, "list": [1, 2], "name": "Ada"});
        let tree = json!({"n": "{{ event.n }}", "list": "{{ event.list }}", "hi": "Hi {{ event.name }}", "fixed": 1});
        let expected = json!({"n": 3, "list": [1, 2], "hi": "Hi Ada", "fixed": 1});
        assert_eq!(body(tree, &event), Ok(expected));
    }

    #[test]
    fn a_later_effect_sees_an_earlier_result() {
        assert_eq!(body(json!("{{ effects.crm.id }}"), &json!({})), Ok(json!(7)));
    }

    #[test]
    fn undefined_is_an_error_unless_the_flow_says_what_instead() {
        let event = json!({"data": {}});
        assert!(body(json!("{{ event.data.name }}"), &event).is_err());
        assert!(body(json!("Hi {{ event.data.name }}"), &event).is_err());
        assert!(path("/{{ event.data.name }}", &event).is_err());
        assert_eq!(body(json!("{{ event.data.name | default(none) }}"), &event), Ok(Value::Null));
    }

    #[test]
    fn a_path_takes_plain_values_that_are_there() {
        let rendered = |value: Value| path("/leads/{{ event.v }}", &json!({"v": value})).ok();
        for (value, expected) in [
            (json!("a/b?c"), "/leads/a%2Fb%3Fc"),
            (json!(7), "/leads/7"),
            (json!(-1.5), "/leads/-1.5"),
            (json!("evt_1~a b"), "/leads/evt_1~a%20b"),
            (json!(true), "/leads/true"),
        ] {
            assert_eq!(rendered(value).as_deref(), Some(expected));
        }
        for bad in [json!(""), json!(null), json!(["/../x?y"]), json!({"a": "#"})] {
            assert_eq!(rendered(bad.clone()), None, "{bad}");
        }
    }

    /// nginx and others decode a path before they resolve its steps.
    #[test]
    fn no_value_climbs_even_encoded() {
        for bad in [".", "..", "../admin", "a/../b", "..\\admin", "a/."] {
            assert!(path("/leads/{{ event.v }}", &json!({"v": bad})).is_err(), "{bad}");
        }
        let halves = path("/leads/{{ event.v }}{{ event.v }}/notes", &json!({"v": "."}));
        assert!(halves.is_err(), "nor do two halves");
        assert!(path("/leads/v{{ event.v }}?of={{ event.v }}", &json!({"v": ".."})).is_ok(), "dots are no step there");
    }

    #[test]
    fn an_error_names_no_value() {
        let error = body(json!("{{ event.email + 1 }}"), &json!({"email": "ada@example.com"})).expect_err("no sum");
        assert!(!error.to_string().contains("ada"), "{error}");
    }

    #[test]
    fn a_malformed_template_is_refused_when_it_is_read() {
        let malformed = Body(json!({"deep": ["{{ event.id }}", "{{ event."]})).malformed();
        assert_eq!(malformed.iter().map(|wrong| wrong.at.as_str()).collect::<Vec<_>>(), ["/deep/1"]);
        assert!(Path::try_from("leads".to_owned()).is_err());
        assert!(Path::try_from("/{{ }}".to_owned()).is_err());
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_place_in_a_body(value in any::<String>()) {
            let rendered = body(json!({"a": "{{ event.v }}", "b": "x{{ event.v }}y"}), &json!({"v": value})).expect("it renders");
            prop_assert_eq!(rendered, json!({"a": value.clone(), "b": format!("x{value}y")}));
        }

        #[test]
        fn no_value_leaves_its_segment_in_a_path(value in any::<String>()) {
            let Ok(rendered) = path("/leads/{{ event.v }}/notes", &json!({"v": value})) else { return Ok(()) };
            let segments: Vec<&str> = rendered.split('/').collect();
            prop_assert_eq!(segments.len(), 4);
            prop_assert!(segments[2].bytes().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(&b)));
            prop_assert!(!climbs(&rendered));
        }
    }
}
