//! The operators' side of contacts: look at one, set its fields, import many.
//!
//! An operator's change is stamped as an event's is: a set with the moment of its request, a row of an import with the
//! moment that the row states. So an import changes nothing that a newer event, set or import has said, and the same
//! import again changes nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::base::mask::mask;
use shared::base::time::Timestamp;
use shared::effects::contact::{BadContact, Contact, ContactId, ContactUpsert, FieldStamp};
use shared::ledger::SignOff;
use tracing::info;

use crate::Replay;
use crate::lists::MAX_LIMIT;
use crate::operations::{Failure, decline};

/// One row of an import.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRow {
    /// The row's line in its file. The answer names it.
    pub line: u64,
    /// The tenant that the contact belongs to.
    pub tenant: String,
    /// The contact's email.
    pub email: String,
    /// The moment when the fields were so, in RFC 3339 or in seconds since 1970.
    pub at: String,
    /// The fields to set; null removes one.
    pub fields: Map<String, Value>,
}

shared::base::masked::prints_only!(ImportRow as "ImportRow", line);

/// What an import does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowOutcome {
    /// The contact was not known.
    Created,
    /// A field has a new value, or the same value with a newer stamp.
    Changed,
    /// Every field was set by this very row before.
    Unchanged,
    /// Newer changes have set or removed whatever the row could change.
    Newer,
    /// The row is no contact, or states no moment of the past.
    Rejected,
}

impl RowOutcome {
    fn as_str(self) -> &'static str {
        match self {
            RowOutcome::Created => "created",
            RowOutcome::Changed => "changed",
            RowOutcome::Unchanged => "unchanged",
            RowOutcome::Newer => "newer",
            RowOutcome::Rejected => "rejected",
        }
    }
}

/// How far a moment may be ahead of our clock: as far as two clocks may differ.
const CLOCKS_MS: i64 = 1000;

/// Shows a contact, with its values masked.
pub(crate) async fn show(replay: &Replay, tenant: &str, email: &str) -> Result<Value, Failure> {
    let id = ContactId::of(tenant, email).map_err(|bad| decline(bad.to_string()))?;
    let contact = replay.contacts.read(&id).await?.ok_or_else(|| decline(UNKNOWN))?;
    Ok(page(&id, &contact))
}

/// Sets and removes fields of a contact, as of now.
pub(crate) async fn set(
    replay: &Replay,
    tenant: &str,
    email: &str,
    fields: &Map<String, Value>,
    sign_off: SignOff<'_>,
) -> Result<Value, Failure> {
    if fields.is_empty() {
        return Err(decline("name at least one field: `\"fields\": {\"consent_email\": false}`; null removes one"));
    }
    let now = replay.clock.now();
    let upsert = ContactUpsert::new(tenant, email, fields).map_err(|bad| decline(bad.to_string()))?;
    let upsert = upsert.signed(sign_off, now);
    let upserted = replay.contacts.upsert(&upsert, &upsert.change_id(now), now).await?;
    let names: Vec<&str> = upsert.changes().map(|(name, _)| name).collect();
    info!(contact = %upserted.id, fields = ?names, by = sign_off.by, why = sign_off.why, "an operator changed a contact");
    Ok(json!({"id": upserted.id, "created": upserted.created, "at": now.to_string(), "newer": upserted.overtaken}))
}

/// Imports rows, or says what an import would do. Each row has its own outcome.
pub(crate) async fn import(
    replay: &Replay,
    rows: &[ImportRow],
    dry_run: bool,
    sign_off: SignOff<'_>,
) -> Result<Value, Failure> {
    if rows.is_empty() || rows.len() > MAX_LIMIT {
        return Err(decline(format!("an import takes 1 to {MAX_LIMIT} rows at once")));
    }
    let mut answers = Vec::new();
    let mut counts: BTreeMap<RowOutcome, usize> = BTreeMap::new();
    for row in rows {
        let mut answer = json!({"line": row.line});
        let outcome = match checked(row, replay.clock.now()) {
            Ok((upsert, at)) => import_row(replay, upsert, at, dry_run, sign_off, &mut answer).await?,
            Err(why) => {
                answer["why"] = json!(why);
                RowOutcome::Rejected
            }
        };
        answer["outcome"] = json!(outcome.as_str());
        answers.push(answer);
        *counts.entry(outcome).or_default() += 1;
    }
    if !dry_run {
        info!(?counts, by = sign_off.by, why = sign_off.why, "an operator imported contacts");
    }
    Ok(json!({"rows": answers, "dry_run": dry_run}))
}

/// Imports a row. The read says what the write will do; the write decides.
async fn import_row(
    replay: &Replay,
    upsert: ContactUpsert,
    at: Timestamp,
    dry_run: bool,
    sign_off: SignOff<'_>,
    answer: &mut Value,
) -> Result<RowOutcome, Failure> {
    let by = upsert.change_id(at);
    let known = replay.contacts.read(upsert.id()).await?;
    let (outcome, mut newer) = match &known {
        None => (RowOutcome::Created, Default::default()),
        Some(contact) => {
            let stamp = FieldStamp::of(&by, at);
            let newer = contact.overtaken(&upsert, &stamp);
            let changes = |name: &str| !newer.contains(name) && contact.stamps.get(name) != Some(&stamp);
            let outcome = match upsert.changes().any(|(name, _)| changes(name)) {
                true => RowOutcome::Changed,
                false if newer.is_empty() => RowOutcome::Unchanged,
                false => RowOutcome::Newer,
            };
            (outcome, newer)
        }
    };
    if !dry_run && matches!(outcome, RowOutcome::Created | RowOutcome::Changed) {
        newer = replay.contacts.upsert(&upsert.signed(sign_off, replay.clock.now()), &by, at).await?.overtaken;
    }
    if !newer.is_empty() {
        answer["newer"] = json!(newer);
    }
    Ok(outcome)
}

/// The upsert of a row and its moment, or why the row is rejected. The reason names no value.
fn checked(row: &ImportRow, now: Timestamp) -> Result<(ContactUpsert, Timestamp), String> {
    let ImportRow { tenant, email, at, fields, .. } = row;
    let at = Timestamp::parse(at).ok_or("`at` must be a moment, as 2026-11-16T10:00:00Z")?;
    if !(0..=now.millis() + CLOCKS_MS).contains(&at.millis()) {
        return Err(
            "`at` must be a moment of the past, after 1970: a later one would hold back events until then".into()
        );
    }
    let upsert = ContactUpsert::new(tenant, email, fields).map_err(|bad: BadContact| bad.to_string())?;
    Ok((upsert, at))
}

fn page(id: &ContactId, contact: &Contact) -> Value {
    let names = contact.fields.keys().chain(contact.stamps.keys());
    let field = |name: &String| {
        let at = contact.changed_at(name).map(|at| at.to_string());
        let shown = match contact.fields.get(name) {
            Some(value) => json!({"value": mask(&value.into()), "at": at}),
            None => json!({"removed": true, "at": at}),
        };
        (name.clone(), shown)
    };
    let fields: Map<String, Value> = names.map(field).collect();
    json!({"id": id, "fields": fields, "signed_off": contact.signed_off})
}

const UNKNOWN: &str = "there is no contact with this email in the tenant: check both, or set a field to make one";
