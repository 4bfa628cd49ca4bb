//! The whole intake path, in order.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use shared::arrival::delivery::Delivery;
use shared::arrival::event::Event;
use shared::arrival::invalid::{self, InvalidBody, NoEvent};
use shared::arrival::key::{self, Names};
use shared::arrival::secrets::Secrets;
use shared::arrival::window::{self, Sighting, Windows};
use shared::base::machine::{Chance, Clock};
use shared::base::time::Timestamp;
use shared::base::trace::Trace;
use shared::flows::contract::Contracts;
use shared::flows::{Flow, Flows, IdAt, OnInvalid, Source};
use shared::ledger::queue::Queue;
use shared::ledger::{Admission, Admissions, Row, Rows};
use shared::limits::rates::{Decision, Limiter};
use shared::operate::log::LogSampling;
use shared::operate::metric::{Fact, Metrics, Stage, WorkUnit};
use tracing::{debug, warn};

use crate::duplicate::answer_duplicate;
use crate::envelope::{self, ParsedBody};
use crate::receipt::{Admitted, Receipt};
use crate::rejection::Rejection;
use crate::signature::verify_signature;
use crate::storable;

/// The ports of the intake.
pub struct Intake {
    /// The sources and the flows.
    pub flows: Flows,
    /// The flows' schemas, compiled.
    pub contracts: Contracts,
    /// The ledger, to admit events.
    pub ledger: Box<dyn Admissions>,
    /// The anchors of keys with a window.
    pub windows: Box<dyn Windows>,
    /// The ledger's rows, for receipts.
    pub rows: Box<dyn Rows>,
    /// The queue of events.
    pub queue: Box<dyn Queue>,
    /// The rate of each sender.
    pub limiter: Limiter,
    /// The senders' signing secrets and tokens.
    pub secrets: Box<dyn Secrets>,
    /// The metrics.
    pub metrics: Box<dyn Metrics>,
    /// Which successes are logged.
    pub sampling: LogSampling,
    /// The clock.
    pub clock: Box<dyn Clock>,
    /// Random numbers, for traces that start here.
    pub chance: Box<dyn Chance>,
}

/// Accepts one event: verify, trim, key, admit, enqueue.
///
/// The ledger is written before the queue. A crash between the two leaves a row that was never
/// sent; the sender saw no 202, tries again, and the duplicate sends it. The other order could run
/// effects for an event that the ledger does not know.
pub async fn accept(
    intake: &Intake,
    unit: &WorkUnit<'_>,
    delivery: Delivery,
    trace: Trace,
    now: Timestamp,
) -> Result<Receipt, Rejection> {
    let delivery = timed(intake, unit, Stage::Verify, verify(intake, delivery, now)).await?;
    let context = Context { intake, unit, delivery: &delivery, in_batch: None, trace, now };
    let standing = context.within_rate().await?;
    let document = envelope::open(&delivery, context.source()?)?;
    let admitted = context.admit(document, standing).await?;
    if let Some(event) = &admitted.unsent {
        timed(intake, unit, Stage::Send, intake.queue.send(event)).await?;
    }
    Ok(admitted.receipt)
}

/// Accepts a batch: one answer for each event, in order, and no event spoils another.
pub async fn accept_batch(
    intake: &Intake,
    unit: &WorkUnit<'_>,
    delivery: Delivery,
    trace: Trace,
    now: Timestamp,
) -> Result<Vec<Result<Receipt, Rejection>>, Rejection> {
    let delivery = timed(intake, unit, Stage::Verify, verify(intake, delivery, now)).await?;
    let context = |place: u32| {
        let now = now + Duration::from_millis(place.into());
        Context { intake, unit, delivery: &delivery, in_batch: Some(place), trace: trace.clone(), now }
    };
    let documents = envelope::open_batch(&delivery, context(0).source()?)?;
    // Each is received a moment after the one before it: of two about one contact, the later one counts.
    let admissions = (0..)
        .map(context)
        .zip(documents)
        .map(async |(context, document)| context.admit(document?, context.within_rate().await?).await);
    let admitted: Vec<_> = stream::iter(admissions).buffered(ADMISSIONS_AT_ONCE).collect().await;
    Ok(timed(intake, unit, Stage::Send, send_all(intake, admitted)).await)
}

