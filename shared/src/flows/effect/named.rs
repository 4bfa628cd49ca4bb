//! Effects that name a call of their partner, and how they become ordinary ones.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Action, Effect, Guarantee};
use crate::base::suggest::{listed, suggest};
use crate::base::wrong::{Wrong, step};
use crate::flows::template::{Body, Path};
use crate::flows::{AnswerRule, CatalogCall, Integration, Lookup, Method, Request, ResultAt, Takes};

/// What an effect says itself that names its call. The parser has put the call's own beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedCall {
    /// The integration and the call: `sms.send_message`.
    pub name: String,
    /// What the effect gives to the call, as it is written.
    pub with: Option<Body>,
    /// The guarantee that the effect says, if it says one.
    pub guarantee: Option<Guarantee>,
    /// The lookup of the effect's own.
    pub lookup: Option<Lookup>,
    /// The results of the effect's own.
    pub result: BTreeMap<String, ResultAt>,
    /// The rows of answers of the effect's own.
    pub answers: Vec<AnswerRule>,
}

impl NamedCall {
    /// The integration and the name of its call.
    pub(super) fn parts(name: &str) -> Result<(&str, &str), String> {
        let parts = name.split_once('.').filter(|(integration, call)| !integration.is_empty() && !call.is_empty());
        parts.ok_or_else(|| format!("`{name}` names no call: write `<integration>.<call>`, as in `sms.send_message`"))
    }

    /// The request of an effect until its call is known.
    pub(super) fn no_request() -> Request {
        let path = Path::root();
        let (query, headers) = Default::default();
        Request {
            method: Method::Post,
            path,
            query,
            headers,
            body: None,
            format: None,
            content_type: None,
            graphql: None,
        }
    }

    /// The mistakes in what the effect gives to its call.
    fn check(&self, call: &CatalogCall) -> Vec<Wrong> {
        let nothing = Value::Object(serde_json::Map::new());
        let Value::Object(with) = self.with.as_ref().map_or(&nothing, Body::written) else { return Vec::new() };
        let unknown = with.keys().filter(|name| !call.takes.contains_key(*name)).map(|name| {
            let hint = suggest(name, call.takes.keys().map(String::as_str));
            Wrong::at(format!("/with{}", step(name)), format!("the call `{}` takes no `{name}`", self.name)).hint(hint)
        });
        let missing = call.takes.iter().filter(|(name, takes)| **takes == Takes::Required && !with.contains_key(*name));
        let missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        let missing = (!missing.is_empty()).then(|| {
            let at = if self.with.is_some() { "/with" } else { "" };
            Wrong::at(at, format!("the call `{}` needs {} in `with`", self.name, listed(&missing)))
        });
        unknown.chain(missing).collect()
    }
}

impl Effect {
    /// The effect over its integration, which says what the effect itself does not, and the mistakes in how it names its
    /// call.
    pub(in crate::flows) fn resolve(&mut self, integrations: &BTreeMap<String, Integration>) -> Vec<Wrong> {
        let Action::Call(call) = &mut self.action else { return Vec::new() };
        let Some(integration) = integrations.get(&call.integration) else { return Vec::new() };
        call.vars = integration.vars.clone();
        let wrong = self.resolve_named(integration);
        let Action::Call(call) = &mut self.action else { return wrong };
        call.request.resolve(integration);
        self.lookup.iter_mut().for_each(|lookup| lookup.request.resolve(integration));
        wrong
    }

