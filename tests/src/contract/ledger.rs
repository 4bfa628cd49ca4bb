//! The ledger's contract.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use serde_json::json;
use shared::adapters::aws::DynamoLedger;
use shared::arrival::event::Event;
use shared::arrival::key::fingerprint;
use shared::base::errors::WriteError;
use shared::base::id::EventId;
use shared::base::retention::{QUEUE_RETENTION, SettledRetention};
use shared::base::time::Timestamp;
use shared::flows::{Effect, Flow};
use shared::ledger::{Admission, Admissions, Claim, Claims, Lease, NotClaimed, Reason, Records, Row, State};
use shared::model::{ModelChance, ModelLedger};

use super::{comes, on_model_and_emulator};
use crate::fixtures::{ADA, LEASE, NOW, aws, claim_of, event, flows, lead_routing};

trait Ledger: Admissions + Claims + Records {}
impl<T: Admissions + Claims + Records> Ledger for T {}

fn model() -> ModelLedger {
    ModelLedger::default()
}

/// A model whose index shows a tenth of the rows as they were before their last write, others at each query.
fn lagging() -> ModelLedger {
    let ledger = ModelLedger::default();
    ledger.lag(0.1, ModelChance::seeded(17));
    ledger
}

async fn emulator() -> DynamoLedger {
    let table = std::env::var("LEDGERLINE_LEDGER_TABLE").expect("make test names the table");
    DynamoLedger::new(&aws().await, table)
}

on_model_and_emulator!(
    a_new_event_is_admitted_and_a_duplicate_sees_its_row,
    of_many_at_once_one_is_admitted,
    a_row_is_its_own_sources_alone,
    a_forgotten_key_is_admitted_again_and_an_open_event_never,
    a_row_is_kept_for_people_when_its_key_is_used_again,
    what_was_seen_of_an_event_is_not_taken_for_a_later_one_of_its_key,
    what_was_never_claimed_is_admitted_again_once_its_message_is_lost,
    a_claim_records_the_first_intent,
    a_claim_on_an_event_with_effects_leaves_them_alone,
    of_many_claims_at_once_one_wins,
    a_claim_that_is_repeated_recognises_itself,
    the_first_claim_fixes_the_payload,
    of_many_payloads_at_once_one_is_claimed,
    a_message_from_before_a_replay_claims_nothing,
    a_replay_that_was_never_claimed_has_one_payload_too,
    a_message_of_an_older_version_is_believed,
    a_claim_is_refused_while_the_lease_lasts,
    a_claim_is_refused_before_its_time,
    what_is_settled_or_dead_or_unknown_is_not_claimed,
    a_worker_that_outlived_its_lease_changes_nothing,
    a_late_write_undoes_nothing_and_a_repeated_one_is_harmless,
    a_row_that_moved_on_is_not_replaced,
    a_payload_is_parked_with_its_row_or_not_at_all,
    of_many_letters_at_once_one_is_parked,
    a_payload_is_kept_and_forgotten,
    what_is_parked_from_the_start_has_its_payload_and_is_new_once,
    of_many_parked_at_once_one_is_new,
    numbers_come_back_as_they_were_written,
    ; lagging:
    the_parked_are_listed_newest_first_until_they_are_claimed,
    the_parked_wait_oldest_first_within_a_time,
    one_shard_may_have_more_than_its_share,
);

fn flow() -> Flow {
    lead_routing()
}

fn effect() -> Effect {
    flow().effects[0].clone()
}

/// An event that no other test and no earlier run knows.
fn fresh(name: &str) -> Event {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    event(&format!("{name}-{unique}"))
}

/// The same event, as a sender that edits what it repeats would send it.
fn edited(event: &Event, name: &str) -> Event {
    let mut payload = event.payload.clone();
    payload["data"]["name"] = name.into();
    Event { fingerprint: Some(fingerprint(&payload)), payload, ..event.clone() }
}

async fn admitted(ledger: &impl Ledger, name: &str) -> Event {
    let event = fresh(name);
    let admission = ledger.admit(&Row::admitted(&event, NOW), NOW).await;
    assert_eq!(admission, Ok(Admission::New));
    event
}

fn claim_at(event: &Event, now: Timestamp) -> Claim {
    claim_of(event, now, &["crm"])
}

async fn claimed(ledger: &impl Ledger, event: &Event, now: Timestamp) -> Lease {
    ledger.claim(&event.id, &claim_at(event, now)).await.expect("an answer").expect("a won claim")
}

async fn row(ledger: &impl Ledger, id: &EventId) -> Row {
    ledger.row(id).await.expect("an answer").expect("a row")
}

