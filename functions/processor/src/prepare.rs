//! The stage between a claim and the first effect: the stale guard, guards, enrichments,
//! approval.
//!
//! The whole stage is repeated with every delivery, because consent may be withdrawn while an event waits.
//! The results of enrichments are kept with the first intent, and are not asked for again.

use std::net::IpAddr;

use serde_json::{Value, json};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::retention::UNSETTLED_RETENTION;
use shared::effects::contact::Fields;
use shared::effects::guard::{Judgement, judge};
use shared::effects::request::pick_values;
use shared::flows::template::{Path, TemplateError};
use shared::flows::{Approval, ContactRef, Enrich, Flow, Guard, OnError, Origin};
use shared::ledger::plan::Plan;
use shared::ledger::queue::OUTAGE_DELAY;
use shared::ledger::{Lease, Reason, Row};
use shared::limits::pressure::{Deferral, DeferralReason};
use shared::operate::{approval, stale_guard};
use tracing::warn;

use crate::ends::{Stop, delay_without_attempt};
use crate::hindrance::Hindrance;
use crate::leave::tell_not_kept;
use crate::partner::{NotAnswered, PartnerQuestion, ask};
use crate::work::{Run, Work};

/// Does everything that stands before a flow's effects. `None` says that they may be done.
pub(crate) async fn prepare<'r>(run: &mut Run<'r>) -> Result<Option<Stop<'r>>, WriteError> {
    let Run { work, flow, lease, .. } = run;
    if let Some(error) = overtaken(work, flow, lease.row()).await? {
        return Ok(Some(Stop::Bury { effect: None, reason: Reason::Stale, error }));
    }
    if let Some(stop) = guard(work, flow, lease).await {
        return Ok(Some(stop));
    }
    for enrichment in &flow.enrich {
        if let Some(stop) = enrich(work, flow, enrichment, lease).await {
            return Ok(Some(stop));
        }
    }
    match &flow.approval {
        Some(approval) => approve(work, flow, approval, lease).await,
        None => Ok(None),
    }
}

/// The reason why a replay is stale, if a newer event of its entity was applied. The operator who sent it could
/// not know of events that were still on the queue.
async fn overtaken(work: &Work<'_>, flow: &Flow, row: &Row) -> Result<Option<String>, Unavailable> {
    if !stale_guard::is_judged(flow, work.event) {
        return Ok(None);
    }
    stale_guard::overtaken(&*work.processor.latest, flow, work.event, row.received_at).await
}

/// The judgement of the flow's guards, in their order. `None` says that all let the event pass.
async fn guard<'r>(work: &Work<'_>, flow: &Flow, lease: &Lease) -> Option<Stop<'r>> {
    let asks = |guard: &Guard| matches!(guard, Guard::Consent(_) | Guard::QuietHours(_));
    let contact = match &flow.contact {
        Some(contact) if flow.guards.iter().any(asks) => match find_contact(work, contact, lease).await {
            Ok(contact) => contact,
            Err(stop) => return Some(stop),
        },
        _ => None,
    };
    let scope = lease.row().scope_of(work.event);
    let now = work.now();
    flow.guards.iter().enumerate().find_map(|(place, guard)| {
        let began = work.now();
        let (stop, end) = match judge(guard, contact.as_ref(), &scope, now) {
            Ok(Judgement::Pass) => (None, "passed"),
            Ok(Judgement::Block(facts)) => (Some(Stop::Block { guard: guard.name().to_owned(), facts }), "blocked"),
            Ok(Judgement::Wait(until)) => {
                let deferral = Deferral { after: until.since(now), why: DeferralReason::QuietHours };
                (Some(Stop::Defer(Hindrance::timed(deferral))), "waits")
            }
            Err(error) => (Some(Stop::template(None, &error)), "failed"),
        };
        // A cap is counted with the intents.
        if guard.as_cap().is_none() {
            work.export_guard(lease.row(), place, guard.name(), end, began);
        }
        stop
    })
}

/// The fields of the event's contact. An event without a usable email has no contact.
async fn find_contact<'r>(work: &Work<'_>, contact: &ContactRef, lease: &Lease) -> Result<Option<Fields>, Stop<'r>> {
    let named = work.contact_id(contact, lease).map_err(|error| Stop::template(None, &error))?;
    let Some(id) = named else { return Ok(None) };
    work.processor.contacts.find(&id).await.map_err(|unavailable| {
        let (event, flow, trace_id) = work.ids();
        warn!(event, flow, trace_id, %unavailable, "the contact was not read; the event is deferred until its guards can be asked");
        let (after, why) = (Unavailable::BACK_OFF, DeferralReason::ContactsUnavailable);
        Stop::Defer(Hindrance::passing(Deferral { after, why }))
    })
}

/// Runs an enrichment, once for all tries.
async fn enrich<'r>(work: &Work<'_>, flow: &Flow, enrich: &Enrich, lease: &mut Lease) -> Option<Stop<'r>> {
    if lease.row().enrich.contains_key(&enrich.id) {
        return None;
    }
    let error = match find_out(work, enrich, lease).await {
        Ok(value) => {
            lease.record_enrichment(&enrich.id, value, work.now());
            return None;
        }
        Err(NotAnswered::Hindered(hindrance) | NotAnswered::CredentialsRejected { hindrance, .. }) => {
            return Some(Stop::Defer(hindrance));
        }
        Err(NotAnswered::Failed(error)) => error,
    };
    match enrich.on_error {
        OnError::Continue => {
            lease.record_enrichment(&enrich.id, json!({}), work.now());
            None
        }
        OnError::Retry => {
            let delay = work.board.policy(flow).delay(1, work.processor.chance.unit(), None);
            Some(Stop::Retry(delay_without_attempt(work, flow, lease, delay)))
        }
        OnError::Dead => Some(Stop::Bury { effect: None, reason: Reason::Enrichment, error }),
    }
}