    fn resolve_named(&mut self, integration: &Integration) -> Vec<Wrong> {
        let (Some(named), Action::Call(call)) = (&self.named, &mut self.action) else { return Vec::new() };
        let name = NamedCall::parts(&named.name).map_or("", |(_, name)| name);
        let Some(known) = integration.calls.get(name) else {
            let what = format!("the integration `{}` has no call `{name}`", call.integration);
            let hint = suggest(name, integration.calls.keys().map(String::as_str));
            let unknown = Wrong::at("/call", what).hint(hint);
            return if integration.is_whole { vec![unknown] } else { Vec::new() };
        };
        let inlined = known.inline(named.with.as_ref(), integration);
        let own_reads = named.lookup.as_ref().is_some_and(|lookup| lookup.request.reads_with());
        call.request = inlined.request;
        call.with = named.with.clone().filter(|_| inlined.reads_with || own_reads);
        self.guarantee = named.guarantee.unwrap_or(known.guarantee);
        self.lookup = named.lookup.clone().or(inlined.lookup);
        self.result = known.result.iter().chain(&named.result).map(|(n, at)| (n.clone(), at.clone())).collect();
        self.answers = named.answers.iter().chain(&known.answers).cloned().collect();
        named.check(known)
    }

    /// The effect as if the flow had written all of it.
    #[must_use]
    pub fn written_out(&self) -> Effect {
        Effect { named: None, ..self.clone() }
    }

    /// The lookup that the flow's file has, if it has one.
    pub(in crate::flows) fn own_lookup(&self) -> Option<&Lookup> {
        self.named.as_ref().map_or(self.lookup.as_ref(), |named| named.lookup.as_ref())
    }

    /// The rows of answers that the flow's file has.
    pub(in crate::flows) fn own_answers(&self) -> &[AnswerRule] {
        self.named.as_ref().map_or(&self.answers, |named| &named.answers)
    }

    /// The results that the flow's file has.
    pub(in crate::flows) fn own_result(&self) -> &BTreeMap<String, ResultAt> {
        self.named.as_ref().map_or(&self.result, |named| &named.result)
    }