/// The client repeats a claim whose answer was late. Another claim at the same moment is not won.
async fn a_claim_that_is_repeated_recognises_itself(ledger: impl Ledger) {
    let event = admitted(&ledger, "repeated").await;
    let claim = claim_at(&event, NOW);
    let won = ledger.claim(&event.id, &claim).await.expect("an answer").expect("a won claim");
    let again = ledger.claim(&event.id, &claim).await.expect("an answer").expect("its own claim");
    assert_eq!(again.row(), won.row());
    let (flow, flows) = (flow(), flows());
    assert_eq!(again.next(&flow, &flows, NOW), won.next(&flow, &flows, NOW), "its intents are its own");
    let other = ledger.claim(&event.id, &claim_at(&event, NOW)).await.expect("an answer");
    assert_eq!(other, Err(NotClaimed::HeldUntil(NOW + LEASE)));
    ledger.close(&again.retry(Duration::ZERO, NOW)).await.expect("it holds the lease");
    let next = ledger.claim(&event.id, &claim_at(&event, NOW)).await.expect("an answer");
    assert!(next.is_ok(), "the lease is given back");
}

async fn a_new_event_is_admitted_and_a_duplicate_sees_its_row(ledger: impl Ledger) {
    let event = admitted(&ledger, "duplicate").await;
    let first = Row::admitted(&event, NOW);
    assert_eq!(row(&ledger, &event.id).await, first);
    let later = NOW + Duration::from_secs(9);
    let again = ledger.admit(&Row::admitted(&event, later), later).await;
    assert_eq!(again, Ok(Admission::Duplicate(Box::new(first))));
}

async fn a_row_is_its_own_sources_alone(ledger: impl Ledger) {
    let event = admitted(&ledger, "own").await;
    let own = Row::admitted(&event, NOW);
    assert_eq!(ledger.row_from(&event.source, &event.id).await, Ok(Some(own)));
    assert_eq!(ledger.row_from("rival", &event.id).await, Ok(None));
    assert_eq!(ledger.row_from(&event.source, &EventId::named("none")).await, Ok(None));
}

async fn of_many_at_once_one_is_admitted(ledger: impl Ledger) {
    let row = Row::admitted(&fresh("race"), NOW);
    let admissions = join_all((0..30).map(|_| ledger.admit(&row, NOW))).await;
    let new = admissions.iter().filter(|admission| **admission == Ok(Admission::New)).count();
    let duplicates = admissions.iter().filter(|admission| matches!(admission, Ok(Admission::Duplicate(_)))).count();
    assert_eq!((new, duplicates), (1, 29));
}

async fn what_was_never_claimed_is_admitted_again_once_its_message_is_lost(ledger: impl Ledger) {
    let event = admitted(&ledger, "lost").await;
    let (at_its_end, lost) = (NOW + QUEUE_RETENTION, NOW + QUEUE_RETENTION + Duration::from_millis(1));
    let again = Row::admitted(&edited(&event, "again"), lost);
    assert!(matches!(ledger.admit(&again, at_its_end).await, Ok(Admission::Duplicate(_))));
    assert_eq!(ledger.admit(&again, lost).await, Ok(Admission::New));
    assert_eq!(row(&ledger, &event.id).await, again, "nothing of the old row is left");

    let replayed = admitted(&ledger, "replayed").await;
    let seen = row(&ledger, &replayed.id).await;
    let next = seen.clone().park(NOW).replayed(ADA, NOW).expect("it may be replayed");
    ledger.replace(Some(&seen), &next).await.expect("unchanged");
    let again = ledger.admit(&Row::admitted(&replayed, lost), lost).await;
    assert_eq!(again, Ok(Admission::Duplicate(Box::new(next))), "effects may be done");
    claimed(&ledger, &Event { replay: 1, ..replayed }, NOW).await;
}

async fn a_forgotten_key_is_admitted_again_and_an_open_event_never(ledger: impl Ledger) {
    let years_later = NOW + Duration::from_secs(3 * 365 * 24 * 3600);
    let open = admitted(&ledger, "open").await;
    claimed(&ledger, &open, NOW).await;
    let again = ledger.admit(&Row::admitted(&open, years_later), years_later).await;
    assert!(matches!(again, Ok(Admission::Duplicate(_))), "{again:?}");

    let done = admitted(&ledger, "done").await;
    let lease = claimed(&ledger, &done, NOW).await;
    let ttl = Duration::from_secs(3600);
    ledger.close(&lease.succeed(ttl, NOW)).await.expect("a held lease");
    let again = Row::admitted(&done, years_later);
    assert!(matches!(ledger.admit(&again, NOW + ttl).await, Ok(Admission::Duplicate(_))));
    assert_eq!(ledger.admit(&again, NOW + ttl + Duration::from_secs(1)).await, Ok(Admission::New));
    assert_eq!(row(&ledger, &done.id).await, again, "nothing of the old row is left");
}

