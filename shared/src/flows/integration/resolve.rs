//! What is in force of an integration: its own fields, else the catalogue's, else the defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::maybe_known::{KeyWindow, MaybeKnown};
use super::super::vars::{Var, Vars, WrittenVar};
use super::{Integration, WrittenIntegration, base_url, check};
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};
use crate::flows::FunctionName;
use crate::flows::catalog::Shelf;
use crate::limits::pressure::Pressure;
use crate::limits::rates::Rate;

/// The integrations in force, and the mistakes in their files, each with its file's path.
#[derive(Default)]
pub(in crate::flows) struct Resolved {
    pub(in crate::flows) integrations: BTreeMap<String, Integration>,
    pub(in crate::flows) wrong: Vec<(String, Wrong)>,
}

type Written = BTreeMap<String, WrittenIntegration>;

/// Puts the integrations over the catalogue. `unread` are the partners of the catalogue whose files could not be read:
/// those mistakes have been told.
pub(in crate::flows) fn resolve(own: &Written, catalog: &Written, unread: &BTreeSet<String>) -> Resolved {
    let mut resolved = Resolved::default();
    for (name, integration) in own {
        let uses = integration.uses();
        let layers = Layers { name, own: integration, partner: uses.and_then(|uses| catalog.get_key_value(uses)) };
        let (integration, wrong) = layers.merge();
        resolved.integrations.insert(name.clone(), integration);
        if uses.is_none_or(|uses| !unread.contains(uses)) {
            let unknown = layers.check_uses(catalog);
            // Without its partner, an integration lacks whatever the partner would have said.
            let wrong = if unknown.is_some() { Vec::new() } else { wrong };
            resolved.wrong.extend(unknown.into_iter().chain(wrong).map(|wrong| layers.place(wrong)));
        }
    }
    let stacked = catalog.iter().filter(|(_, partner)| partner.uses().is_some());
    let told = |_| Wrong::at("/uses", "a partner of the catalogue uses no other");
    resolved.wrong.extend(stacked.map(|(name, partner)| (Shelf::Partners.path(name), told(partner))));
    let used: BTreeSet<&str> = own.values().filter_map(WrittenIntegration::uses).collect();
    let unused = catalog.iter().filter(|(name, _)| !used.contains(name.as_str()));
    resolved.wrong.extend(unused.flat_map(check_unused));
    // A mistake in the catalogue is one mistake, however many integrations use it.
    let mut told = BTreeSet::new();
    resolved.wrong.retain(|(path, wrong)| told.insert((path.clone(), wrong.at.clone(), wrong.what.clone())));
    resolved
}

/// The mistakes in a catalogue file that no integration uses: as if one did, and said what is required.
fn check_unused(partner: (&String, &WrittenIntegration)) -> Vec<(String, Wrong)> {
    let required = partner.1.vars.iter().filter(|(_, var)| var.0.required && !var.0.secret);
    let vars = required.map(|(name, _)| (name.clone(), WrittenVar::from("x"))).collect();
    let own = WrittenIntegration { vars, ..WrittenIntegration::default() };
    let layers = Layers { name: partner.0, own: &own, partner: Some(partner) };
    layers.merge().1.into_iter().map(|wrong| (Shelf::Partners.path(partner.0), wrong)).collect()
}

/// An integration, over the partner of the catalogue that it uses.
struct Layers<'w> {
    name: &'w str,
    own: &'w WrittenIntegration,
    partner: Option<(&'w String, &'w WrittenIntegration)>,
}

