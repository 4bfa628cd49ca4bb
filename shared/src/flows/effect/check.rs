//! Checks of a flow's effects.

use super::{Action, Effect, Guarantee};
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};
use crate::flows::answers::check_effect;
use crate::flows::{Flow, Flows, Integration, is_field_name, template_reads};

/// The mistakes in a flow's effects.
pub(in crate::flows) fn check(flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if flow.effects.is_empty() {
        wrong.push(Wrong::at("/effects", "effects is empty: this flow would do nothing"));
    }
    for (index, effect) in flow.effects.iter().enumerate() {
        let at = format!("/effects/{index}");
        let before: Vec<&str> = flow.effects[..index].iter().map(|effect| effect.id.as_str()).collect();
        let mut own = check_one(effect, &before, flow, all);
        // The effects that are waited for are known once the names and the needs are right.
        if own.iter().all(|wrong| wrong.at != "/id" && !wrong.at.starts_with("/needs")) {
            own.extend(template_reads::check(effect, flow, all));
        }
        wrong.extend(own.into_iter().map(|wrong| wrong.under(&at)));
    }
    wrong
}

fn check_one(effect: &Effect, before: &[&str], flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let partner = all.partner_of(effect);
    let keyless = partner.is_some_and(|partner| partner.idempotency_header.is_empty()) && !effect.sends_key();
    let mut wrong = Vec::new();
    let mut push = |at: &str, what: String, hint: String| {
        wrong.push(Wrong::at(at, format!("effect `{}` {what}", effect.id)).hint(hint));
    };
    if before.contains(&effect.id.as_str()) {
        push("/id", "has the name of another".into(), "the ledger knows an effect by its name: give it its own".into());
    }
    for (index, was) in effect.was.iter().enumerate() {
        let others = || flow.effects.iter().filter(|other| other.id != effect.id);
        let (what, hint) = if flow.effects.iter().any(|other| other.id == *was) {
            ("is a name that an effect of this flow has today", "an effect that is still there keeps its own past")
        } else if others().any(|other| other.was.contains(was)) {
            (
                "is also the earlier name of another effect",
                "one effect goes on with a past: leave the other one's `was` out",
            )
        } else if effect.was[..index].contains(was) {
            ("stands twice", "name each earlier name once, the oldest first")
        } else {
            continue;
        };
        push(&format!("/was/{index}"), format!("was `{was}`, which {what}"), hint.into());
    }
    for (index, need) in effect.needs.iter().flatten().enumerate().filter(|(_, need)| !before.contains(&need.as_str()))
    {
        let (what, hint) = unmet(need, effect, before, flow);
        push(&format!("/needs/{index}"), what, hint);
    }
    let is_call = matches!(effect.action, Action::Call(_));
    if let Some(name) = effect.integration().filter(|_| is_call && partner.is_none()) {
        let hint = suggest(name, all.integrations.keys().map(String::as_str));
        let at = if effect.named.is_some() { "/call" } else { "/integration" };
        push(at, format!("calls `{name}`, which integrations.yaml does not have"), hint);
    }
    if matches!(effect.action, Action::Upsert(_)) && flow.contact.is_none() {
        let hint = "add `contact: {tenant: …, email: …}` to the flow".into();
        push("/upsert", "upserts a contact, but the flow does not say which".into(), hint);
    }
    if let Some(name) = strange_field(effect) {
        let hint = "a field's name has letters, digits and _".into();
        push(
            &format!("/upsert/fields{}", step(name)),
            format!("sets `{name}`, which no field of a contact can be called"),
            hint,
        );
    }
    // A guarantee that is the call's is checked in the file where it stands.
    let said = effect.named.as_ref().is_none_or(|named| named.guarantee.is_some());
    if said && effect.guarantee == Guarantee::Native && keyless {
        let hint =
            "give its integration an idempotency_header, or send `key` in the request, or use lookup or none".into();
        push("/guarantee", "is native, but its partner takes no idempotency key".into(), hint);
    }
    if said && effect.guarantee == Guarantee::Lookup && effect.asked_after().is_none() {
        let hint = "add `lookup: {after: 5s, request: {path: /…}, found: /…}`".into();
        push("/guarantee", "has the guarantee lookup, but does not say how to look it up".into(), hint);
    }
    let own_lookup =
        effect.own_lookup().is_some() || matches!(&effect.action, Action::Invoke(it) if it.asked_after.is_some());
    if own_lookup && effect.guarantee == Guarantee::None {
        let hint = "say `guarantee: lookup`, or leave the lookup out".into();
        push("/lookup", "has a lookup, and the guarantee none: nobody would ever be asked".into(), hint);
    }
    wrong.extend(partner.map(|partner| check_requests(effect, partner)).unwrap_or_default());
    wrong.extend(check_pointers(effect));
    wrong.extend(check_effect(effect, all));
    wrong
}

/// The reason why an effect cannot wait for another, and a hint.
fn unmet(need: &str, effect: &Effect, before: &[&str], flow: &Flow) -> (String, String) {
    if need == effect.id {
        return ("needs itself".into(), "an effect waits only for others".into());
    }
    if flow.effects.iter().any(|other| other.id == need) {
        return (format!("needs `{need}`, which stands after it"), format!("move `{need}` up"));
    }
    (format!("needs `{need}`, which this flow does not have"), suggest(need, before.iter().copied()))
}

/// The mistakes in what the effect and its lookup send.
fn check_requests(effect: &Effect, partner: &Integration) -> Vec<Wrong> {
    let Action::Call(call) = &effect.action else { return Vec::new() };
    let with = effect.own_with().filter(|with| !with.written().is_object());
    let with = with.map(|_| Wrong::at("/with", "with is a mapping: a name and a template each"));
    // A named call is checked in the file where it stands.
    let request = Some(&call.request).filter(|_| effect.named.is_none());
    let request = request.into_iter().flat_map(|request| request.check(partner)).map(|wrong| wrong.under("/request"));
    let lookup = effect.own_lookup().into_iter().flat_map(|lookup| {
        let mut request = lookup.request.clone();
        request.resolve(partner);
        request.check(partner)
    });
    with.into_iter().chain(request).chain(lookup.map(|wrong| wrong.under("/lookup/request"))).collect()
}

fn check_pointers(effect: &Effect) -> impl Iterator<Item = Wrong> {
    let kept = effect.own_result().iter().filter_map(|(name, result)| result.check(format!("/result{}", step(name))));
    let lookup = effect.own_lookup().into_iter().flat_map(|lookup| lookup.check(&effect.result));
    kept.chain(lookup.map(|wrong| wrong.under("/lookup")))
}

/// A field that the effect sets and whose name no field of a contact can have.
fn strange_field(effect: &Effect) -> Option<&str> {
    match &effect.action {
        Action::Upsert(upsert) => upsert.fields.keys().map(String::as_str).find(|name| !is_field_name(name)),
        Action::Call(_) | Action::Invoke(_) | Action::Decide(_) => None,
    }
}
