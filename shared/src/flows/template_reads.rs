//! Checks of the names that a flow's templates read.
//!
//! A typo behind `default(none)` would never fail, and never send the value either. So a name is looked
//! up before the flow ships: a field in the schema, a result among the effects that are waited for.

use std::collections::BTreeSet;

use super::template::{self, Body, Condition, Path, Read};
use super::{Action, ContactRef, Decide, Effect, Flow, Guard, Origin, Request, contract};
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};

/// The mistakes in an effect's templates.
pub(super) fn check(effect: &Effect, flow: &Flow) -> Vec<Wrong> {
    let when = effect.when.iter().map(|when| ("/when".to_owned(), Template::Condition(when)));
    let lookup = effect.lookup.iter().map(|l| ("/lookup/request/path".to_owned(), Template::Path(&l.request.path)));
    let action = match &effect.action {
        Action::Call(call) => of_request("/request", &call.request),
        Action::Upsert(upsert) => upsert
            .fields
            .iter()
            .map(|(name, body)| (format!("/upsert/fields{}", step(name)), Template::Body(body)))
            .collect(),
        Action::Decide(Decide { question, answer, by }) => [("question", question), ("answer", answer), ("by", by)]
            .map(|(name, body)| (format!("/decide/{name}"), Template::Body(body)))
            .into(),
    };
    let templates = action.into_iter().chain(when).chain(lookup);
    check_all(templates, flow, &flow.waits_for(effect))
}

/// The mistakes in the templates that belong to no effect. They are rendered before any effect is done.
pub(super) fn check_flow(flow: &Flow) -> Vec<Wrong> {
    let contact = flow.contact.iter().flat_map(|ContactRef { tenant, email }| {
        [("/contact/tenant".to_owned(), Template::Body(tenant)), ("/contact/email".to_owned(), Template::Body(email))]
    });
    let guards = flow.guards.iter().enumerate().filter_map(|(index, guard)| match guard {
        Guard::Cap(cap) => Some((format!("/guards/{index}/cap/entity"), Template::Body(cap.entity.as_ref()?))),
        Guard::Expression(said) => Some((format!("/guards/{index}/expression/that"), Template::Condition(&said.that))),
        Guard::Consent(_) | Guard::QuietHours(_) => None,
    });
    let enrich = flow.enrich.iter().enumerate().map(|(index, enrich)| match &enrich.from {
        Origin::Partner { path, .. } => (format!("/enrich/{index}/path"), Template::Path(path)),
        Origin::Geoip(ip) => (format!("/enrich/{index}/geoip"), Template::Body(ip)),
    });
    let approval = flow.approval.iter().filter_map(|approval| approval.when.as_ref());
    let approval = approval.map(|when| ("/approval/when".to_owned(), Template::Condition(when)));
    let mut wrong = check_all(contact.chain(guards).chain(enrich).chain(approval), flow, &BTreeSet::new());
    for (id, request) in flow.safe_mode.iter().flat_map(|safe| &safe.requests) {
        let instead = flow.effects.iter().find(|effect| effect.id == *id).map(|effect| flow.waits_for(effect));
        let at = format!("/safe_mode/requests{}", step(id));
        wrong.extend(check_all(of_request(&at, request), flow, &instead.unwrap_or_default()));
    }
    wrong
}

/// A template of any kind.
enum Template<'f> {
    Path(&'f Path),
    Body(&'f Body),
    Condition(&'f Condition),
}

impl Template<'_> {
    fn reads(&self) -> Vec<Read> {
        match self {
            Template::Path(path) => Read::of_path(path),
            Template::Body(body) => Read::of_body(body),
            Template::Condition(condition) => Read::of_condition(condition),
        }
    }

    /// The malformed leaves of a body. Malformed paths and conditions are not even read.
    fn malformed(&self) -> Vec<Wrong> {
        match self {
            Template::Body(body) => body.malformed(),
            Template::Path(_) | Template::Condition(_) => Vec::new(),
        }
    }
}

fn of_request<'f>(at: &str, request: &'f Request) -> Vec<(String, Template<'f>)> {
    let body = request.body.iter().map(|body| (format!("{at}/body"), Template::Body(body)));
    body.chain([(format!("{at}/path"), Template::Path(&request.path))]).collect()
}

