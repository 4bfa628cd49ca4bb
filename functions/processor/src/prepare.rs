//! What happens between a claim and the first effect: the stale guard, guards, what is to be found out,
//! approval.
//!
//! All of it comes again with every delivery, because consent may be withdrawn while an event waits.
//! What was found out is kept with the first intent, and is not asked again.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::retention::UNSETTLED_RETENTION;
use shared::base::time::Timestamp;
use shared::effects::contact::{ContactId, Fields};
use shared::effects::guard::{Judgement, judge};
use shared::effects::request::pick_from;
use shared::flows::template::TemplateError;
use shared::flows::{Approval, ContactRef, Enrich, Flow, Guard, OnError, Origin};
use shared::ledger::plan::Plan;
use shared::ledger::{Lease, Reason};
use shared::limits::pressure::{Deferral, Why};
use shared::operate::{approval, stale};
use tracing::warn;

use crate::partner::Question;
use crate::process::Work;
use crate::run::Stop;

/// How long what could not be asked is left alone.
const OUTAGE: Duration = Duration::from_secs(5);

impl Work<'_> {
    /// Everything that stands before a flow's effects. `None` says that they may be done.
    pub(crate) async fn prepare<'f>(&self, flow: &Flow, lease: &mut Lease) -> Result<Option<Stop<'f>>, WriteError> {
        if let Some(why) = self.overtaken(flow).await? {
            return Ok(Some(Stop::Lost(Reason::Stale, why)));
        }
        if let Some(stop) = self.guard(flow, lease).await {
            return Ok(Some(stop));
        }
        for enrich in &flow.enrich {
            if let Some(stop) = self.enrich(flow, enrich, lease).await {
                return Ok(Some(stop));
            }
        }
        match &flow.approval {
            Some(approval) => self.approve(flow, approval, lease).await,
            None => Ok(None),
        }
    }

    /// Why a replay is held back, if a newer event of its entity was applied. The operator who sent it could
    /// not know of what was still on the queue.
    async fn overtaken(&self, flow: &Flow) -> Result<Option<String>, Unavailable> {
        if !stale::is_judged(flow, self.event) {
            return Ok(None);
        }
        stale::overtaken(&*self.processor.latest, flow, self.event).await
    }

    async fn guard<'f>(&self, flow: &Flow, lease: &Lease) -> Option<Stop<'f>> {
        let asks = |guard: &Guard| matches!(guard, Guard::Consent(_) | Guard::QuietHours(_));
        let contact = match &flow.contact {
            Some(contact) if flow.guards.iter().any(asks) => match self.contact(contact, lease).await {
                Ok(contact) => contact,
                Err(stop) => return Some(stop),
            },
            _ => None,
        };
        let scope = lease.row().scope_of(self.event);
        let now = self.now();
        flow.guards.iter().find_map(|guard| match judge(guard, contact.as_ref(), &scope, now) {
            Ok(Judgement::Pass) => None,
            Ok(Judgement::Refuse(facts)) => Some(Stop::Refuse(guard.name().to_owned(), facts)),
            Ok(Judgement::Wait(until)) => Some(Stop::Defer(Deferral { after: until.since(now), why: Why::QuietHours })),
            Err(error) => Some(Stop::Lost(Reason::Template, error.to_string())),
        })
    }

    /// What is known of the event's contact. Who has no proper email is nobody that we know.
    async fn contact<'f>(&self, contact: &ContactRef, lease: &Lease) -> Result<Option<Fields>, Stop<'f>> {
        let named = self.contact_id(contact, lease).map_err(|error| Stop::Lost(Reason::Template, error.to_string()))?;
        let Some(id) = named else { return Ok(None) };
        self.processor.contacts.find(&id).await.map_err(|unavailable| {
            warn!(event = %self.event.id, %unavailable, "guards could not be asked");
            Stop::Defer(Deferral { after: OUTAGE, why: Why::ContactsUnavailable })
        })
    }

    /// The id of the event's contact, if it has a proper one.
    pub(crate) fn contact_id(&self, contact: &ContactRef, lease: &Lease) -> Result<Option<ContactId>, TemplateError> {
        let scope = lease.row().scope_of(self.event);
        let (tenant, email) = contact.named(&scope)?;
        Ok(ContactId::of(&tenant, &email).ok())
    }

    async fn enrich<'f>(&self, flow: &Flow, enrich: &Enrich, lease: &mut Lease) -> Option<Stop<'f>> {
        if lease.row().enrich.contains_key(&enrich.id) {
            return None;
        }
        let found = match self.find_out(enrich, lease).await {
            Ok(found) => found,
            Err(stop) => return Some(stop),
        };
        match (found, enrich.on_error) {
            (Ok(value), _) => lease.enriched(&enrich.id, value, self.now()),
            (Err(_), OnError::Continue) => lease.enriched(&enrich.id, json!({}), self.now()),
            (Err(_), OnError::Retry) => {
                let delay = self.board.policy(flow).delay(1, self.processor.chance.unit(), None);
                return Some(Stop::Retry(delay));
            }
            (Err(error), OnError::Dead) => return Some(Stop::Lost(Reason::Enrichment, error)),
        }
        None
    }

    /// What was found out, or why it could not be; the outer error says that it cannot be asked now.
    async fn find_out<'f>(&self, enrich: &Enrich, lease: &Lease) -> Result<Result<Value, String>, Stop<'f>> {
        let scope = lease.row().scope_of(self.event);
        match &enrich.from {
            Origin::Geoip(ip) => {
                Ok(ip.render(&scope).map_err(|error| error.to_string()).and_then(|ip| self.place(&ip)))
            }
            Origin::Partner { integration, path, result } => match path.render(&scope) {
                Ok(path) => {
                    let now = self.now();
                    if let Some(known) = self.processor.found.get(&enrich.id, &path, enrich.cache, now) {
                        return Ok(Ok(known));
                    }
                    let question = Question { method: "GET", path: path.clone(), body: None };
                    let answer = self.ask(integration, question).await.map_err(Stop::Defer)?;
                    let found = answer.map(|answer| pick_from(result, &answer.body));
                    if let Ok(value) = &found {
                        self.processor.found.put(&enrich.id, path, value.clone(), now);
                    }
                    Ok(found)
                }
                Err(error) => Ok(Err(error.to_string())),
            },
        }
    }

    fn place(&self, ip: &Value) -> Result<Value, String> {
        let places = self.processor.places.as_ref().ok_or("no database of places is configured")?;
        let ip: IpAddr = ip.as_str().and_then(|ip| ip.parse().ok()).ok_or("that is no IP address")?;
        places.find(ip).ok_or_else(|| "the address is in no database of places".into())
    }

    /// Whether a human has approved what would be done. Who has not been asked is asked, once.
    async fn approve<'f>(
        &self,
        flow: &Flow,
        approval: &Approval,
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        let scope = lease.row().scope_of(self.event);
        match approval.when.as_ref().map_or(Ok(true), |when| when.holds(&scope)) {
            Ok(true) => (),
            Ok(false) => return Ok(None),
            Err(error) => return Ok(Some(Stop::Lost(Reason::Template, error.to_string()))),
        }
        let plan = Plan::of(flow, self.event, lease.row());
        if lease.is_approved(plan.hash()) {
            return Ok(None);
        }
        let now = self.now();
        let until = now + approval.expires;
        let asked = lease.is_asked(plan.hash());
        if !asked {
            lease.ask(plan.hash(), until, now);
            self.processor.ledger.record(lease).await?;
        }
        // The payload first: what is listed can be approved. Under the row's number, because the message may
        // be older: an approval that is still under way forgets the number that it sent on.
        let event = Event { replay: lease.row().replay, ..self.event.clone() };
        self.processor.records.keep(&event, (now + UNSETTLED_RETENTION).secs()).await?;
        let posted = if asked { "asked before".into() } else { self.post(flow, approval, &plan, until).await };
        Ok(Some(Stop::Await(posted)))
    }

    /// Posts the question. Where that fails, the event waits all the same: operators see it.
    async fn post(&self, flow: &Flow, approval: &Approval, plan: &Plan, until: Timestamp) -> String {
        let message = approval::message(&approval.room, flow, self.event, plan, until);
        let question = Question { method: "POST", path: "/chat.postMessage".into(), body: Some(message) };
        match self.ask(&approval.integration, question).await {
            Ok(Ok(answer)) if answer.body["ok"] == true => "asked in Slack".into(),
            Ok(Ok(_)) => "Slack refused the question".into(),
            Ok(Err(error)) => format!("Slack {error}"),
            Err(_) => "Slack could not be asked".into(),
        }
    }
}
