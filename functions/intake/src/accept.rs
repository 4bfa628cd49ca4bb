//! The whole intake path, in order.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt as _};
use shared::arrival::business_ids::business_ids_as_json;
use shared::arrival::delivery::Delivery;
use shared::arrival::event::Event;
use shared::arrival::invalid::{self, InvalidBody, NoEvent};
use shared::arrival::key::{self, Names};
use shared::arrival::secrets::Secrets;
use shared::arrival::signature::signed_id;
use shared::arrival::window::{self, NotAnchored, Sighting, Windows};
use shared::base::machine::{Chance, Clock};
use shared::base::time::Timestamp;
use shared::base::trace::{Trace, TraceState};
use shared::flows::contract::Contracts;
use shared::flows::{Field, Flow, Flows, IdAt, OnInvalid, OtherTypes, PartPlace, Source};
use shared::ledger::queue::Queue;
use shared::ledger::{Admission, Admissions, Row, Rows};
use shared::limits::rates::{Decision, Limiter};
use shared::operate::log::LogSampling;
use shared::operate::metric::{Fact, Metrics, Stage, WorkUnit};
use shared::operate::span::Spans;
use tracing::{debug, warn};

use crate::duplicate::answer_duplicate;
use crate::envelope::{self, ParsedBody};
use crate::receipt::{Accepted, Admitted, AdmittedEvent, Receipt};
use crate::rejection::Rejection;
use crate::signature::verify_signature;
use crate::spans::export_accepted;
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
    /// The part of the URL before our paths, as senders call it, where the deployment says it: for schemes that sign URLs.
    pub public_url: Option<String>,
    /// The metrics.
    pub metrics: Box<dyn Metrics>,
    /// The exporter of spans.
    pub spans: Box<dyn Spans>,
    /// Which successes are logged.
    pub sampling: LogSampling,
    /// The clock.
    pub clock: Box<dyn Clock>,
    /// Random numbers, for traces that start here.
    pub chance: Box<dyn Chance>,
}

/// Accepts a delivery: verify, trim, key, admit, enqueue.
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
) -> Result<Accepted, Rejection> {
    let delivery = timed(intake, unit, Stage::Verify, verify(intake, delivery, now)).await?;
    let context = Context { intake, unit, delivery: &delivery, in_batch: None, trace, now };
    let source = context.source()?;
    let document = envelope::open(&delivery, source)?;
    // A handshake is no event: it costs none of the sender's rate, and nothing of it is stored.
    if let Some(asked) = source.handshake.as_ref().and_then(|handshake| handshake.in_body(&document.body)) {
        return asked.challenge.map(|text| Accepted::Challenge(text.to_owned())).ok_or(Rejection::Malformed);
    }
    if let Some(split) = &source.split {
        let places = envelope::places(&document, split, source.other_types)?;
        let charge = Charge::Whole(context.within_rate().await?);
        if places.is_empty() {
            return Ok(Accepted::Ignored);
        }
        let part = |place: &PartPlace| envelope::part(&document, split, place);
        return Ok(Accepted::Parts(context.admit_each(Box::new(places.iter().map(part)), charge).await));
    }
    let standing = context.within_rate().await?;
    let AdmittedEvent { accepted, unsent } = context.admit(document, standing).await?;
    match &unsent[..] {
        [] => (),
        [event] => timed(intake, unit, Stage::Send, intake.queue.send(event)).await?,
        several => {
            let sent = timed(intake, unit, Stage::Send, intake.queue.send_all(several)).await;
            sent.into_iter().collect::<Result<(), _>>()?;
        }
    }
    unsent.iter().for_each(|event| export_accepted(intake, event));
    Ok(accepted)
}

/// Accepts a batch: one answer for each event, in order, and no event spoils another.
pub async fn accept_batch(
    intake: &Intake,
    unit: &WorkUnit<'_>,
    delivery: Delivery,
    trace: Trace,
    now: Timestamp,
) -> Result<Vec<Result<Accepted, Rejection>>, Rejection> {
    let delivery = timed(intake, unit, Stage::Verify, verify(intake, delivery, now)).await?;
    let context = Context { intake, unit, delivery: &delivery, in_batch: None, trace, now };
    let documents = envelope::open_batch(&delivery, context.source()?)?;
    Ok(context.admit_each(Box::new(documents.into_iter()), Charge::Each).await)
}

