//! Lookups: whether an effect happened, where its partner can be asked.

use shared::effects::outcome::LookupOutcome;
use shared::effects::request::pick_result;
use shared::flows::{Effect, Lookup};
use shared::limits::pressure::CallEnd;

use crate::action::ask_whether_done;
use crate::ends::Stop;
use crate::permits::{enter_all, release_permit};
use crate::work::Run;

/// Asks the partner whether an effect happened. A partner that cannot say is asked again until the event
/// is too old: asking is no attempt.
pub(crate) async fn look_up<'r>(run: &mut Run<'r>, effect: &'r Effect, lookup: &Lookup) -> Option<Stop<'r>> {
    let Run { work, flow, lease, .. } = run;
    let mut permits = match enter_all(work, &[effect]).await {
        Ok(permits) => permits,
        Err(deferral) => return Some(Stop::Defer(deferral)),
    };
    let outcome = ask_whether_done(work, lease.row(), effect, lookup).await;
    let end = if matches!(outcome, LookupOutcome::CannotSay(_)) { CallEnd::Failure } else { CallEnd::Success };
    release_permit(work, &mut permits, effect, end).await;
    match outcome {
        LookupOutcome::Found(answer) => lease.record_done(effect, pick_result(effect, &answer), work.now()),
        LookupOutcome::Absent => lease.record_absent(effect, work.now()),
        LookupOutcome::CannotSay(error) => {
            lease.record_unknown(effect, &format!("looked up: {error}"), work.now());
            let delay = flow.retry.delay(lease.attempts(effect).max(1), work.processor.chance.unit(), None);
            return Some(Stop::Retry(delay.max(lookup.after)));
        }
    }
    None
}
