//! `ledgerline flows plan`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::arrival::event::Event;
use shared::base::time::Timestamp;
use shared::effects::request::idempotency_key;
use shared::flows::template::{Body, Scope, TemplateError};
use shared::flows::{Action, ContactRef, Decide, Effect, Flow, Flows, Guarantee, Invoke, Upsert};
use shared::ledger::{Entry, Progress, Row};

use super::FlowsFolderArgs;
use crate::sample_event::SampleEvent;
use crate::{CommandExit, flows_folder, output};
use mask::Shown;

mod preconditions;
mod shown_request;
pub(crate) mod mask;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows plan events/lead-created.json
  ledgerline flows plan event.json --flow lead-routing --json
  ledgerline flows plan event.json --masked     to hand the plan on: ‹text, 24› stands for a text of 24 characters

The file holds an event as its sender sends it, or {\"headers\": {…}, \"body\": {…}}.";

/// Show what an event would do, effect by effect. Calls no partner.
#[derive(Debug, Args)]
pub struct FlowsPlanArgs {
    /// The file with the event, as JSON.
    event: PathBuf,
    /// The flow that takes the event. Without it, the event's type names its flow.
    #[arg(long)]
    flow: Option<String>,
    /// Print no value of the event.
    #[arg(long)]
    masked: bool,
    #[command(flatten)]
    common: FlowsFolderArgs,
}

/// What a flow would do for an event.
#[derive(Debug, Serialize)]
pub struct FlowPlan {
    /// The flow that takes the event.
    pub flow: String,
    /// The event's id, which is made from its key.
    pub id: String,
    /// The event's message group: events of one group are processed in order.
    pub group: String,
    /// What the group is made of: a field and its normalisers, or the contact.
    pub ordered_by: String,
    /// The fields that the schema does not list: the intake drops them.
    pub dropped: Vec<String>,
    /// What happens before the first effect: enrichment, guards, approval. A sentence each.
    pub before: Vec<String>,
    /// The effects, in the order of the flow file.
    pub effects: Vec<EffectPlan>,
}

/// What one effect would do.
#[derive(Debug, Serialize)]
pub struct EffectPlan {
    /// The effect.
    pub effect: String,
    /// The effects that it waits for.
    pub after: Vec<String>,
    /// What the processor does where it cannot know whether the effect happened.
    pub when_unknown: &'static str,
    /// How we authenticate to the partner, without the secret. An effect that calls no partner does not.
    pub auth: Option<String>,
    /// What is in force of the partner: its time-out, its limits, how it takes our key. Facts that a person reads.
    pub partner: Vec<String>,
    /// How the partner is asked whether the call happened, or why it could not be.
    pub lookup: Option<String>,
    /// What the partner's answers mean, row by row. An effect that calls no partner has none.
    pub answers: Vec<String>,
    /// What the effect would do, or why it could not.
    pub does: Result<PlannedAction, String>,
}

/// What an effect does.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// The effect is skipped: its condition does not hold for this event.
    Nothing,
    /// The effect calls a partner.
    Call {
        /// The method and the URL.
        line: String,
        /// The headers that the processor sets.
        headers: Vec<(String, String)>,
        /// The body.
        body: Option<Value>,
    },
    /// The effect invokes a function of the team's own.
    Invoke {
        /// The function.
        function: String,
        /// The longest wait for its answer, in milliseconds.
        timeout_ms: u64,
        /// The idempotency key that it gets.
        key: String,
        /// The values that it gets beside the event.
        with: Option<Value>,
    },
    /// The effect creates or changes a contact.
    Upsert {
        /// The contact's fields afterwards.
        contact: Value,
    },
    /// The effect answers for an event that awaits approval.
    Decide {
        /// The question, the answer, and who gave it.
        decision: Value,
    },
}

impl FlowsPlanArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let files = flows_folder::read(&flows_folder::find(self.common.folder)?)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        let json_text = std::fs::read_to_string(&self.event);
        let sample = SampleEvent::parse(
            &json_text.with_context(|| format!("cannot read the event in {}", self.event.display()))?,
        )?;
        let flow = choose(&sample, &flows, self.flow.as_deref())?;
        let shown = if self.masked { Shown::Masked } else { Shown::Values };
        let planned = match plan(&sample, flow, &flows, shown) {
            Ok(planned) => planned,
            Err(why) => {
                output::print_notice(&format!(
                    "The intake would not accept this event for the flow `{}`: {why}.\n",
                    flow.name
                ));
                return Ok(CommandExit::Problems);
            }
        };
        output::print_answer(json, &json!(planned), || text(&planned))?;
        Ok(if planned.effects.iter().all(|step| step.does.is_ok()) {
            CommandExit::Success
        } else {
            CommandExit::Problems
        })
    }
}

