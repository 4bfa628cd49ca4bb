//! Effects that a Lambda function of the team's own does: `invoke: <function>`.
//!
//! A function is an integration like any other, so that permits, the breaker, pauses and time-outs work for it as for a
//! partner. `integrations.yaml` may say how it is limited; one that it does not name is an integration all the same,
//! under the function's own name and with the defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::integration::KEY_WINDOW;
use super::parse::{File, Problem, Problems};
use super::template::Body;
use super::written_breaker::WrittenBreaker;
use super::{Action, Effect, Flow, Flows, Integration, Origin};
use crate::base::wrong::{Wrong, step};
use crate::limits::pressure::Pressure;

/// An invocation of a function of the team's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Invoke {
    /// The integration that stands for the function: an entry of integrations.yaml with `invoke`, or the function's name.
    pub integration: String,
    /// The values that the function is given beside the event.
    pub with: Option<Body>,
    /// The longest wait for the answer, if it is shorter than the integration's.
    pub timeout: Option<Duration>,
    /// How long after a lost call the function can be asked whether it happened, if it can be asked.
    pub asked_after: Option<Duration>,
}

/// How long a function may still act after its caller has gone: no function of Lambda's runs longer.
pub const LONGEST_RUN: Duration = Duration::from_secs(15 * 60);

/// The name of a Lambda function in the stack's own account and region, with or without an alias: `score`, `score:live`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "String")]
pub struct FunctionName(String);

impl FunctionName {
    /// The function's name, without an alias.
    pub fn name(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// The alias or the version, if it names one.
    pub fn qualifier(&self) -> Option<&str> {
        self.0.split_once(':').map(|(_, qualifier)| qualifier)
    }

    /// The name with its alias.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a pattern of IAM fits the function's name: a `*` at its end stands for anything.
    pub fn fits(&self, pattern: &str) -> bool {
        match pattern.strip_suffix('*') {
            Some(start) => self.name().starts_with(start),
            None => self.name() == pattern,
        }
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for FunctionName {
    type Error = String;

    /// Takes no ARN: a function of another account or region is not ours to vouch for, and it would name a host.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plain = |part: &str, most: usize| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=most).contains(&part.len()) && part.bytes().all(legal)
        };
        let (name, qualifier) = text.split_once(':').unwrap_or((&text, "LATEST"));
        if plain(name, 64) && plain(qualifier, 128) {
            return Ok(FunctionName(text));
        }
        Err(format!(
            "`{text}` is no name of a function: write letters, digits, - and _, with or without an alias, as `score:live`"
        ))
    }
}

impl Flows {
    /// The functions that effects invoke or integrations name, each with its integration's name.
    pub fn functions(&self) -> impl Iterator<Item = (&str, &FunctionName)> {
        self.integrations().filter_map(|(name, integration)| Some((name, integration.function.as_ref()?)))
    }

    /// The function that an effect invokes, if it invokes one.
    pub fn function_of(&self, effect: &Effect) -> Option<&FunctionName> {
        self.partner_of(effect)?.function.as_ref()
    }

    /// Adds an integration for each function that effects invoke and integrations.yaml does not name. Its time-out is the
    /// longest of its effects, so that one number tells whether it fits into an invocation of the processor.
    pub(super) fn add_functions(&mut self) {
        let mut timeouts: BTreeMap<String, Duration> = BTreeMap::new();
        for invoke in self.flows.values().flat_map(invocations).map(|(_, _, invoke)| invoke) {
            let longest = timeouts.entry(invoke.integration.clone()).or_default();
            *longest = invoke.timeout.unwrap_or_default().max(*longest);
        }
        for (name, timeout) in timeouts {
            if !self.integrations.contains_key(&name)
                && let Ok(function) = FunctionName::try_from(name.clone())
            {
                self.unwritten_functions.insert(name.clone());
                self.integrations.insert(name, Integration::of_function(function, timeout));
            }
        }
    }

    /// Whether an integration is there only because effects invoke the function of its name.
    pub fn is_unwritten(&self, integration: &str) -> bool {
        self.unwritten_functions.contains(integration)
    }

