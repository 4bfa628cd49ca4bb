//! Receipts: senders ask for the state of their own events.

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::base::trace::Trace;
use shared::flows::Source;
use shared::ledger::{Row, State};
use shared::limits::rates::Decision;
use tracing::warn;

use crate::accept::Intake;
use crate::rejection::Rejection;
use crate::secret_match::is_live;

/// The longest id that is looked up.
const MAX_ID: usize = 128;

/// Answers a sender with the state and the result of one of its own events.
///
/// The token is `<source>.<secret>`. The ledger leaves out an event of another sender: it and no event at all take the
/// same steps and get the same answer.
pub async fn receipt(
    intake: &Intake,
    authorization: Option<&str>,
    id: &str,
    trace: &Trace,
    now: Timestamp,
) -> Result<LookedUp, Rejection> {
    let (name, source) = authenticate(intake, authorization).await?;
    let standing = within_rate(intake, name, source, trace, now).await?;
    let bounded = if (1..=MAX_ID).contains(&id.len()) { id } else { "no such id" };
    let row = intake.rows.row_from(name, &EventId::named(bounded)).await?;
    let view = row.map(|row| view(&row)).ok_or(Rejection::NoReceipt)?;
    Ok(LookedUp { view, standing })
}

/// A receipt as its sender sees it, and the sender's standing under its rate, if the limits answered.
pub struct LookedUp {
    /// The event's state, and its result.
    pub view: Value,
    /// The sender's standing.
    pub standing: Option<Decision>,
}

shared::base::masked::prints_only!(LookedUp as "LookedUp", standing);

/// The source that a token proves, with its name.
///
/// A token that was rotated is not in the cache yet. So a mismatch asks the store again, though not more often than
/// whoever guesses should be able to.
async fn authenticate<'i>(
    intake: &'i Intake,
    authorization: Option<&'i str>,
) -> Result<(&'i str, &'i Source), Rejection> {
    let token = authorization.and_then(bearer).ok_or(Rejection::Unauthorized)?;
    let (name, _) = token.split_once('.').ok_or(Rejection::Unauthorized)?;
    // Only a source that exists: a caller who guesses names must not fill the cache of secrets.
    let source = intake.flows.source(name).ok_or(Rejection::Unauthorized)?;
    let path = format!("receipts/{name}");
    let live = intake.secrets.live(&path).await?;
    if !is_live(&live, token) {
        let renewed = intake.secrets.renewed(&path).await?.ok_or(Rejection::Unauthorized)?;
        if !is_live(&renewed, token) {
            return Err(Rejection::Unauthorized);
        }
    }
    Ok((name, source))
}

/// Takes one receipt from the sender's rate: as many as it may send events, and none of those. It is counted after the
/// token, so that a stranger cannot spend it. When the limits do not answer, the sender is answered all the same.
async fn within_rate(
    intake: &Intake,
    name: &str,
    source: &Source,
    trace: &Trace,
    now: Timestamp,
) -> Result<Option<Decision>, Rejection> {
    match intake.limiter.admit(&format!("receipts/{name}"), &source.rate, now).await {
        Ok(denied @ Decision::Throttled { .. }) => Err(Rejection::Throttled(denied)),
        Ok(admitted) => Ok(Some(admitted)),
        Err(unavailable) => {
            let trace_id = trace.id();
            warn!(source = name, trace_id, %unavailable, "the sender's rate was not reached; it is answered without it");
            Ok(None)
        }
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn view(row: &Row) -> Value {
    let mut view = json!({
        "id": row.id,
        "state": row.state,
        "received_at": row.received_at.to_string(),
    });
    if let Some(noop) = &row.noop {
        view["noop"] = json!(noop);
    }
    if row.state == State::Succeeded {
        view["result"] = row.results();
    }
    if let Some(death) = &row.death {
        view["reason"] = json!(death.reason);
    }
    view
}
