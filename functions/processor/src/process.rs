//! One message: claim the event, run its effects, settle it.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use shared::event::Event;
use shared::flow::{Effect, Flow, Flows, Guarantee, Lookup};
use shared::ledger::{Claim, Closed, Death, Found, Lease, Next, Reason, Row};
use shared::outcome::{LookedUp, Outcome};
use shared::ports::{Chance, Claims, Clock, DeadLetter, DeadLetters, Partners, Secrets, Visibility, WriteError};
use shared::request::pick;
use shared::time::Timestamp;
use tracing::{error, info, warn};

use crate::batch::Received;
use crate::effect::{Called, Caller};

/// What the processor works with.
pub struct Processor {
    /// The flows and their integrations.
    pub flows: Flows,
    /// How long a claim holds.
    pub lease: Duration,
    /// The ledger.
    pub ledger: Box<dyn Claims>,
    /// The queue of events, to postpone what came too early.
    pub visibility: Box<dyn Visibility>,
    /// The queue of dead letters.
    pub dead_letters: Box<dyn DeadLetters>,
    /// What proves us to the partners.
    pub secrets: Box<dyn Secrets>,
    /// The partners' APIs.
    pub partners: Box<dyn Partners>,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// Chance, for jitter and spans.
    pub chance: Box<dyn Chance>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The queue may delete it.
    Done,
    /// It comes back after this long.
    Again(Duration),
    /// It comes back when its visibility timeout ends: nobody knows enough to say when it should.
    Leave,
}

/// How long a message waits when the ledger or the dead letter queue did not answer.
const OUTAGE_DELAY: Duration = Duration::from_secs(10);

/// Works on one message.
pub async fn process(processor: &Processor, message: &Received, deadline: Timestamp) -> Verdict {
    let Ok(event) = serde_json::from_str::<Event>(&message.body) else {
        return bury_malformed(processor, message).await;
    };
    let flow = processor.flows.flow(&event.flow);
    let work = Work { processor, message, event: &event, deadline };
    if !work.has_time(flow) {
        return Verdict::Again(Duration::ZERO);
    }
    let verdict = work.claim(flow).await;
    info!(event = %event.id, flow = event.flow, replay = event.replay, ?verdict, trace_id = event.trace.id(), "processed");
    verdict
}

/// A body that is no event would go round and round. It becomes a dead letter instead.
async fn bury_malformed(processor: &Processor, message: &Received) -> Verdict {
    let at = processor.clock.now();
    let error = "the message is not an event".to_owned();
    let letter = DeadLetter {
        body: message.body.clone(),
        group: message.group.clone(),
        deduplication_id: message.message_id.clone(),
        death: Death { reason: Reason::Malformed, effect: None, error, attempts: 0, at },
    };
    send(processor, &letter).await
}

/// One event at work.
struct Work<'w> {
    processor: &'w Processor,
    message: &'w Received,
    event: &'w Event,
    deadline: Timestamp,
}

