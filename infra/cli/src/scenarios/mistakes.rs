//! The mistakes in scenario files that a look at their flow shows, without a play: names of nothing, and steps that would do
//! nothing, or less than they say.

use std::collections::BTreeSet;

use serde_json::Value;
use shared::base::suggest::suggest;
use shared::base::wrong::step;
use shared::flows::{Field, Flow, Flows};

use super::written::{Expectation, Statements, Step, WrittenReaction, WrittenScenario};

/// A mistake: its place below what is looked at, as a JSON pointer, and what it is.
pub type Mistake = (String, String);

/// The mistakes in a scenario.
pub fn of_scenario(flows: &Flows, flow: &Flow, scenario: &WrittenScenario) -> Vec<Mistake> {
    let mut found = Vec::new();
    for (number, step) in scenario.given.iter().enumerate() {
        found.extend(of_step(flows, flow, step).into_iter().map(|(at, what)| (format!("/given/{number}{at}"), what)));
    }
    for (name, reactions) in &scenario.partners {
        found.extend(integration(flows, name).map(|what| (format!("/partners{}", step(name)), what)));
        let wrong = reactions.iter().enumerate().filter_map(|(number, reaction)| {
            Some((format!("/partners{}/{number}/effect", step(name)), of_reaction(flows, name, reaction)?))
        });
        found.extend(wrong);
    }
    let faults = scenario.faults.iter().enumerate().filter(|(_, fault)| !names_call(&fault.at));
    found.extend(faults.map(|(number, fault)| (format!("/faults/{number}/at"), no_call(&fault.at))));
    found.extend(of_keeps(flows, scenario.keeps.keys()));
    found.extend(of_expectation(flow, &scenario.expect).into_iter().map(|(at, what)| (format!("/expect{at}"), what)));
    found
}

/// The mistakes in what an author states.
pub fn of_statements(flows: &Flows, flow: &Flow, event: &Value, stated: &Statements) -> Vec<Mistake> {
    let identity =
        stated.identity.iter().flat_map(|identity| &identity.fields).map(|field| ("/identity".to_owned(), field));
    let who = stated.protects.iter().enumerate().flat_map(|(number, protected)| {
        protected.who.iter().map(move |field| (format!("/protects/{number}/who"), field))
    });
    let fixed = stated.fixed.iter().map(|field| ("/fixed".to_owned(), field));
    let is_there = |field: &Field| !field.in_schema(&flow.schema).is_null() || field.of(event).is_some();
    let fields = identity.chain(who).chain(fixed).filter(|(_, field)| !is_there(field));
    let mut found: Vec<Mistake> =
        fields.map(|(at, field)| (at, format!("neither the event nor the schema has a field `{field}`"))).collect();
    let channels: BTreeSet<&str> = flow.caps().map(|cap| cap.channel.as_str()).collect();
    for (number, protected) in stated.protects.iter().enumerate().filter(|(_, one)| !channels.contains(&*one.channel)) {
        let hint = suggest(&protected.channel, channels.iter().copied());
        let what = format!("no cap of `{}` is on the channel `{}`: {hint}", flow.name, protected.channel);
        found.push((format!("/protects/{number}/channel"), what));
    }
    found.extend(of_keeps(flows, stated.keeps.keys()));
    let settles =
        stated.settles.keys().filter_map(|name| Some((format!("/settles{}", step(name)), integration(flows, name)?)));
    found.extend(settles);
    found.into_iter().map(|(at, what)| (format!("/prove{at}"), what)).collect()
}

fn of_keeps<'n>(flows: &Flows, names: impl Iterator<Item = &'n String>) -> Vec<Mistake> {
    names.filter_map(|name| Some((format!("/keeps{}", step(name)), integration(flows, name)?))).collect()
}

fn integration(flows: &Flows, name: &str) -> Option<String> {
    let known = flows.integrations().map(|(known, _)| known);
    flows.integration(name).is_none().then(|| format!("there is no integration `{name}`: {}", suggest(name, known)))
}

/// A line about calls that no effect of any flow makes to this integration is never asked for.
fn of_reaction(flows: &Flows, integration: &str, reaction: &WrittenReaction) -> Option<String> {
    let named = reaction.effect.as_deref()?;
    let callers = flows.all().flat_map(|flow| &flow.effects).filter(|effect| effect.integration() == Some(integration));
    let callers: BTreeSet<&str> = callers.map(|effect| effect.id.as_str()).collect();
    let is_known = callers.contains(named) || flows.integration(integration).is_none();
    (!is_known).then(|| format!("no effect `{named}` calls `{integration}`: {}", suggest(named, callers)))
}