/// The result of an enrichment, or why there is none.
async fn find_out(work: &Work<'_>, enrich: &Enrich, lease: &Lease) -> Result<Value, NotAnswered> {
    let scope = lease.row().scope_of(work.event);
    let not_rendered = |error: TemplateError| NotAnswered::Failed(error.to_string());
    match &enrich.from {
        Origin::Geoip(ip) => place(work, &ip.render(&scope).map_err(not_rendered)?).map_err(NotAnswered::Failed),
        Origin::Partner { integration, path, result } => {
            let path = Path::render(path, &scope).map_err(not_rendered)?;
            let now = work.now();
            if let Some(known) = work.processor.found.get(&enrich.id, &path, enrich.cache, now) {
                return Ok(known);
            }
            let question = PartnerQuestion { about: &enrich.id, method: "GET", path: path.clone(), body: None };
            let answer = ask(work, lease.row(), integration, question).await?;
            let value = pick_values(result, answer.body.as_ref().unwrap_or(&Value::Null));
            work.processor.found.put(&enrich.id, path, value.clone(), now);
            Ok(value)
        }
    }
}

fn place(work: &Work<'_>, ip: &Value) -> Result<Value, String> {
    let places = work.processor.places.as_ref().ok_or("no database of places is configured")?;
    let ip: IpAddr = ip.as_str().and_then(|ip| ip.parse().ok()).ok_or("the value is no IP address")?;
    places.find(ip).ok_or_else(|| "the database of places does not know the address".into())
}

/// Checks whether a human has approved the plan. If the question was never asked, it is asked, once.
async fn approve<'r>(
    work: &Work<'_>,
    flow: &Flow,
    approval: &Approval,
    lease: &mut Lease,
) -> Result<Option<Stop<'r>>, WriteError> {
    let scope = lease.row().scope_of(work.event);
    match approval.when.as_ref().map_or(Ok(true), |when| when.holds(&scope)) {
        Ok(true) => (),
        Ok(false) => return Ok(None),
        Err(error) => return Ok(Some(Stop::template(None, &error))),
    }
    let plan = Plan::of(flow, work.event, lease.row());
    if lease.is_approved(plan.hash()) {
        return Ok(None);
    }
    let now = work.now();
    let until = now + approval.expires;
    let asked = lease.is_asked(plan.hash());
    if !asked {
        lease.ask(plan.hash(), until, now);
        work.processor.ledger.record(lease).await?;
    }
    // The payload first, so that every listed event can be approved. It is kept under its own replay number: an approval
    // that is still under way deletes the payload of the number that it sent.
    if let Err(error) = work.processor.records.keep(work.event, (now + UNSETTLED_RETENTION).secs()).await {
        if !asked {
            lease.withdraw_question(work.now());
        }
        return Ok(Some(not_kept(work, flow, lease, &error)));
    }
    if asked {
        return Ok(Some(Stop::AwaitApproval { posted: "asked before".into() }));
    }
    let message = approval::message(&approval.room, flow, work.event, &plan, until);
    let posted = post_question(work, lease.row(), approval, message).await;
    Ok(Some(Stop::AwaitApproval { posted }))
}

/// The stop of an event that cannot wait for an answer, because its payload is not kept: now, or never.
fn not_kept<'r>(work: &Work<'_>, flow: &Flow, lease: &Lease, error: &Unavailable) -> Stop<'r> {
    if error.is_lasting() {
        tell_not_kept(work, error, "it is parked");
        let error = "the ledger does not take the payload, which has to be kept until a human answers".into();
        return Stop::Bury { effect: None, reason: Reason::NotKept, error };
    }
    let (event, flow_name, trace_id) = work.ids();
    warn!(event, flow = flow_name, trace_id, %error, "the payload was not kept; the question is asked when the event comes back");
    Stop::Retry(delay_without_attempt(work, flow, lease, OUTAGE_DELAY))
}

/// Posts the question to Slack. Where that fails, the event waits all the same: operators see it.
async fn post_question(work: &Work<'_>, row: &Row, approval: &Approval, message: Value) -> String {
    let question = PartnerQuestion { about: "", method: "POST", path: "/chat.postMessage".into(), body: Some(message) };
    match ask(work, row, &approval.integration, question).await {
        Ok(answer) if answer.body.as_ref().is_some_and(|body| body["ok"] == true) => "asked in Slack".into(),
        Ok(_) => "the question was not posted (Slack answered with an error)".into(),
        Err(NotAnswered::Failed(error)) => format!("the question was not posted (Slack: {error})"),
        Err(NotAnswered::CredentialsRejected { error, .. }) => {
            format!("the question was not posted (credentials rejected by Slack: {error})")
        }
        Err(NotAnswered::Hindered(_)) => "the question was not posted (calls to Slack are deferred now)".into(),
    }
}
