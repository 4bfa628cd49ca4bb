//! Calls to partners, one step at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Meaning, PartnerAnswer};

use super::{Seat, short};
use crate::faults::Fault;
use crate::partner::{Arrival, Conduct, OpeningConduct, Partner, PartnerOutage};
use crate::scheduler::Due;

/// The partners, as one container sees them.
#[derive(Clone)]
pub(crate) struct SimPartners {
    pub(crate) seat: Seat,
    pub(crate) partner: Arc<Partner>,
    /// How often a partner misbehaves.
    pub(crate) mood: f64,
    pub(crate) opening: Option<OpeningConduct>,
    /// When which partners are down.
    pub(crate) outages: Arc<[PartnerOutage]>,
}

#[async_trait]
impl Partners for SimPartners {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let about = format!("{} {} {}", request.method, request.integration, short(&request.path));
        let asked_at = self.seat.scheduler.now();
        let fault = self.seat.enter("call", &about).await;
        let arrival = self.partner.arrival(&request);
        self.seat.oracle.tried(&arrival);
        let left = request.timeout.saturating_sub(self.seat.scheduler.now().since(asked_at));
        // The client's time-out runs while it stands still, too: what has not left by then never does.
        if left.is_zero() || matches!(fault, Some(Fault::TimeOutUndone | Fault::Throttle)) {
            self.seat.pause(left).await;
            self.seat.scheduler.note(self.seat.who, "call", &about, "timed out, not sent", fault);
            return Err(NoAnswer::Lost("timed out".into()));
        }
        let conduct = self.conduct(&arrival, fault);
        if conduct == Conduct::Unreachable {
            self.seat.scheduler.note(self.seat.who, "call", &about, "cannot connect", fault);
            return Err(NoAnswer::NotSent("cannot connect".into()));
        }
        let connection = self.partner.arrive(&arrival, &self.seat);
        self.seat.oracle.begins(&arrival, &self.seat);
        let mut under_way = UnderWay { seat: &self.seat, integration: &arrival.integration, asked_at, ended: false };
        self.seat.scheduler.note(self.seat.who, "call", &about, &conduct.to_string(), fault);
        let answer = self.behave(&arrival, conduct, left).await;
        drop(connection);
        if fault == Some(Fault::CrashAfter) {
            self.seat.crash().await;
        }
        self.seat.latency().await;
        if matches!(conduct, Conduct::Well | Conduct::Slow) && matches!(&answer, Ok(answer) if answer.status == 200) {
            self.seat.oracle.had_answer(&arrival, &self.seat);
        }
        self.seat.oracle.ends(&arrival.integration, self.seat.scheduler.now().since(asked_at), &self.seat);
        under_way.ended = true;
        answer
    }
}

/// The same answer, with each text so long that nobody keeps it.
fn lengthened(answer: Value) -> Value {
    match answer {
        Value::String(text) => json!(text.repeat(10_000)),
        Value::Array(items) => items.into_iter().map(lengthened).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, lengthened(field))).collect(),
        other => other,
    }
}

/// A call whose client waits for its answer. One that is dropped before was let go.
struct UnderWay<'c> {
    seat: &'c Seat,
    integration: &'c str,
    asked_at: Timestamp,
    ended: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let took = self.seat.scheduler.now().since(self.asked_at);
            self.seat.oracle.ends(self.integration, took, self.seat);
            self.seat.oracle.let_go(self.integration, self.seat);
        }
    }
}

impl SimPartners {
    fn conduct(&self, arrival: &Arrival, fault: Option<Fault>) -> Conduct {
        let elapsed = self.seat.scheduler.elapsed();
        let outage = self.outages.iter().find_map(|outage| outage.conduct(&arrival.integration, elapsed));
        if let Some(conduct) = outage {
            return conduct;
        }
        let opening = self.opening.filter(|opening| elapsed < opening.lasts);
        match (fault, opening) {
            (Some(Fault::TimeOutDone), _) => Conduct::Hang { late: Some(0) },
            (Some(Fault::Echo), _) => Conduct::Hang { late: Some(100) },
            (_, Some(opening)) => opening.conduct,
            _ if !self.seat.scheduler.healed() && self.seat.scheduler.happens(self.mood) => {
                let wordy = self.partner.speaks_in_bodies(&arrival.integration);
                Conduct::drawn(&self.seat.scheduler, wordy)
            }
            _ => Conduct::Well,
        }
    }

    async fn behave(&self, arrival: &Arrival, conduct: Conduct, left: Duration) -> Result<PartnerAnswer, NoAnswer> {
        let took = self.seat.scheduler.between(Duration::from_millis(5), Duration::from_millis(300));
        if let Conduct::Hang { late } = conduct {
            if let Some(late) = late {
                let late = self.partner.latest(&arrival.integration) * late / 100;
                let arrival = Arrival { late: true, ..arrival.clone() };
                let (partner, seat) = (Arc::clone(&self.partner), self.seat.clone());
                let apply = move || drop(partner.apply(&arrival, &seat));
                self.seat.scheduler.after(late, Due::Land(Box::new(apply)));
            }
            self.seat.pause(left).await;
            return Err(NoAnswer::Lost("timed out".into()));
        }
        let (status, body) = self.react(arrival, conduct);
        self.seat.oracle.answered(arrival, status);
        self.seat.oracle.spoke(&arrival.integration, status, self.seat.scheduler.now());
        self.seat.pause(if conduct == Conduct::Slow { left / 2 } else { took }.min(left)).await;
        let headers = match conduct {
            Conduct::Refuse { retry_after: Some(seconds), .. } => [("retry-after".into(), seconds.to_string())].into(),
            _ => Default::default(),
        };
        Ok(PartnerAnswer { status, headers, body })
    }

    /// What the partner does, and what it says.
    fn react(&self, arrival: &Arrival, conduct: Conduct) -> (u16, Option<Value>) {
        let apply = || self.partner.apply(arrival, &self.seat);
        let save = |status, saved| {
            if saved {
                self.partner.save(arrival, status, &self.seat)
            }
        };
        let wordy = self.partner.speaks_in_bodies(&arrival.integration);
        match conduct {
            // What is saved under a key is answered, whatever the partner would say now.
            Conduct::Fail { .. } | Conduct::Bare { .. } | Conduct::SayNo | Conduct::Mumble { .. }
                if self.partner.saved(arrival, self.seat.scheduler.now()) =>
            {
                apply()
            }
            Conduct::Fail { status, .. } if self.partner.declared(arrival, status).is_some() => {
                if self.partner.declared(arrival, status) == Some(Meaning::Done) {
                    apply();
                }
                (status, self.partner.explains(arrival))
            }
            Conduct::Fail { status, applied, saved } => {
                if applied {
                    apply();
                }
                save(status, saved);
                (status, None)
            }
            Conduct::Bare { saved } => {
                let (status, _) = apply();
                save(status, saved);
                (status, None)
            }
            // What a partner lists of what it did is as it was sent, however long.
            Conduct::Verbose if arrival.effect().is_some() => {
                let (status, body) = apply();
                (status, body.map(lengthened))
            }
            Conduct::SayNo if wordy => (200, Some(json!({"ok": false}))),
            Conduct::Mumble { applied } if wordy => {
                if applied {
                    apply();
                }
                (200, Some(json!({"status": "received"})))
            }
            Conduct::Refuse { status, .. } => (status, None),
            _ => apply(),
        }
    }
}