impl Work<'_> {
    fn now(&self) -> Timestamp {
        self.processor.clock.now()
    }

    /// Whether the invocation lasts long enough for any one effect of the flow.
    fn has_time(&self, flow: Option<&Flow>) -> bool {
        let effects = flow.into_iter().flat_map(|flow| &flow.effects);
        let longest = effects.map(|effect| self.timeout(effect)).max().unwrap_or_default();
        self.deadline.since(self.now()) >= longest + MARGIN
    }

    fn timeout(&self, effect: &Effect) -> Duration {
        self.processor.flows.integration(&effect.integration).map(|partner| partner.timeout).unwrap_or_default()
    }

    async fn claim(&self, flow: Option<&Flow>) -> Verdict {
        let first = flow.into_iter().flat_map(Flow::first_stage).map(|effect| effect.id.clone()).collect();
        let claim = Claim { now: self.now(), lease: self.processor.lease, first };
        match self.processor.ledger.claim(&self.event.id, &claim).await {
            Ok(Ok(lease)) => self.settle(flow, lease).await,
            Ok(Err(found)) => self.refused(found, claim.now).await,
            Err(error) => {
                error!(event = %self.event.id, %error, "not claimed");
                Verdict::Again(OUTAGE_DELAY)
            }
        }
    }

    /// Somebody else has it, had it, or buried it.
    async fn refused(&self, found: Found, now: Timestamp) -> Verdict {
        match found {
            Found::Settled => Verdict::Done,
            Found::Busy(until) | Found::NotYet(until) => Verdict::Again(until.since(now) + AFTER_THE_LEASE),
            // Whoever buried it may have crashed before the letter was sent. Sending it twice is
            // harmless: the queue drops the copy, and parking the same event again changes nothing.
            Found::Dead(row) => match &row.death {
                Some(death) => self.send_letter(death.clone(), row.epoch).await,
                None => Verdict::Leave,
            },
            Found::Nothing => {
                let error = "the ledger has no row for it".to_owned();
                let death = Death { reason: Reason::Orphaned, effect: None, error, attempts: 0, at: now };
                self.send_letter(death, 0).await
            }
        }
    }

    /// Runs the lease to its end, and turns what stopped it into the message's fate.
    async fn settle(&self, flow: Option<&Flow>, lease: Lease) -> Verdict {
        let Some(flow) = flow else {
            let error = format!("there is no flow `{}`", self.event.flow);
            return self.or_leave(self.bury(lease, Reason::UnknownFlow, None, &error).await);
        };
        self.or_leave(self.run(flow, lease).await)
    }

    /// A write that failed leaves the message where it is. If the lease was lost, its next holder
    /// settles the event; if the ledger is down, the lease runs out and the next delivery finds the
    /// intent without an outcome.
    fn or_leave(&self, ran: Result<Verdict, WriteError>) -> Verdict {
        ran.unwrap_or_else(|error| {
            warn!(event = %self.event.id, %error, "not recorded");
            Verdict::Leave
        })
    }

    /// Stage after stage. The write that completes a stage carries the next one's intents, so N effects
    /// in a row cost N + 1 writes, and M side by side cost 2, the claim included.
    async fn run(&self, flow: &Flow, mut lease: Lease) -> Result<Verdict, WriteError> {
        loop {
            let next = lease.next(flow, &self.processor.flows, self.now());
            if next != Next::Finish && self.is_expired(flow, &lease) {
                return self.expire(lease).await;
            }
            let stop = match next {
                Next::Finish => {
                    let closed = lease.succeed(flow.ttl, self.now());
                    self.processor.ledger.close(&closed).await?;
                    return Ok(Verdict::Done);
                }
                Next::Unknown(effect, error) => {
                    lease.unknown(effect, &error, self.now());
                    Some(Stop::Bury(effect, Reason::UnknownOutcome, error))
                }
                Next::Wait(until) => Some(Stop::Retry(until.since(self.now()))),
                Next::Lookup(effect, lookup) => self.look_up(flow, effect, lookup, &mut lease).await,
                Next::Intend(effects) => self.intend(flow, &effects, &mut lease).await?,
                Next::Call(effects) => self.call(flow, &effects, &mut lease).await?,
            };
            match stop {
                None => continue,
                Some(Stop::Retry(delay)) => return self.retry(lease, delay).await,
                Some(Stop::Bury(effect, reason, error)) => return self.bury(lease, reason, Some(effect), &error).await,
            }
        }
    }

    fn is_expired(&self, flow: &Flow, lease: &Lease) -> bool {
        self.now().since(lease.row().queued_at) > flow.max_age
    }

    /// The event waited too long, and is not acted on any more. What nobody knows is said all the same.
    async fn expire(&self, mut lease: Lease) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let reason = if lease.row().in_doubt() { Reason::UnknownOutcome } else { Reason::Expired };
        self.bury(lease, reason, None, "older than its flow allows").await
    }

    async fn intend<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        if let Some(spent) = effects.iter().find(|effect| lease.attempts(effect) >= flow.retry.max_attempts) {
            return Ok(Some(Stop::Bury(spent, Reason::AttemptsSpent, "no attempt is left".into())));
        }
        if !self.has_time(Some(flow)) {
            return Ok(Some(Stop::Retry(Duration::ZERO)));
        }
        effects.iter().for_each(|effect| lease.intend(effect, self.now()));
        self.processor.ledger.record(lease).await?;
        Ok(None)
    }

    /// Calls effects side by side and notes what comes of each.
    async fn call<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        let row = lease.row().clone();
        let caller = self.caller(&row);
        let mut calls: FuturesUnordered<_> =
            effects.iter().map(|effect| async move { (*effect, caller.call(effect).await) }).collect();
        let mut stop = None;
        while let Some((effect, called)) = calls.next().await {
            stop = Stop::graver(stop, self.note(flow, effect, called, lease));
            // What no partner could be asked about is written down at once, not when its neighbours are
            // done: a crash meanwhile would leave it unknown.
            if effect.guarantee == Guarantee::None && !calls.is_empty() {
                self.processor.ledger.record(lease).await?;
            }
        }
        Ok(stop)
    }

    /// Notes what came of a call. `None` says that it is done.
    fn note<'f>(&self, flow: &Flow, effect: &'f Effect, called: Called, lease: &mut Lease) -> Option<Stop<'f>> {
        let now = self.now();
        match called {
            Called::Answered(Outcome::Done(answer)) => {
                lease.done(effect, pick(effect, &answer), now);
                None
            }
            Called::Answered(Outcome::Retryable { error, retry_after }) => {
                lease.failed(effect, &error, now);
                Some(self.again(flow, effect, lease, error, retry_after))
            }
            Called::Answered(Outcome::Terminal(error)) => {
                lease.failed(effect, &error, now);
                Some(Stop::Bury(effect, Reason::Terminal, error))
            }
            Called::Answered(Outcome::Unknown(error)) => {
                lease.unknown(effect, &error, now);
                match &effect.lookup {
                    Some(lookup) => Some(Stop::Retry(lookup.after)),
                    None => Some(Stop::Bury(effect, Reason::UnknownOutcome, error)),
                }
            }
            Called::NotRendered(error) => {
                lease.failed(effect, &error.to_string(), now);
                Some(Stop::Bury(effect, Reason::Template, error.to_string()))
            }
        }
    }

    fn again<'f>(
        &self,
        flow: &Flow,
        effect: &'f Effect,
        lease: &Lease,
        error: String,
        retry_after: Option<Duration>,
    ) -> Stop<'f> {
        let attempt = lease.attempts(effect);
        if attempt >= flow.retry.max_attempts {
            return Stop::Bury(effect, Reason::AttemptsSpent, error);
        }
        Stop::Retry(flow.retry.delay(attempt, self.processor.chance.unit(), retry_after))
    }

    /// Finds out whether an effect happened. A partner that cannot say is asked again until the event
    /// is too old: asking is no attempt.
    async fn look_up<'f>(
        &self,
        flow: &Flow,
        effect: &'f Effect,
        lookup: &Lookup,
        lease: &mut Lease,
    ) -> Option<Stop<'f>> {
        let row = lease.row().clone();
        match self.caller(&row).look_up(effect, lookup).await {
            LookedUp::Found(answer) => lease.done(effect, pick(effect, &answer), self.now()),
            LookedUp::Absent => lease.failed(effect, "looked up: it did not happen", self.now()),
            LookedUp::CannotSay(error) => {
                lease.unknown(effect, &format!("looked up: {error}"), self.now());
                let delay = flow.retry.delay(lease.attempts(effect).max(1), self.processor.chance.unit(), None);
                return Some(Stop::Retry(delay.max(lookup.after)));
            }
        }
        None
    }

    fn caller<'r>(&'r self, row: &'r Row) -> Caller<'r> {
        Caller { processor: self.processor, event: self.event, row, deadline: self.deadline }
    }

    async fn retry(&self, mut lease: Lease, delay: Duration) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let closed = lease.retry(delay, self.now());
        self.processor.ledger.close(&closed).await?;
        Ok(Verdict::Again(delay))
    }

    /// The ledger first, then the letter: a crash between is repaired by the redelivery, which finds
    /// the row dead and sends the letter again.
    async fn bury(
        &self,
        lease: Lease,
        reason: Reason,
        effect: Option<&Effect>,
        error: &str,
    ) -> Result<Verdict, WriteError> {
        let closed: Closed = lease.bury(reason, effect, error, self.now());
        self.processor.ledger.close(&closed).await?;
        match &closed.row().death {
            Some(death) => Ok(self.send_letter(death.clone(), closed.row().epoch).await),
            None => Ok(Verdict::Leave),
        }
    }

    async fn send_letter(&self, death: Death, epoch: u64) -> Verdict {
        let letter = DeadLetter {
            body: self.message.body.clone(),
            group: self.event.group.clone(),
            deduplication_id: format!("{}-e{epoch}", self.event.id),
            death,
        };
        send(self.processor, &letter).await
    }
}

