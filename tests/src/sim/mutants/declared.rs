//! The invariant that must catch a mutant: another one that happens to see it says nothing of the promise that it breaks.

/// The invariants that must catch mutants, by the mutants' names.
const DECLARED: [(&str, &[&str]); 54] = [
    ("one-payload", &["a claim ignores the fingerprint", "a letter overwrites the kept payload"]),
    (
        "at-most-once",
        &[
            "the key differs with each call",
            "a lost call is taken for one that never left",
            "a function that raised is taken for one that did not run",
            "a doubtful status is taken for a refusal",
            "a lookup does not wait",
        ],
    ),
    ("unknown-surfaced", &["an unknown of none is tried again", "attempts that are spent in doubt are a failure"]),
    ("ledger-is-true", &["a body that says no is a success", "a key that is used again is the same for the partner"]),
    ("result-or-asked", &["a success without its result is done"]),
    ("key-fault-waits", &["rejected credentials are taken for a refusal"]),
    ("not-undone", &["a late repetition is not held back"]),
    ("latest-wins", &["what was applied last is not asked"]),
    (
        "consent-forward",
        &[
            "a guard is not asked again on redelivery",
            "a contact keeps what was written last",
            "a contact's field is stamped when it is written",
            "a field that is removed keeps no stamp",
        ],
    ),
    ("consent", &["everybody is taken to agree"]),
    ("guards", &["night is when it is night here"]),
    (
        "window",
        &[
            "an anchor is read, and then written whatever others wrote",
            "a window has fixed edges",
            "a later anchor is ignored",
        ],
    ),
    (
        "key-lives",
        &[
            "a key ends when the table has deleted its row",
            "a key ends when its event is settled",
            "an admission that lands late takes a later row for the one that it saw",
        ],
    ),
    ("kept-for-people", &["a new event takes the place of what people may still see"]),
    (
        "nothing-lost",
        &[
            "a lost lease is never taken over",
            "a dead row's letter is not sent again",
            "a message that was not sent is acknowledged",
            "a replay has its first deduplication id",
            "a dead letter is not sent",
            "a failed message is not reported",
            "a letter that was not parked is deleted",
            "the payload of a dead letter is not kept",
            "a drop leaves the event where it is",
            "the schedule does not come",
            "nothing that waits is woken",
            "a parked shape is acknowledged and not kept",
            "a parked shape is kept without its payload",
            "a parked shape is settled and not sent",
        ],
    ),
    ("whole", &["the intake does not check characters"]),
    ("good-events-taken", &["the intake does not check sizes"]),
    ("cap", &["a cap is read, and never counted", "a cap is counted beside the transaction"]),
    ("approved", &["a yes counts for whatever is asked now", "what waits for an approval goes on without one"]),
    ("asked-once", &["a question is asked before it is written down"]),
    ("noop-named", &["a no-op does not say why"]),
    ("ended", &["an event in doubt is blocked"]),
    ("plan-is-true", &["an apply does not look at its plan"]),
    ("resolved", &["a replay forgets what an operator said"]),
    ("own-claim", &["a claim that is repeated does not recognise itself"]),
    ("superseded", &["a claim ignores the replay number", "a claim ignores the wake number"]),
    ("intent-first", &["the intent is not written"]),
    ("row-first", &["the message is sent before the row"]),
    ("dead-before-letter", &["a failed condition is taken for success", "the row is not closed before its letter"]),
    (
        "legal-rows",
        &[
            "a write ignores the epoch",
            "a write ignores the step",
            "a claim ignores a live lease",
            "a replay forgets what is done",
            "an admission overwrites what is there",
        ],
    ),
    ("newer-kept", &["an older version writes over a newer row"]),
    ("flow-waited-for", &["an unknown flow is not waited for"]),
    ("paused", &["the switchboard is read once", "a switchboard that is not read has nothing on it"]),
    ("lane-rate", &["the lane does not ask for its rate"]),
    ("lane-bounded", &["a batch counts nothing"]),
    ("lane-once", &["a batch takes what came after it"]),
    ("lane-ends", &["a batch is written whatever others wrote", "no tick is sent"]),
    ("stopped", &["a stop is overlooked"]),
    ("share", &["a slow partner takes every batch"]),
    ("renamed-once", &["a renamed effect does not say what it was", "an effect is repeated under another name"]),
    (
        "attempts",
        &[
            "a deferral counts as an attempt",
            "attempts are taken back though the partner answers",
            "attempts are not counted",
        ],
    ),
    ("retry-budget", &["the retry budget is not asked"]),
    ("concurrency", &["the slots are not asked"]),
    ("rate", &["the rate is not asked"]),
    ("outage-waited-out", &["an outage uses up attempts"]),
    ("stood-in", &["a letter whose row is broken is let go"]),
    (
        "order",
        &[
            "the tail of a group goes on after its head failed",
            "a successor does not look who waits before it",
            "an event leaves the queue before its flow's mark is known",
        ],
    ),
    ("woken-in-order", &["what waits is woken in the wrong order"]),
    ("wake-arrives", &["a wake has its first deduplication id"]),
    (
        "kept-in-time",
        &["an event waits on the queue for longer than the queue keeps it", "a result is kept whatever its size"],
    ),
    ("receives-suffice", &["who is deferred asks again at once"]),
    ("crashed-while-held", &["whatever the queue gives up on has crashed"]),
    ("waits-with-payload", &["an event that waits keeps no payload"]),
    ("rest", &["a lease never ends"]),
];

/// Whether an invariant may be the one that catches a mutant.
pub(super) fn may_catch(invariant: &str, mutant: &str) -> bool {
    DECLARED.iter().find(|(_, mutants)| mutants.contains(&mutant)).is_none_or(|(declared, _)| *declared == invariant)
}

#[test]
fn every_declaration_is_of_a_mutant() {
    let declared = DECLARED.iter().flat_map(|(_, mutants)| mutants.iter());
    let unknown: Vec<_> = declared.filter(|name| super::ALL.iter().all(|mutant| mutant.name != **name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// A mutant that any invariant may catch says nothing of one promise.
#[test]
fn every_mutant_is_declared() {
    let is_declared = |name: &str| DECLARED.iter().any(|(_, mutants)| mutants.contains(&name));
    let others: Vec<_> = super::ALL.iter().map(|mutant| mutant.name).filter(|name| !is_declared(name)).collect();
    assert!(others.is_empty(), "{others:?}");
}
