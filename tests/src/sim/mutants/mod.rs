//! The protocol with one step left out, reordered or believed wrongly: the simulation must see it.
//!
//! A mutant lives wholly here: it wraps a port, writes rows by rules of its own, handles batches in
//! another way, or changes the flows. The product has no hook for it.

mod claims;
mod contacts;
mod declared;
mod expiry;
mod guards;
mod lanes;
mod lines;
mod others;
mod queues;
mod records;
mod rules;
mod table;
mod texts;
mod windows;

use std::sync::LazyLock;

use shared::ledger::Claim;
use sim::Simulation;
use sim::mutation::{ContainerPorts, Handling, Models, Mutation, RowRules};

use self::expiry::{ExpiryRule, OwnExpiry};
use self::lines::{CarelessLines, LineFault};
use self::records::{CarelessRecords, How};
use super::flows::{renamed_without_was, version};
use super::seeds::simulation;

/// One way to break the protocol.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) mutation: Mutation,
    /// The flows that are simulated instead.
    pub(super) flows: Option<&'static LazyLock<Simulation>>,
}

/// The product as it is.
pub(super) static NONE: Mutant = Mutant::named("none");

/// Our flows, with partners that are asked at once.
static HASTY: LazyLock<Simulation> =
    LazyLock::new(|| simulation(vec![version(|text| text.replace("after: 8s", "after: 0s"))]));

/// Our flows, with one attempt: attempts are often spent in doubt.
static TERSE: LazyLock<Simulation> =
    LazyLock::new(|| simulation(vec![version(|text| text.replace("max_attempts: 3", "max_attempts: 1"))]));

/// Our flows, whose events wait for longer than `flows check` allows.
static ENDURING: LazyLock<Simulation> = LazyLock::new(|| {
    simulation(vec![version(|text| text.replace("max_age: 1h", "max_age: 95h").replace("ttl: 24h", "ttl: 200h"))])
});

/// Our flows, whose second version renames an effect and does not say so.
static RENAMED: LazyLock<Simulation> = LazyLock::new(|| simulation(renamed_without_was()));

