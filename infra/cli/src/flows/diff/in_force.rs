//! The risks of what is in force: an effect may change although its own file does not, by its integration or the
//! catalogue; and it may stay the same although its file changes.

use std::collections::BTreeSet;

use shared::flows::{Action, Effect, Flow, Flows, Guarantee, Integration};

use super::{FlowChange, risk};

/// What of an effect may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect {
    Partner,
    KeyWindow,
    Guarantee,
    Lookup,
    Request,
    SafeRequest,
    Answers,
}

impl Aspect {
    /// The aspect that a place in a file is about, with the name of the effect or the integration.
    fn of_place(change: &FlowChange) -> Option<(Aspect, &str)> {
        let place: Vec<&str> = change.place.split('.').collect();
        match (change.file.as_str(), place.as_slice()) {
            ("integrations.yaml", [name, "key_window", ..]) => Some((Aspect::KeyWindow, name)),
            ("integrations.yaml", [name, "base_url" | "idempotency_header" | "invoke", ..]) => {
                Some((Aspect::Partner, name))
            }
            ("integrations.yaml", [name, "answers", ..]) => Some((Aspect::Answers, name)),
            (_, ["effects", name, "answers", ..]) => Some((Aspect::Answers, name)),
            (_, ["safe_mode", "requests", name, ..]) => Some((Aspect::SafeRequest, name)),
            (_, ["effects", name, "integration" | "invoke", ..]) => Some((Aspect::Partner, name)),
            (_, ["effects", name, "guarantee", ..]) => Some((Aspect::Guarantee, name)),
            (_, ["effects", name, "lookup", ..]) => Some((Aspect::Lookup, name)),
            (_, ["effects", name, "request" | "with", ..]) => Some((Aspect::Request, name)),
            _ => None,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Aspect::Partner => "partner",
            Aspect::KeyWindow => "`key_window`",
            Aspect::Guarantee => "guarantee",
            Aspect::Lookup => "lookup",
            Aspect::Request => "request",
            Aspect::SafeRequest => "request in safe mode",
            Aspect::Answers => "table of answers",
        }
    }
}

/// What is in force for an effect in another way than before.
struct Difference {
    flow: String,
    effect: String,
    integrations: BTreeSet<String>,
    aspect: Aspect,
    risk: &'static str,
}

impl Difference {
    /// Whether a change of this file, about this aspect of this effect or integration, is the cause.
    fn is_by(&self, file: &str, aspect: Aspect, name: &str) -> bool {
        let of_flow = file == format!("flows/{}.yaml", self.flow) && self.effect == name;
        let of_partner = file == "integrations.yaml" && self.integrations.contains(name);
        self.aspect == aspect && (of_flow || of_partner)
    }
}

/// Takes the risk from changes after which the same is in force, and adds those that no change of a file has told.
pub(super) fn judge(changes: &mut Vec<FlowChange>, old: &Flows, new: &Flows) {
    let differences = differences(old, new);
    let mut told = vec![false; differences.len()];
    for change in changes.iter_mut().filter(|change| change.risk.is_some()) {
        let Some((aspect, name)) = Aspect::of_place(change) else { continue };
        let causes = differences.iter().map(|difference| difference.is_by(&change.file, aspect, name));
        let causes: Vec<bool> = causes.collect();
        if !causes.contains(&true) {
            change.risk = None;
        }
        told.iter_mut().zip(causes).for_each(|(told, cause)| *told |= cause);
    }
    let untold = differences.iter().zip(told).filter(|(_, told)| !told).map(|(difference, _)| difference);
    changes.extend(untold.map(|Difference { flow, effect, aspect, risk, .. }| FlowChange {
        file: format!("flows/{flow}.yaml"),
        place: format!("effects.{effect}"),
        what: format!("has another {} in force, by a file that it uses", aspect.in_words()),
        risk: Some((*risk).to_owned()),
    }));
    changes.sort_by(|one, other| one.file.cmp(&other.file));
}