    /// What the flow's file gives to the request.
    pub(in crate::flows) fn own_with(&self) -> Option<&Body> {
        match (&self.named, &self.action) {
            (Some(named), _) => named.with.as_ref(),
            (None, Action::Call(call)) => call.with.as_ref(),
            (None, Action::Invoke(invoke)) => invoke.with.as_ref(),
            (None, Action::Upsert(_) | Action::Decide(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flows::{File, Flows, Meaning, Problems};

    const TWILIO: &str = r#"
vars: {account: {required: true}}
base_url: https://api.example.com/{{ vars.account }}
timeout: 3s
format: form
idempotency_header: ""
answers: [{status: 500, means: in_doubt}]
calls:
  send:
    request: {method: POST, path: "/m/{{ with.kind }}", body: {To: "{{ with.to }}", Text: "{{ with.text }}", Cc: "{{ with.cc }}"}}
    takes: {to: required, text: required, kind: required, cc: optional}
    result: {sid: /sid, at: /at}
    guarantee: lookup
    lookup: {after: 5s, request: {path: /m, query: {to: "{{ with.to }}"}}, found: /m/0}
    answers: [{status: 502, means: retry}]
"#;

    const FLOW: &str = r#"
name: leads
version: 1
on: {source: forms, type: lead}
schema: {type: object, required: [id], properties: {id: {type: string}, phone: {type: string}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 24h
retry: {strategy: exponential, base: 1s, max_delay: 10s, jitter: full, max_attempts: 3}
effects:
  - id: sms
"#;

    fn parse(effect: &str) -> Result<Flows, Problems> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        Flows::parse(&[
            file("sources.yaml", "forms: {scheme: standard-webhooks, max_body: 64KiB, rate: 1/s, type_at: type}"),
            file("integrations.yaml", "sms: {uses: twilio, vars: {account: A1, from: F1}}"),
            file("catalog/partners/twilio.yaml", TWILIO),
            file("flows/leads.yaml", &format!("{FLOW}{effect}")),
        ])
    }

    fn effect(effect: &str) -> Effect {
        let flows = parse(effect).unwrap_or_else(|problems| panic!("{problems}"));
        flows.flow("leads").expect("the flow").effects[0].clone()
    }

    #[test]
    fn a_named_call_is_an_ordinary_effect() {
        let named =
            "    call: sms.send\n    with: {to: \"{{ event.phone }}\", text: \"Hi {{ vars.from }}\", kind: a}\n";
        let sms = effect(named);
        let Action::Call(call) = &sms.action else { panic!("it calls a partner") };
        let body = json!({"To": "{{ event.phone }}", "Text": "Hi {{ vars.from }}"});
        assert_eq!(call.request.body.as_ref().map(Body::written), Some(&body));
        assert_eq!(call.request.format().as_str(), "form");
        assert!(call.with.is_some(), "its path reads it");
        assert_eq!((call.integration.as_str(), sms.guarantee), ("sms", Guarantee::Lookup));
        assert_eq!(sms.results().collect::<Vec<_>>(), ["at", "sid"]);
        assert_eq!(sms.answers.iter().map(|row| row.means).collect::<Vec<_>>(), [Meaning::Retry]);
        assert!(sms.lookup.is_some());
        assert!(sms.written_out().named.is_none());
    }

    #[test]
    fn what_the_effect_says_goes_before_its_call() {
        let own = r#"    call: sms.send
    with: {to: a, text: b, kind: c, cc: d}
    guarantee: idempotent
    result: {sid: /id, note: /note}
    lookup: {after: 9s, request: {path: "/own/{{ with.to }}"}, found: /x}
    answers: [{status: 502, means: failed}]
"#;
        let sms = effect(own);
        assert_eq!(sms.guarantee, Guarantee::Idempotent);
        assert_eq!(sms.lookup.as_ref().map(|lookup| lookup.after.as_secs()), Some(9));
        assert_eq!(sms.results().collect::<Vec<_>>(), ["at", "note", "sid"]);
        let means: Vec<Meaning> = sms.answers.iter().map(|row| row.means).collect();
        assert_eq!(means, [Meaning::Failed, Meaning::Retry], "its own rows come first");
    }

    #[test]
    fn a_lookup_that_the_effect_does_not_trust_is_not_asked() {
        let with = "    call: sms.send\n    with: {to: a, text: b, kind: c}\n";
        assert_eq!(effect(with).asked_after(), Some(std::time::Duration::from_secs(5)));
        assert_eq!(effect(&format!("{with}    guarantee: none\n")).asked_after(), None);
    }

    #[test]
    fn a_mistake_is_told_where_the_effect_makes_it() {
        for (effect, what) in [
            ("    call: sms.sned\n", "the integration `sms` has no call `sned` (did you mean `send`?)"),
            ("    call: sns.send\n", "effect `sms` calls `sns`, which integrations.yaml does not have"),
            ("    call: send\n", "`send` names no call"),
            ("    call: sms.send\n", "the call `sms.send` needs `kind`, `text` and `to` in `with`"),
            ("    call: sms.send\n    with: {to: a, text: b, kind: c, bc: d}\n", "the call `sms.send` takes no `bc`"),
            (
                "    call: sms.send\n    with: {to: \"{{ event.fone }}\", text: b, kind: c}\n",
                "the schema does not list `fone`",
            ),
            ("    call: sms.send\n    with: {to: \"{{ vars.form }}\", text: b, kind: c}\n", "has no variable `form`"),
            ("    call: sms.send\n    with: [a]\n", "with is a mapping"),
            (
                "    call: sms.send\n    with: {to: a, text: b, kind: c}\n    guarantee: none\n    lookup: {after: 9s, request: {path: /own}, found: /x}\n",
                "has a lookup, and the guarantee none",
            ),
            ("    call: sms.send\n    integration: sms\n", "names a call"),
        ] {
            let problems = parse(effect).expect_err(effect);
            assert!(problems.0.iter().all(|problem| problem.file == "flows/leads.yaml"), "{problems}");
            assert!(problems.to_string().contains(what), "{effect}: {problems}");
        }
    }
}