/// What a flow would do for an event, or why the intake would not accept it.
pub(crate) fn plan(sample: &SampleEvent, flow: &Flow, flows: &Flows, shown: Shown) -> Result<FlowPlan, String> {
    let event = sample.event(flow, flows, Timestamp::from_secs(0)).map_err(|refused| refused.0)?;
    let dropped = mask::dropped(&sample.body, &event.payload);
    Ok(FlowPlan { dropped, ..of_event(event, flow, flows, shown) })
}

/// What a flow would do for an event that the intake has accepted.
pub(crate) fn of_event(event: Event, flow: &Flow, flows: &Flows, shown: Shown) -> FlowPlan {
    let mut row = Row { enrich: preconditions::assumed_found(flow), ..Row::admitted(&event, event.received_at) };
    let before = preconditions::sentences(flow, &row.scope_of(&event), event.received_at);
    let mut effects = Vec::new();
    for effect in &flow.effects {
        effects.push(planned_effect(effect, &event, &row, flow, flows, shown));
        row.effects.insert(effect.ledger_name().to_owned(), assumed_done(effect, event.received_at));
    }
    let (id, ordered_by, dropped) = (event.id.to_string(), flow.ordered_by(), Vec::new());
    FlowPlan { flow: flow.name.clone(), id, group: event.group, ordered_by, dropped, before, effects }
}

fn choose<'f>(sample: &SampleEvent, flows: &'f Flows, name: Option<&str>) -> Result<&'f Flow> {
    if let Some(name) = name {
        return flows
            .flow(name)
            .with_context(|| format!("the flows folder has no flow `{name}`: check the name after --flow"));
    }
    match sample.flows(flows).as_slice() {
        [flow] => Ok(flow),
        [] => bail!("no flow takes an event of this type: name the flow with --flow"),
        several => {
            let names: Vec<&str> = several.iter().map(|flow| flow.name.as_str()).collect();
            bail!(
                "several flows take an event of this type, from different sources: name one with --flow, of {}",
                names.join(", ")
            )
        }
    }
}

fn planned_effect(effect: &Effect, event: &Event, row: &Row, flow: &Flow, flows: &Flows, shown: Shown) -> EffectPlan {
    let after = flow.needs(effect).into_iter().map(str::to_owned).collect();
    let when_unknown = match effect.guarantee {
        Guarantee::Native => "the processor calls it again with the same key",
        Guarantee::Idempotent => "the processor calls it again: the request may be repeated",
        Guarantee::Lookup => "the processor asks the partner",
        Guarantee::None => "the processor parks the event for a human",
    };
    let does = action_of(effect, event, row, flow, flows, shown)
        .map_err(|error| format!("the request cannot be made from this event: {error}"));
    let answers = effect.integration().map(|_| flows.answers_in_force(effect)).unwrap_or_default();
    let partner = flows.partner_of(effect);
    let auth = partner.map(|partner| partner.auth.in_words());
    let lookup = shown_request::lookup(effect, event, row, flows, shown);
    let partner = partner.map(shown_request::in_force).unwrap_or_default();
    EffectPlan { effect: effect.id.clone(), after, when_unknown, auth, partner, lookup, answers, does }
}

fn action_of(
    effect: &Effect,
    event: &Event,
    row: &Row,
    flow: &Flow,
    flows: &Flows,
    shown: Shown,
) -> Result<PlannedAction, TemplateError> {
    let scope = row.scope(event, effect);
    if let Some(when) = &effect.when
        && !when.holds(&scope)?
    {
        return Ok(PlannedAction::Nothing);
    }
    let masked =
        |written: &Body| -> Result<Value, TemplateError> { Ok(shown.body(written.written(), written.render(&scope)?)) };
    match &effect.action {
        Action::Call(call) => shown_request::call(effect, call, event, row, flows, shown),
        Action::Invoke(invoke) => invocation(effect, invoke, event, row, flows, shown),
        Action::Upsert(Upsert { fields }) => {
            let ContactRef { tenant, email } = flow.contact.as_ref().expect("a parsed flow that upserts says whom");
            let fields = fields.iter().map(|(name, field)| Ok((name.clone(), masked(field)?)));
            let fields: Map<String, Value> = fields.collect::<Result<_, TemplateError>>()?;
            Ok(PlannedAction::Upsert {
                contact: json!({"tenant": masked(tenant)?, "email": masked(email)?, "fields": fields}),
            })
        }
        Action::Decide(Decide { question, answer, by }) => {
            let decision = json!({"question": masked(question)?, "answer": masked(answer)?, "by": masked(by)?});
            Ok(PlannedAction::Decide { decision })
        }
    }
}

