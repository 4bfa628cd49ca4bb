//! The routes: which function a request goes to.

use std::collections::BTreeMap;

use anyhow::Result;
use percent_encoding::percent_decode_str;

use crate::stack::Stack;
use crate::template::{self, TemplateFunction};

/// Every route of the template, the most specific first.
#[derive(Clone, Debug, Default)]
pub struct Routes(Vec<Entry>);

/// The route that a request matched.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match<'a> {
    /// The route as in the template: `POST /v1/events/{source}`.
    pub(super) key: String,
    pub(super) function: &'a str,
    /// The path's parameters, URL-decoded, as AWS hands them on.
    pub(super) parameters: BTreeMap<String, String>,
}

impl Routes {
    /// The template's routes, to the deployed functions.
    pub fn new(functions: &[TemplateFunction], stack: &Stack) -> Result<Self> {
        let mut routes = Self::default();
        for function in functions {
            let name = template::live(stack.physical_id(&function.logical_id)?);
            for route in &function.routes {
                routes.add(&route.method, &route.path, &name);
            }
        }
        Ok(routes)
    }

    fn add(&mut self, method: &str, path: &str, function: &str) {
        self.0.push(Entry {
            method: method.to_owned(),
            path: path.to_owned(),
            segments: path.split('/').map(segment).collect(),
            function: function.to_owned(),
        });
        self.0.sort_by_key(|entry| (rank(&entry.segments), entry.method == "ANY"));
    }

    /// The route of a request. It matches the path as it was sent, so that an escaped slash stays in its segment.
    pub(super) fn find(&self, method: &str, path: &str) -> Option<Match<'_>> {
        let segments: Vec<&str> = path.split('/').collect();
        let mut candidates = self.0.iter().filter(|entry| entry.method == method || entry.method == "ANY");
        candidates.find_map(|entry| {
            Some(Match {
                parameters: parameters(&entry.segments, &segments)?,
                key: format!("{} {}", entry.method, entry.path),
                function: &entry.function,
            })
        })
    }
}

pub(super) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[derive(Clone, Debug)]
struct Entry {
    method: String,
    path: String,
    segments: Vec<Segment>,
    function: String,
}

#[derive(Clone, Debug)]
enum Segment {
    Literal(String),
    Parameter(String),
    Greedy(String),
}

fn segment(text: &str) -> Segment {
    match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => match name.strip_suffix('+') {
            Some(name) => Segment::Greedy(name.to_owned()),
            None => Segment::Parameter(name.to_owned()),
        },
        None => Segment::Literal(text.to_owned()),
    }
}

/// The order of routes: segment by segment, literals before parameters before greedy ones.
fn rank(segments: &[Segment]) -> Vec<u8> {
    let rank = |segment: &Segment| match segment {
        Segment::Literal(_) => 0,
        Segment::Parameter(_) => 1,
        Segment::Greedy(_) => 2,
    };
    segments.iter().map(rank).collect()
}

fn parameters(pattern: &[Segment], path: &[&str]) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for (at, segment) in pattern.iter().enumerate() {
        match segment {
            Segment::Literal(text) if path.get(at) == Some(&text.as_str()) => (),
            Segment::Parameter(name) if path.get(at).is_some_and(|value| !value.is_empty()) => {
                found.insert(name.clone(), decode(path[at]));
            }
            Segment::Greedy(name) if path.len() > at => {
                found.insert(name.clone(), decode(&path[at..].join("/")));
                return Some(found);
            }
            _ => return None,
        }
    }
    (pattern.len() == path.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        let mut routes = Routes::default();
        routes.add("POST", "/v1/events/{source}", "one");
        routes.add("POST", "/v1/events/{source}/{type+}", "typed");
        routes.add("GET", "/v1/events/{source}", "one");
        routes.add("HEAD", "/v1/events/{source}/{type+}", "typed");
        routes.add("POST", "/v1/events/{source}/batch", "batch");
        routes.add("ANY", "/files/{path+}", "files");
        routes
    }

    #[test]
    fn literals_win_over_parameters() {
        let routes = routes();
        let function = |path| routes.find("POST", path).map(|found| found.function);
        assert_eq!(function("/v1/events/shop"), Some("one"));
        assert_eq!(function("/v1/events/shop/lead.created"), Some("typed"));
        assert_eq!(function("/v1/events/shop/batch"), Some("batch"));
        assert_eq!(function("/files/a/b"), Some("files"));
    }

    #[test]
    fn other_methods_lengths_and_empty_segments_do_not_match() {
        let routes = routes();
        assert_eq!(routes.find("PUT", "/v1/events/shop"), None);
        assert_eq!(routes.find("GET", "/v1/events/shop/orders"), None);
        assert_eq!(routes.find("HEAD", "/v1/events/shop"), None);
        assert_eq!(routes.find("POST", "/v1/events"), None);
        assert_eq!(routes.find("POST", "/v1/events/"), None);
    }

    #[test]
    fn a_type_may_have_slashes() {
        let routes = routes();
        for path in ["/v1/events/shop/orders/paid", "/v1/events/shop/orders%2Fpaid"] {
            let found = routes.find("POST", path).expect("a route");
            assert_eq!((found.function, found.parameters["type"].as_str()), ("typed", "orders/paid"));
        }
        assert_eq!(
            routes.find("GET", "/v1/events/shop").map(|found| found.key),
            Some("GET /v1/events/{source}".into())
        );
    }

    #[test]
    fn parameters_are_decoded_and_an_escaped_slash_separates_nothing() {
        let routes = routes();
        let found = routes.find("POST", "/v1/events/a%2Fb%20c").expect("a route");
        assert_eq!(found.key, "POST /v1/events/{source}");
        assert_eq!(found.parameters["source"], "a/b c");
    }
}
