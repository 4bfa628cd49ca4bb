//! The protocol with one step left out, reordered or believed wrongly: the simulation must see it.
//!
//! A mutant lives wholly here: it wraps a port, writes rows by rules of its own, handles batches in
//! another way, or changes the flows. The product has no hook for it.

mod claims;
mod guards;
mod lanes;
mod others;
mod queues;
mod records;
mod table;

use std::sync::LazyLock;

use shared::base::errors::WriteError;
use shared::ledger::{Progress, Row, State};
use shared::model::ModelLedger;

use self::records::{Careless, How};
use super::containers::{Models, Ports};
use super::flows::{Version, version};
use super::oracle::SEEN;
use super::ports::Rules;

/// One way to break the protocol.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) rules: Rules,
    pub(super) ports: fn(Ports, &Models) -> Ports,
    pub(super) handler: Handler,
    /// What is deployed instead.
    pub(super) flows: Option<&'static LazyLock<Version>>,
}

/// What is done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    /// What the product does.
    Whole,
    /// Each message alone, so that nothing stops the tail of a group.
    OneByOne,
    /// The first message that failed is left out of the report.
    OmitsAFailure,
    /// Letters that were not parked are left out of the report.
    OmitsUnparked,
    /// What the product does, but a yes counts for whatever is asked when it arrives.
    AnyHash,
    /// What the product does, but an apply is a replay, whatever was planned.
    AnyPlan,
    /// What the product does, but the schedule does not come.
    Unscheduled,
}

/// The product as it is.
pub(super) static NONE: Mutant = Mutant::named("none");

/// Our flows, with partners that are asked at once.
static HASTY: LazyLock<Version> = LazyLock::new(|| version(|text| text.replace("after: 8s", "after: 0s")));

/// Every mutant.
pub(super) static ALL: [Mutant; 48] = [
    Mutant::ports("the intent is not written", |p, _| Ports { claims: claims::NoIntent::over(p.claims), ..p }),
    Mutant::rules("a write ignores the epoch", Rules { hold: unfenced, ..Rules::PRODUCT }),
    Mutant::rules("a write ignores the step", Rules { hold: stepless, ..Rules::PRODUCT }),
    Mutant::ports("a failed condition is taken for success", |p, _| Ports {
        claims: claims::NeverFenced::over(p.claims),
        ..p
    }),
    Mutant::ports("a claim ignores a live lease", |p, m| Ports { claims: claims::Greedy::over(p.claims, m), ..p }),
    Mutant::ports("a lost lease is never taken over", |p, _| Ports { claims: claims::Timid::over(p.claims), ..p }),
    Mutant::ports("a dead row's letter is not sent again", |p, _| Ports {
        claims: claims::DeadIsSettled::over(p.claims),
        ..p
    }),
    Mutant::ports("an unknown of none is tried again", |p, _| Ports { claims: claims::Forgetful::over(p.claims), ..p }),
    Mutant::rules("a deferral counts as an attempt", Rules { hold: deferral_counts, ..Rules::PRODUCT }),
    Mutant::rules("attempts are not counted", Rules { hold: uncounted, ..Rules::PRODUCT }),
    Mutant::rules("the row is not closed before its letter", Rules { hold: never_dead, ..Rules::PRODUCT }),
    Mutant::rules("a replay forgets what is done", Rules { replayed: |row| row.effects.clear(), ..Rules::PRODUCT }),
    Mutant::ports("an admission overwrites what is there", |p, m| Ports {
        admissions: Box::new(others::Overwriting(m.ledger.clone(), p.admissions)),
        ..p
    }),
    Mutant::ports("the message is sent before the row", queues::send_first),
    Mutant::ports("a message that was not sent is acknowledged", |p, _| Ports {
        queue: Box::new(queues::Careless(p.queue)),
        ..p
    }),
    Mutant::ports("a replay has its first deduplication id", |p, m| Ports {
        queue: Box::new(queues::SameId(m.events.clone(), p.queue)),
        ..p
    }),
    Mutant::ports("a dead letter is not sent", |p, _| Ports { dead_letters: Box::new(queues::NoLetters), ..p }),
    Mutant::handler("a failed message is not reported", Handler::OmitsAFailure),
    Mutant::handler("a letter that was not parked is deleted", Handler::OmitsUnparked),
    Mutant::handler("the tail of a group goes on after its head failed", Handler::OneByOne),
    Mutant::ports("the key differs with each call", |p, _| Ports {
        partners: Box::new(others::NewKeys(p.partners, Default::default())),
        ..p
    }),
    Mutant::ports("a lost call is taken for one that never left", |p, _| Ports {
        partners: Box::new(others::LostIsUnsent(p.partners)),
        ..p
    }),
    Mutant { flows: Some(&HASTY), ..Mutant::named("a lookup does not wait") },
    Mutant::ports("the retry budget is not asked", |p, _| Ports { budgets: Box::new(others::Generous), ..p }),
    Mutant::ports("the slots are not asked", |p, _| Ports { slots: Box::new(others::Generous), ..p }),
    Mutant::ports("the rate is not asked", |p, _| Ports { partner_limits: Box::new(others::Generous), ..p }),
    Mutant::ports("the payload of a dead letter is not kept", |p, _| Ports {
        records: Careless::over(p.records, How::KeepsNoPayload),
        ..p
    }),
    Mutant::ports("a cap is read, and never counted", |p, _| Ports { caps: Box::new(guards::Uncounted(p.caps)), ..p }),
    Mutant::ports("a cap is counted beside the transaction", |p, _| Ports {
        caps: Box::new(guards::CountedLater(p.caps)),
        ..p
    }),
    Mutant::ports("everybody is taken to agree", |p, _| Ports {
        contacts: Box::new(guards::Agreeing(p.contacts)),
        ..p
    }),
    Mutant::ports("a guard is not asked again on redelivery", |p, _| Ports {
        contacts: Box::new(guards::AskedOnce(p.contacts, Default::default())),
        ..p
    }),
    Mutant::ports("night is when it is night here", |p, _| Ports {
        contacts: Box::new(guards::AtHome(p.contacts)),
        ..p
    }),
    Mutant::rules("a no-op does not say why", Rules { hold: unexplained, ..Rules::PRODUCT }),
    Mutant::handler("a yes counts for whatever is asked now", Handler::AnyHash),
    Mutant::ports("a question is asked before it is written down", |p, _| Ports {
        claims: claims::AsksFirst::over(p.claims),
        ..p
    }),
    Mutant::rules("what waits for an approval goes on without one", Rules { hold: unasked, ..Rules::PRODUCT }),
    Mutant::ports("a drop leaves the event where it is", |p, _| Ports {
        records: Careless::over(p.records, How::DropsNothing),
        ..p
    }),
    Mutant::ports("the switchboard is read once", |p, _| Ports {
        board: Box::new(guards::ReadOnce(p.board, Default::default())),
        ..p
    }),
    Mutant::ports("a batch counts nothing", |p, _| Ports { batches: Box::new(lanes::Uncounted(p.batches)), ..p }),
    Mutant::ports("a batch is written whatever others wrote", |p, _| Ports {
        batches: Box::new(lanes::Heedless(p.batches)),
        ..p
    }),
    Mutant::ports("a batch takes what came after it", |p, _| Ports {
        records: Careless::over(p.records, How::Timeless),
        ..p
    }),
    Mutant::ports("the lane does not ask for its rate", |p, _| Ports { lane_limits: Box::new(others::Generous), ..p }),
    Mutant::ports("a stop is overlooked", |p, _| Ports { batches: Box::new(lanes::Unstoppable(p.batches)), ..p }),
    Mutant::ports("no tick is sent", |p, _| Ports { ticks: Box::new(lanes::NoTicks), ..p }),
    Mutant::handler("the schedule does not come", Handler::Unscheduled),
    Mutant::handler("an apply does not look at its plan", Handler::AnyPlan),
    Mutant::rules("a replay forgets what an operator said", Rules { replayed: lanes::unsaid, ..Rules::PRODUCT }),
    Mutant::ports("what was applied last is not asked", |p, _| Ports {
        latest: Box::new(lanes::NothingApplied(p.latest)),
        ..p
    }),
];