fn check_all<'f>(
    templates: impl IntoIterator<Item = (String, Template<'f>)>,
    flow: &Flow,
    waits_for: &BTreeSet<&str>,
) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for (at, template) in templates {
        let names = template.reads().into_iter();
        let unknown = names.filter_map(|read| Some(check_name(&read.name, flow, waits_for)?.under(&read.at)));
        wrong.extend(template.malformed().into_iter().chain(unknown).map(|wrong| wrong.under(&at)));
    }
    wrong
}

fn check_name(name: &str, flow: &Flow, waits_for: &BTreeSet<&str>) -> Option<Wrong> {
    let mut steps = name.split('.');
    match steps.next()? {
        "event" => check_field(name, &steps.collect::<Vec<_>>(), flow),
        "effects" => check_result(steps.next()?, steps.next(), flow, waits_for),
        "enrich" => check_found(steps.next()?, steps.next(), flow),
        root if template::ROOTS.contains(&root) => None,
        root => {
            let what = format!("a template knows no `{root}`");
            Some(Wrong::at("", what).hint(suggest(root, template::ROOTS)))
        }
    }
}

/// The mistake in the name of an event's field. A field of any version's schema will do: a template may be for older
/// events.
fn check_field(name: &str, steps: &[&str], flow: &Flow) -> Option<Wrong> {
    let unlisted = flow.schemas().map(|(_, schema)| contract::unlisted(schema, steps)).collect::<Option<Vec<_>>>()?;
    let (unknown, known) = unlisted.last()?;
    let what = format!("`{name}` can never be there: the schema does not list `{unknown}`, so it is dropped");
    Some(Wrong::at("", what).hint(suggest(unknown, known.iter().copied())))
}

fn check_result(id: &str, result: Option<&str>, flow: &Flow, waits_for: &BTreeSet<&str>) -> Option<Wrong> {
    let Some(effect) = flow.effects.iter().find(|effect| effect.id == id) else {
        let what = format!("`effects.{id}` can never be there: this flow has no effect `{id}`");
        return Some(Wrong::at("", what).hint(suggest(id, waits_for.iter().copied())));
    };
    if !waits_for.contains(id) {
        let what = format!("`effects.{id}` may not be there yet: this effect does not wait for `{id}`");
        return Some(Wrong::at("", what).hint(format!("let it stand after `{id}`, and add `{id}` to its `needs`")));
    }
    let result = result.filter(|result| effect.results().all(|kept| kept != *result))?;
    let what = format!("`effects.{id}.{result}` can never be there: `{id}` keeps no result `{result}`");
    Some(Wrong::at("", what).hint(suggest(result, effect.results())))
}

fn check_found(id: &str, result: Option<&str>, flow: &Flow) -> Option<Wrong> {
    let Some(enrich) = flow.enrich.iter().find(|enrich| enrich.id == id) else {
        let what = format!("`enrich.{id}` can never be there: this flow finds out no `{id}`");
        return Some(Wrong::at("", what).hint(suggest(id, flow.enrich.iter().map(|enrich| enrich.id.as_str()))));
    };
    let Origin::Partner { result: kept, .. } = &enrich.from else { return None };
    let result = result.filter(|result| !kept.contains_key(*result))?;
    let what = format!("`enrich.{id}.{result}` can never be there: `{id}` keeps no result `{result}`");
    Some(Wrong::at("", what).hint(suggest(result, kept.keys().map(String::as_str))))
}

impl Flow {
    /// The effects that are done before this one is called: those that it needs, those that they need, and so on.
    fn waits_for<'f>(&'f self, effect: &'f Effect) -> BTreeSet<&'f str> {
        let mut all = BTreeSet::new();
        let mut open = self.needs(effect);
        while let Some(id) = open.pop() {
            let before = self.effects.iter().find(|other| other.id == id && other.id != effect.id);
            if let Some(before) = before.filter(|before| all.insert(before.id.as_str())) {
                open.extend(self.needs(before));
            }
        }
        all
    }
}
