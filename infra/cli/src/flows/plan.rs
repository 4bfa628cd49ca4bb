//! `ledgerline flows plan`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::arrival::event::Event;
use shared::base::time::Timestamp;
use shared::effects::request::{PartnerRequest, RequestParts};
use shared::flows::template::{Body, TemplateError};
use shared::flows::{Action, Call, ContactRef, Decide, Effect, Flow, Flows, Guarantee, Upsert};
use shared::ledger::{Entry, Progress, Row};

use super::FlowsFolderArgs;
use crate::sample_event::SampleEvent;
use crate::{CommandExit, flows_folder, output};

mod preconditions;
mod mask;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows plan events/lead-created.json
  ledgerline flows plan event.json --flow lead-routing --json

The file holds an event as its sender sends it, or {\"headers\": {…}, \"body\": {…}}.
No value of the event is printed: ‹text, 24› stands for a text of 24 characters.";

/// Show what an event would do, effect by effect, without its values. Nothing is called.
#[derive(Debug, Args)]
pub struct FlowsPlanArgs {
    /// The event, as JSON.
    event: PathBuf,
    /// The flow. Without it, the event's type says which.
    #[arg(long)]
    flow: Option<String>,
    #[command(flatten)]
    common: FlowsFolderArgs,
}

/// What would be done for an event.
#[derive(Debug, Serialize)]
pub struct FlowPlan {
    /// The flow that takes it.
    pub flow: String,
    /// Its id, from its key.
    pub id: String,
    /// Its message group: events of one group are processed in order.
    pub group: String,
    /// The fields that the schema does not list: they never enter.
    pub dropped: Vec<String>,
    /// What is found out, asked and guarded before the first effect.
    pub before: Vec<String>,
    /// The effects, in the order in which they are written.
    pub effects: Vec<PlannedEffect>,
}

/// What one effect would do.
#[derive(Debug, Serialize)]
pub struct PlannedEffect {
    /// The effect.
    pub effect: String,
    /// What it waits for.
    pub after: Vec<String>,
    /// What happens when nobody knows whether it happened.
    pub when_unknown: &'static str,
    /// What it would do, or why it could not.
    pub does: Result<PlannedAction, String>,
}

/// What an effect does, without the event's values.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// Nothing: its condition does not hold for this event.
    Nothing,
    /// It calls a partner.
    Call {
        /// The method and the address.
        line: String,
        /// The header fields that we set.
        headers: Vec<(String, String)>,
        /// The body.
        body: Option<Value>,
    },
    /// It makes or changes a contact.
    Upsert {
        /// What would be known of it.
        contact: Value,
    },
    /// It brings a human's answer to an event that awaits approval.
    Decide {
        /// What was asked and answered, and by whom.
        decision: Value,
    },
}

impl FlowsPlanArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let files = flows_folder::read(&flows_folder::find(self.common.folder)?)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        let text = std::fs::read_to_string(&self.event);
        let sample = SampleEvent::parse(&text.with_context(|| format!("cannot read {}", self.event.display()))?)?;
        let flow = choose(&sample, &flows, self.flow.as_deref())?;
        let planned = match plan(&sample, flow, &flows) {
            Ok(planned) => planned,
            Err(why) => {
                anstream::eprintln!("The flow `{}` would refuse this event: {why}.", flow.name);
                return Ok(CommandExit::Problems);
            }
        };
        if json {
            output::json(&json!(planned))
        } else {
            show(&planned)
        }
        Ok(if planned.effects.iter().all(|step| step.does.is_ok()) {
            CommandExit::Success
        } else {
            CommandExit::Problems
        })
    }
}

fn choose<'f>(sample: &SampleEvent, flows: &'f Flows, name: Option<&str>) -> Result<&'f Flow> {
    if let Some(name) = name {
        return flows.flow(name).with_context(|| format!("there is no flow `{name}`"));
    }
    match sample.flows(flows).as_slice() {
        [flow] => Ok(flow),
        [] => bail!("no flow takes an event of this type: name one with --flow"),
        several => {
            let names: Vec<&str> = several.iter().map(|flow| flow.name.as_str()).collect();
            bail!(
                "several flows would take this event, from different sources: name one with --flow: {}",
                names.join(", ")
            )
        }
    }
}