/// Does a stage of a delivery, and counts how long it took.
async fn timed<T>(intake: &Intake, unit: &WorkUnit<'_>, stage: Stage, work: impl Future<Output = T>) -> T {
    let began = intake.clock.now();
    let done = work.await;
    unit.count(&Fact::Took(stage, intake.clock.now().since(began)));
    done
}

/// The number of events of a batch that are admitted side by side.
const ADMISSIONS_AT_ONCE: usize = 10;

/// Sends the admitted events. An event that the queue did not take is reported for itself alone.
async fn send_all(intake: &Intake, admitted: Vec<Result<Admitted, Rejection>>) -> Vec<Result<Receipt, Rejection>> {
    let unsent: Vec<Event> = admitted.iter().flatten().filter_map(|admitted| admitted.unsent.clone()).collect();
    let mut sent = intake.queue.send_all(&unsent).await.into_iter();
    let mut receipt = |admitted: Admitted| match admitted.unsent {
        Some(_) => sent.next().unwrap_or(Ok(())).map(|()| admitted.receipt).map_err(Rejection::from),
        None => Ok(admitted.receipt),
    };
    admitted.into_iter().map(|admitted| admitted.and_then(&mut receipt)).collect()
}

/// The context that every event of a delivery shares.
struct Context<'c> {
    intake: &'c Intake,
    unit: &'c WorkUnit<'c>,
    delivery: &'c Delivery,
    /// The event's place in its batch, from 0, if it came in one.
    in_batch: Option<u32>,
    trace: Trace,
    now: Timestamp,
}