/// Why a lease ends before its effects are done.
enum Stop<'f> {
    Retry(Duration),
    Bury(&'f Effect, Reason, String),
}

impl<'f> Stop<'f> {
    /// Of two reasons to stop, the one that decides: the first to give up, else the longer wait.
    fn graver(one: Option<Self>, other: Option<Self>) -> Option<Stop<'f>> {
        match (one, other) {
            (None, stop) | (stop, None) => stop,
            (Some(Stop::Retry(one)), Some(Stop::Retry(other))) => Some(Stop::Retry(one.max(other))),
            (Some(bury @ Stop::Bury(..)), _) | (_, Some(bury @ Stop::Bury(..))) => Some(bury),
        }
    }
}

async fn send(processor: &Processor, letter: &DeadLetter) -> Verdict {
    match processor.dead_letters.bury(letter).await {
        Ok(()) => Verdict::Done,
        Err(error) => {
            error!(%error, "dead letter not sent");
            Verdict::Again(OUTAGE_DELAY)
        }
    }
}

/// What an invocation keeps for its last writes.
pub(crate) const MARGIN: Duration = Duration::from_millis(500);

/// A message that waits for another worker's lease comes a moment after its end, for clocks differ.
const AFTER_THE_LEASE: Duration = Duration::from_secs(1);
