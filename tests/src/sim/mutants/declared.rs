//! The invariant that must catch a mutant: another one that happens to see it says nothing of the promise that it breaks.

/// The invariants that must catch mutants, by the mutants' names. Any invariant may catch the others.
const DECLARED: [(&str, &[&str]); 26] = [
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
    ("unknown-surfaced", &["an unknown of none is tried again"]),
    ("ledger-is-true", &["a body that says no is a success"]),
    ("result-or-asked", &["a success without its result is done"]),
    ("key-fault-waits", &["rejected credentials are taken for a refusal"]),
    ("not-undone", &["a late repetition is not held back"]),
    ("latest-wins", &["what was applied last is not asked"]),
    (
        "consent-forward",
        &[
            "a contact keeps what was written last",
            "a contact's field is stamped when it is written",
            "a field that is removed keeps no stamp",
        ],
    ),
    ("consent", &["everybody is taken to agree"]),
    (
        "window",
        &[
            "an anchor is read, and then written whatever others wrote",
            "a window has fixed edges",
            "a later anchor is ignored",
        ],
    ),
    (
        "nothing-lost",
        &[
            "a parked shape is acknowledged and not kept",
            "a parked shape is kept without its payload",
            "a parked shape is settled and not sent",
        ],
    ),
    ("cap", &["a cap is read, and never counted", "a cap is counted beside the transaction"]),
    ("approved", &["a yes counts for whatever is asked now", "what waits for an approval goes on without one"]),
    ("noop-named", &["a no-op does not say why"]),
    ("plan-is-true", &["an apply does not look at its plan"]),
    ("resolved", &["a replay forgets what an operator said"]),
    ("own-claim", &["a claim that is repeated does not recognise itself"]),
    ("intent-first", &["the intent is not written"]),
    ("row-first", &["the message is sent before the row"]),
    ("newer-kept", &["an older version writes over a newer row"]),
    ("flow-waited-for", &["an unknown flow is not waited for"]),
    ("paused", &["the switchboard is read once", "a switchboard that is not read has nothing on it"]),
    ("lane-rate", &["the lane does not ask for its rate"]),
    ("share", &["a slow partner takes every batch"]),
    ("waits-with-payload", &["an event that waits keeps no payload"]),
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
