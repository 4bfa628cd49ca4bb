//! Bodies of requests as they are sent: JSON, a form, a text.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use crate::flows::template::{NOT_UNRESERVED, TemplateError, Values};
use crate::flows::{FormLists, Format, Request};

/// The body of a request, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestBody {
    /// The content type.
    pub content_type: Cow<'static, str>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl RequestBody {
    /// A body of JSON.
    pub fn of_json(value: &Value) -> Self {
        RequestBody { content_type: "application/json".into(), bytes: value.to_string().into_bytes() }
    }

    /// The body of a request, made from its rendered tree.
    pub(crate) fn of(request: &Request, tree: &Value) -> Result<Self, TemplateError> {
        let own = || request.content_type.as_ref().map(|own| Cow::Owned(own.to_string()));
        Ok(match request.format() {
            Format::Json => {
                let body = RequestBody::of_json(tree);
                RequestBody { content_type: own().unwrap_or(body.content_type), ..body }
            }
            Format::Form(lists) => {
                let authored = request.body.as_ref().is_some_and(|body| body.written().is_object());
                let bytes = form(tree, lists, authored)?.into_bytes();
                RequestBody { content_type: "application/x-www-form-urlencoded".into(), bytes }
            }
            Format::Text => {
                let text = tree.as_str().unwrap_or_default().to_owned();
                let content_type = own().unwrap_or("text/plain; charset=utf-8".into());
                RequestBody { content_type, bytes: text.into_bytes() }
            }
        })
    }

    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.bytes).ok()
    }

    /// The body as a text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// Says nothing of what is in it: a body holds an event's values.
impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.content_type, self.bytes.len())
    }
}

/// A tree as a form: `a[b]=c` for objects, `a[0]=x` or `a=x` for lists. What is null is left out. `authored` says that
/// the uppermost names stand in the flow's file, where `expand[]` may be one.
fn form(tree: &Value, lists: FormLists, authored: bool) -> Result<String, TemplateError> {
    let Value::Object(fields) = tree else {
        return Err(TemplateError::new("a form is a mapping of its fields"));
    };
    let mut form = Form { pairs: String::new(), lists };
    for (name, value) in fields {
        if !authored {
            check_name(name)?;
        }
        form.field(name, value)?;
    }
    Ok(form.pairs)
}

/// A name from a value must not look like a place in the form.
fn check_name(name: &str) -> Result<(), TemplateError> {
    match name.contains(['[', ']']) {
        true => Err(TemplateError::new("a value's field has a bracket in its name, which no form takes")),
        false => Ok(()),
    }
}

struct Form {
    pairs: String,
    lists: FormLists,
}

impl Form {
    fn field(&mut self, name: &str, value: &Value) -> Result<(), TemplateError> {
        match value {
            Value::Null => (),
            Value::String(text) => self.pair(name, text),
            Value::Bool(_) | Value::Number(_) => self.pair(name, &value.to_string()),
            Value::Object(fields) => fields.iter().try_for_each(|(inner, value)| {
                check_name(inner)?;
                self.field(&format!("{name}[{inner}]"), value)
            })?,
            Value::Array(items) => {
                let there = items.iter().filter(|item| !item.is_null());
                there.enumerate().try_for_each(|(index, item)| self.item(name, index, item))?;
            }
        }
        Ok(())
    }

    fn item(&mut self, name: &str, index: usize, item: &Value) -> Result<(), TemplateError> {
        match self.lists {
            FormLists::Indexed => self.field(&format!("{name}[{index}]"), item),
            // Two items under one name could not be told apart.
            FormLists::Repeated if item.is_object() || item.is_array() => {
                Err(TemplateError::new("a form that repeats names takes lists of plain values only"))
            }
            FormLists::Repeated => self.field(name, item),
        }
    }

    fn pair(&mut self, name: &str, value: &str) {
        let separator = if self.pairs.is_empty() { "" } else { "&" };
        let (name, value) = (utf8_percent_encode(name, NOT_UNRESERVED), utf8_percent_encode(value, NOT_UNRESERVED));
        self.pairs += &format!("{separator}{name}={value}");
    }
}

/// The rendered body of a request; nothing, where it has none.
pub(crate) fn render(request: &Request, values: &Values) -> Result<Option<RequestBody>, TemplateError> {
    request.tree(values)?.map(|tree| RequestBody::of(request, &tree)).transpose()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(tree: Value, lists: FormLists) -> Option<String> {
        form(&tree, lists, true).ok()
    }

    #[test]
    fn a_form_is_nested_as_stripe_wants_it() {
        let tree = json!({
            "amount": 100, "capture": true, "note": "a b&c=d", "none": null, "empty": [], "expand[]": "x",
            "items": [{"price": "p1", "n": 2}, null, {"price": "p2"}], "metadata": {"order": "7", "deep": {"a": 1.5}}
        });
        let expected = "amount=100&capture=true&expand%5B%5D=x&items%5B0%5D%5Bn%5D=2&items%5B0%5D%5Bprice%5D=p1\
            &items%5B1%5D%5Bprice%5D=p2&metadata%5Bdeep%5D%5Ba%5D=1.5&metadata%5Border%5D=7&note=a%20b%26c%3Dd";
        assert_eq!(written(tree, FormLists::Indexed).as_deref(), Some(expected));
    }

    #[test]
    fn a_form_repeats_names_as_twilio_wants_it() {
        let tree = json!({"MediaUrl": ["https://a/1", "https://a/2"], "To": "+15550100"});
        let expected = "MediaUrl=https%3A%2F%2Fa%2F1&MediaUrl=https%3A%2F%2Fa%2F2&To=%2B15550100";
        assert_eq!(written(tree, FormLists::Repeated).as_deref(), Some(expected));
        assert_eq!(written(json!({"a": [{"b": 1}]}), FormLists::Repeated), None);
    }

    #[test]
    fn what_is_no_form_is_an_error() {
        for bad in [json!("text"), json!([1]), json!({"a": {"b]": 1}}), json!({"a": {"[": 1}})] {
            assert_eq!(written(bad.clone(), FormLists::Indexed), None, "{bad}");
        }
        assert!(form(&json!({"a[b]": 1}), FormLists::Indexed, false).is_err(), "a value's own name has no bracket");
    }

    #[test]
    fn a_body_shows_nothing_of_itself() {
        let body = RequestBody::of_json(&json!({"email": "ada@example.com"}));
        assert_eq!(format!("{body:?}"), "application/json (27 bytes)");
    }

    fn pairs(form: &str) -> Vec<(String, String)> {
        form_urlencoded::parse(form.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_field_in_a_form(one: String, two: String, name in "[^\\[\\]]{1,8}") {
            let tree = json!({"a": one, "b": {name.clone(): two}, "c": [one, two]});
            let indexed = written(tree, FormLists::Indexed).expect("a form");
            let expected = [("a".to_owned(), one.clone()), (format!("b[{name}]"), two.clone()), ("c[0]".into(), one), ("c[1]".into(), two)];
            prop_assert_eq!(pairs(&indexed), expected);
        }
    }
}