async fn a_row_is_kept_for_people_when_its_key_is_used_again(ledger: impl Ledger) {
    let (hour, month) = (Duration::from_secs(3600), Duration::from_secs(30 * 24 * 3600));
    let retention = SettledRetention { key: hour, row: month };
    let event = admitted(&ledger, "kept").await;
    let closed = claimed(&ledger, &event, NOW).await.succeed(retention, NOW);
    ledger.close(&closed).await.expect("a held lease");
    let again = |at| Row::admitted(&event, at);
    let (early, late) = (NOW + hour, NOW + hour + Duration::from_secs(1));
    assert!(matches!(ledger.admit(&again(early), early).await, Ok(Admission::Duplicate(_))));
    assert_eq!(ledger.older(&event.id).await, Ok(vec![]));
    assert_eq!(ledger.admit(&again(late), late).await, Ok(Admission::New), "the key is free");
    let second = Row { generation: 1, ..again(late) };
    assert_eq!(row(&ledger, &event.id).await, second, "of the old row, its place in the row of events is left");
    assert_ne!(second.known_as(), event.id, "partners know the second by another name");
    assert_eq!(ledger.older(&event.id).await, Ok(vec![closed.row().clone()]), "people find it");

    // An invalid one, with its payload, does the same.
    let closed = claimed(&ledger, &event, late).await.succeed(retention, late);
    ledger.close(&closed).await.expect("a held lease");
    let parked = Row::invalid(&event, "no email".into(), late + 2 * hour);
    assert_eq!(ledger.admit_parked(&parked, &event, late + 2 * hour).await, Ok(true));
    assert_eq!(ledger.older(&event.id).await.expect("an answer").len(), 2, "the newest first");
    assert_eq!(ledger.older(&event.id).await.expect("an answer")[0], *closed.row());
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event.clone())));

    // When nobody wants to see it any more, it is replaced in one write.
    let gone = admitted(&ledger, "gone").await;
    let closed = claimed(&ledger, &gone, NOW).await.succeed(retention, NOW);
    ledger.close(&closed).await.expect("a held lease");
    let later = NOW + month + Duration::from_secs(1);
    assert_eq!(ledger.admit(&Row::admitted(&gone, later), later).await, Ok(Admission::New));
    assert_eq!(ledger.older(&gone.id).await, Ok(vec![]));
}

/// A plain event always ends under the same numbers. What is written over it says which one was seen.
async fn what_was_seen_of_an_event_is_not_taken_for_a_later_one_of_its_key(ledger: impl Ledger) {
    let hour = Duration::from_secs(3600);
    let retention = SettledRetention { key: hour, row: 30 * 24 * hour };
    let event = admitted(&ledger, "numbers").await;
    let late = NOW + hour + Duration::from_secs(1);
    let mut settled = Vec::new();
    for at in [NOW, late] {
        ledger.admit(&Row::admitted(&event, at), at).await.expect("an answer");
        let closed = claimed(&ledger, &event, at).await.succeed(retention, at);
        ledger.close(&closed).await.expect("a held lease");
        settled.push(row(&ledger, &event.id).await);
    }
    let [first, second] = &settled[..] else { panic!("two events") };
    assert_eq!((first.epoch, first.step), (second.epoch, second.step), "the same numbers");
    assert_eq!((first.generation, second.generation), (0, 1));
    let anew = first.followed_by(&Row::admitted(&event, late));
    assert_eq!(ledger.replace(Some(first), &anew).await, Err(WriteError::Fenced), "it saw the one before");
    assert_eq!(row(&ledger, &event.id).await, *second);
}

async fn a_claim_records_the_first_intent(ledger: impl Ledger) {
    let event = admitted(&ledger, "claim").await;
    let claim = claim_at(&event, NOW);
    let lease = ledger.claim(&event.id, &claim).await.expect("an answer");
    let expected = Lease::won(Row::admitted(&event, NOW), &claim);
    assert_eq!(lease.as_ref(), Ok(&expected));
    assert_eq!(&row(&ledger, &event.id).await, expected.row());
}

async fn a_claim_on_an_event_with_effects_leaves_them_alone(ledger: impl Ledger) {
    let event = admitted(&ledger, "effects").await;
    let mut lease = claimed(&ledger, &event, NOW).await;
    lease.record_done(&effect(), json!({"crm_id": "c-1", "n": 3, "ratio": 0.5, "tags": ["a", null]}), NOW);
    ledger.record(&lease).await.expect("a held lease");
    let before = row(&ledger, &event.id).await;
    assert_eq!(&before, lease.row());

    let later = NOW + LEASE + Duration::from_secs(1);
    let claim = claim_at(&event, later);
    let second = ledger.claim(&event.id, &claim).await.expect("an answer").expect("a won claim");
    assert_eq!(second, Lease::won(before, &claim));
    assert_eq!(&row(&ledger, &event.id).await, second.row());
}

async fn of_many_claims_at_once_one_wins(ledger: impl Ledger) {
    let event = admitted(&ledger, "claims").await;
    let claims: Vec<Claim> = (0..30).map(|_| claim_at(&event, NOW)).collect();
    let claims = join_all(claims.iter().map(|claim| ledger.claim(&event.id, claim))).await;
    let won = claims.iter().filter(|claim| matches!(claim, Ok(Ok(_)))).count();
    let busy = claims.iter().filter(|claim| **claim == Ok(Err(NotClaimed::HeldUntil(NOW + LEASE)))).count();
    assert_eq!((won, busy), (1, 29));
}