/// What a flow would do for an event, or why it would refuse it.
pub(crate) fn plan(sample: &SampleEvent, flow: &Flow, flows: &Flows) -> Result<FlowPlan, String> {
    let event = sample.event(flow, flows, Timestamp::from_secs(0)).map_err(|refused| refused.0)?;
    let mut row = Row { enrich: preconditions::assumed_found(flow), ..Row::admitted(&event, event.received_at) };
    let before = preconditions::sentences(flow, &row.scope_of(&event), event.received_at);
    let mut effects = Vec::new();
    for effect in &flow.effects {
        effects.push(planned_effect(effect, &event, &row, flow, flows));
        row.effects.insert(effect.id.clone(), assumed_done(effect, event.received_at));
    }
    let dropped = mask::dropped(&sample.body, &event.payload);
    Ok(FlowPlan { flow: flow.name.clone(), id: event.id.to_string(), group: event.group, dropped, before, effects })
}

fn planned_effect(effect: &Effect, event: &Event, row: &Row, flow: &Flow, flows: &Flows) -> PlannedEffect {
    let after = flow.needs(effect).into_iter().map(str::to_owned).collect();
    let when_unknown = match effect.guarantee {
        Guarantee::Native => "called again under the same key",
        Guarantee::Lookup => "looked up at the partner",
        Guarantee::None => "parked for a human",
    };
    let does =
        action_of(effect, event, row, flow, flows).map_err(|error| format!("cannot be made from this event: {error}"));
    PlannedEffect { effect: effect.id.clone(), after, when_unknown, does }
}

fn action_of(
    effect: &Effect,
    event: &Event,
    row: &Row,
    flow: &Flow,
    flows: &Flows,
) -> Result<PlannedAction, TemplateError> {
    let scope = row.scope(event, effect);
    if let Some(when) = &effect.when
        && !when.holds(&scope)?
    {
        return Ok(PlannedAction::Nothing);
    }
    let masked =
        |written: &Body| -> Result<Value, TemplateError> { Ok(mask::body(written.written(), written.render(&scope)?)) };
    match &effect.action {
        Action::Call(call) => request(effect, call, event, row, flows),
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

fn request(
    effect: &Effect,
    call: &Call,
    event: &Event,
    row: &Row,
    flows: &Flows,
) -> Result<PlannedAction, TemplateError> {
    let integration = flows.partner_of(effect).expect("parsed flows name their integrations");
    let occasion = RequestParts { effect, call, integration, event, row, span: 0, bearer: None };
    let PartnerRequest { method, base_url, path, headers, body, .. } = occasion.request()?;
    let path = mask::path(call.request.path.written(), &path);
    let written = call.request.body.as_ref().map(Body::written);
    let headers = headers.into_iter().filter(|(name, _)| name != "traceparent").collect();
    let body = body.zip(written).map(|(body, written)| mask::body(written, body));
    Ok(PlannedAction::Call { line: format!("{method} {base_url}{path}"), headers, body })
}

/// As if the effect had answered: later templates read what it keeps.
fn assumed_done(effect: &Effect, now: Timestamp) -> Entry {
    let kept = effect.results().map(|name| (name.to_owned(), json!(format!("‹{}.{name}›", effect.id))));
    let progress = Progress::Done { result: Value::Object(kept.collect::<Map<_, _>>()) };
    Entry { attempts: 1, since: now, at: now, doubtful: false, progress }
}

fn show(planned: &FlowPlan) {
    let FlowPlan { flow, id, group, dropped, before, effects } = planned;
    anstream::println!("{} takes it", output::styled(output::BOLD, flow));
    anstream::println!("  id      {id}\n  group   {group}");
    if !dropped.is_empty() {
        anstream::println!("  dropped {}", dropped.join(", "));
    }
    before.iter().for_each(|sentence| anstream::println!("  first   {sentence}"));
    for PlannedEffect { effect, after, when_unknown, does } in effects {
        let after = if after.is_empty() { "at once".into() } else { format!("after {}", after.join(", ")) };
        let unknown = format!("if nobody knows whether it happened: {when_unknown}");
        anstream::println!("\n{} {after}; {unknown}", output::styled(output::BOLD, effect));
        match does {
            Ok(does) => show_effect(does),
            Err(why) => anstream::println!("  {}", output::styled(output::BAD, why)),
        }
    }
}

fn show_effect(does: &PlannedAction) {
    let indented = |value: &Value| format!("{value:#}").replace('\n', "\n  ");
    match does {
        PlannedAction::Nothing => anstream::println!("  nothing: its condition does not hold for this event"),
        PlannedAction::Upsert { contact } => anstream::println!("  upsert {}", indented(contact)),
        PlannedAction::Decide { decision } => anstream::println!("  decide {}", indented(decision)),
        PlannedAction::Call { line, headers, body } => {
            anstream::println!("  {line}");
            for (name, value) in headers {
                anstream::println!("  {}", output::styled(output::DIM, format!("{name}: {value}")));
            }
            body.iter().for_each(|body| anstream::println!("  {}", indented(body)));
        }
    }
}
