//! Checks of the names that a flow's templates read.
//!
//! A typo behind `default(none)` would never fail, and never send the value either. So a name is looked
//! up before the flow ships: a field in the schema, a result among the effects that are waited for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::template::{self, Body, Condition, Path, Read};
use super::{
    Action, Call, ContactRef, Decide, Effect, FieldStep, Flow, Flows, Guard, Integration, Origin, Request, contract,
};
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};

/// The mistakes in an effect's templates.
pub(super) fn check(effect: &Effect, flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let when = effect.when.iter().map(|when| Placed::new("/when", Template::Condition(when)));
    let lookup = effect.own_lookup().into_iter().flat_map(|lookup| of_request("/lookup/request", &lookup.request));
    let with = effect.own_with().map(|with| Placed::of_request("/with", Template::Body(with)));
    let action: Vec<Placed<'_>> = match &effect.action {
        // A named call is checked in the file where it stands.
        Action::Call(_) if effect.named.is_some() => Vec::new(),
        Action::Call(call) => of_request("/request", &call.request),
        Action::Invoke(_) => Vec::new(),
        Action::Upsert(upsert) => {
            let at = |name: &str| format!("/upsert/fields{}", step(name));
            upsert.fields.iter().map(|(name, body)| Placed::new(at(name), Template::Body(body))).collect()
        }
        Action::Decide(Decide { question, answer, by }) => [("question", question), ("answer", answer), ("by", by)]
            .map(|(name, body)| Placed::new(format!("/decide/{name}"), Template::Body(body)))
            .into(),
    };
    let known = Known::of(effect, flow, all);
    known.check_all(action.into_iter().chain(with).chain(when).chain(lookup))
}

/// Whether a call's templates read our key: then the partner gets it, with or without a header for it.
pub(super) fn reads_key(call: &Call) -> bool {
    let with = call.with.iter().map(|with| Placed::of_request("", Template::Body(with)));
    let all = of_request("", &call.request).into_iter().chain(with);
    all.flat_map(|placed| placed.template.reads()).any(|read| read.name == "key")
}

/// The mistakes in the templates that belong to no effect. They are rendered before any effect is done.
pub(super) fn check_flow(flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let contact = flow.contact.iter().flat_map(|ContactRef { tenant, email }| {
        [("/contact/tenant", tenant), ("/contact/email", email)].map(|(at, body)| Placed::new(at, Template::Body(body)))
    });
    let guards = flow.guards.iter().enumerate().filter_map(|(index, guard)| match guard {
        Guard::Cap(cap) => {
            Some(Placed::new(format!("/guards/{index}/cap/entity"), Template::Body(cap.entity.as_ref()?)))
        }
        Guard::Expression(said) => {
            Some(Placed::new(format!("/guards/{index}/expression/that"), Template::Condition(&said.that)))
        }
        Guard::Consent(_) | Guard::QuietHours(_) => None,
    });
    let enrich = flow.enrich.iter().enumerate().map(|(index, enrich)| match &enrich.from {
        Origin::Partner { path, .. } => Placed::new(format!("/enrich/{index}/path"), Template::Path(path)),
        Origin::Geoip(ip) => Placed::new(format!("/enrich/{index}/geoip"), Template::Body(ip)),
    });
    let approval = flow.approval.iter().filter_map(|approval| approval.when.as_ref());
    let approval = approval.map(|when| Placed::new("/approval/when", Template::Condition(when)));
    let known = Known { flow, waits_for: BTreeSet::new(), partner: None, with: None };
    let mut wrong = known.check_all(contact.chain(guards).chain(enrich).chain(approval));
    for (id, request) in flow.safe_mode.iter().flat_map(|safe| &safe.requests) {
        let Some(effect) = flow.effects.iter().find(|effect| effect.id == *id) else { continue };
        let at = format!("/safe_mode/requests{}", step(id));
        wrong.extend(Known::of(effect, flow, all).check_all(of_request(&at, request)));
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

/// A template at its place in the file.
struct Placed<'f> {
    at: String,
    template: Template<'f>,
    /// Whether it belongs to a request: then it also reads the variables of the partner, our key, and `with`.
    requests: bool,
    /// Whether a secret has a place in it.
    secrets: bool,
}

impl<'f> Placed<'f> {
    fn new(at: impl Into<String>, template: Template<'f>) -> Self {
        Placed { at: at.into(), template, requests: false, secrets: false }
    }

    fn of_request(at: impl Into<String>, template: Template<'f>) -> Self {
        Placed { requests: true, ..Placed::new(at, template) }
    }

    fn with_secrets(self) -> Self {
        Placed { secrets: true, ..self }
    }
}

/// The templates of a request, apart from its query and its headers, whose shape is checked with them.
fn of_request<'f>(at: &str, request: &'f Request) -> Vec<Placed<'f>> {
    let body = request.body.iter().map(|body| Placed::of_request(format!("{at}/body"), Template::Body(body)));
    let graphql = request.graphql.iter().map(|graphql| &graphql.variables);
    let graphql = graphql.map(|body| Placed::of_request(format!("{at}/graphql/variables"), Template::Body(body)));
    let path = Placed::of_request(format!("{at}/path"), Template::Path(&request.path)).with_secrets();
    let named = |place: &str, (name, body): (&str, &'f Body)| {
        Placed::of_request(format!("{at}/{place}{}", step(name)), Template::Body(body)).with_secrets()
    };
    let query = request.query.iter().map(|field| named("query", field));
    let headers = request.headers.iter().map(|field| named("headers", field));
    body.chain(graphql).chain([path]).chain(query).chain(headers).collect()
}