async fn the_first_claim_fixes_the_payload(ledger: impl Ledger) {
    let event = admitted(&ledger, "payload").await;
    let (first, other) = (edited(&event, "first"), edited(&event, "other"));
    let lease = claimed(&ledger, &first, NOW).await;
    assert_eq!(Some(&lease.row().fingerprint), first.fingerprint.as_ref());
    assert_eq!(&row(&ledger, &event.id).await, lease.row());

    let later = NOW + LEASE + Duration::from_secs(1);
    let superseded = Ok(Err(NotClaimed::Superseded));
    for message in [&event, &other] {
        assert_eq!(ledger.claim(&event.id, &claim_at(message, NOW)).await, superseded, "while it is held");
        assert_eq!(ledger.claim(&event.id, &claim_at(message, later)).await, superseded, "when it is free");
    }
    let taken_over = claimed(&ledger, &first, later).await;
    let closed = taken_over.bury(Reason::Terminal, Some(&effect()), "answered 400", later);
    ledger.close(&closed).await.expect("a held lease");
    assert_eq!(ledger.claim(&event.id, &claim_at(&other, later)).await, superseded, "its letter is not this one's");
}

async fn of_many_payloads_at_once_one_is_claimed(ledger: impl Ledger) {
    let event = admitted(&ledger, "payloads").await;
    let messages: Vec<Event> = (0..30).map(|number| edited(&event, &number.to_string())).collect();
    let claims = join_all(messages.iter().map(async |message| {
        let claim = claim_at(message, NOW);
        ledger.claim(&event.id, &claim).await
    }));
    let claims = claims.await;
    let won: Vec<&Lease> = claims.iter().filter_map(|claim| claim.as_ref().ok()?.as_ref().ok()).collect();
    let superseded = claims.iter().filter(|claim| **claim == Ok(Err(NotClaimed::Superseded))).count();
    assert_eq!((won.len(), superseded), (1, 29));
    assert_eq!(row(&ledger, &event.id).await.fingerprint, won[0].row().fingerprint);
}

async fn a_message_from_before_a_replay_claims_nothing(ledger: impl Ledger) {
    let event = admitted(&ledger, "replay").await;
    let lease = claimed(&ledger, &event, NOW).await;
    ledger.close(&lease.bury(Reason::Terminal, None, "answered 400", NOW)).await.expect("a held lease");
    let seen = row(&ledger, &event.id).await;
    let next = seen.clone().park(NOW).replayed(ADA, NOW).expect("it may be replayed");
    ledger.replace(Some(&seen), &next).await.expect("unchanged");
    let (replay, other) = (Event { replay: 1, ..event.clone() }, Event { replay: 1, ..edited(&event, "other") });
    for message in [&event, &other, &Event { replay: 2, ..event.clone() }] {
        assert_eq!(ledger.claim(&event.id, &claim_at(message, NOW)).await, Ok(Err(NotClaimed::Superseded)));
    }
    assert_eq!(claimed(&ledger, &replay, NOW).await.row().replay, 1);
}

/// The row of an event that broke its schema begins with a replay: with the payload that its plan showed.
async fn a_replay_that_was_never_claimed_has_one_payload_too(ledger: impl Ledger) {
    let event = Event { replay: 1, ..fresh("stands-for") };
    let replayed = Row::invalid(&event, "no email".into(), NOW);
    let row_of_event = Row::admitted_by_replay(&event, &replayed);
    ledger.replace(None, &row_of_event).await.expect("it is new");
    let other = edited(&event, "other");
    assert_eq!(ledger.claim(&event.id, &claim_at(&other, NOW)).await, Ok(Err(NotClaimed::Superseded)));
    let lease = claimed(&ledger, &event, NOW).await;
    assert_eq!((lease.row().epoch, &lease.row().fingerprint), (1, &row_of_event.fingerprint));

    let lost = NOW + QUEUE_RETENTION + Duration::from_millis(1);
    let unsent = Event { replay: 1, ..fresh("stands-for-lost") };
    let row_of_unsent = Row::admitted_by_replay(&unsent, &Row::invalid(&unsent, "no email".into(), NOW));
    ledger.replace(None, &row_of_unsent).await.expect("it is new");
    let again = Row::admitted(&Event { replay: 0, ..edited(&unsent, "again") }, lost);
    assert_eq!(ledger.admit(&again, lost).await, Ok(Admission::New), "nothing was done, and its message is lost");
}

async fn a_message_of_an_older_version_is_believed(ledger: impl Ledger) {
    let event = admitted(&ledger, "older").await;
    let older = Event { fingerprint: None, ..event.clone() };
    let before = row(&ledger, &event.id).await;
    let lease = claimed(&ledger, &older, NOW).await;
    assert_eq!(lease.row().fingerprint, before.fingerprint, "it names no payload");
    let later = NOW + LEASE + Duration::from_secs(1);
    assert_eq!(claimed(&ledger, &older, later).await.row().epoch, 2);
    let before_a_replay = Event { replay: 1, ..older };
    assert_eq!(ledger.claim(&event.id, &claim_at(&before_a_replay, NOW)).await, Ok(Err(NotClaimed::Superseded)));
}

