//! Lookups: whether an effect happened, where its partner can be asked.

use shared::effects::outcome::LookupOutcome;
use shared::flows::Effect;
use shared::ledger::timeline::SpanEnd;
use shared::ledger::{Doubt, Entry, Reason};
use shared::operate::metric::Fact;

use crate::action::ask_whether_done;
use crate::call_spans::TriedCall;
use crate::credentials::until_credentials_are_right;
use crate::ends::{Stop, delay_without_attempt};
use crate::permits::{enter_all, release_permit};
use crate::work::Run;

/// Asks whether an effect happened. A partner or a function that cannot say is asked again until the event
/// is too old: asking is no attempt.
pub(crate) async fn look_up<'r>(run: &mut Run<'r>, effect: &'r Effect) -> Option<Stop<'r>> {
    let (work, flow) = (run.work, run.flow);
    let mut permits = match enter_all(work, &[effect]).await {
        Ok(permits) => permits,
        Err(hindrance) => return Some(Stop::Defer(hindrance)),
    };
    let began = work.now();
    let (outcome, status) = match ask_whether_done(work, flow, run.lease.row(), effect).await {
        Ok(asked) => asked,
        Err(no_credentials) => {
            let (hindrance, end) = no_credentials.hindrance(work, effect.integration().unwrap_or_default());
            release_permit(work, &mut permits, effect, end).await;
            return Some(Stop::Defer(hindrance));
        }
    };
    work.export_lookup(run.lease.row(), effect, || told(&outcome, status), began);
    release_permit(work, &mut permits, effect, outcome.call_end()).await;
    match outcome {
        LookupOutcome::Found(result) => {
            run.lease.record_done(effect, result, work.now());
            work.count(Fact::EffectEnded(&flow.name, true));
        }
        LookupOutcome::FoundWithout(missing) => {
            return Some(park_without(run, effect, format!("found without {missing}")));
        }
        // The partner said that it was done. What it says now is not to be acted on.
        LookupOutcome::Absent if entry(run, effect).is_some_and(|entry| entry.happened) => {
            return Some(park_without(run, effect, "not found, but it was answered as done".into()));
        }
        LookupOutcome::Absent => run.lease.record_absent(effect, work.now()),
        LookupOutcome::CannotSay(error) => {
            run.lease.record_unknown(effect, error.after("looked up: "), Doubt::None, work.now());
            let delay = flow.retry.delay(run.lease.attempts(effect).max(1), work.processor.chance.unit(), None);
            let delay = delay.max(effect.asked_after().unwrap_or_default());
            return Some(Stop::Retry(delay_without_attempt(work, flow, &run.lease, delay)));
        }
        LookupOutcome::CredentialsRejected(error) => {
            let hindrance = until_credentials_are_right(work, effect.integration().unwrap_or_default(), &error);
            run.lease.record_unknown(effect, error.after("looked up: "), Doubt::None, work.now());
            return Some(Stop::Defer(hindrance));
        }
    }
    None
}

/// What was found, as its span tells it.
fn told(outcome: &LookupOutcome, status: Option<u16>) -> TriedCall {
    let (end, outcome, error) = match outcome {
        LookupOutcome::Found(_) => (SpanEnd::Done, "found", None),
        LookupOutcome::FoundWithout(_) => (SpanEnd::Unknown, "found_without", None),
        LookupOutcome::Absent => (SpanEnd::Failed, "absent", None),
        LookupOutcome::CannotSay(error) => (SpanEnd::Unknown, "cannot_say", Some(error)),
        LookupOutcome::CredentialsRejected(error) => (SpanEnd::Unknown, "credentials_rejected", Some(error)),
    };
    TriedCall { end, outcome, said: error.map(|error| error.told().to_owned()), status }
}

/// Parks an event whose effect happened, and whose result nobody could say.
fn park_without<'r>(run: &mut Run<'r>, effect: &'r Effect, found: String) -> Stop<'r> {
    let error = format!("looked up: {found}");
    run.lease.record_unknown(effect, error.as_str(), Doubt::ResultMissing, run.work.now());
    Stop::Bury { effect: Some(effect), reason: Reason::ResultMissing, error }
}

/// Gives up on an effect that was tried in vain. If it is in doubt and its partner can be asked, the partner is asked
/// first: a partner may repeat a saved failure under the same key for ever.
pub(crate) fn give_up<'r>(run: &mut Run<'r>, effect: &'r Effect, reason: Reason, error: String) -> Stop<'r> {
    match effect.asked_after() {
        Some(after) if entry(run, effect).is_some_and(Entry::in_doubt) => {
            run.lease.record_unknown(effect, error.as_str(), Doubt::None, run.work.now());
            Stop::Retry(after)
        }
        _ => Stop::Bury { effect: Some(effect), reason, error },
    }
}

fn entry<'e>(run: &'e Run<'_>, effect: &Effect) -> Option<&'e Entry> {
    run.lease.row().entry(effect)
}