/// What the templates at a place may read.
struct Known<'f> {
    flow: &'f Flow,
    /// The effects whose results are there.
    waits_for: BTreeSet<&'f str>,
    partner: Option<&'f Integration>,
    with: Option<&'f Value>,
}

impl<'f> Known<'f> {
    fn of(effect: &'f Effect, flow: &'f Flow, all: &'f Flows) -> Self {
        let with = effect.own_with().map(Body::written);
        Known { flow, waits_for: flow.waits_for(effect), partner: all.partner_of(effect), with }
    }

    fn check_all<'t>(&self, templates: impl IntoIterator<Item = Placed<'t>>) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for placed in templates {
            let names = placed.template.reads().into_iter();
            let unknown = names.filter_map(|read| Some(self.check_name(&read.name, &placed)?.under(&read.at)));
            let malformed = placed.template.malformed().into_iter();
            wrong.extend(malformed.chain(unknown).map(|wrong| wrong.under(&placed.at)));
        }
        wrong
    }

    fn check_name(&self, name: &str, placed: &Placed<'_>) -> Option<Wrong> {
        let mut steps = name.split('.');
        match steps.next()? {
            "event" => check_field(name, &steps.collect::<Vec<_>>(), self.flow),
            "effects" => check_result(steps.next()?, steps.next(), self.flow, &self.waits_for),
            "enrich" => check_found(steps.next()?, steps.next(), self.flow),
            "vars" if placed.requests => self.partner?.check_vars(steps.next(), !placed.secrets),
            "with" if placed.requests && placed.at != "/with" => self.check_with(steps.next()),
            "key" if placed.requests => None,
            root if template::ROOTS.contains(&root) => None,
            root => {
                let of_requests = if placed.requests { &REQUEST_ROOTS[..] } else { &[] };
                let known = template::ROOTS.iter().chain(of_requests).copied();
                Some(Wrong::at("", format!("a template knows no `{root}` here")).hint(suggest(root, known)))
            }
        }
    }

    fn check_with(&self, name: Option<&str>) -> Option<Wrong> {
        let Some(Value::Object(with)) = self.with else {
            let what = "`with` can never be there: the effect gives nothing to its request";
            return Some(Wrong::at("", what).hint("add `with: {…}` to the effect"));
        };
        let name = name.filter(|name| !with.contains_key(*name))?;
        let what = format!("`with.{name}` can never be there: the effect's `with` has no `{name}`");
        Some(Wrong::at("", what).hint(suggest(name, with.keys().map(String::as_str))))
    }
}

/// The names that only the templates of a request know.
const REQUEST_ROOTS: [&str; 3] = ["key", "vars", "with"];

/// The mistake in the name of an event's field. A field of any version's schema will do: a template may be for older
/// events.
fn check_field(name: &str, steps: &[&str], flow: &Flow) -> Option<Wrong> {
    let steps: Vec<FieldStep> = steps.iter().map(|name| FieldStep::Name((*name).to_owned())).collect();
    let unlisted = flow.schemas().map(|(_, schema)| contract::unlisted(schema, &steps)).collect::<Option<Vec<_>>>()?;
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
