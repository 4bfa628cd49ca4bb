//! One request to a partner: the call of an effect, or the question whether it happened.

use serde_json::{Map, Value, json};
use shared::effects::contact;
use shared::effects::outcome::{LookedUp, Outcome, classify, looked_up};
use shared::effects::request::Occasion;
use shared::flows::template::TemplateError;
use shared::flows::{Action, Call, Decide, Effect, Flow, Lookup, Upsert};
use shared::ledger::{Row, Word};
use shared::limits::pressure::Ended;
use shared::operate::approval;
use shared::operate::requeue::RequeueError;

use crate::process::{Processor, Work};

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

/// An event's side of its requests, as its flow says and as far as its row knows.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'c> {
    pub(crate) work: &'c Work<'c>,
    pub(crate) flow: &'c Flow,
    pub(crate) row: &'c Row,
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
            Ok(request) => self.work.send(request).await,
            Err(error) => return Called::NotRendered(error),
        };
        let now = self.work.now();
        Called::Answered(classify(answer, self.work.processor.flows.trust(effect, tried, now), now))
    }

    /// Makes or changes a contact. It can be done again without harm, so that its failure is no doubt.
    async fn upsert(self, effect: &Effect, upsert: &Upsert) -> Result<Called, TemplateError> {
        let Work { processor, event, .. } = self.work;
        let scope = self.row.scope(event, effect);
        let contact = self.flow.contact.as_ref().expect("a parsed flow that upserts says whom");
        let (tenant, email) = contact.named(&scope)?;
        let fields: Map<String, Value> = upsert
            .fields
            .iter()
            .map(|(name, value)| Ok((name.clone(), value.render(&scope)?)))
            .collect::<Result<_, TemplateError>>()?;
        let outcome = match contact::Upsert::new(&tenant, &email, &fields) {
            Ok(upsert) => match processor.contacts.upsert(&upsert, &event.id, event.received_at).await {
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
        let scope = self.row.scope(self.work.event, effect);
        let (question, answer) = (decide.question.text(&scope)?, decide.answer.text(&scope)?);
        let by = decide.by.text(&scope)?;
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
        let Processor { records, queue, flows, .. } = self.work.processor;
        let (question, answer) = (question.parse()?, answer.parse()?);
        let why = format!("answered through {}", self.work.event.flow);
        let word = Word { by, why: &why };
        approval::decide(&**records, &**queue, flows, &question, answer, word, self.work.now()).await
    }

    /// Asks the effect's partner whether it happened.
    pub(crate) async fn look_up(self, effect: &Effect, lookup: &Lookup) -> LookedUp {
        let Action::Call(call) = &effect.action else { return LookedUp::CannotSay("it calls nobody".into()) };
        let occasion = match self.occasion(effect, call).await {
            Ok(occasion) => occasion,
            Err(error) => return LookedUp::CannotSay(error),
        };
        match occasion.lookup(lookup) {
            Ok(request) => looked_up(self.work.send(request).await, &lookup.found),
            Err(error) => LookedUp::CannotSay(error.to_string()),
        }
    }

    async fn occasion<'e>(&'e self, effect: &'e Effect, call: &'e Call) -> Result<Occasion<'e>, String> {
        let Work { processor, event, .. } = self.work;
        let integration = processor.flows.integration(&call.integration).expect("parsed flows name their integrations");
        let bearer = self.work.bearer(&call.integration, integration).await?;
        Ok(Occasion { effect, call, integration, event, row: self.row, span: processor.chance.bits(), bearer })
    }
}