impl Context<'_> {
    fn source(&self) -> Result<&Source, Rejection> {
        self.intake.flows.source(&self.delivery.source).ok_or(Rejection::UnknownSource)
    }

    /// Takes one event from the sender's rate: after the signature, so that a stranger cannot spend it.
    ///
    /// When the limits do not answer, the event is admitted: the sender has proven itself,
    /// and the ledger behind is the gate that counts.
    async fn within_rate(&self) -> Result<Option<Decision>, Rejection> {
        let sender = format!("sender/{}", self.delivery.source);
        let admitted = self.intake.limiter.admit(&sender, &self.source()?.rate, self.now);
        match timed(self.intake, self.unit, Stage::Rate, admitted).await {
            Ok(denied @ Decision::Throttled { .. }) => Err(Rejection::Throttled(denied)),
            Ok(admitted) => Ok(Some(admitted)),
            Err(unavailable) => {
                let (source, trace_id) = (&self.delivery.source, self.trace.id());
                warn!(source, trace_id, %unavailable, "the sender's rate was not reached; the event is admitted without it");
                Ok(None)
            }
        }
    }

    async fn admit(&self, document: ParsedBody, standing: Option<Decision>) -> Result<Admitted, Rejection> {
        let flow = self.route(&document)?;
        let id = self.provider_id(&document);
        let (idempotency_key, in_batch) = (self.delivery.headers.get("idempotency-key"), self.in_batch);
        let names = Names { id: id.as_deref(), idempotency_key, in_batch };
        // What fits its schema is trimmed. What is parked is kept whole.
        let whole = (flow.on_invalid == OnInvalid::Park).then(|| document.body.clone());
        let event = invalid::event_of(&self.intake.contracts, flow, document.body, names, self.now, self.trace.clone());
        let (event, sighting) = match (event, whole) {
            (Err(why), Some(body)) if why.is_of_shape() => {
                // No schema could make an event of it that lacks the names of its key.
                key::check_names(flow, names)?;
                let event = InvalidBody::new(body, names).into_event(flow, self.now, self.trace.clone());
                return self.park(flow, event, &why, &document.changed, standing).await;
            }
            (event, _) => event?,
        };
        storable::check(&event, &document.changed, self.delivery.body.len())?;
        let event = self.placed(event, sighting).await?;
        let row = Row::admitted(&event, self.now);
        match timed(self.intake, self.unit, Stage::Admit, self.intake.ledger.admit(&row, self.now)).await? {
            Admission::New => {
                let receipt = Receipt { id: event.id.clone(), replayed: false, result: None, standing };
                Ok(Admitted { receipt, unsent: Some(event) })
            }
            Admission::Duplicate(first) => {
                let keyed_by_header = key::header_of(flow, names)?.is_some();
                answer_duplicate(*first, &row, event, keyed_by_header, standing)
            }
        }
    }

    /// Accepts an event whose shape its flow does not take, and parks it, whole: an operator replays it once the flow
    /// takes it. The row and the payload are one write, so that nothing is acknowledged that could not be replayed.
    async fn park(
        &self,
        flow: &Flow,
        event: Event,
        why: &NoEvent,
        changed: &[String],
        standing: Option<Decision>,
    ) -> Result<Admitted, Rejection> {
        storable::check_invalid(&event, changed, self.delivery.body.len())?;
        let row = Row::invalid(&event, why.to_string(), self.now);
        let admitted = self.intake.ledger.admit_parked(&row, &event, self.now);
        let new = timed(self.intake, self.unit, Stage::Admit, admitted).await?;
        if new {
            self.unit.count(&Fact::ParkedInvalid(&flow.name));
            let (flow, trace_id) = (&flow.name, self.trace.id());
            debug!(event = %event.id, flow, trace_id, "the event does not fit its flow's schema; it is parked");
        }
        let receipt = Receipt { id: event.id, replayed: !new, result: None, standing };
        Ok(Admitted { receipt, unsent: None })
    }

    /// The event under the anchor of its window, where its key has one.
    async fn placed(&self, event: Event, sighting: Option<Sighting>) -> Result<Event, Rejection> {
        let Some(sighting) = sighting else { return Ok(event) };
        let anchor = window::anchor(self.intake.windows.as_ref(), &sighting, self.now).await?;
        Ok(Event { id: sighting.id_at(anchor), ..event })
    }

    /// The provider's own id of the event, from signed content. A header names the delivery: in a batch it
    /// would make one event of all.
    fn provider_id(&self, document: &ParsedBody) -> Option<String> {
        match self.source().ok()?.id_at.as_ref()? {
            IdAt::Field(field) => Some(field.of(&document.body)?.as_str()?.to_owned()),
            IdAt::Header { .. } if self.in_batch.is_some() => None,
            IdAt::Header { header } => self.delivery.headers.get(header).map(str::to_owned),
        }
    }

    /// Only the path or signed content chooses the flow; an unsigned header never does. Where both name a type they
    /// must agree: the path is not signed, and one captured body would be two events at two paths.
    fn route(&self, document: &ParsedBody) -> Result<&Flow, Rejection> {
        let type_at = &self.source()?.type_at;
        let signed = type_at.of(&document.body).and_then(Value::as_str);
        let by_path = self.delivery.event_type.as_deref();
        if let (Some(by_path), Some(signed)) = (by_path, signed)
            && by_path != signed
        {
            return Err(Rejection::TypeMismatch(type_at.pointer()));
        }
        let event_type = by_path.or(signed).ok_or(Rejection::UnknownType)?;
        self.intake.flows.route(&self.delivery.source, event_type).ok_or(Rejection::UnknownType)
    }
}

/// Verifies the sender of a delivery, and that its source may send such a body.
async fn verify(intake: &Intake, delivery: Delivery, now: Timestamp) -> Result<Delivery, Rejection> {
    let source = intake.flows.source(&delivery.source).ok_or(Rejection::UnknownSource)?;
    if delivery.body.len() > source.max_body {
        return Err(Rejection::TooLarge);
    }
    if !envelope::is_taken(delivery.headers.get("content-type").unwrap_or_default(), source) {
        return Err(Rejection::UnsupportedMediaType);
    }
    Ok(verify_signature(intake.secrets.as_ref(), source, delivery, now).await?.into_delivery())
}