async fn a_claim_is_refused_while_the_lease_lasts(ledger: impl Ledger) {
    let event = admitted(&ledger, "lease").await;
    claimed(&ledger, &event, NOW).await;
    let at_its_end = ledger.claim(&event.id, &claim_at(&event, NOW + LEASE)).await;
    assert_eq!(at_its_end, Ok(Err(NotClaimed::HeldUntil(NOW + LEASE))));
    let after = claimed(&ledger, &event, NOW + LEASE + Duration::from_millis(1)).await;
    assert_eq!(after.row().epoch, 2);
}

async fn a_claim_is_refused_before_its_time(ledger: impl Ledger) {
    let event = admitted(&ledger, "retry").await;
    let mut lease = claimed(&ledger, &event, NOW).await;
    lease.record_failed(&effect(), "answered 500", NOW);
    ledger.close(&lease.retry(Duration::from_secs(7), NOW)).await.expect("a held lease");
    let due = NOW + Duration::from_secs(7);
    let early = ledger.claim(&event.id, &claim_at(&event, NOW + Duration::from_secs(6))).await;
    assert_eq!(early, Ok(Err(NotClaimed::RetryAt(due))));
    assert_eq!(claimed(&ledger, &event, due).await.row().retry_at, None);
}

async fn what_is_settled_or_dead_or_unknown_is_not_claimed(ledger: impl Ledger) {
    let done = admitted(&ledger, "settled").await;
    let lease = claimed(&ledger, &done, NOW).await;
    ledger.close(&lease.succeed(LEASE, NOW)).await.expect("a held lease");
    assert_eq!(ledger.claim(&done.id, &claim_at(&done, NOW)).await, Ok(Err(NotClaimed::Settled)));

    let dead = admitted(&ledger, "dead").await;
    let lease = claimed(&ledger, &dead, NOW).await;
    let closed = lease.bury(Reason::Terminal, Some(&effect()), "answered 400", NOW);
    ledger.close(&closed).await.expect("a held lease");
    assert_eq!(row(&ledger, &dead.id).await.state, State::Dead);
    let found = ledger.claim(&dead.id, &claim_at(&dead, NOW)).await;
    assert_eq!(found, Ok(Err(NotClaimed::Dead(Box::new(closed.row().clone())))));

    let nothing = fresh("nothing");
    assert_eq!(ledger.claim(&nothing.id, &claim_at(&nothing, NOW)).await, Ok(Err(NotClaimed::NoRow)));
}

async fn a_worker_that_outlived_its_lease_changes_nothing(ledger: impl Ledger) {
    let event = admitted(&ledger, "zombie").await;
    let mut zombie = claimed(&ledger, &event, NOW).await;
    let successor = claimed(&ledger, &event, NOW + LEASE + Duration::from_secs(1)).await;
    zombie.record_done(&effect(), json!({}), NOW);
    assert_eq!(ledger.record(&zombie).await, Err(WriteError::Fenced));
    assert_eq!(ledger.close(&zombie.succeed(LEASE, NOW)).await, Err(WriteError::Fenced));
    assert_eq!(&row(&ledger, &event.id).await, successor.row());
}

async fn a_late_write_undoes_nothing_and_a_repeated_one_is_harmless(ledger: impl Ledger) {
    let event = admitted(&ledger, "late").await;
    let mut lease = claimed(&ledger, &event, NOW).await;
    lease.record_failed(&effect(), "answered 500", NOW);
    let early = lease.clone();
    lease.intend(&effect(), NOW);
    ledger.record(&lease).await.expect("a held lease");
    assert_eq!(ledger.record(&early).await, Err(WriteError::Fenced), "the network delivered it late");
    assert_eq!(ledger.record(&lease).await, Ok(()), "the SDK repeated it");
    assert_eq!(&row(&ledger, &event.id).await, lease.row());
}

async fn a_row_that_moved_on_is_not_replaced(ledger: impl Ledger) {
    let event = admitted(&ledger, "replace").await;
    let seen = row(&ledger, &event.id).await;
    let parked = seen.clone().park(NOW);
    assert_eq!(ledger.replace(None, &parked).await, Err(WriteError::Fenced), "there is a row");
    assert_eq!(ledger.replace(Some(&seen), &parked).await, Ok(()));
    assert_eq!(ledger.replace(Some(&seen), &parked).await, Ok(()), "the SDK repeated it");
    let later = seen.clone().park(NOW + Duration::from_millis(1));
    assert_eq!(ledger.replace(Some(&seen), &later).await, Err(WriteError::Fenced), "it was another row");
    assert_eq!(row(&ledger, &event.id).await, parked);

    let unknown = fresh("absent");
    let record = Row::unaccounted(&unknown, Reason::Orphaned, NOW).park(NOW);
    assert_eq!(ledger.replace(None, &record).await, Ok(()));
    assert_eq!(ledger.replace(None, &record).await, Ok(()), "the SDK repeated it");
    assert_eq!(row(&ledger, &unknown.id).await, record);
    tidy_up(&ledger, &[&event.id, &unknown.id]).await;
}

