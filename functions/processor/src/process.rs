//! One message: claim the event, run its effects, settle it.

use std::sync::Arc;
use std::time::Duration;

use shared::arrival::event::Event;
use shared::arrival::secrets::Secrets;
use shared::base::errors::WriteError;
use shared::base::machine::{Chance, Clock};
use shared::base::time::Timestamp;
use shared::effects::cap::Caps;
use shared::effects::contact::Contacts;
use shared::effects::findings::{Findings, Places};
use shared::effects::request::Partners;
use shared::flows::{Effect, Flow, Flows, Integration};
use shared::ledger::queue::{DeadLetter, DeadLetters, Queue, Visibility};
use shared::ledger::{Claim, Claims, Closed, Death, Found, Lease, Reason, Records};
use shared::limits::budget::Budgets;
use shared::limits::pressure::Gate;
use shared::operate::metric::{Fact, Metrics};
use shared::operate::stale::{self, Latest};
use shared::operate::switchboard::{Boards, InForce, Switchboard};
use tracing::{error, info, warn};

use crate::batch::Received;

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
    /// What operators have switched.
    pub switchboard: Switchboard,
    /// The switchboard, to be careful when a partner is not well.
    pub boards: Box<dyn Boards>,
    /// How often each entity was reached.
    pub caps: Box<dyn Caps>,
    /// Where what awaits an approval is kept.
    pub records: Box<dyn Records>,
    /// The queue of events, to send on what was approved.
    pub queue: Box<dyn Queue>,
    /// What was found out lately.
    pub found: Findings,
    /// Where IP addresses are, if that is known.
    pub places: Option<Box<dyn Places>>,
    /// What was applied last, of each entity.
    pub latest: Box<dyn Latest>,
    /// What is left of each contact's retries.
    pub budgets: Box<dyn Budgets>,
    /// Who may call a partner now.
    pub gate: Gate,
    /// What proves us to the partners.
    pub secrets: Box<dyn Secrets>,
    /// The partners' APIs.
    pub partners: Box<dyn Partners>,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// Our contacts.
    pub contacts: Box<dyn Contacts>,
    /// What is counted.
    pub metrics: Box<dyn Metrics>,
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
    let work = Work { processor, message, event: &event, deadline, board: board(processor).await };
    if !work.has_time(flow) {
        return Verdict::Again(Duration::ZERO);
    }
    let verdict = work.claim(flow).await;
    info!(event = %event.id, flow = event.flow, replay = event.replay, ?verdict, trace_id = event.trace.id(), "processed");
    verdict
}

/// The switchboard in force. What is wrong with the newest one is told once.
async fn board(processor: &Processor) -> Arc<InForce> {
    let (board, problems) = processor.switchboard.at(&processor.flows, processor.clock.now()).await;
    for problem in problems {
        warn!(%problem, "the newest switchboard is not in force");
        processor.metrics.put(&Fact::BadSwitchboard);
    }
    board
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
pub(crate) struct Work<'w> {
    pub(crate) processor: &'w Processor,
    message: &'w Received,
    pub(crate) event: &'w Event,
    pub(crate) deadline: Timestamp,
    pub(crate) board: Arc<InForce>,
}

impl Work<'_> {
    pub(crate) fn now(&self) -> Timestamp {
        self.processor.clock.now()
    }

    pub(crate) fn count(&self, fact: Fact<'_>) {
        self.processor.metrics.put(&fact);
    }

    /// Whether the invocation lasts long enough for any one effect of the flow.
    pub(crate) fn has_time(&self, flow: Option<&Flow>) -> bool {
        let effects = flow.into_iter().flat_map(|flow| &flow.effects);
        let partners = effects.filter_map(|effect| self.processor.flows.partner_of(effect));
        let longest = partners.map(|partner| partner.timeout).max().unwrap_or_default();
        self.deadline.since(self.now()) >= longest + MARGIN
    }

    async fn claim(&self, flow: Option<&Flow>) -> Verdict {
        let first = flow.map(|flow| self.first_intents(flow)).unwrap_or_default();
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

    /// The intents that the claim may write: none where a partner might not be called now, because an
    /// intent without a call would be taken for a call.
    fn first_intents(&self, flow: &Flow) -> Vec<String> {
        let first = flow.first_stage();
        let paused = self.board.board().paused_flow(&flow.name, self.now()).is_some();
        if !paused
            && !self.is_prepared(flow)
            && !self.is_careful(flow)
            && first.iter().all(|effect| self.is_free(effect))
        {
            first.iter().map(|effect| effect.id.clone()).collect()
        } else {
            Vec::new()
        }
    }

    /// Whether something is asked or found out before the first effect.
    pub(crate) fn is_prepared(&self, flow: &Flow) -> bool {
        flow.is_prepared() || stale::is_judged(flow, self.event)
    }

    /// Whether a flow's safe mode is on.
    pub(crate) fn is_careful(&self, flow: &Flow) -> bool {
        flow.safe_mode.is_some() && self.board.board().safe_mode(&flow.name, self.now()).is_some()
    }

    /// Whether nothing stands between an effect and its call.
    fn is_free(&self, effect: &Effect) -> bool {
        let limited = |partner: &Integration| partner.pressure.is_limited();
        let limited = self.processor.flows.partner_of(effect).is_some_and(limited);
        let paused = effect.integration().is_some_and(|name| self.paused(name).is_some());
        !limited && !paused && effect.when.is_none()
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
    async fn settle(&self, flow: Option<&Flow>, mut lease: Lease) -> Verdict {
        let Some(flow) = flow else {
            let error = format!("there is no flow `{}`", self.event.flow);
            return self.or_leave(self.bury(lease, Reason::UnknownFlow, None, &error).await);
        };
        // What was tried in one mode is tried again in it: a partner refuses another body under our key.
        if lease.row().effects.is_empty() && !lease.row().safe && self.is_careful(flow) {
            lease.play_safe(self.now());
        }
        let ran = if lease.row().safe {
            self.run(&flow.clone().in_safe_mode(), lease).await
        } else {
            self.run(flow, lease).await
        };
        self.or_leave(ran)
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

    /// The ledger first, then the letter: a crash between is repaired by the redelivery, which finds
    /// the row dead and sends the letter again.
    pub(crate) async fn bury(
        &self,
        lease: Lease,
        reason: Reason,
        effect: Option<&Effect>,
        error: &str,
    ) -> Result<Verdict, WriteError> {
        let closed: Closed = lease.bury(reason, effect, error, self.now());
        self.processor.ledger.close(&closed).await?;
        match &closed.row().death {
            Some(death) => {
                let (flow, reason) = (&closed.row().flow, death.reason);
                self.count(if self.event.is_replay() {
                    Fact::DeadAgain(flow, reason)
                } else {
                    Fact::Dead(flow, reason)
                });
                Ok(self.send_letter(death.clone(), closed.row().epoch).await)
            }
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