    /// Checks that the processor may invoke every function: the pattern of its role fits their names.
    pub fn check_functions(&self, files: &[File], pattern: &str) -> Result<(), Problems> {
        let strangers = self.functions().filter(|(_, function)| !function.fits(pattern));
        let problems: Vec<Problem> = strangers
            .map(|(integration, function)| {
                let what = format!(
                    "the processor may not invoke `{function}`: TeamFunctions of the stack is `{pattern}`, and does not fit"
                );
                let hint = "give the function another name, or the stack another TeamFunctions";
                self.locate_function(files, integration, "invoke", |_| true, Wrong::at("", what).hint(hint))
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// A mistake in a field of a function's integration: in integrations.yaml, or in the first of the effects that this
    /// is about, where integrations.yaml does not name the function.
    pub(super) fn locate_function(
        &self,
        files: &[File],
        integration: &str,
        field: &str,
        is_about: impl Fn(&Invoke) -> bool,
        wrong: Wrong,
    ) -> Problem {
        let mut invoked = self.flows.values().flat_map(|flow| invocations(flow).map(move |it| (flow, it)));
        let effect = invoked.find(|(_, (_, _, invoke))| invoke.integration == integration && is_about(invoke));
        let (file, at) = match effect.filter(|_| self.is_unwritten(integration)) {
            Some((flow, (index, ..))) => (format!("flows/{}.yaml", flow.name), format!("/effects/{index}")),
            None => ("integrations.yaml".into(), step(integration)),
        };
        Problem::locate(files, &file, &wrong.under(&(at + &step(field))))
    }
}

/// The invocations of a flow, each with the place of its effect.
fn invocations(flow: &Flow) -> impl Iterator<Item = (usize, &Effect, &Invoke)> {
    flow.effects.iter().enumerate().filter_map(|(index, effect)| match &effect.action {
        Action::Invoke(invoke) => Some((index, effect, invoke)),
        Action::Call(_) | Action::Upsert(_) | Action::Decide(_) => None,
    })
}

/// The mistakes in a flow's invocations, and in what takes a function for a partner.
pub(super) fn check(flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let own = invocations(flow).flat_map(|(index, effect, invoke)| {
        let wrong = check_one(effect, invoke, all).into_iter();
        wrong.map(move |wrong| wrong.under(&format!("/effects/{index}")))
    });
    own.chain(check_calls(flow, all)).collect()
}

fn check_one(effect: &Effect, invoke: &Invoke, all: &Flows) -> Vec<Wrong> {
    let named = &invoke.integration;
    let mut wrong = Vec::new();
    let mut push = |at: &str, what: String, hint: &str| {
        wrong.push(Wrong::at(at, format!("effect `{}` {what}", effect.id)).hint(hint));
    };
    match all.integration(named) {
        None => {
            let said = FunctionName::try_from(named.clone()).err().unwrap_or_default();
            push("/invoke", format!("invokes no function: {said}"), NAMES);
        }
        Some(partner) if partner.function.is_none() => {
            push("/invoke", format!("invokes `{named}`, which is a partner with a base_url"), CALLS);
        }
        Some(_) if all.is_unwritten(named) && invoke.timeout.is_none_or(|timeout| timeout.is_zero()) => {
            push("/invoke", format!("does not say how long `{named}` may take"), TIMEOUT);
        }
        Some(partner) if invoke.timeout.is_some_and(|timeout| timeout > partner.timeout) => {
            push("/timeout", format!("waits longer for `{named}` than its integration allows"), SHORTER);
        }
        Some(_) => (),
    }
    if invoke.with.as_ref().is_some_and(|with| !with.written().is_object()) {
        push("/with", "has a with that is no mapping".into(), MAPPING);
    }
    wrong
}

const NAMES: &str = "a function of this account and region, by its name: no ARN";
const CALLS: &str =
    "call it with `integration` and `request`, or give its integration `invoke` in the place of base_url";
const TIMEOUT: &str = "add `timeout: 3s`: how long the processor waits for the answer";
const SHORTER: &str = "an effect's `timeout` may be shorter than its integration's, not longer";
const MAPPING: &str = "write a name and a template each: `with: {email: …}`";

/// What calls, enrichments and approvals take for a partner, and is a function.
fn check_calls<'f>(flow: &'f Flow, all: &'f Flows) -> impl Iterator<Item = Wrong> + 'f {
    let calls = flow.effects.iter().enumerate().filter_map(|(index, effect)| match &effect.action {
        Action::Call(call) => Some((format!("/effects/{index}/integration"), &call.integration)),
        Action::Invoke(_) | Action::Upsert(_) | Action::Decide(_) => None,
    });
    let enrich = flow.enrich.iter().enumerate().filter_map(|(index, enrich)| match &enrich.from {
        Origin::Partner { integration, .. } => Some((format!("/enrich/{index}/integration"), integration)),
        Origin::Geoip(_) => None,
    });
    let approval = flow.approval.iter().map(|it| ("/approval/integration".to_owned(), &it.integration));
    let functions = calls.chain(enrich).chain(approval);
    functions.filter(|(_, name)| all.integration(name).is_some_and(|it| it.function.is_some())).map(|(at, name)| {
        let hint = format!("only an effect can use it, by `invoke: {name}`");
        Wrong::at(at, format!("`{name}` is a function, which has no requests")).hint(hint)
    })
}

impl Integration {
    /// The integration that stands for a function, with the default limits.
    pub(super) fn of_function(function: FunctionName, timeout: Duration) -> Self {
        Integration {
            function: Some(function),
            is_whole: true,
            timeout,
            idempotency_header: "Idempotency-Key".into(),
            key_window: KEY_WINDOW,
            not_known: Vec::new(),
            pressure: Pressure { rate: None, concurrency: None, breaker: WrittenBreaker::default().0 },
            ..Integration::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_a_plain_name_and_maybe_an_alias() {
        for (text, name, qualifier) in
            [("ledgerline-team-score", "ledgerline-team-score", None), ("score_2:live", "score_2", Some("live"))]
        {
            let read = FunctionName::try_from(text.to_owned()).expect(text);
            assert_eq!((read.name(), read.qualifier(), read.as_str()), (name, qualifier, text));
        }
        let long = "x".repeat(65);
        for bad in
            ["", "a b", "a/b", "a:", ":a", "a:b:c", "a:$LATEST", "arn:aws:lambda:eu-central-1:1:function:a", &long]
        {
            assert!(FunctionName::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_is_a_name_or_the_start_of_one() {
        let score = FunctionName::try_from("team-score:live".to_owned()).expect("a name");
        for (pattern, fits) in
            [("team-*", true), ("team-score", true), ("team-score*", true), ("team", false), ("other-*", false)]
        {
            assert_eq!(score.fits(pattern), fits, "{pattern}");
        }
    }
}
