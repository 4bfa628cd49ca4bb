//! Receipts: senders ask for the state of their own events.

use serde_json::{Value, json};
use shared::arrival::signature::Secret;
use shared::base::id::EventId;
use shared::ledger::{Row, State};
use subtle::{Choice, ConstantTimeEq};

use crate::accept::Intake;
use crate::rejection::Rejection;

/// The longest id that is looked up.
const MAX_ID: usize = 128;

/// Answers a sender with the state and the result of one of its own events.
///
/// The token is `<source>.<secret>`. An event of another sender and no event at all take the same steps and
/// get the same answer.
pub async fn receipt(intake: &Intake, authorization: Option<&str>, id: &str) -> Result<Value, Rejection> {
    let source = authenticate(intake, authorization).await?;
    let bounded = if (1..=MAX_ID).contains(&id.len()) { id } else { "no such id" };
    let row = intake.rows.row(&EventId::named(bounded)).await?;
    let own = row.filter(|row| row.source == source);
    own.map(|row| view(&row)).ok_or(Rejection::NoReceipt)
}

async fn authenticate(intake: &Intake, authorization: Option<&str>) -> Result<String, Rejection> {
    let token = authorization.and_then(bearer).ok_or(Rejection::Unauthorized)?;
    let (source, _) = token.split_once('.').ok_or(Rejection::Unauthorized)?;
    // Only a source that exists: a caller who guesses names must not fill the cache of secrets.
    if intake.flows.source(source).is_none() {
        return Err(Rejection::Unauthorized);
    }
    let live = intake.secrets.live(&format!("receipts/{source}")).await?;
    if !is_live(&live, token) {
        return Err(Rejection::Unauthorized);
    }
    Ok(source.to_owned())
}

/// Whether the token is live. Every token is compared, so that the time taken tells nothing about which one is
/// close.
fn is_live(live: &[Secret], token: &str) -> bool {
    let same = |secret: &Secret| secret.expose().as_bytes().ct_eq(token.as_bytes());
    live.iter().fold(Choice::from(0), |found, secret| found | same(secret)).into()
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
