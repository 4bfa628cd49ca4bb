//! One call to a partner.

use std::time::Duration;

use shared::event::Event;
use shared::flow::{Auth, Effect, Integration};
use shared::ledger::Row;
use shared::outcome::{NoAnswer, Outcome, classify};
use shared::request::{PartnerRequest, render};
use shared::signature::Secret;
use shared::template::TemplateError;
use shared::time::Timestamp;

use crate::process::{MARGIN, Processor};

/// What came of a call.
pub(crate) enum Called {
    /// It was made, or at least tried.
    Answered(Outcome),
    /// Its request could not be made from this event.
    NotRendered(TemplateError),
}

/// Calls the effect's partner, once. Its intent must be recorded.
pub(crate) async fn call(
    processor: &Processor,
    effect: &Effect,
    event: &Event,
    row: &Row,
    deadline: Timestamp,
) -> Called {
    let integration = processor.flows.integration(&effect.integration).expect("parsed flows name their integrations");
    let bearer = match bearer(processor, effect, integration).await {
        Ok(bearer) => bearer,
        Err(error) => return answered(processor, effect, Err(error)),
    };
    let trace = event.trace.child(processor.chance.bits());
    match render(effect, integration, event, row, &trace, bearer) {
        Ok(request) => {
            let timeout = request.timeout.min(left(processor, deadline));
            let answer = processor.partners.call(PartnerRequest { timeout, ..request }).await;
            answered(processor, effect, answer)
        }
        Err(error) => Called::NotRendered(error),
    }
}

fn answered(processor: &Processor, effect: &Effect, answer: Result<shared::outcome::Answer, NoAnswer>) -> Called {
    Called::Answered(classify(answer, effect.guarantee, processor.clock.now()))
}

/// The newest token of the integration: the last by name.
async fn bearer(processor: &Processor, effect: &Effect, integration: &Integration) -> Result<Option<Secret>, NoAnswer> {
    if integration.auth == Auth::None {
        return Ok(None);
    }
    let live = processor.secrets.live(&format!("integrations/{}", effect.integration)).await;
    let secrets = live.map_err(|error| NoAnswer::NotSent(error.to_string()))?;
    match secrets.last() {
        Some(secret) => Ok(Some(secret.clone())),
        None => Err(NoAnswer::NotSent(format!("there is no secret for `{}`", effect.integration))),
    }
}

/// What is left of the invocation for a call.
fn left(processor: &Processor, deadline: Timestamp) -> Duration {
    deadline.since(processor.clock.now()).saturating_sub(MARGIN)
}
