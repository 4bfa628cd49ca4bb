//! Checks of a partner's named calls.

use super::CatalogCall;
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};
use crate::flows::answers::{check_rules, lacks_success};
use crate::flows::template::{Body, Path, Read};
use crate::flows::{Guarantee, Integration, Request};

/// The names at the root of a named call's templates.
const ROOTS: [&str; 5] = ["flow", "key", "now", "vars", "with"];

impl CatalogCall {
    /// The mistakes in the call.
    pub(in crate::flows) fn check(&self, integration: &Integration) -> Vec<Wrong> {
        let mut wrong = self.check_request(&self.request, "/request", integration);
        if let Some(lookup) = &self.lookup {
            wrong.extend(self.check_request(&lookup.request, "/lookup/request", integration));
            wrong.extend(lookup.check(&self.result).into_iter().map(|wrong| wrong.under("/lookup")));
        }
        wrong.extend(self.result.iter().filter_map(|(name, result)| result.check(format!("/result{}", step(name)))));
        wrong.extend(check_rules(&self.answers));
        wrong.extend(self.check_guarantee(integration));
        let rules = || self.answers.iter().chain(&integration.answers);
        if self.request.graphql.is_none() && lacks_success(rules) {
            let hint = "add a row such as `{status: 200..299, when: body.ok == true, means: done}`";
            let what = "a 2xx is judged by its body, but no row says which body means done";
            wrong.push(Wrong::at("/answers", what).hint(hint));
        }
        wrong
    }

    fn check_guarantee(&self, integration: &Integration) -> Option<Wrong> {
        let sends_key = || reads(&self.request).any(|(_, read, _)| read.name == "key");
        match self.guarantee {
            Guarantee::Native if integration.idempotency_header.is_empty() && !sends_key() => {
                let what = "the call is native, but its partner takes no idempotency key";
                let hint = "give the partner an idempotency_header, or send `key` in the request";
                Some(Wrong::at("/guarantee", what).hint(hint))
            }
            Guarantee::Lookup if self.lookup.is_none() => {
                let what = "the call has the guarantee lookup, but does not say how to look it up";
                Some(Wrong::at("/guarantee", what).hint("add `lookup: {after: 5s, request: {path: /…}, found: /…}`"))
            }
            Guarantee::Native | Guarantee::Idempotent | Guarantee::Lookup | Guarantee::None => None,
        }
    }

    fn check_request(&self, request: &Request, at: &str, integration: &Integration) -> Vec<Wrong> {
        let mut resolved = request.clone();
        resolved.resolve(integration);
        let shape = resolved.check(integration);
        let malformed = bodies(request)
            .flat_map(|(place, body, _)| body.malformed().into_iter().map(move |wrong| wrong.under(&place)));
        let names = reads(request).filter_map(|(place, read, secrets)| {
            Some(self.check_name(&read.name, integration, secrets)?.under(&format!("{place}{}", read.at)))
        });
        shape.into_iter().chain(malformed).chain(names).map(|wrong| wrong.under(at)).collect()
    }

    fn check_name(&self, name: &str, integration: &Integration, secrets: bool) -> Option<Wrong> {
        let mut steps = name.split('.');
        match (steps.next()?, steps.next()) {
            ("vars", name) => integration.check_vars(name, !secrets),
            ("with", Some(name)) if !self.takes.contains_key(name) => {
                let what = format!("`with.{name}` can never be there: the call does not take `{name}`");
                Some(Wrong::at("", what).hint(suggest(name, self.takes.keys().map(String::as_str))))
            }
            (root, _) if ROOTS.contains(&root) => None,
            (root, _) => {
                let what = format!("a call that flows share knows no `{root}`");
                Some(Wrong::at("", what).hint("let it take a value, and read `with.<name>`"))
            }
        }
    }
}

/// The trees of a request, each with its place, and whether a secret has a place in it.
fn bodies(request: &Request) -> impl Iterator<Item = (String, &Body, bool)> {
    let body = request.body.iter().map(|body| ("/body".to_owned(), body, false));
    let variables = request.graphql.iter().map(|g| ("/graphql/variables".to_owned(), &g.variables, false));
    let query = request.query.iter().map(|(name, value)| (format!("/query{}", step(name)), value, true));
    let headers = request.headers.iter().map(|(name, value)| (format!("/headers{}", step(name)), value, true));
    body.chain(variables).chain(query).chain(headers)
}

/// The names that a request reads, each with its place, and whether a secret has a place there.
fn reads(request: &Request) -> impl Iterator<Item = (String, Read, bool)> {
    let of_path = |path: &Path| Read::of_path(path).into_iter().map(|read| ("/path".to_owned(), read, true));
    let of_bodies = bodies(request)
        .flat_map(|(at, body, secrets)| Read::of_body(body).into_iter().map(move |read| (at.clone(), read, secrets)));
    of_path(&request.path).chain(of_bodies)
}