impl Mutant {
    const fn named(name: &'static str) -> Self {
        Mutant { name, rules: Rules::PRODUCT, ports: |ports, _| ports, handler: Handler::Whole, flows: None }
    }

    const fn ports(name: &'static str, ports: fn(Ports, &Models) -> Ports) -> Self {
        Mutant { ports, ..Mutant::named(name) }
    }

    const fn rules(name: &'static str, rules: Rules) -> Self {
        Mutant { rules, ..Mutant::named(name) }
    }

    const fn handler(name: &'static str, handler: Handler) -> Self {
        Mutant { handler, ..Mutant::named(name) }
    }
}

fn unfenced(ledger: &ModelLedger, row: Row) -> Result<(), WriteError> {
    ledger.overwrite(&row);
    Ok(())
}

fn stepless(ledger: &ModelLedger, row: Row) -> Result<(), WriteError> {
    match ledger.get(&row.id) {
        Some(current) if current.epoch == row.epoch => unfenced(ledger, row),
        _ => Err(WriteError::Fenced),
    }
}

/// The last line of the row's history.
fn last(row: &Row) -> &str {
    row.history.last().map_or("", |moment| &moment.what)
}

fn deferral_counts(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    if last(&row).starts_with("deferred") {
        row.effects.values_mut().for_each(|entry| entry.attempts += 1);
    }
    ledger.hold(&row)
}

fn uncounted(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    row.effects.values_mut().for_each(|entry| entry.attempts = entry.attempts.min(1));
    ledger.hold(&row)
}

fn never_dead(ledger: &ModelLedger, row: Row) -> Result<(), WriteError> {
    if row.state == State::Dead { Ok(()) } else { ledger.hold(&row) }
}

fn unexplained(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    row.noop = None;
    ledger.hold(&row)
}

/// What should wait for an answer is tried again, as if somebody had said yes.
fn unasked(ledger: &ModelLedger, mut row: Row) -> Result<(), WriteError> {
    if let (State::AwaitingApproval, Some(ask)) = (row.state, &mut row.ask) {
        ask.approved_by = Some("nobody".into());
        row.state = State::Retrying;
    }
    ledger.hold(&row)
}

/// Whether nobody knows what came of it.
fn unknown(progress: &Progress) -> bool {
    matches!(progress, Progress::Intent | Progress::Unknown { .. })
}
