//! Requests in flow files: what an effect or a lookup sends, as templates.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::template::{Body, Path, TemplateError, Values};
use super::{Format, HeaderTemplates, Integration, QueryTemplates};
use crate::base::wrong::Wrong;

/// A request, as templates over the event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The HTTP method.
    #[serde(deserialize_with = "Method::that_changes")]
    #[cfg_attr(feature = "schema", schemars(with = "ChangingMethod"))]
    pub method: Method,
    /// The path below the integration's base URL.
    pub path: Path,
    /// The query: a name and a template each, or a list of them. What is `none` is left out.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "QueryTemplates::is_empty"))]
    pub query: QueryTemplates,
    /// The header fields: a name and a template each. What is `none` is left out.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "HeaderTemplates::is_empty"))]
    pub headers: HeaderTemplates,
    /// The body: a tree whose texts are templates.
    #[serde(default)]
    pub body: Option<Body>,
    /// The form in which the body is sent, if not as the integration says: `json`, `form` or `text`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    pub format: Option<Format>,
    /// The content type of the body, if not that of its format.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    pub content_type: Option<ContentType>,
    /// A GraphQL document and its variables, instead of a body.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    pub graphql: Option<GraphQl>,
}

/// A GraphQL request. The document is sent as it is written: values go into its variables, and cannot leave them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct GraphQl {
    /// The document: a query or a mutation. It is no template.
    pub query: String,
    /// The variables: a tree whose texts are templates.
    #[serde(default = "no_variables")]
    pub variables: Body,
}

fn no_variables() -> Body {
    Body::of(json!({}))
}

impl Request {
    /// The form in which the body is sent. The parser has put the integration's in, where the request says none.
    pub fn format(&self) -> Format {
        if self.graphql.is_some() { Format::Json } else { self.format.unwrap_or_default() }
    }

    /// The rendered body before it is written as its format says; nothing, where the request has none.
    pub fn tree(&self, values: &Values) -> Result<Option<Value>, TemplateError> {
        match (&self.graphql, &self.body) {
            (Some(GraphQl { query, variables }), _) => {
                Ok(Some(json!({"query": query, "variables": variables.render_from(values)?})))
            }
            (None, Some(body)) if self.format() == Format::Text => {
                body.render_text(values, self.content_type.as_ref().is_some_and(ContentType::is_markup)).map(Some)
            }
            (None, Some(body)) => body.render_unless_omitted(values),
            (None, None) => Ok(None),
        }
    }

    /// The body as it is written, with its templates.
    pub fn written_tree(&self) -> Option<Value> {
        match &self.graphql {
            Some(GraphQl { query, variables }) => Some(json!({"query": query, "variables": variables.written()})),
            None => self.body.as_ref().map(|body| body.written().clone()),
        }
    }

    /// The request to this integration, which says what the request itself does not.
    pub(super) fn resolve(&mut self, integration: &Integration) {
        if integration.format != Format::default() {
            self.format.get_or_insert(integration.format);
        }
    }

    /// The mistakes in the request, apart from the names that it reads.
    pub(super) fn check(&self, integration: &Integration) -> Vec<Wrong> {
        let headers = self.headers.check(&integration.taken_headers()).into_iter().map(|wrong| wrong.under("/headers"));
        let query = self.query.check().into_iter().map(|wrong| wrong.under("/query"));
        let auth = integration.auth.check_request(self);
        self.check_body().into_iter().chain(headers).chain(query).chain(auth).collect()
    }

    fn check_body(&self) -> Option<Wrong> {
        let body = self.body.as_ref().map(Body::written);
        let (at, what) = match self {
            Request { graphql: Some(_), body: Some(_), .. } => {
                ("/graphql", "a request has a body or graphql, not both")
            }
            Request { graphql: Some(_), format: Some(format), .. } if *format != Format::Json => {
                ("/format", "graphql is sent as JSON")
            }
            Request { method: Method::Get, .. } if body.is_some() || self.graphql.is_some() => {
                ("/method", "a request with a body is a POST")
            }
            Request { content_type: Some(_), .. } if matches!(self.format(), Format::Form(_)) => {
                ("/content_type", "a form has its own content type")
            }
            Request { content_type: Some(_), .. } if body.is_none() && self.graphql.is_none() => {
                ("/content_type", "a request without a body has no content type")
            }
            _ => match (self.format(), body) {
                (Format::Form(_), Some(body)) if !body.is_object() && !body.is_string() => {
                    ("/body", "a form is a mapping of its fields")
                }
                (Format::Text, Some(body)) if !body.is_string() => ("/body", "a text is one template"),
                _ => return None,
            },
        };
        Some(Wrong::at(at, what))
    }
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "UPPERCASE"))]
pub enum Method {
    /// The method GET. Only a lookup has it: an effect changes something.
    Get,
    /// The method POST.
    Post,
    /// The method PUT.
    Put,
    /// The method PATCH.
    Patch,
    /// The method DELETE.
    Delete,
}