fn invocation(
    effect: &Effect,
    invoke: &Invoke,
    event: &Event,
    row: &Row,
    flows: &Flows,
    shown: Shown,
) -> Result<PlannedAction, TemplateError> {
    let integration = flows.partner_of(effect).expect("parsed flows have an integration for each function");
    let function = integration.function.as_ref().map(ToString::to_string).unwrap_or_default();
    let timeout_ms = u64::try_from(invoke.timeout.unwrap_or(integration.timeout).as_millis()).unwrap_or(u64::MAX);
    let key = idempotency_key(row, effect);
    let scope = Scope { key: Some(key.clone()), ..row.scope(event, effect) };
    let rendered = invoke.with.as_ref().map(|with| with.render(&scope)).transpose()?;
    let with = invoke.with.as_ref().zip(rendered).map(|(with, rendered)| shown.body(with.written(), rendered));
    Ok(PlannedAction::Invoke { function, timeout_ms, key, with })
}

/// The effect's entry as if the partner had answered: later templates read what is kept of the answer.
fn assumed_done(effect: &Effect, now: Timestamp) -> Entry {
    let kept = effect.results().map(|name| (name.to_owned(), json!(format!("‹{}.{name}›", effect.id))));
    let progress = Progress::Done { result: Value::Object(kept.collect::<Map<_, _>>()) };
    Entry { progress, ..Entry::intended(now) }
}

fn text(planned: &FlowPlan) -> String {
    let FlowPlan { flow, id, group, ordered_by, dropped, before, effects } = planned;
    let flow = output::styled(output::BOLD, flow);
    let mut text = format!("{flow} takes this event\n  id      {id}\n  group   {group}, by {ordered_by}\n");
    if !dropped.is_empty() {
        text += &format!("  dropped {}\n", dropped.join(", "));
    }
    text.extend(before.iter().map(|sentence| format!("  first   {sentence}\n")));
    text.extend(effects.iter().map(effect_text));
    text
}

fn effect_text(planned: &EffectPlan) -> String {
    let EffectPlan { effect, after, when_unknown, auth, partner, lookup, answers, does } = planned;
    let after = if after.is_empty() { "at once".into() } else { format!("after {}", after.join(", ")) };
    let action = match does {
        Ok(action) => action_text(action),
        Err(why) => format!("  {}\n", output::styled(output::BAD, why)),
    };
    let effect = output::styled(output::BOLD, effect);
    let auth = auth.iter().map(|words| format!("auth: {words}"));
    let partner = (!partner.is_empty()).then(|| format!("partner: {}", partner.join("; ")));
    let lookup = lookup.iter().map(|lookup| format!("lookup: {lookup}"));
    let answers = answers.iter().map(|line| format!("answers: {line}"));
    let notes = auth.chain(partner).chain(lookup).chain(answers);
    let notes: String = notes.map(|note| format!("  {}\n", output::styled(output::DIM, note))).collect();
    format!("\n{effect} {after}; where its outcome is unknown, {when_unknown}\n{action}{notes}")
}

fn action_text(action: &PlannedAction) -> String {
    let indented = |value: &Value| format!("{value:#}").replace('\n', "\n  ");
    match action {
        PlannedAction::Nothing => "  skipped: its condition does not hold for this event\n".into(),
        PlannedAction::Upsert { contact } => format!("  upsert {}\n", indented(contact)),
        PlannedAction::Invoke { function, timeout_ms, key, with } => {
            let facts = output::styled(output::DIM, format!("key: {key}\n  timeout: {timeout_ms} ms"));
            let with = with.as_ref().map(|with| format!(" with {}", indented(with))).unwrap_or_default();
            format!("  invokes {function}{with}\n  {facts}\n")
        }
        PlannedAction::Decide { decision } => format!("  decide {}\n", indented(decision)),
        PlannedAction::Call { line, headers, body } => {
            let header = |(name, value): &(String, String)| {
                format!("  {}\n", output::styled(output::DIM, format!("{name}: {value}")))
            };
            let headers: String = headers.iter().map(header).collect();
            let body = body.as_ref().map(|body| format!("  {}\n", indented(body))).unwrap_or_default();
            format!("  {line}\n{headers}{body}")
        }
    }
}