fn differences(old: &Flows, new: &Flows) -> Vec<Difference> {
    let mut all = Vec::new();
    for flow in new.all() {
        let Some(before) = old.flow(&flow.name) else { continue };
        for effect in &flow.effects {
            let was = before.effects.iter().find(|was| effect.names().any(|name| name == was.id));
            let Some(was) = was else { continue };
            let (Some(partner_was), Some(partner)) = (old.partner_of(was), new.partner_of(effect)) else { continue };
            let integrations = [was, effect].into_iter().filter_map(Effect::integration).map(str::to_owned);
            let integrations: BTreeSet<String> = integrations.collect();
            let mut found = aspects(was, partner_was, effect, partner);
            if old.answers_in_force(was) != new.answers_in_force(effect) {
                found.push((Aspect::Answers, risk::OTHER_ANSWERS));
            }
            if differs_in_safe_mode((before, was, partner_was), (flow, effect, partner)) {
                found.push((Aspect::SafeRequest, risk::ANOTHER_REQUEST));
            }
            all.extend(found.into_iter().map(|(aspect, risk)| Difference {
                flow: flow.name.clone(),
                effect: effect.id.clone(),
                integrations: integrations.clone(),
                aspect,
                risk,
            }));
        }
    }
    all
}

/// What differs, with its risk.
fn aspects(was: &Effect, partner_was: &Integration, is: &Effect, partner: &Integration) -> Vec<(Aspect, &'static str)> {
    let keyed = [was, is].iter().any(|effect| effect.guarantee == Guarantee::Native);
    let mut risks = Vec::new();
    if place(partner_was) != place(partner) || (keyed && was.integration() != is.integration()) {
        risks.push((Aspect::Partner, risk::ANOTHER_PARTNER));
    }
    if keyed && partner.key_window < partner_was.key_window {
        risks.push((Aspect::KeyWindow, risk::SHORTER_KEY_WINDOW));
    }
    if was.guarantee != is.guarantee {
        let weaker = strength(is.guarantee) < strength(was.guarantee);
        risks.push((Aspect::Guarantee, if weaker { risk::WEAKER_GUARANTEE } else { risk::ANOTHER_GUARANTEE }));
    }
    let asked_later = was.guarantee == is.guarantee && was.asked_after() != is.asked_after();
    if was.lookup != is.lookup || asked_later {
        risks.push((Aspect::Lookup, risk::ANOTHER_LOOKUP));
    }
    if keyed && requested(was, partner_was) != requested(is, partner) {
        risks.push((Aspect::Request, risk::ANOTHER_REQUEST));
    }
    risks
}

/// An effect in its flow, with its partner.
type EffectOf<'f> = (&'f Flow, &'f Effect, &'f Integration);

/// Whether a partner that knows our key gets another request for an event that was first tried in safe mode: such an event
/// stays in it.
fn differs_in_safe_mode((before, was, partner_was): EffectOf<'_>, (flow, is, partner): EffectOf<'_>) -> bool {
    let keyed = [was, is].iter().any(|effect| effect.guarantee == Guarantee::Native);
    let is_named = |flow: &Flow, id| flow.safe_mode.as_ref().is_some_and(|safe| safe.requests.contains_key(id));
    if !keyed || before.safe_mode.is_none() || !(is_named(before, &was.id) || is_named(flow, &is.id)) {
        return false;
    }
    let in_safe_mode = |flow: &Flow, id: &str| flow.clone().in_safe_mode().effects.into_iter().find(|e| e.id == id);
    let (was, is) = (in_safe_mode(before, &was.id), in_safe_mode(flow, &is.id));
    was.zip(is).is_some_and(|(was, is)| requested(&was, partner_was) != requested(&is, partner))
}

/// Where a partner is, and how it takes our key.
fn place(partner: &Integration) -> (&str, Option<String>, &str) {
    let function = partner.function.as_ref().map(ToString::to_string);
    (&partner.base_url, function, &partner.idempotency_header)
}

