//! The whole intake path, in order.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::contract::{Contract, Violation};
use shared::delivery::Delivery;
use shared::event::Event;
use shared::flow::{Flow, Flows, Source};
use shared::key::{EventId, KeyError};
use shared::ledger::{Row, State};
use shared::ports::{Admission, Admissions, Chance, Clock, Queue, Secrets, Unavailable};
use shared::signature::{self, Refused, Verified};
use shared::time::Timestamp;
use shared::trace::Trace;

/// What the intake works with.
pub struct Intake {
    flows: Flows,
    contracts: BTreeMap<String, Contract>,
    /// The ledger.
    pub ledger: Box<dyn Admissions>,
    /// The queue of events.
    pub queue: Box<dyn Queue>,
    /// The senders' signing secrets.
    pub secrets: Box<dyn Secrets>,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// Chance, for traces that start here.
    pub chance: Box<dyn Chance>,
}

impl Intake {
    /// Compiles the flows' schemas, once.
    ///
    /// # Panics
    /// If a schema does not compile. [`Flows::parse`] lets none through.
    pub fn new(
        flows: Flows,
        ledger: Box<dyn Admissions>,
        queue: Box<dyn Queue>,
        secrets: Box<dyn Secrets>,
        clock: Box<dyn Clock>,
        chance: Box<dyn Chance>,
    ) -> Self {
        let compile = |flow: &Flow| Contract::compile(&flow.schema).expect("parsed flows have good schemas");
        let contracts = flows.all().map(|flow| (flow.name.clone(), compile(flow))).collect();
        Self { flows, contracts, ledger, queue, secrets, clock, chance }
    }
}

/// The answer to an accepted event.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The event's id.
    pub id: EventId,
    /// Whether it had been accepted before.
    pub replayed: bool,
    /// What came of it, once every effect is done.
    pub result: Option<Value>,
}

/// Why a delivery was not accepted. Nothing was stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// No such sender.
    #[error("unknown source")]
    UnknownSource,
    /// More than the sender may send.
    #[error("too large")]
    TooLarge,
    /// Not JSON by its own word.
    #[error("not JSON by its content type")]
    UnsupportedMediaType,
    /// Not proven to come from its source.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Not JSON.
    #[error("not JSON")]
    Malformed,
    /// No flow takes events of this type.
    #[error("no flow takes it")]
    UnknownType,
    /// It breaks its contract.
    #[error("breaks the schema")]
    Invalid(Vec<Violation>),
    /// It cannot be keyed.
    #[error(transparent)]
    Unkeyed(#[from] KeyError),
    /// The ledger, the queue or the secret store did not answer. The sender should try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Verify, trim, key, admit, enqueue.
///
/// The ledger is written before the queue. A crash between the two leaves a row that was never
/// sent; the sender saw no 202, tries again, and the duplicate sends it. The other order could run
/// effects for an event that nobody remembers accepting.
pub async fn accept(intake: &Intake, delivery: Delivery, trace: Trace, now: Timestamp) -> Result<Receipt, Rejection> {
    let verified = verify(intake, delivery, now).await?;
    let event = normalize(intake, verified, trace, now)?;

    match intake.ledger.admit(&Row::admitted(&event, now), now).await? {
        Admission::New => (),
        // It may be on the queue already, or its first sender crashed before it was. A second copy
        // is harmless: SQS drops it within five minutes, the processor's claim does so afterwards.
        Admission::Duplicate(row) if row.state == State::Queued => {
            intake.queue.send(&Event { replay: row.replay, ..event }).await?;
            return Ok(again(*row));
        }
        Admission::Duplicate(row) => return Ok(again(*row)),
    }

    intake.queue.send(&event).await?;
    Ok(Receipt { id: event.id, replayed: false, result: None })
}

/// The first answer again, or the result once there is one.
fn again(row: Row) -> Receipt {
    let result = (row.state == State::Succeeded).then(|| row.results());
    Receipt { id: row.id, replayed: true, result }
}

async fn verify(intake: &Intake, delivery: Delivery, now: Timestamp) -> Result<Verified, Rejection> {
    let source = intake.flows.source(&delivery.source).ok_or(Rejection::UnknownSource)?;
    if delivery.body.len() > source.max_body {
        return Err(Rejection::TooLarge);
    }
    if !is_json(delivery.headers.get("content-type").unwrap_or_default()) {
        return Err(Rejection::UnsupportedMediaType);
    }
    let secrets = intake.secrets.live(&format!("sources/{}", delivery.source)).await?;
    Ok(signature::verify(source, &secrets, delivery, now)?)
}

fn normalize(intake: &Intake, verified: Verified, trace: Trace, now: Timestamp) -> Result<Event, Rejection> {
    let delivery = verified.into_delivery();
    let body: Value = serde_json::from_slice(&delivery.body).map_err(|_| Rejection::Malformed)?;
    let source = intake.flows.source(&delivery.source).ok_or(Rejection::UnknownSource)?;
    let flow = route(intake, source, &delivery, &body).ok_or(Rejection::UnknownType)?;
    let payload = intake.contracts[&flow.name].admit(body).map_err(Rejection::Invalid)?;
    Ok(Event::new(flow, payload, now, trace)?)
}

/// Only the path or signed content chooses the flow; an unsigned header never does.
fn route<'i>(intake: &'i Intake, source: &Source, delivery: &Delivery, body: &Value) -> Option<&'i Flow> {
    let named = delivery.event_type.as_deref();
    intake.flows.route(&delivery.source, named.or_else(|| source.type_at.of(body)?.as_str())?)
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}