/// Every mutant.
pub(super) static ALL: [Mutant; 97] = [
    Mutant { flows: Some(&RENAMED), ..Mutant::named("a renamed effect does not say what it was") },
    Mutant::ports("an effect is repeated under another name", |p, _| ContainerPorts {
        partners: Box::new(others::Renamed(p.partners, Default::default())),
        ..p
    }),
    Mutant::ports("an older version writes over a newer row", |p, m| ContainerPorts {
        claims: claims::over_newer(p.claims, m),
        ..p
    }),
    Mutant::ports("an unknown flow is not waited for", |p, m| ContainerPorts {
        claims: claims::impatient(p.claims, m),
        ..p
    }),
    Mutant::ports("the intent is not written", |p, _| ContainerPorts { claims: claims::NoIntent::over(p.claims), ..p }),
    Mutant::rules("a write ignores the epoch", RowRules { hold: rules::unfenced, ..RowRules::PRODUCT }),
    Mutant::rules("a write ignores the step", RowRules { hold: rules::stepless, ..RowRules::PRODUCT }),
    Mutant::ports("a failed condition is taken for success", |p, _| ContainerPorts {
        claims: claims::NeverFenced::over(p.claims),
        ..p
    }),
    Mutant::ports("a claim ignores a live lease", |p, m| ContainerPorts { claims: claims::greedy(p.claims, m), ..p }),
    Mutant::ports("a lost lease is never taken over", |p, _| ContainerPorts {
        claims: claims::Timid::over(p.claims),
        ..p
    }),
    Mutant::ports("a lease never ends", |p, m| ContainerPorts { claims: claims::patient(p.claims, m), ..p }),
    Mutant::ports("a dead row's letter is not sent again", |p, _| ContainerPorts {
        claims: claims::DeadIsSettled::over(p.claims),
        ..p
    }),
    Mutant::ports("an unknown of none is tried again", |p, _| ContainerPorts {
        claims: claims::Forgetful::over(p.claims),
        ..p
    }),
    Mutant::rules("a deferral counts as an attempt", RowRules { hold: rules::deferral_counts, ..RowRules::PRODUCT }),
    Mutant::rules(
        "attempts are taken back though the partner answers",
        RowRules { hold: rules::spared, ..RowRules::PRODUCT },
    ),
    Mutant::rules("an outage uses up attempts", RowRules { hold: rules::unspared, ..RowRules::PRODUCT }),
    Mutant::rules("attempts are not counted", RowRules { hold: rules::uncounted, ..RowRules::PRODUCT }),
    Mutant::rules("the row is not closed before its letter", RowRules { hold: rules::never_dead, ..RowRules::PRODUCT }),
    Mutant::rules(
        "a replay forgets what is done",
        RowRules { replayed: |row| row.effects.clear(), ..RowRules::PRODUCT },
    ),
    Mutant::ports("an admission overwrites what is there", |p, m| ContainerPorts {
        admissions: Box::new(others::Overwriting(m.ledger.clone(), p.admissions)),
        ..p
    }),
    Mutant::ports("the intake does not check characters", |p, _| ContainerPorts {
        queue: Box::new(texts::Unchecked(p.queue, |text| format!("{text}\u{fffe}"))),
        ..p
    }),
    Mutant::ports("the intake does not check sizes", |p, _| ContainerPorts {
        queue: Box::new(texts::Unchecked(p.queue, |text| format!("{text}{}", "x".repeat(260 * 1024)))),
        ..p
    }),
    Mutant::rules("a result is kept whatever its size", RowRules { hold: rules::bloated, ..RowRules::PRODUCT }),
    Mutant::ports("a key ends when the table has deleted its row", |p, m| own_expiry(p, m, ExpiryRule::WhenDeleted)),
    Mutant::ports("a key ends when its event is settled", |p, m| own_expiry(p, m, ExpiryRule::WhenSettled)),
    Mutant::ports("a new event takes the place of what people may still see", |p, m| {
        own_expiry(p, m, ExpiryRule::PutsNothingAside)
    }),
    Mutant::rules(
        "an admission that lands late takes a later row for the one that it saw",
        RowRules { admit_anew: rules::admitted_by_numbers, ..RowRules::PRODUCT },
    ),
    Mutant::ports("the message is sent before the row", queues::send_first),
    Mutant::ports("a message that was not sent is acknowledged", |p, _| ContainerPorts {
        queue: Box::new(queues::IgnoresSendErrors(p.queue)),
        ..p
    }),
    Mutant::ports("a replay has its first deduplication id", |p, m| ContainerPorts {
        queue: Box::new(queues::SameId(m.events.clone(), p.queue)),
        ..p
    }),
    Mutant::ports("a dead letter is not sent", |p, _| ContainerPorts {
        dead_letters: Box::new(queues::NoLetters),
        ..p
    }),
    Mutant::handling("a failed message is not reported", Handling::OmitsAFailure),
    Mutant::handling("a letter that was not parked is deleted", Handling::OmitsUnparked),
    Mutant::handling("the tail of a group goes on after its head failed", Handling::OneByOne),
    Mutant::ports("who is deferred asks again at once", |p, _| ContainerPorts {
        visibility: Box::new(queues::AtOnce(p.visibility)),
        ..p
    }),
    Mutant::ports("a letter whose row is broken is let go", |p, _| ContainerPorts {
        records: CarelessRecords::over(p.records, How::LetsBrokenGo),
        ..p
    }),
    Mutant::ports("the key differs with each call", |p, _| ContainerPorts {
        partners: Box::new(others::NewKeys(p.partners, Default::default())),
        ..p
    }),
    Mutant::ports("a key that is used again is the same for the partner", |p, _| ContainerPorts {
        partners: Box::new(others::FirstKeys(p.partners)),
        ..p
    }),
    Mutant::ports("a lost call is taken for one that never left", |p, _| ContainerPorts {
        partners: Box::new(others::LostIsUnsent(p.partners)),
        ..p
    }),
    Mutant::ports("a function that raised is taken for one that did not run", |p, _| ContainerPorts {
        functions: Box::new(others::RaisedIsNotRun(p.functions)),
        ..p
    }),
    Mutant::ports("a doubtful status is taken for a refusal", |p, _| ContainerPorts {
        partners: Box::new(others::DoubtIsRefusal(p.partners)),
        ..p
    }),
    Mutant { flows: Some(&HASTY), ..Mutant::named("a lookup does not wait") },
    Mutant::ports("the retry budget is not asked", |p, _| ContainerPorts { budgets: Box::new(others::Generous), ..p }),
    Mutant::ports("the slots are not asked", |p, _| ContainerPorts { slots: Box::new(others::Generous), ..p }),
    Mutant::ports("a slow partner takes every batch", |p, _| ContainerPorts {
        slots: Box::new(others::NoShares(p.slots)),
        ..p
    }),
    Mutant::ports("the rate is not asked", |p, _| ContainerPorts { partner_limits: Box::new(others::Generous), ..p }),
    Mutant::ports("the payload of a dead letter is not kept", |p, _| ContainerPorts {
        records: CarelessRecords::over(p.records, How::KeepsNoPayload),
        ..p
    }),
    Mutant::ports("a cap is read, and never counted", |p, _| ContainerPorts {
        caps: Box::new(guards::UncountedCaps(p.caps)),
        ..p
    }),
    Mutant::ports("a cap is counted beside the transaction", |p, _| ContainerPorts {
        caps: Box::new(guards::CountedLater(p.caps)),
        ..p
    }),
    Mutant::ports("everybody is taken to agree", |p, _| ContainerPorts {
        contacts: Box::new(guards::Agreeing(p.contacts)),
        ..p
    }),
    Mutant::ports("a guard is not asked again on redelivery", |p, _| ContainerPorts {
        contacts: Box::new(guards::AskedOnce(p.contacts, Default::default())),
        ..p
    }),
    Mutant::ports("night is when it is night here", |p, _| ContainerPorts {
        contacts: Box::new(guards::AtHome(p.contacts)),
        ..p
    }),
    Mutant::rules("a no-op does not say why", RowRules { hold: rules::unexplained, ..RowRules::PRODUCT }),
    Mutant::rules("an event in doubt is blocked", RowRules { hold: rules::blocked_in_doubt, ..RowRules::PRODUCT }),
    Mutant::handling("a yes counts for whatever is asked now", Handling::AnyHash),
    Mutant::ports("a question is asked before it is written down", |p, _| ContainerPorts {
        claims: claims::AsksFirst::over(p.claims),
        ..p
    }),
    Mutant::rules(
        "what waits for an approval goes on without one",
        RowRules { hold: rules::unasked, ..RowRules::PRODUCT },
    ),
    Mutant::ports("a drop leaves the event where it is", |p, _| ContainerPorts {
        records: CarelessRecords::over(p.records, How::DropsNothing),
        ..p
    }),
    Mutant::ports("the switchboard is read once", |p, _| ContainerPorts {
        board: Box::new(guards::ReadOnce(p.board, Default::default())),
        ..p
    }),
    Mutant::ports("a switchboard that is not read has nothing on it", |p, _| ContainerPorts {
        board: Box::new(guards::UnreadIsEmpty(p.board)),
        ..p
    }),
    Mutant::ports("a batch counts nothing", |p, _| ContainerPorts {
        batches: Box::new(lanes::UncountedReplays(p.batches)),
        ..p
    }),
    Mutant::ports("a batch is written whatever others wrote", |p, _| ContainerPorts {
        batches: Box::new(lanes::Heedless(p.batches)),
        ..p
    }),
    Mutant::ports("a batch takes what came after it", |p, _| ContainerPorts {
        records: CarelessRecords::over(p.records, How::Timeless),
        ..p
    }),
    Mutant::ports("the lane does not ask for its rate", |p, _| ContainerPorts {
        lane_limits: Box::new(others::Generous),
        ..p
    }),
    Mutant::ports("a stop is overlooked", |p, _| ContainerPorts {
        batches: Box::new(lanes::Unstoppable(p.batches)),
        ..p
    }),
    Mutant::ports("no tick is sent", |p, _| ContainerPorts { ticks: Box::new(lanes::NoTicks), ..p }),
    Mutant::handling("the schedule does not come", Handling::Unscheduled),
    Mutant::handling("nothing that waits is woken", Handling::Unwoken),
    Mutant::ports("a successor does not look who waits before it", |p, m| ContainerPorts {
        lines: Box::new(CarelessLines { lines: p.lines, ledger: m.ledger.clone(), fault: LineFault::LooksNot }),
        ..p
    }),
    Mutant::ports("what waits is woken in the wrong order", |p, m| ContainerPorts {
        lines: Box::new(CarelessLines { lines: p.lines, ledger: m.ledger.clone(), fault: LineFault::Reversed }),
        ..p
    }),
    Mutant {
        flows: Some(&ENDURING),
        ..Mutant::ports("an event waits on the queue for longer than the queue keeps it", |p, m| ContainerPorts {
            lines: Box::new(CarelessLines { lines: p.lines, ledger: m.ledger.clone(), fault: LineFault::TakesNothing }),
            ..p
        })
    },
    Mutant::ports("an event leaves the queue before its flow's mark is known", |p, _| lines::leaves_early(p)),
    Mutant {
        mutation: Mutation { deduplication_id: rules::unnumbered, ..Mutation::NONE },
        ..Mutant::named("a wake has its first deduplication id")
    },
    Mutant::ports("an event that waits keeps no payload", |p, m| ContainerPorts {
        lines: Box::new(CarelessLines { lines: p.lines, ledger: m.ledger.clone(), fault: LineFault::RowAlone }),
        ..p
    }),
    Mutant::ports("whatever the queue gives up on has crashed", |p, _| ContainerPorts {
        records: CarelessRecords::over(p.records, How::SaysCrashed),
        ..p
    }),
    Mutant::handling("an apply does not look at its plan", Handling::AnyPlan),
    Mutant::rules("a replay forgets what an operator said", RowRules { replayed: lanes::unsaid, ..RowRules::PRODUCT }),
    Mutant::ports("a claim ignores the fingerprint", |p, m| ContainerPorts {
        claims: claims::any_payload(p.claims, m),
        ..p
    }),
    Mutant::ports("a claim ignores the replay number", |p, m| ContainerPorts {
        claims: claims::any_replay(p.claims, m),
        ..p
    }),
    Mutant::ports("a claim ignores the wake number", |p, m| ContainerPorts {
        claims: claims::any_wake(p.claims, m),
        ..p
    }),
    Mutant::rules(
        "a claim that is repeated does not recognise itself",
        RowRules { repeated: |claim| Claim { holder: "another".into(), ..claim.clone() }, ..RowRules::PRODUCT },
    ),
    Mutant::handling("a letter overwrites the kept payload", Handling::OverwritesKept),
    Mutant::ports("what was applied last is not asked", |p, _| ContainerPorts {
        latest: Box::new(lanes::NothingApplied(p.latest)),
        ..p
    }),
    Mutant::ports("a late repetition is not held back", |p, _| ContainerPorts {
        latest: Box::new(lanes::NothingSet(p.latest)),
        ..p
    }),
    Mutant::rules("a success without its result is done", RowRules { hold: rules::content, ..RowRules::PRODUCT }),
    Mutant {
        flows: Some(&TERSE),
        ..Mutant::rules(
            "attempts that are spent in doubt are a failure",
            RowRules { hold: rules::sure, ..RowRules::PRODUCT },
        )
    },
    Mutant::ports("rejected credentials are taken for a refusal", |p, _| ContainerPorts {
        partners: Box::new(others::KeyFaultIsRefusal(p.partners)),
        ..p
    }),
    Mutant::ports("a body that says no is a success", |p, _| ContainerPorts {
        partners: Box::new(others::NoIsYes(p.partners)),
        ..p
    }),
    Mutant::ports("a parked shape is acknowledged and not kept", |p, _| ContainerPorts {
        admissions: Box::new(others::ParksNothing(p.admissions)),
        ..p
    }),
    Mutant::ports("a parked shape is kept without its payload", |p, _| ContainerPorts {
        admissions: Box::new(others::ParksTheRowAlone(p.admissions)),
        ..p
    }),
    Mutant::ports("a parked shape is settled and not sent", |p, _| ContainerPorts {
        queue: Box::new(queues::NoParkedShapes(p.queue)),
        ..p
    }),
    Mutant::ports("a contact keeps what was written last", |p, m| ContainerPorts {
        contacts: Box::new(contacts::LastWriterWins(p.contacts, m.contacts.clone())),
        ..p
    }),
    Mutant::ports("a contact's field is stamped when it is written", |p, m| ContainerPorts {
        contacts: Box::new(contacts::ProcessingTime(p.contacts, m.ledger.clone())),
        ..p
    }),
    Mutant::ports("a field that is removed keeps no stamp", |p, m| ContainerPorts {
        contacts: Box::new(contacts::UnstampedRemoval(p.contacts, m.contacts.clone())),
        ..p
    }),
    Mutant::ports("an anchor is read, and then written whatever others wrote", |p, m| ContainerPorts {
        windows: Box::new(windows::ReadThenWritten(m.windows.clone(), p.windows)),
        ..p
    }),
    Mutant::ports("a window has fixed edges", |p, _| ContainerPorts { windows: Box::new(windows::FixedEdges), ..p }),
    Mutant::ports("a later anchor is ignored", |p, _| ContainerPorts {
        windows: Box::new(windows::EarlierAlone(p.windows)),
        ..p
    }),
];

fn own_expiry(ports: ContainerPorts, models: &Models, rule: ExpiryRule) -> ContainerPorts {
    let admissions = OwnExpiry { admissions: ports.admissions, ledger: models.ledger.clone(), rule };
    ContainerPorts { admissions: Box::new(admissions), ..ports }
}

/// The mutation of this name.
pub(super) fn mutation_named(name: &str) -> Mutation {
    ALL.iter().find(|mutant| mutant.name == name).expect("a mutant of this name").mutation
}

impl Mutant {
    const fn named(name: &'static str) -> Self {
        Mutant { name, mutation: Mutation::NONE, flows: None }
    }

    const fn ports(name: &'static str, ports: fn(ContainerPorts, &Models) -> ContainerPorts) -> Self {
        Mutant { mutation: Mutation { ports, ..Mutation::NONE }, ..Mutant::named(name) }
    }

    const fn rules(name: &'static str, rules: RowRules) -> Self {
        Mutant { mutation: Mutation { rules, ..Mutation::NONE }, ..Mutant::named(name) }
    }

    const fn handling(name: &'static str, handling: Handling) -> Self {
        Mutant { mutation: Mutation { handling, ..Mutation::NONE }, ..Mutant::named(name) }
    }
}