/// What a partner that knows our key compares: all of the request but our credentials.
fn requested(effect: &Effect, partner: &Integration) -> impl PartialEq {
    let common = (partner.headers.clone(), partner.query.clone());
    match &effect.action {
        Action::Call(call) => (Some((call.request.clone(), call.vars.clone())), call.with.clone(), common),
        Action::Invoke(invoke) => (None, invoke.with.clone(), common),
        Action::Upsert(_) | Action::Decide(_) => (None, None, common),
    }
}

/// How much a guarantee can clear up by itself.
fn strength(guarantee: Guarantee) -> u8 {
    match guarantee {
        Guarantee::Native | Guarantee::Idempotent => 2,
        Guarantee::Lookup => 1,
        Guarantee::None => 0,
    }
}

#[cfg(test)]
mod tests {
    use shared::flows::File;

    use super::super::changes;

    const PARTNER: &str = r#"
vars: {account: {required: true}}
base_url: https://api.example.com/{{ vars.account }}
timeout: 3s
calls:
  send:
    request: {method: POST, path: /m, body: {To: "{{ with.to }}"}}
    takes: {to: required}
    guarantee: native
  other:
    request: {method: POST, path: /o, body: {To: "{{ with.to }}"}}
    takes: {to: required}
    guarantee: native
"#;
    const USES: &str = "sms: {uses: partner, vars: {account: A1}}";
    const FLOW: &str = r#"
name: leads
version: 1
on: {source: forms, type: lead}
schema: {type: object, required: [id], properties: {id: {type: string}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 24h
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 3}
effects:
  - {id: sms, call: sms.send, with: {to: "{{ event.id }}"}}
"#;

    /// The places of risk after a text took another's place, in any of the files.
    fn risks(from: &str, to: &str) -> Vec<String> {
        let sources = "forms: {scheme: standard-webhooks, max_body: 64KiB, rate: 1/s, type_at: type}";
        let files = [
            ("sources.yaml", sources),
            ("integrations.yaml", USES),
            ("catalog/partners/partner.yaml", PARTNER),
            ("flows/leads.yaml", FLOW),
        ];
        let file = |(path, text): (&str, String)| File { path: path.into(), text };
        let old: Vec<File> = files.iter().map(|(path, text)| file((path, (*text).to_owned()))).collect();
        let new: Vec<File> = files.iter().map(|(path, text)| file((path, text.replacen(from, to, 1)))).collect();
        assert!(files.iter().any(|(_, text)| text.contains(from)), "{from}");
        let changes = changes(&old, &new).expect("YAML");
        changes.into_iter().filter(|change| change.risk.is_some()).map(|c| format!("{} {}", c.place, c.what)).collect()
    }

    #[test]
    fn what_a_catalogue_or_a_variable_changes_is_a_risk_of_the_effect() {
        for (from, to, aspect) in [
            ("sms.send", "sms.other", "request"),
            ("guarantee: native", "guarantee: none", "guarantee"),
            ("path: /m", "path: /n", "request"),
            ("api.example", "api2.example", "partner"),
            ("account: A1", "account: A2", "partner"),
            ("timeout: 3s", "timeout: 3s\nkey_window: 1h", "`key_window`"),
            ("timeout: 3s", "timeout: 3s\nheaders: {X-A: b}", "request"),
            ("timeout: 3s", "timeout: 3s\nanswers: [{status: 503, means: retry}]", "table of answers"),
        ] {
            let told = risks(from, to);
            assert!(told.iter().any(|told| told.contains(&format!("another {aspect} in force"))), "{to}: {told:?}");
        }
        assert_eq!(risks("to: \"{{ event.id }}\"", "to: \"{{ event.id | lower }}\"").len(), 1, "with is its own");
    }

    #[test]
    fn what_leaves_the_same_in_force_is_none() {
        assert_eq!(risks("timeout: 3s", "timeout: 4s"), Vec::<String>::new());
        assert_eq!(risks("call: sms.send,", "call: sms.send, guarantee: native,"), Vec::<String>::new());
    }
}