async fn what_is_parked_from_the_start_has_its_payload_and_is_new_once(ledger: impl Ledger) {
    let event = fresh("invalid");
    let row = Row::invalid(&event, "/data breaks `required`".into(), NOW);
    assert_eq!(ledger.admit_parked(&row, &event, NOW).await, Ok(true));
    assert_eq!(ledger.row(&event.id).await, Ok(Some(row.clone())));
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event.clone())));

    let other = Event { payload: json!({"another": "payload"}), ..event.clone() };
    assert_eq!(ledger.admit_parked(&row, &other, NOW).await, Ok(false));
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event.clone())), "a duplicate writes nothing");
    let dropped = row.clone().dropped(ADA, Duration::from_secs(300), NOW).expect("it is dead");
    ledger.replace(Some(&row), &dropped).await.expect("an answer");
    ledger.forget(&event).await.expect("an answer");
    assert_eq!(ledger.admit_parked(&row, &event, NOW).await, Ok(false));
    assert_eq!(ledger.kept(&event.id).await, Ok(None), "what is settled is not kept again");
}

async fn of_many_parked_at_once_one_is_new(ledger: impl Ledger) {
    let event = fresh("invalid-at-once");
    let row = Row::invalid(&event, "/data breaks `required`".into(), NOW);
    let admitted = join_all((0..8).map(|_| ledger.admit_parked(&row, &event, NOW))).await;
    // Transactions at the same item may conflict: then the sender is asked to send it again.
    assert!(admitted.iter().filter(|new| **new == Ok(true)).count() <= 1, "{admitted:?}");
    assert!(ledger.admit_parked(&row, &event, NOW).await.is_ok());
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event)));
}

async fn a_payload_is_parked_with_its_row_or_not_at_all(ledger: impl Ledger) {
    let event = admitted(&ledger, "park").await;
    let seen = row(&ledger, &event.id).await;
    let parked = seen.clone().park(NOW);
    assert_eq!(ledger.park(Some(&seen), &parked, &event).await, Ok(()));
    assert_eq!(ledger.park(Some(&seen), &parked, &event).await, Ok(()), "the SDK repeated it");
    let other = edited(&event, "other");
    let later = seen.clone().with_payload_of(&other).park(NOW + Duration::from_millis(1));
    assert_eq!(ledger.park(Some(&seen), &later, &other).await, Err(WriteError::Fenced));
    assert_eq!(ledger.park(None, &later, &other).await, Err(WriteError::Fenced), "there is a row");
    assert_eq!(row(&ledger, &event.id).await, parked);
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event.clone())), "the payload of the row");
    tidy_up(&ledger, &[&event.id]).await;
    ledger.forget(&event).await.expect("an answer");
}

async fn of_many_letters_at_once_one_is_parked(ledger: impl Ledger) {
    let event = admitted(&ledger, "letters").await;
    let seen = row(&ledger, &event.id).await;
    let letters: Vec<Event> = (0..20).map(|number| edited(&event, &number.to_string())).collect();
    let parked = join_all(letters.iter().enumerate().map(async |(number, letter)| {
        let at = NOW + Duration::from_millis(number as u64);
        ledger.park(Some(&seen), &seen.clone().with_payload_of(letter).park(at), letter).await
    }));
    // A transaction may also be cancelled by another one, and is tried again then.
    let won = parked.await.iter().filter(|parked| parked.is_ok()).count();
    assert!(won <= 1, "{won} letters were parked");
    if won == 1 {
        let kept = ledger.kept(&event.id).await.expect("an answer").expect("it is kept");
        assert_eq!(kept.fingerprint, Some(row(&ledger, &event.id).await.fingerprint));
        tidy_up(&ledger, &[&event.id]).await;
        ledger.forget(&kept).await.expect("an answer");
    }
}

async fn a_payload_is_kept_and_forgotten(ledger: impl Ledger) {
    let event = fresh("payload");
    assert_eq!(ledger.kept(&event.id).await, Ok(None));
    ledger.keep(&event, NOW.secs()).await.expect("an answer");
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event.clone())));

    let replayed = Event { replay: 1, ..event.clone() };
    ledger.keep(&replayed, NOW.secs()).await.expect("an answer");
    ledger.forget(&event).await.expect("an answer");
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(replayed.clone())), "it died again meanwhile");
    ledger.forget(&replayed).await.expect("an answer");
    assert_eq!(ledger.kept(&event.id).await, Ok(None));
    ledger.forget(&replayed).await.expect("forgetting twice is harmless");
}

