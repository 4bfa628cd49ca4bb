//! Templates: how a request is made from an event.
//!
//! A body is a JSON tree whose string leaves are templates, so a value keeps its type and can never
//! break out of its place. In a path each value is percent-encoded, and must be plain and there:
//! `/leads/` is another resource than `/leads/7`. An undefined value is an error, never an empty string in
//! a person's email.

mod dates;
mod environment;
mod filters;
mod meant;
mod names;
mod phone;
mod since;
mod used_names;

use minijinja::Environment;
use minijinja::value::{Serde, Value as Jinja};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use environment::NOT_UNRESERVED;
pub(super) use environment::{lenient, lenient_expression};
pub use names::{ROOTS, Read};

use crate::base::wrong::{Wrong, step};

/// The values that a template may read.
///
/// All of them stay the same over retries and replays: a partner that knows our key rejects another body
/// under it.
#[derive(Clone, Serialize)]
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
    /// The variables of the integration that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vars: Option<Value>,
    /// What the effect gives to the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<Value>,
    /// Our idempotency key for the effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

crate::base::masked::prints_only!(Scope<'_> as "Scope", now);

impl<'a> Scope<'a> {
    /// The scope of an event for which nothing is done yet.
    pub fn of(event: &'a Value) -> Self {
        let empty = || Value::Object(serde_json::Map::new());
        let (effects, enrich, flow) = (empty(), empty(), empty());
        Scope { event, effects, enrich, flow, now: String::new(), vars: None, with: None, key: None }
    }
}

impl Scope<'_> {
    /// The scope with these variables too.
    #[must_use]
    pub fn with_vars<'s>(mut self, more: impl IntoIterator<Item = (&'s str, String)>) -> Self {
        let mut vars = self.vars.take().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        for (name, value) in more {
            vars[name] = Value::String(value);
        }
        self.vars = Some(vars);
        self
    }
}

/// The values of a scope in the template engine's own form. The templates of one request share them.
#[derive(Clone)]
pub struct Values(Jinja);

impl From<&Scope<'_>> for Values {
    fn from(scope: &Scope<'_>) -> Self {
        Values(Jinja::from(Serde(scope)))
    }
}

impl Values {
    /// Only the variables of an integration.
    pub(super) fn of_vars(vars: serde_json::Map<String, Value>) -> Self {
        Values(Jinja::from(Serde(serde_json::json!({ "vars": vars }))))
    }
}

/// The reason why a template could not be rendered from an event. It names the place, never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