impl Layers<'_> {
    /// The integration in force, and its mistakes, at places as if all of it stood in one file.
    fn merge(&self) -> (Integration, Vec<Wrong>) {
        if let Some(function) = &self.own.invoke {
            return self.function(function);
        }
        let absent = WrittenIntegration::default();
        let (own, below) = (self.own, self.partner.map_or(&absent, |(_, partner)| partner));
        let (vars, mut wrong) = self.vars(below);
        let base_url = own.base_url.as_ref().or(below.base_url.as_ref());
        if base_url.is_none() {
            wrong.push(Wrong::at("", "the field `base_url` is missing here"));
        }
        let breaker = own.breaker.as_ref().or(below.breaker.as_ref()).cloned().unwrap_or_default();
        let timeout = own.timeout.or(below.timeout);
        if timeout.is_none() {
            wrong.push(Wrong::at("", "the field `timeout` is missing here"));
        }
        let key_window = own.key_window.or(below.key_window);
        let rate = own.rate.or(below.rate);
        let header = own.idempotency_header.as_ref().or(below.idempotency_header.as_ref());
        let mut integration = Integration {
            uses: own.uses.clone(),
            about: own.about.as_ref().or(below.about.as_ref()).cloned(),
            vars,
            base_url: String::new(),
            function: None,
            auth: own.auth.as_ref().or(below.auth.as_ref()).cloned().unwrap_or_default(),
            headers: own.headers.over(&below.headers),
            query: own.query.over(&below.query),
            format: own.format.or(below.format).unwrap_or_default(),
            error: own.error.as_ref().or(below.error.as_ref()).cloned().unwrap_or_default(),
            timeout: timeout.unwrap_or(Duration::from_secs(1)),
            idempotency_header: header.cloned().unwrap_or_else(|| "Idempotency-Key".into()),
            key_window: in_force(key_window),
            not_known: not_known(key_window, rate),
            pressure: Pressure {
                rate: rate.and_then(MaybeKnown::known),
                concurrency: own.concurrency.or(below.concurrency),
                breaker: breaker.0,
            },
            answers: own.answers.iter().chain(&below.answers).cloned().collect(),
            calls: below.calls.iter().chain(&own.calls).map(|(name, call)| (name.clone(), call.clone())).collect(),
            is_whole: own.uses.is_none() || self.partner.is_some(),
        };
        wrong.extend(check::check(&integration, own, below, base_url.map(String::as_str)));
        if let Some(written) = base_url.filter(|_| wrong.is_empty()) {
            match base_url::render(written, &integration.vars) {
                Ok(url) => integration.base_url = url,
                Err(what) => wrong.push(Wrong::at("/base_url", what)),
            }
        }
        if wrong.is_empty() {
            wrong.extend(integration.auth.render(&integration.vars));
            wrong.extend(integration.auth.check(&integration.idempotency_header));
        }
        (integration, wrong)
    }

    /// The integration that stands for a function, and its mistakes.
    fn function(&self, function: &FunctionName) -> (Integration, Vec<Wrong>) {
        let own = self.own;
        let mut integration = Integration::of_function(function.clone(), own.timeout.unwrap_or(Duration::from_secs(1)));
        let breaker = own.breaker.clone().unwrap_or_default().0;
        integration.pressure =
            Pressure { rate: own.rate.and_then(MaybeKnown::known), concurrency: own.concurrency, breaker };
        integration.key_window = in_force(own.key_window);
        integration.not_known = not_known(own.key_window, own.rate);
        let mut wrong: Vec<Wrong> =
            own.strange_to_functions().map(|field| Wrong::at(step(field), told(field))).collect();
        match own.timeout {
            None => wrong.push(Wrong::at("", "the field `timeout` is missing here")),
            Some(timeout) if timeout.is_zero() => wrong.push(Wrong::at("/timeout", "timeout must be longer than 0s")),
            Some(_) => (),
        }
        wrong.extend(integration.pressure.check());
        (integration, wrong)
    }

    /// The variables in force, and what is missing or wrong with them.
    fn vars(&self, below: &WrittenIntegration) -> (Vars, Vec<Wrong>) {
        let (mut vars, mut wrong) = (Vec::new(), Vec::new());
        let names: BTreeSet<&String> = self.own.vars.keys().chain(below.vars.keys()).collect();
        for name in names {
            let (own, declared) = (self.own.vars.get(name), below.vars.get(name));
            wrong.extend([own, declared].into_iter().flatten().find_map(|var| var.check(name)));
            let var = own.and_then(WrittenVar::var).or_else(|| declared.and_then(WrittenVar::var));
            if declared.is_some_and(|declared| declared.0.secret) && matches!(var, Some(Var::Plain(_))) {
                let what = format!("the variable `{name}` is a secret, and its value stands in a file");
                let hint = format!("write `{name}: {{secret: true}}`, and put the value into Parameter Store");
                wrong.push(Wrong::at(format!("/vars{}", step(name)), what).hint(hint));
            }
            if var.is_none() {
                wrong.push(self.missing(name, declared.or(own)));
            }
            // A variable that is missing is told once, and not at every place that reads it.
            vars.push((name.clone(), var.unwrap_or_else(|| Var::Plain("x".into()))));
        }
        (vars.into_iter().collect(), wrong)
    }

    fn missing(&self, name: &str, declared: Option<&WrittenVar>) -> Wrong {
        let about = declared.and_then(|var| var.0.about.as_deref());
        let about = about.map_or_else(|| "its value".to_owned(), str::to_owned);
        let what = format!("the variable `{name}` is required, and nothing says it");
        Wrong::at("", what).hint(format!("add `vars: {{{name}: …}}`: {about}"))
    }

    fn check_uses(&self, catalog: &Written) -> Option<Wrong> {
        let uses = self.own.uses().filter(|_| self.partner.is_none())?;
        let hint = suggest(uses, catalog.keys().map(String::as_str));
        Some(Wrong::at("/uses", format!("the catalogue has no partner `{uses}`")).hint(hint))
    }

    /// The file in which a mistake stands, and its place there.
    fn place(&self, wrong: Wrong) -> (String, Wrong) {
        let steps: Vec<&str> = wrong.at.split('/').skip(1).collect();
        let (field, item) = (steps.first().copied().unwrap_or_default(), steps.get(1).copied());
        let (own_rows, row) = (self.own.answers.len(), item.and_then(|item| item.parse::<usize>().ok()));
        let item = item.map(|item| item.replace("~1", "/").replace("~0", "~"));
        match self.partner {
            Some((name, _)) if field == "answers" && row.is_some_and(|row| row >= own_rows) => {
                let rest: String = steps.iter().skip(2).map(|step| format!("/{step}")).collect();
                let at = format!("/answers/{}{rest}", row.unwrap_or_default() - own_rows);
                (Shelf::Partners.path(name), Wrong { at, ..wrong })
            }
            Some((name, partner)) if !self.own.has(field, item.as_deref()) && partner.has(field, item.as_deref()) => {
                (Shelf::Partners.path(name), wrong)
            }
            _ => {
                let what = format!("`{}`: {}", self.name, wrong.what);
                ("integrations.yaml".to_owned(), Wrong { what, ..wrong }.under(&step(self.name)))
            }
        }
    }
}