/// A body must be the same over retries and replays, and so must a plan that somebody approved.
async fn numbers_come_back_as_they_were_written(ledger: impl Ledger) {
    let numbers = json!({"whole": 25.0, "small": 0.1, "large": 1e200, "tiny": 1e-200, "id": u64::MAX, "minus": -7});
    let event = admitted(&ledger, "numbers").await;
    let sent = Event { payload: numbers.clone(), ..event.clone() };
    ledger.keep(&sent, NOW.secs()).await.expect("an answer");
    let kept = ledger.kept(&event.id).await.expect("an answer").expect("it is kept");
    assert_eq!(kept.payload.to_string(), numbers.to_string());
    ledger.forget(&sent).await.expect("an answer");

    let mut lease = claimed(&ledger, &event, NOW).await;
    lease.record_done(&effect(), numbers.clone(), NOW);
    lease.record_enrichment("place", numbers.clone(), NOW);
    ledger.record(&lease).await.expect("a held lease");
    let row = row(&ledger, &event.id).await;
    assert_eq!(row.enrich["place"].to_string(), numbers.to_string());
    assert_eq!(&row, lease.row());
}

async fn the_parked_are_listed_newest_first_until_they_are_claimed(ledger: impl Ledger) {
    let (mut ids, mut events) = (Vec::new(), Vec::new());
    for seconds in [10, 30, 20] {
        let event = admitted(&ledger, "parked").await;
        let seen = row(&ledger, &event.id).await;
        // Far in the future, so that they come before what other tests park.
        let next = seen.clone().park(NOW + Duration::from_secs(1_000_000_000 + seconds));
        ledger.replace(Some(&seen), &next).await.expect("unchanged");
        ids.push(event.id.clone());
        events.push(event);
    }
    let listed = async || -> Vec<EventId> {
        let rows = ledger.parked(100).await.expect("an answer");
        rows.into_iter().map(|row| row.id).filter(|id| ids.contains(id)).collect()
    };
    comes([1, 2, 0].map(|n: usize| ids[n].clone()).to_vec(), &listed).await;

    let seen = row(&ledger, &ids[1]).await;
    let next = seen.clone().replayed(ADA, NOW).expect("it may be replayed");
    ledger.replace(Some(&seen), &next).await.expect("unchanged");
    // It is listed until it is claimed.
    comes(3, async || listed().await.len()).await;
    claimed(&ledger, &Event { replay: 1, ..events[1].clone() }, NOW).await;
    comes([2, 0].map(|n: usize| ids[n].clone()).to_vec(), &listed).await;
    tidy_up(&ledger, &[&ids[0], &ids[2]]).await;
}

/// Other tests look through the same list.
async fn tidy_up(ledger: &impl Ledger, ids: &[&EventId]) {
    for id in ids {
        let seen = row(ledger, id).await;
        let gone = seen.clone().dropped(ADA, Duration::ZERO, NOW).expect("it is dead");
        ledger.replace(Some(&seen), &gone).await.expect("unchanged");
    }
}

async fn the_parked_wait_oldest_first_within_a_time(ledger: impl Ledger) {
    // A time of its own, so that nobody else's are found.
    let began = Timestamp::from_secs(i64::from(std::process::id()));
    let at = |millis: u64| began + Duration::from_millis(millis);
    let mut ids = Vec::new();
    for millis in [10, 40, 20, 30] {
        let event = admitted(&ledger, "waiting").await;
        let seen = row(&ledger, &event.id).await;
        ledger.replace(Some(&seen), &seen.clone().park(at(millis))).await.expect("unchanged");
        ids.push(event.id);
    }
    let waiting = async |since, until, limit| -> Vec<EventId> {
        let rows = ledger.parked_between(at(since), at(until), limit).await.expect("an answer");
        rows.into_iter().map(|row| row.id).collect()
    };
    let of = |places: &[usize]| places.iter().map(|n| ids[*n].clone()).collect::<Vec<_>>();
    comes(of(&[0, 2, 3, 1]), async || waiting(0, 100, 10).await).await;
    // Both ends are within.
    comes(of(&[2, 3]), async || waiting(20, 30, 10).await).await;
    // The oldest of all shards.
    comes(of(&[0, 2]), async || waiting(0, 100, 2).await).await;
    assert_eq!(waiting(50, 100, 10).await, []);
    assert_eq!(waiting(30, 20, 10).await, [], "nothing is between a moment and an earlier one");
    tidy_up(&ledger, &ids.iter().collect::<Vec<_>>()).await;
}