impl TemplateError {
    /// An error that names a place, and no value.
    pub fn new(what: impl Into<String>) -> Self {
        TemplateError(what.into())
    }
}

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
    /// A tree whose string leaves are templates.
    pub(super) fn of(tree: Value) -> Self {
        Body(tree)
    }

    /// The tree as it is written.
    pub fn written(&self) -> &Value {
        &self.0
    }

    /// The malformed leaves, each with its place: an error while the tree is read could not name it.
    pub fn malformed(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        each_leaf(&self.0, "", &mut |at, leaf| {
            wrong.extend(compile(environment::text(), leaf).err().map(|what| Wrong::at(at, what)));
        });
        wrong
    }

    /// The tree with each leaf rendered.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Value, TemplateError> {
        self.render_from(&Values::from(scope))
    }

    /// The tree with each leaf rendered.
    pub fn render_from(&self, values: &Values) -> Result<Value, TemplateError> {
        self.render_unless_omitted(values)?.ok_or_else(|| TemplateError("nothing is left: all is `omit`".into()))
    }

    /// The tree with each leaf rendered; nothing, where the whole is `omit`.
    pub fn render_unless_omitted(&self, values: &Values) -> Result<Option<Value>, TemplateError> {
        fill(&self.0, &values.0)
    }

    /// Renders the only leaf as a text, also if it is one expression. In markup no value makes a tag.
    pub(super) fn render_text(&self, values: &Values, markup: bool) -> Result<Value, TemplateError> {
        let template = self.0.as_str().ok_or_else(|| TemplateError("a text is one template".into()))?;
        // The engine escapes by the template's name.
        let name = if markup { "text.xml" } else { "text" };
        Ok(Value::String(environment::text().render_named_str(name, template, values.0.clone())?))
    }

    /// Renders a template that stands for a text: a number or a boolean is written out.
    pub fn text(&self, scope: &Scope<'_>) -> Result<String, TemplateError> {
        self.text_from(&Values::from(scope))
    }

    /// Renders a template that stands for a text: a number or a boolean is written out.
    pub fn text_from(&self, values: &Values) -> Result<String, TemplateError> {
        Ok(match self.render_from(values)? {
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
    /// The path of the base URL itself.
    pub(super) fn root() -> Self {
        Path("/".into())
    }

    /// The path as it is written.
    pub fn written(&self) -> &str {
        &self.0
    }

    /// The path with each value rendered and encoded.
    pub fn render(&self, scope: &Scope<'_>) -> Result<String, TemplateError> {
        self.render_from(&Values::from(scope))
    }

    /// The path with each value rendered and encoded.
    pub fn render_from(&self, values: &Values) -> Result<String, TemplateError> {
        let path = render_encoded(&self.0, values)?;
        if climbs(&path) { Err(TemplateError("a value climbs in the path".into())) } else { Ok(path) }
    }
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if !text.starts_with('/') || text.starts_with("//") {
            return Err(format!("the path `{text}` must start with one /: only base_url names a host"));
        }
        if outside_templates(&text).contains('#') {
            return Err(format!("the path `{text}` has a #: what follows is never sent"));
        }
        compile(environment::path(), &text)?;
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
        let value = environment::text_expression(&self.0)?.eval(Jinja::from(Serde(scope)))?;
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
        let compiled = environment::text().compile_expression(&inner).map(drop);
        compiled.map_err(|error| format!("the condition is malformed: {}, in `{inner}`", why(&error, &inner)))?;
        unknown_names(&inner).map_err(|why| format!("the condition is malformed: {why}, in `{inner}`"))?;
        Ok(Condition(inner))
    }
}

/// A text without its expressions: only what the author writes himself.
fn outside_templates(text: &str) -> String {
    text.split("{{").map(|part| part.split_once("}}").map_or(part, |(_, after)| after)).collect()
}

/// A text with each value percent-encoded.
pub(super) fn render_encoded(text: &str, values: &Values) -> Result<String, TemplateError> {
    Ok(environment::path().render_str(text, values.0.clone())?)
}

/// Whether a decoded path has a step `.` or `..` in it. Proxies decode before they resolve, so an encoded
/// `..` climbs as well as a plain one.
pub(super) fn climbs(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded.split(['/', '\\']).any(|segment| segment == "." || segment == "..")
}

fn compile(environment: &Environment<'_>, text: &str) -> Result<(), String> {
    match expression(text) {
        Some(expression) => environment.compile_expression(expression).map(drop).and_then(|()| look_up(expression)),
        None => environment.template_from_str(text).map(drop),
    }
    .and_then(|()| try_out(text))
    .map_err(|error| format!("the template is malformed: {}, in `{text}`", why(&error, text)))
}

/// What the engine says is wrong with a text, and what may have been meant.
fn why(error: &minijinja::Error, text: &str) -> String {
    let told = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match meant::meant(&told, text) {
        Some(hint) => format!("{told} ({hint})"),
        None => told,
    }
}

/// The unknown filter, test or function of a well-formed expression, if it has one.
pub(super) fn unknown_names(expression: &str) -> Result<(), String> {
    look_up(expression)
        .and_then(|()| try_out(&format!("{{{{ {expression} }}}}")))
        .map_err(|error| why(&error, expression))
}

/// Looks up every filter and test of an expression, also where an evaluation would not come to it.
fn look_up(expression: &str) -> Result<(), minijinja::Error> {
    // Alone, a filter lacks its arguments: only its name is looked up.
    let find = |name: used_names::UsedName<'_>| try_rendering(&name.alone(), filters::is_unknown_name);
    used_names::used_names(expression).into_iter().try_for_each(find)
}

/// Renders a template without an event, to find unknown filters and functions, and wrong arguments: they are looked up
/// only then. Any other error says nothing about an event.
fn try_out(text: &str) -> Result<(), minijinja::Error> {
    try_rendering(text, filters::is_mistake)
}

fn try_rendering(text: &str, counts: fn(&minijinja::Error) -> bool) -> Result<(), minijinja::Error> {
    match environment::trial().render_str(text, ()) {
        Err(error) if counts(&error) => Err(error),
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

/// A tree with each leaf rendered. A field or an item that is `omit` is left out; so is the whole.
fn fill(tree: &Value, scope: &Jinja) -> Result<Option<Value>, TemplateError> {
    Ok(Some(match tree {
        Value::String(leaf) => match expression(leaf) {
            Some(expression) => return evaluate(expression, scope),
            None => Value::String(environment::text().render_str(leaf, scope.clone())?),
        },
        Value::Array(items) => {
            let items = items.iter().filter_map(|item| fill(item, scope).transpose());
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let named = |(name, value): (&String, _)| {
                let filled = fill(value, scope).transpose()?;
                Some(filled.map(|value| (name.clone(), value)))
            };
            Value::Object(fields.iter().filter_map(named).collect::<Result<_, TemplateError>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => tree.clone(),
    }))
}

/// Renders a leaf that is one expression. It keeps its value's type.
fn evaluate(expression: &str, scope: &Jinja) -> Result<Option<Value>, TemplateError> {
    let value = environment::text_expression(expression)?.eval(scope.clone())?;
    if value.is_undefined() {
        return Err(TemplateError(format!("`{expression}` is undefined")));
    }
    if environment::is_omit(&value) {
        return Ok(None);
    }
    let value =
        serde_json::to_value(value).map_err(|_| TemplateError(format!("`{expression}` is not a JSON value")))?;
    Ok(Some(value))
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
        Scope { effects, flow: json!({"name": "f"}), now: "2026-11-16T09:00:00Z".into(), ..Scope::of(event) }
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

    #[test]
    fn an_unknown_filter_or_test_of_a_condition_is_refused_also_where_it_is_not_come_to() {
        let read = |text: &str| Condition::try_from(text.to_owned()).map(drop);
        for bad in [
            "event.a | lowwer == 'x'",
            "false and event.a | lowwer",
            "true or event.a is odder",
            "event.a is not odder",
        ] {
            assert!(read(bad).is_err_and(|why| why.contains("unknown")), "{bad}: {:?}", read(bad));
        }
        for good in
            ["event.a is defined and event.b | length > 2", "event.a is not divisibleby(3)", "event.a in [1, 2]"]
        {
            assert_eq!(read(good), Ok(()), "{good}");
        }
        assert!(Body(json!("{{ event.a if false else event.b | lowwer }}")).malformed().len() == 1);
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