/// The HTTP methods that change something.
#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
enum ChangingMethod {
    /// The method POST.
    Post,
    /// The method PUT.
    Put,
    /// The method PATCH.
    Patch,
    /// The method DELETE.
    Delete,
}

impl Method {
    /// The method's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    fn that_changes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Method, D::Error> {
        Ok(match ChangingMethod::deserialize(deserializer)? {
            ChangingMethod::Post => Method::Post,
            ChangingMethod::Put => Method::Put,
            ChangingMethod::Patch => Method::Patch,
            ChangingMethod::Delete => Method::Delete,
        })
    }
}

/// A content type: `application/vnd.api+json`, `text/csv; charset=utf-8`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "String")]
pub struct ContentType(String);

impl ContentType {
    /// The content type, as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text of this type has tags, which no value may make.
    fn is_markup(&self) -> bool {
        let lower = self.0.to_ascii_lowercase();
        let essence = lower.split(';').next().unwrap_or_default();
        essence.contains("xml") || essence.contains("html")
    }
}

impl TryFrom<String> for ContentType {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let essence = text.split(';').next().unwrap_or_default().trim();
        let token = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
            !part.is_empty() && part.bytes().all(plain)
        };
        let typed = essence.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub));
        let printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if typed && printable { Ok(ContentType(text)) } else { Err(format!("`{text}` is no content type")) }
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(yaml: &str) -> Request {
        serde_saphyr::from_str(yaml).expect("a request")
    }

    fn tree(yaml: &str, event: &Value) -> Value {
        let request = request(yaml);
        assert_eq!(request.check(&Integration::default()), []);
        let values = Values::from(&crate::flows::template::Scope::of(event));
        request.tree(&values).expect("it renders").expect("a body")
    }

    #[test]
    fn a_graphql_document_is_no_template() {
        let yaml = r#"{method: POST, path: /g, graphql: {query: "mutation { a { b }} {{ x", variables: {id: "{{ event.id }}"}}}"#;
        let expected = json!({"query": "mutation { a { b }} {{ x", "variables": {"id": 7}});
        assert_eq!(tree(yaml, &json!({"id": 7})), expected);
    }

    #[test]
    fn a_value_makes_no_tag_in_markup() {
        let body = r#"body: "<a b='{{ event.v }}'>{{ event.v }}</a>""#;
        let event = json!({"v": "'><x>&"});
        let plain = tree(&format!("{{method: POST, path: /a, format: text, {body}}}"), &event);
        assert_eq!(plain, json!("<a b=''><x>&'>'><x>&</a>"));
        for kind in ["application/xml", "text/html; charset=utf-8", "application/soap+xml"] {
            let xml = tree(&format!("{{method: POST, path: /a, format: text, content_type: {kind}, {body}}}"), &event);
            assert_eq!(xml, json!("<a b='&#x27;&gt;&lt;x&gt;&amp;'>&#x27;&gt;&lt;x&gt;&amp;</a>"));
        }
    }

    #[test]
    fn a_text_is_a_text_even_if_it_is_one_expression() {
        assert_eq!(
            tree(r#"{method: POST, path: /a, format: text, body: "{{ event.n }}"}"#, &json!({"n": 7})),
            json!("7")
        );
    }

    #[test]
    fn what_has_no_place_in_a_request_is_told() {
        for bad in [
            "{method: POST, path: /a, body: {}, graphql: {query: a}}",
            "{method: POST, path: /a, format: form, graphql: {query: a}}",
            "{method: POST, path: /a, format: form, body: [1]}",
            "{method: POST, path: /a, format: form, content_type: a/b, body: {}}",
            "{method: POST, path: /a, format: text, body: {a: b}}",
            "{method: POST, path: /a, content_type: a/b}",
            "{method: POST, path: /a, headers: {Host: a}}",
            "{method: POST, path: /a, query: {a: {}}}",
        ] {
            assert_eq!(request(bad).check(&Integration::default()).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_content_type_is_one() {
        for good in ["text/csv", "application/vnd.api+json", "text/plain; charset=utf-8"] {
            assert!(ContentType::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "text", "a/", "text/ä", "text/plain\r\nX: y", "a/b; c=\u{7f}", "{{ event.t }}/b"] {
            assert!(ContentType::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