/// The sentence about a field that a function does not take.
fn told(field: &str) -> String {
    format!("a function takes no {field}: it is invoked by IAM, gets our key, and says what happened")
}

impl WrittenIntegration {
    /// The fields that are written, and that an integration which stands for a function does not take.
    fn strange_to_functions(&self) -> impl Iterator<Item = &'static str> {
        let plain = ["uses", "about", "base_url", "auth", "format", "error", "idempotency_header"];
        let plain = plain.into_iter().filter(|field| self.has(field, None));
        let lists = [
            ("vars", self.vars.is_empty()),
            ("headers", self.headers.is_empty()),
            ("query", self.query.is_empty()),
            ("answers", self.answers.is_empty()),
            ("calls", self.calls.is_empty()),
        ];
        plain.chain(lists.into_iter().filter(|(_, empty)| !empty).map(|(field, _)| field))
    }
}

/// The key window in force.
fn in_force(written: Option<MaybeKnown<KeyWindow>>) -> Duration {
    written.map_or(KEY_WINDOW, |fact| fact.known().map_or(UNKNOWN_KEY_WINDOW, |KeyWindow(window)| window))
}

fn not_known(key_window: Option<MaybeKnown<KeyWindow>>, rate: Option<MaybeKnown<Rate>>) -> Vec<&'static str> {
    let key_window = key_window.filter(MaybeKnown::is_not_known).map(|_| "key_window");
    key_window.into_iter().chain(rate.filter(MaybeKnown::is_not_known).map(|_| "rate")).collect()
}

/// The key window that counts where a partner honours keys and does not say for how long: longer than the retries of a flow
/// whose partner is well, and shorter than any that is published.
const UNKNOWN_KEY_WINDOW: Duration = Duration::from_secs(3600);

/// The default key window: Stripe's, and that of many others.
pub(in crate::flows) const KEY_WINDOW: Duration = Duration::from_secs(24 * 3600);
