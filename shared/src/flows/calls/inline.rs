//! What an effect gives to a named call, put into the places of its request.
//!
//! A leaf that is nothing but `{{ with.name }}` becomes what the effect gives under that name, so that the request is an
//! ordinary one: plans, masks and differences show it as if the flow had written it. Other templates read `with` when
//! they are rendered.

use serde_json::{Map, Value};

use super::{CatalogCall, Takes};
use crate::flows::template::{Body, Read, expression};
use crate::flows::{Format, HeaderTemplates, Integration, Lookup, QueryTemplates, Request};

/// A request and a lookup with the effect's values in their places.
pub(in crate::flows) struct Inlined {
    pub(in crate::flows) request: Request,
    pub(in crate::flows) lookup: Option<Lookup>,
    /// Whether a template still reads `with` when it is rendered.
    pub(in crate::flows) reads_with: bool,
}

impl CatalogCall {
    /// The call with what an effect gives it.
    pub(in crate::flows) fn inline(&self, with: Option<&Body>, integration: &Integration) -> Inlined {
        let nothing = Value::Object(Map::new());
        let given = Given { with: with.map_or(&nothing, Body::written), call: self };
        let request = given.request(&self.request, integration);
        let lookup = self.lookup.as_ref().map(|lookup| {
            let request = given.request(&lookup.request, integration);
            Lookup { request, ..lookup.clone() }
        });
        let reads_with = request.reads_with() || lookup.as_ref().is_some_and(|lookup| lookup.request.reads_with());
        Inlined { request, lookup, reads_with }
    }
}

impl Request {
    /// Whether a template of the request reads `with`.
    pub(in crate::flows) fn reads_with(&self) -> bool {
        let variables = self.graphql.iter().map(|graphql| &graphql.variables);
        let fields = self.query.iter().chain(self.headers.iter()).map(|(_, value)| value);
        let bodies = self.body.iter().chain(variables).chain(fields).flat_map(Read::of_body);
        bodies.chain(Read::of_path(&self.path)).any(|read| read.name == "with" || read.name.starts_with("with."))
    }
}

struct Given<'g> {
    with: &'g Value,
    call: &'g CatalogCall,
}

impl Given<'_> {
    fn request(&self, request: &Request, integration: &Integration) -> Request {
        let mut request = request.clone();
        request.resolve(integration);
        // A text is one template, whatever stands in it.
        if request.format() != Format::Text {
            request.body = request.body.as_ref().and_then(|body| self.body(body));
        }
        if let Some(graphql) = &mut request.graphql {
            graphql.variables = self.body(&graphql.variables).unwrap_or_else(|| Body::of(Value::Object(Map::new())));
        }
        let query = request.query.0.iter().filter_map(|(name, value)| Some((name.clone(), self.body(value)?)));
        request.query = QueryTemplates(query.collect());
        let headers = request.headers.0.iter().filter_map(|(name, value)| Some((name.clone(), self.body(value)?)));
        request.headers = HeaderTemplates(headers.collect());
        request
    }

    fn body(&self, body: &Body) -> Option<Body> {
        self.tree(body.written()).map(Body::of)
    }

    /// A tree with the given values in their places; nothing, where it stands for something optional that is not given.
    fn tree(&self, tree: &Value) -> Option<Value> {
        Some(match tree {
            Value::String(leaf) => return self.leaf(leaf),
            Value::Array(items) => Value::Array(items.iter().filter_map(|item| self.tree(item)).collect()),
            Value::Object(fields) => {
                let fields = fields.iter().filter_map(|(name, value)| Some((name.clone(), self.tree(value)?)));
                Value::Object(fields.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => tree.clone(),
        })
    }

    fn leaf(&self, leaf: &str) -> Option<Value> {
        let as_it_is = Some(Value::String(leaf.to_owned()));
        let mut names = expression(leaf).unwrap_or_default().split('.');
        if names.next() != Some("with") {
            return as_it_is;
        }
        let names: Vec<&str> = names.collect();
        if let Some(first) = names.first()
            && self.call.takes.get(*first) == Some(&Takes::Optional)
            && self.with.get(first).is_none()
        {
            return None;
        }
        let given = names.iter().try_fold(self.with, |value, name| value.get(name));
        given.cloned().or(as_it_is)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CALL: &str = r#"
request:
  method: POST
  path: /lists/{{ with.list }}
  query: {q: "{{ with.q }}", fixed: 1}
  headers: {X-Q: "{{ with.q }}"}
  body:
    all: "{{ with }}"
    inner: ["{{ with.person.name }}", "{{ with.note }}", "x {{ with.list }}"]
    dynamic: "{{ with.extra.deep }}"
    plain: "{{ vars.a }}"
takes: {list: required, person: required, extra: required, q: optional, note: optional}
lookup: {after: 5s, request: {path: /find, query: {name: "{{ with.person.name }}"}}, found: /id}
"#;

    fn inlined(call: &str, with: Value) -> Inlined {
        let call: CatalogCall = serde_saphyr::from_str(call).expect("a call");
        call.inline(Some(&Body::of(with)), &Integration::default())
    }

    #[test]
    fn what_is_given_stands_in_its_places_and_what_is_not_is_left_out() {
        let with =
            json!({"list": "L1", "person": {"name": "{{ event.name }}"}, "extra": "{{ event.extra }}", "note": null});
        let Inlined { request, lookup, reads_with } = inlined(CALL, with.clone());
        let body = json!({
            "all": with, "inner": ["{{ event.name }}", null, "x {{ with.list }}"],
            "dynamic": "{{ with.extra.deep }}", "plain": "{{ vars.a }}",
        });
        assert_eq!(request.body.expect("a body").written(), &body);
        assert_eq!(request.query, serde_saphyr::from_str("{fixed: 1}").expect("a query"));
        assert!(request.headers.is_empty());
        assert!(reads_with, "a path reads it when it is rendered");
        let query = serde_saphyr::from_str("{name: \"{{ event.name }}\"}").expect("a query");
        assert_eq!(lookup.expect("a lookup").request.query, query);
    }

    #[test]
    fn a_call_whose_values_all_have_their_places_needs_nothing_more() {
        let call = "{request: {method: POST, path: /a, body: \"{{ with }}\"}, takes: {a: required}}";
        let Inlined { request, reads_with, .. } = inlined(call, json!({"a": "{{ event.a }}"}));
        assert_eq!(request.body.expect("a body").written(), &json!({"a": "{{ event.a }}"}));
        assert!(!reads_with);
    }

    #[test]
    fn a_text_is_rendered_from_what_is_given() {
        let call =
            "{request: {method: POST, path: /a, format: text, body: \"{{ with.text }}\"}, takes: {text: required}}";
        let Inlined { request, reads_with, .. } = inlined(call, json!({"text": 7}));
        assert_eq!(request.body.expect("a body").written(), &json!("{{ with.text }}"));
        assert!(reads_with);
    }
}