/// Does a stage of a delivery, and counts how long it took.
async fn timed<T>(intake: &Intake, unit: &WorkUnit<'_>, stage: Stage, work: impl Future<Output = T>) -> T {
    let began = intake.clock.now();
    let done = work.await;
    unit.count(&Fact::Took(stage, intake.clock.now().since(began)));
    done
}

/// The number of events of a delivery that are admitted side by side: so many that a thousand have their time.
const ADMISSIONS_AT_ONCE: usize = 25;

/// How the events of one delivery are counted in their sender's rate.
#[derive(Clone, Copy)]
enum Charge {
    /// Each by itself: its sender is told which were too many, and sends those again.
    Each,
    /// All, and the first one, which is counted, lets all of them in. Their sender sends all again or none, and would never
    /// get those behind the limit through.
    Whole(Option<Decision>),
}

/// Sends the admitted events. An event that the queue did not take is reported for itself alone.
async fn send_all(
    intake: &Intake,
    admitted: Vec<Result<AdmittedEvent, Rejection>>,
) -> Vec<Result<Accepted, Rejection>> {
    let unsent: Vec<Event> = admitted.iter().flatten().flat_map(|admitted| admitted.unsent.clone()).collect();
    let mut sent = intake.queue.send_all(&unsent).await.into_iter();
    let mut answer = |admitted: AdmittedEvent| {
        let sent: Vec<_> = sent.by_ref().take(admitted.unsent.len()).collect();
        sent.into_iter().collect::<Result<(), _>>()?;
        admitted.unsent.iter().for_each(|event| export_accepted(intake, event));
        Ok(admitted.accepted)
    };
    admitted.into_iter().map(|admitted| admitted.and_then(&mut answer)).collect()
}

/// The documents of a delivery with several events. Each is made when its turn comes.
type Documents<'d> = Box<dyn Iterator<Item = Result<ParsedBody, Rejection>> + Send + 'd>;

/// The context that every event of a delivery shares.
#[derive(Clone)]
struct Context<'c> {
    intake: &'c Intake,
    unit: &'c WorkUnit<'c>,
    delivery: &'c Delivery,
    /// The event's place in its batch, from 0, if it came in one.
    in_batch: Option<u32>,
    trace: Trace,
    now: Timestamp,
}

impl<'c> Context<'c> {
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

