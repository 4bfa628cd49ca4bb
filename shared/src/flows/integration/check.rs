//! Checks of an integration that is in force.

use super::super::Var;
use super::super::answers::check_rules;
use super::super::template::{Body, Read};
use super::{Integration, WrittenIntegration};
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};

/// The names at the root of a template that belongs to no effect.
const ROOTS: [&str; 3] = ["vars", "flow", "now"];

/// The mistakes in an integration. `base_url` is as it is written.
pub(super) fn check(
    integration: &Integration,
    own: &WrittenIntegration,
    below: &WrittenIntegration,
    base_url: Option<&str>,
) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if integration.timeout.is_zero() {
        wrong.push(Wrong::at("/timeout", "timeout must be longer than 0s"));
    }
    wrong.extend(
        integration.about.as_ref().filter(|about| !is_month(&about.checked)).map(|_| {
            Wrong::at("/about/checked", "this is no month").hint("write the year and the month, as `2026-11`")
        }),
    );
    wrong.extend(integration.pressure.check());
    wrong.extend(check_rules(&integration.answers));
    wrong.extend(integration.error.check());
    for (name, call) in &integration.calls {
        let at = format!("/calls{}", step(name));
        wrong.extend(call.check(integration).into_iter().map(|wrong| wrong.under(&at)));
    }
    let taken = integration.taken_headers();
    wrong.extend([own, below].iter().flat_map(|w| w.headers.check(&taken)).map(|wrong| wrong.under("/headers")));
    wrong.extend([own, below].iter().flat_map(|w| w.query.check()).map(|wrong| wrong.under("/query")));
    let base_url = base_url.map(|url| ("/base_url".to_owned(), Body::of(url.into())));
    let headers = integration.headers.iter().map(|(name, value)| (format!("/headers{}", step(name)), value.clone()));
    let query = integration.query.iter().map(|(name, value)| (format!("/query{}", step(name)), value.clone()));
    let auth = integration.auth.templates().into_iter().map(|(at, template)| (at.to_owned(), template));
    for (at, template) in base_url.into_iter().chain(auth).chain(headers).chain(query) {
        let plain_only = at == "/base_url" || at.starts_with("/auth/");
        wrong.extend(check_template(&template, integration, plain_only).into_iter().map(|wrong| wrong.under(&at)));
    }
    wrong
}

/// The mistakes in a template that belongs to no effect.
fn check_template(template: &Body, integration: &Integration, plain_only: bool) -> Vec<Wrong> {
    let malformed = template.malformed();
    let reads = Read::of_body(template).into_iter();
    let unknown = reads.filter_map(|read| Some(check_name(&read.name, integration, plain_only)?.under(&read.at)));
    malformed.into_iter().chain(unknown).collect()
}

fn check_name(name: &str, integration: &Integration, plain_only: bool) -> Option<Wrong> {
    let mut steps = name.split('.');
    match (steps.next()?, steps.next()) {
        ("vars", var) => integration.check_vars(var, plain_only),
        (root, _) if ROOTS.contains(&root) && !plain_only => None,
        (root, _) => {
            let known: &[&str] = if plain_only { &ROOTS[..1] } else { &ROOTS };
            let hint = suggest(root, known.iter().copied());
            Some(Wrong::at("", format!("a template that belongs to no effect knows no `{root}`")).hint(hint))
        }
    }
}

fn is_month(text: &str) -> bool {
    let number = |text: &str, digits| text.parse::<u16>().ok().filter(|_| text.len() == digits);
    let (year, month) = text.split_once('-').unwrap_or_default();
    number(year, 4).is_some() && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
}

impl Integration {
    /// The header fields that the integration itself sets, each with the field of the file that says so.
    pub(in crate::flows) fn taken_headers(&self) -> Vec<(&str, &'static str)> {
        let key = Some((self.idempotency_header.as_str(), "idempotency_header")).filter(|(name, _)| !name.is_empty());
        self.auth.headers().into_iter().map(|name| (name, "auth")).chain(key).collect()
    }

    /// The mistake in a template that reads this variable, or all of them. Where `plain_only`, no secret has a place.
    pub(in crate::flows) fn check_vars(&self, name: Option<&str>, plain_only: bool) -> Option<Wrong> {
        let hint = "a secret stands in a request's path, query or headers, nowhere else";
        let Some(name) = name else {
            let secret = self.vars.secrets().next().filter(|_| plain_only)?;
            let what = format!("`vars` has the secret `{secret}` in it, and has no place here as a whole");
            return Some(Wrong::at("", what).hint(hint));
        };
        match self.vars.get(name) {
            Some(Var::Secret) if plain_only => {
                Some(Wrong::at("", format!("`vars.{name}` is a secret, and has no place here")).hint(hint))
            }
            Some(_) => None,
            None => {
                let what = format!("`vars.{name}` can never be there: the integration has no variable `{name}`");
                Some(Wrong::at("", what).hint(suggest(name, self.vars.names())))
            }
        }
    }
}