async fn one_shard_may_have_more_than_its_share(ledger: impl Ledger) {
    let began = Timestamp::from_secs(i64::from(std::process::id()) + 10_000_000);
    let at = |millis: usize| began + Duration::from_millis(millis as u64);
    let mut ids = Vec::new();
    while ids.len() < 24 {
        let event = fresh("shard");
        if event.id.as_str().starts_with('a') {
            let record = Row::unaccounted(&event, Reason::Orphaned, NOW).park(at(ids.len()));
            ledger.replace(None, &record).await.expect("it is new");
            ids.push(event.id);
        }
    }
    let found = async |limit| -> Vec<EventId> {
        let rows = ledger.parked_between(at(0), at(1000), limit).await.expect("an answer");
        rows.into_iter().map(|row| row.id).collect()
    };
    comes(ids[..20].to_vec(), async || found(20).await).await;
    comes(24, async || found(30).await.len()).await;
    tidy_up(&ledger, &ids.iter().collect::<Vec<_>>()).await;
}

/// What the emulator does not do by itself: it deletes nothing when its time is over, and its index never lags.
mod limits {
    use serde_json::Value;
    use shared::ledger::{Lines as _, WaitsFor};
    use shared::model::{LARGEST_ITEM, ModelChance, ModelLedger, PlainAdmission};

    use super::*;

    #[tokio::test]
    async fn an_item_that_is_too_large_is_declined_and_nothing_is_written() {
        let ledger = ModelLedger::default();
        let event = event("large");
        let row = Row::admitted(&event, NOW);
        ledger.admit(&row, NOW).await.expect("the model answers");
        let large = Event { payload: Value::String("x".repeat(LARGEST_ITEM)), ..event.clone() };
        let dead = Row { epoch: 1, ..row.clone() };
        let parked = ledger.park(Some(&row), &dead, &large).await.expect_err("the payload is too large");
        assert!(matches!(&parked, WriteError::Unavailable(error) if error.is_lasting()), "{parked}");
        assert_eq!((ledger.get(&event.id), ledger.payload(&event.id)), (Some(row.clone()), None));
        let mut grown = Row { step: 1, ..row.clone() };
        grown.enrich.insert("company".into(), Value::String("x".repeat(LARGEST_ITEM)));
        assert!(ledger.hold(&grown).is_err());
        assert_eq!(ledger.get(&event.id), Some(row));
    }

    /// Two deliveries after the end of a key see the same row in their way. One of them puts it aside late.
    #[tokio::test]
    async fn an_admission_that_lands_late_begins_nothing_anew() {
        let ledger = ModelLedger::default();
        let hour = Duration::from_secs(3600);
        let retention = SettledRetention { key: hour, row: 30 * 24 * hour };
        let event = admitted(&ledger, "late").await;
        ledger.close(&claimed(&ledger, &event, NOW).await.succeed(retention, NOW)).await.expect("a held lease");
        let late = NOW + hour + Duration::from_secs(1);
        let again = Row::admitted(&event, late);
        let plainly = ledger.admit_plainly(&again, None, late).expect("the model answers");
        let PlainAdmission::InTheWay(seen) = plainly else { panic!("{plainly:?}") };
        assert_eq!(ledger.admit(&again, late).await, Ok(Admission::New), "the other one was faster");
        ledger.close(&claimed(&ledger, &event, late).await.succeed(retention, late)).await.expect("a held lease");
        let done = row(&ledger, &event.id).await;
        assert_eq!((done.epoch, done.step), (seen.epoch, seen.step));
        assert!(ledger.admit_anew(&seen, &again, None).is_err());
        assert_eq!(row(&ledger, &event.id).await, done, "what is done is not done again");
    }

    #[tokio::test]
    async fn what_is_expired_is_seen_until_it_is_deleted() {
        let ledger = ModelLedger::default();
        let row = Row::admitted(&event("old"), NOW);
        ledger.admit(&row, NOW).await.expect("the model answers");
        ledger.keep(&event("old"), row.expires_at).await.expect("the model answers");
        let later = Timestamp::from_secs(row.expires_at + 1);
        assert_eq!(ledger.delete_expired(Timestamp::from_secs(row.expires_at), || true), [], "not before");
        assert_eq!(ledger.delete_expired(later, || false), [], "any time after");
        assert!(ledger.get(&row.id).is_some() && ledger.payload(&row.id).is_some());
        assert_eq!(ledger.delete_expired(later, || true), std::slice::from_ref(&row));
        assert!(ledger.get(&row.id).is_none() && ledger.payload(&row.id).is_none());
    }

    #[tokio::test]
    async fn an_index_that_lags_shows_what_was() {
        let ledger = ModelLedger::default();
        ledger.lag(1.0, ModelChance::seeded(1));
        let parked = Row::admitted(&event("parked"), NOW).park(NOW);
        ledger.admit(&parked, NOW).await.expect("the model answers");
        assert_eq!(ledger.parked(10).await, Ok(vec![]), "not yet");
        ledger.hold(&Row { step: parked.step + 1, ..parked.clone() }).expect("it is held");
        assert_eq!(ledger.parked(10).await, Ok(vec![parked.clone()]), "as it was");
        ledger.lag(0.0, ModelChance::seeded(1));
        assert_eq!(ledger.parked(10).await.expect("the model answers")[0].step, parked.step + 1);
        assert_eq!(ledger.listed(&WaitsFor::Moment, NOW, 10).await, Ok(vec![]));
    }
}