    /// Admits the events of one delivery, each by itself, a few at a time.
    async fn admit_each(&self, mut documents: Documents<'_>, charge: Charge) -> Vec<Result<Accepted, Rejection>> {
        let (mut waiting, mut admitted) = (FuturesOrdered::<BoxFuture<'c, _>>::new(), Vec::new());
        for place in 0u32.. {
            let Some(document) = documents.next() else { break };
            if waiting.len() >= ADMISSIONS_AT_ONCE {
                admitted.extend(waiting.next().await);
            }
            // Each is received a moment after the one before it: of two about one contact, the later one counts.
            let now = self.now + Duration::from_millis(u64::from(place));
            let context = Context { in_batch: Some(place), now, ..self.clone() };
            waiting.push_back(Box::pin(context.admit_one_of_several(document, charge)));
        }
        while let Some(one) = waiting.next().await {
            admitted.push(one);
        }
        timed(self.intake, self.unit, Stage::Send, send_all(self.intake, admitted)).await
    }

    async fn admit_one_of_several(
        self,
        document: Result<ParsedBody, Rejection>,
        charge: Charge,
    ) -> Result<AdmittedEvent, Rejection> {
        let document = document?;
        let standing = match charge {
            Charge::Each => self.within_rate().await?,
            Charge::Whole(standing) if self.in_batch == Some(0) => standing,
            Charge::Whole(standing) => {
                drop(self.within_rate().await);
                standing
            }
        };
        self.admit(document, standing).await
    }

    /// Admits an event to every flow that takes it.
    ///
    /// What one of them rejects is none's, as far as that shows before a row is written: all look at the event first, and
    /// all find its place in time. Then come the flows whose key the sender writes into a header: only these can find
    /// another payload's row. What was admitted by then is sent, and told, whatever the others say: a row that is never
    /// sent would stand for an event on which nobody acts.
    async fn admit(&self, document: ParsedBody, standing: Option<Decision>) -> Result<AdmittedEvent, Rejection> {
        let flows = self.route(&document)?;
        let id = self.provider_id(&document);
        let (idempotency_key, in_batch) = (self.delivery.headers.get("idempotency-key"), self.in_batch);
        let names = Names { id: id.as_deref(), idempotency_key, in_batch };
        let prepared = self.prepare_all(&flows, document, names)?;
        let mut placed = Vec::with_capacity(prepared.len());
        for (flow, prepared) in prepared {
            placed.push((flow, self.placed(prepared).await?));
        }
        if flows.len() > 1 {
            return self.admit_to_several(placed, names, standing).await;
        }
        let Some((flow, placed)) = placed.pop() else {
            return Ok(AdmittedEvent { accepted: Accepted::Ignored, unsent: Vec::new() });
        };
        let Admitted { receipt, unsent } = self.admit_to(flow, placed, names, standing).await?;
        Ok(AdmittedEvent { accepted: Accepted::Event(receipt), unsent: unsent.into_iter().collect() })
    }

    async fn admit_to_several(
        &self,
        mut placed: Vec<(&Flow, Placed)>,
        names: Names<'_>,
        standing: Option<Decision>,
    ) -> Result<AdmittedEvent, Rejection> {
        placed.sort_by_key(|(flow, _)| !matches!(key::header_of(flow, names), Ok(Some(_))));
        let (mut receipts, mut unsent) = (Vec::with_capacity(placed.len()), Vec::new());
        for (flow, placed) in placed {
            let receipt = match self.admit_to(flow, placed, names, standing).await {
                Ok(admitted) => {
                    unsent.extend(admitted.unsent);
                    Ok(admitted.receipt)
                }
                Err(rejection) if receipts.is_empty() => return Err(rejection),
                Err(rejection) => Err(rejection),
            };
            receipts.push((flow.name.clone(), receipt));
        }
        Ok(AdmittedEvent { accepted: Accepted::ByFlow(receipts), unsent })
    }

    /// What each flow would make of a document. Only where several take it, it is copied.
    fn prepare_all<'f>(
        &self,
        flows: &[&'f Flow],
        document: ParsedBody,
        names: Names<'_>,
    ) -> Result<Vec<(&'f Flow, Prepared)>, Rejection> {
        let Some((last, others)) = flows.split_last() else { return Ok(Vec::new()) };
        let mut prepared = Vec::with_capacity(flows.len());
        for flow in others {
            prepared.push((*flow, self.prepare(flow, document.clone(), names)?));
        }
        prepared.push((*last, self.prepare(last, document, names)?));
        Ok(prepared)
    }

    /// The event that a flow would make of a document, or the reason why it makes none. It stores nothing.
    fn prepare(&self, flow: &Flow, document: ParsedBody, names: Names<'_>) -> Result<Prepared, Rejection> {
        // What fits its schema is trimmed. What is parked is kept whole.
        let whole = (flow.on_invalid == OnInvalid::Park).then(|| document.body.clone());
        let event = invalid::event_of(&self.intake.contracts, flow, document.body, names, self.now, self.trace.clone());
        let delivered = self.delivery.body.len();
        match (event, whole) {
            (Err(why), Some(body)) if why.is_of_shape() => {
                // No schema could make an event of it that lacks the names of its key.
                key::check_names(flow, names)?;
                let event = InvalidBody::new(body, names).into_event(flow, self.now, self.trace.clone());
                let event = Event { tracestate: self.tracestate(), ..event };
                storable::check_invalid(&event, &document.changed, delivered)?;
                Ok(Prepared::Misfit(event, why))
            }
            (event, _) => {
                let (event, sighting) = event?;
                storable::check(&event, &document.changed, delivered)?;
                if sighting.as_ref().is_some_and(|sighting| sighting.is_ahead(self.now)) {
                    return Err(NotAnchored::Ahead.into());
                }
                Ok(Prepared::Event(event, sighting))
            }
        }
    }

    async fn admit_to(
        &self,
        flow: &Flow,
        placed: Placed,
        names: Names<'_>,
        standing: Option<Decision>,
    ) -> Result<Admitted, Rejection> {
        let event = match placed {
            Placed::Misfit(event, why) => return self.park(flow, event, &why, standing).await,
            Placed::Event(event) => event,
        };
        let receipt = Receipt {
            id: event.id.clone(),
            flow: flow.name.clone(),
            ids: business_ids_as_json(flow, &event.payload),
            replayed: false,
            result: None,
            standing,
        };
        let row = Row::admitted(&event, self.now);
        match timed(self.intake, self.unit, Stage::Admit, self.intake.ledger.admit(&row, self.now)).await? {
            Admission::New => Ok(Admitted { receipt, unsent: Some(event) }),
            Admission::Duplicate(first) => {
                let keyed_by_header = key::header_of(flow, names)?.is_some();
                answer_duplicate(*first, &row, event, keyed_by_header, receipt)
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
        standing: Option<Decision>,
    ) -> Result<Admitted, Rejection> {
        let row = Row::invalid(&event, why.to_string(), self.now);
        let admitted = self.intake.ledger.admit_parked(&row, &event, self.now);
        let new = timed(self.intake, self.unit, Stage::Admit, admitted).await?;
        if new {
            self.unit.count(&Fact::ParkedInvalid(&flow.name));
            let trace_id = self.trace.id();
            debug!(event = %event.id, flow = flow.name, trace_id, "the event does not fit its flow's schema; it is parked");
        }
        // No schema has said what stands where the flow's ids should.
        let ids = None;
        let receipt = Receipt { id: event.id, flow: flow.name.clone(), ids, replayed: !new, result: None, standing };
        Ok(Admitted { receipt, unsent: None })
    }

    /// The event under the anchor of its window, where its key has one.
    async fn placed(&self, prepared: Prepared) -> Result<Placed, Rejection> {
        let (event, sighting) = match prepared {
            Prepared::Misfit(event, why) => return Ok(Placed::Misfit(event, why)),
            Prepared::Event(event, sighting) => (event, sighting),
        };
        let event = Event { tracestate: self.tracestate(), ..event };
        let Some(sighting) = sighting else { return Ok(Placed::Event(event)) };
        let anchor = window::anchor(self.intake.windows.as_ref(), &sighting, self.now).await?;
        Ok(Placed::Event(Event { id: sighting.id_at(anchor), ..event }))
    }

    /// What the sender's systems want to be handed on. It belongs to their trace, and without that to none.
    fn tracestate(&self) -> TraceState {
        let headers = &self.delivery.headers;
        let has_trace = headers.get("traceparent").and_then(Trace::parse).is_some();
        let state = headers.get("tracestate").filter(|_| has_trace);
        state.map(TraceState::read).unwrap_or_default()
    }

    /// The provider's own id of the event, from signed content. A header names the delivery: in a batch it
    /// would make one event of all.
    fn provider_id(&self, document: &ParsedBody) -> Option<String> {
        let source = self.source().ok()?;
        match source.id_at.as_ref()? {
            IdAt::Field(_) => source.id_in(&document.body).map(Cow::into_owned),
            IdAt::Header { .. } if self.in_batch.is_some() => None,
            IdAt::Header { .. } => signed_id(&source.scheme, self.delivery).map(str::to_owned),
        }
    }

    /// The flows that take an event; none where the source lets other types go by.
    ///
    /// Only the path or signed content chooses them; an unsigned header never does. Where both name a type they must
    /// agree: the path is not signed, and one captured body would be two events at two paths.
    fn route(&self, document: &ParsedBody) -> Result<Vec<&Flow>, Rejection> {
        let source = self.source()?;
        let signed = source.type_of(&document.body);
        let by_path = self.delivery.event_type.as_deref();
        if let (Some(by_path), Some(signed)) = (by_path, signed)
            && by_path != signed
        {
            return Err(Rejection::TypeMismatch(source.type_at.as_ref().map(Field::pointer).unwrap_or_default()));
        }
        let event_type = by_path.or(signed).ok_or(Rejection::UnknownType)?;
        let flows: Vec<&Flow> = self.intake.flows.routes(&self.delivery.source, event_type).collect();
        match (flows.is_empty(), source.other_types) {
            (true, OtherTypes::Reject) => Err(Rejection::UnknownType),
            _ => Ok(flows),
        }
    }
}

/// What a flow makes of a document, before anything is stored.
enum Prepared {
    /// An event, and its place in time, where its key has a window.
    Event(Event, Option<Sighting>),
    /// An event whose shape the flow does not take, and parks.
    Misfit(Event, NoEvent),
}

/// What a flow makes of a document, with its place in time: what a row is written for.
enum Placed {
    Event(Event),
    Misfit(Event, NoEvent),
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
