//! One request to a partner: the call of an effect, or the question whether it happened.

use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::approval;
use shared::contact;
use shared::event::Event;
use shared::flow::{Action, Auth, Call, ContactRef, Decide, Effect, Lookup, Upsert};
use shared::ledger::{Row, UNSETTLED_RETENTION};
use shared::outcome::{Answer, LookedUp, NoAnswer, Outcome, classify, looked_up};
use shared::pressure::Ended;
use shared::request::{Occasion, PartnerRequest};
use shared::requeue::RequeueError;
use shared::signature::Secret;
use shared::template::TemplateError;
use shared::time::Timestamp;

use crate::process::{MARGIN, Processor};

/// What came of a call.
pub(crate) enum Called {
    /// It was made, or at least tried.
    Answered(Outcome),
    /// It was not made: something of our own was missing. It may be made later.
    Unprepared(String),
    /// Its request could not be made from this event.
    NotRendered(TemplateError),
}

impl Called {
    /// What it says about the partner's health.
    pub(crate) fn says(&self) -> Ended {
        match self {
            Called::Answered(Outcome::Done(_) | Outcome::Terminal(_)) => Ended::Success,
            Called::Answered(Outcome::Retryable { .. } | Outcome::Unknown(_)) => Ended::Failure,
            Called::Unprepared(_) | Called::NotRendered(_) => Ended::Neutral,
        }
    }
}

/// An event's side of its requests.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'c> {
    pub(crate) processor: &'c Processor,
    pub(crate) event: &'c Event,
    pub(crate) row: &'c Row,
    pub(crate) contact: Option<&'c ContactRef>,
    pub(crate) deadline: Timestamp,
}

impl Caller<'_> {
    /// Does what the effect says, once. Its intent must be recorded.
    pub(crate) async fn call(self, effect: &Effect) -> Called {
        match &effect.action {
            Action::Call(call) => self.call_partner(effect, call).await,
            Action::Upsert(upsert) => self.upsert(effect, upsert).await.unwrap_or_else(Called::NotRendered),
            Action::Decide(decide) => self.decide(effect, decide).await.unwrap_or_else(Called::NotRendered),
        }
    }

    async fn call_partner(self, effect: &Effect, call: &Call) -> Called {
        let tried = self.row.effects.get(&effect.id).map_or(self.row.received_at, |entry| entry.since);
        let occasion = match self.occasion(effect, call).await {
            Ok(occasion) => occasion,
            Err(error) => return Called::Unprepared(error),
        };
        let answer = match occasion.request() {
            Ok(request) => self.send(request).await,
            Err(error) => return Called::NotRendered(error),
        };
        let now = self.processor.clock.now();
        Called::Answered(classify(answer, self.processor.flows.trust(effect, tried, now), now))
    }

    /// Makes or changes a contact. It can be done again without harm, so that its failure is no doubt.
    async fn upsert(self, effect: &Effect, upsert: &Upsert) -> Result<Called, TemplateError> {
        let scope = self.row.scope(self.event, effect);
        let contact = self.contact.expect("a parsed flow that upserts says whom");
        let (tenant, email) = (text(contact.tenant.render(&scope)?), text(contact.email.render(&scope)?));
        let fields: Map<String, Value> = upsert
            .fields
            .iter()
            .map(|(name, value)| Ok((name.clone(), value.render(&scope)?)))
            .collect::<Result<_, TemplateError>>()?;
        let outcome = match contact::Upsert::new(&tenant, &email, &fields) {
            Ok(upsert) => match self.processor.contacts.upsert(&upsert, &self.event.id, self.event.received_at).await {
                Ok(upserted) => Outcome::Done(json!({"id": upserted.id, "created": upserted.created})),
                Err(error) => Outcome::Retryable { error: error.to_string(), retry_after: None, doubtful: false },
            },
            Err(bad) => Outcome::Terminal(bad.to_string()),
        };
        Ok(Called::Answered(outcome))
    }

    /// Brings a human's answer to the event that awaits it. An answer that comes too late, or twice, is done
    /// with: there is nothing to try again.
    async fn decide(self, effect: &Effect, decide: &Decide) -> Result<Called, TemplateError> {
        let scope = self.row.scope(self.event, effect);
        let (question, answer) = (text(decide.question.render(&scope)?), text(decide.answer.render(&scope)?));
        let by = text(decide.by.render(&scope)?);
        let outcome = match self.decided(&question, &answer, &by).await {
            Ok(row) => Outcome::Done(json!({"id": row.id, "state": row.state})),
            Err(RequeueError::Refused(refusal)) => Outcome::Done(json!({"refused": refusal.to_string()})),
            Err(RequeueError::Write(error)) => {
                Outcome::Retryable { error: error.to_string(), retry_after: None, doubtful: false }
            }
        };
        Ok(Called::Answered(outcome))
    }

    async fn decided(&self, question: &str, answer: &str, by: &str) -> Result<Row, RequeueError> {
        let Processor { records, queue, flows, clock, .. } = self.processor;
        let (question, answer) = (question.parse()?, answer.parse()?);
        let ttl = |row: &Row| flows.flow(&row.flow).map_or(UNSETTLED_RETENTION, |flow| flow.ttl);
        approval::decide(&**records, &**queue, &question, answer, by, ttl, clock.now()).await
    }

    /// Asks the effect's partner whether it happened.
    pub(crate) async fn look_up(self, effect: &Effect, lookup: &Lookup) -> LookedUp {
        let Action::Call(call) = &effect.action else { return LookedUp::CannotSay("it calls nobody".into()) };
        let occasion = match self.occasion(effect, call).await {
            Ok(occasion) => occasion,
            Err(error) => return LookedUp::CannotSay(error),
        };
        match occasion.lookup(lookup) {
            Ok(request) => looked_up(self.send(request).await, &lookup.found),
            Err(error) => LookedUp::CannotSay(error.to_string()),
        }
    }

    async fn occasion<'e>(&'e self, effect: &'e Effect, call: &'e Call) -> Result<Occasion<'e>, String> {
        let integration =
            self.processor.flows.integration(&call.integration).expect("parsed flows name their integrations");
        let bearer = match integration.auth {
            Auth::None => None,
            Auth::Bearer => Some(token(self.processor, &call.integration).await?),
        };
        let trace = self.event.trace.child(self.processor.chance.bits());
        Ok(Occasion { effect, call, integration, event: self.event, row: self.row, trace, bearer })
    }

    async fn send(&self, request: PartnerRequest) -> Result<Answer, NoAnswer> {
        let timeout = request.timeout.min(self.left());
        self.processor.partners.call(PartnerRequest { timeout, ..request }).await
    }

    /// What is left of the invocation for a request.
    fn left(&self) -> Duration {
        self.deadline.since(self.processor.clock.now()).saturating_sub(MARGIN)
    }
}

/// The newest token of an integration: the last by name.
pub(crate) async fn token(processor: &Processor, integration: &str) -> Result<Secret, String> {
    let live = processor.secrets.live(&format!("integrations/{integration}")).await;
    let secrets = live.map_err(|error| error.to_string())?;
    secrets.last().cloned().ok_or_else(|| format!("there is no secret for `{integration}`"))
}

/// A rendered value as text: a number or a boolean is written out.
pub(crate) fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