/// Whether a fault names a function and a call of it. Which calls there are, only a play shows.
fn names_call(at: &str) -> bool {
    at.split_once(' ').is_some_and(|(function, _)| FUNCTIONS.contains(&function))
}

fn no_call(at: &str) -> String {
    let hint = suggest(at.split(' ').next().unwrap_or_default(), FUNCTIONS);
    format!("`{at}` names no call: write the function and its call, as `processor record`; {hint}")
}

/// The functions whose calls may go wrong.
const FUNCTIONS: [&str; 3] = ["intake", "processor", "replay"];

/// The names of what a step does.
fn acts(step: &Step) -> Vec<&'static str> {
    let all = [
        ("deliver", step.deliver.is_some()),
        ("wait", step.wait.is_some()),
        ("pause", step.pause.is_some()),
        ("resume", step.resume.is_some()),
        ("safe_mode", step.safe_mode.is_some()),
        ("policy", step.policy.is_some()),
        ("replay", step.replay.is_some()),
        ("approve", step.approve.is_some()),
        ("reject", step.reject.is_some()),
        ("drop", step.drop.is_some()),
        ("resolve", step.resolve.is_some()),
        ("contact", step.contact.is_some()),
        ("schedule", step.schedule == Some(true)),
    ];
    all.into_iter().filter(|(_, does)| *does).map(|(name, _)| name).collect()
}

fn of_step(flows: &Flows, flow: &Flow, step: &Step) -> Vec<Mistake> {
    let at = |name: &str| format!("/{name}");
    let mut found = Vec::new();
    match acts(step)[..] {
        [] if step.schedule == Some(false) => found.push((
            at("schedule"),
            "the schedule never comes by itself: this step does nothing. Take it away, or write `schedule: true`"
                .into(),
        )),
        [] => found.push((
            String::new(),
            "nothing happens in this step: say what does, as `deliver: {}` or `wait: 1h`".into(),
        )),
        [one] => {
            if step.declined.is_some() && ["deliver", "wait", "schedule"].contains(&one) {
                let what = format!("only what an operator asks for is declined, and `{one}` is nothing of that kind");
                found.push((at("declined"), what));
            }
        }
        [first, second, ..] => {
            let what =
                format!("a step does one thing: write `{second}` in a step of its own, behind that with `{first}`");
            found.push((at(second), what));
        }
    }
    if step.safe_mode.is_some() && flow.safe_mode.is_none() {
        let what = format!("safe mode is switched on, and the flow `{}` has none: nothing would change", flow.name);
        found.push((at("safe_mode"), what));
    }
    for (name, switch) in [("pause", &step.pause), ("resume", &step.resume)] {
        let Some(switch) = switch else { continue };
        let wrong = switch.integration.as_deref().and_then(|name| integration(flows, name));
        found.extend(wrong.map(|what| (format!("/{name}/integration"), what)));
        let known = || flows.all().map(|flow| flow.name.as_str());
        if let Some(other) = switch.flow.as_deref().filter(|other| flows.flow(other).is_none()) {
            found.push((format!("/{name}/flow"), format!("there is no flow `{other}`: {}", suggest(other, known()))));
        }
    }
    found
}

/// The names in an expectation that nothing has.
fn of_expectation(flow: &Flow, expectation: &Expectation) -> Vec<Mistake> {
    let mut found = Vec::new();
    if expectation.acted.as_ref().is_some_and(|acted| acted.is_empty()) {
        found.push(("/acted".into(), "this expects nothing: name the effects, as `acted: {email: 1}`".into()));
    }
    for effect in expectation.acted.iter().flat_map(|acted| acted.keys()) {
        let known = flow.effects.iter().find(|known| known.id == *effect);
        let what = match known {
            Some(known) if known.integration().is_some() => continue,
            Some(_) => format!("`{effect}` calls nobody: what became of it stands in `ends`"),
            None => {
                let names = flow.effects.iter().map(|known| known.id.as_str());
                format!("the flow `{}` has no effect `{effect}`: {}", flow.name, suggest(effect, names))
            }
        };
        found.push((format!("/acted{}", step(effect)), what));
    }
    found
}
