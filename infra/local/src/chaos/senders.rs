//! Senders of webhooks, who repeat each delivery until they have an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::try_join_all;
use serde_json::Value;
use shared::arrival::signature::Secret;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::plan::{DeliveryKind, PlannedDelivery};
use crate::aws::{Endpoint, EndpointResponse};
use crate::event_route::EventRoute;
use crate::webhooks;

/// How long a sender waits for an answer, and between two tries.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// How long a sender tries. No disruption lasts so long: a sender without an answer by then will never get one.
const GIVE_UP: Duration = Duration::from_secs(90);

/// The senders' own log: the answers that they got.
#[derive(Debug, Default)]
pub(crate) struct SenderLog {
    /// The ids under which each genuine event was accepted: one, unless something is wrong.
    pub(crate) accepted: BTreeMap<String, BTreeSet<String>>,
    /// How many deliveries were answered with 202.
    pub(crate) acknowledged: usize,
    /// How many malformed or forged deliveries were rejected, as they have to be.
    pub(crate) rejected: usize,
    /// How many requests had no answer, or one that said to try again.
    pub(crate) retries: usize,
    /// Answers that a sender should not have got, as sentences.
    pub(crate) unexpected: Vec<String>,
}

/// The senders.
pub(crate) struct Senders {
    gateway: Endpoint,
    secret: Secret,
    foreign_secret: Secret,
    count: usize,
}

impl Senders {
    /// As many senders as `count`, who post to this URL and share a secret.
    pub(crate) fn new(url: &str, secret: &str, count: usize) -> Self {
        Self {
            gateway: Endpoint::at(url.to_owned()),
            secret: Secret::new(secret.to_owned()),
            foreign_secret: Secret::new("whsec_bm90IHRoZSBzZW5kZXIncyBvd24gc2VjcmV0".to_owned()),
            count,
        }
    }

    /// Makes every delivery, each when its time has come and a sender is free. `count` is called for each that was
    /// answered.
    pub(crate) async fn deliver(&self, deliveries: &[PlannedDelivery], count: impl Fn()) -> Result<SenderLog> {
        let (next, began) = (AtomicUsize::new(0), Instant::now());
        let sender = async || {
            let mut log = SenderLog::default();
            while let Some(delivery) = deliveries.get(next.fetch_add(1, Ordering::Relaxed)) {
                sleep_until(began + delivery.at).await;
                let answer = self.until_answered(delivery, &mut log).await?;
                log.record(delivery, &answer);
                count();
            }
            anyhow::Ok(log)
        };
        let logs = try_join_all((0..self.count).map(|_| sender())).await?;
        let mut log = SenderLog::default();
        logs.into_iter().for_each(|answers| log.merge(answers));
        Ok(log)
    }

    /// Repeats a delivery until an answer says what became of it.
    async fn until_answered(&self, delivery: &PlannedDelivery, log: &mut SenderLog) -> Result<EndpointResponse> {
        let (mut pause, began) = (PAUSE, Instant::now());
        while began.elapsed() < GIVE_UP {
            if let Ok(Ok(answer)) = timeout(PATIENCE, self.try_once(delivery)).await
                && answer.status.as_u16() != 429
                && !answer.status.is_server_error()
            {
                return Ok(answer);
            }
            log.retries += 1;
            sleep(pause).await;
            pause = PAUSE_MOST.min(pause * 2);
        }
        bail!(
            "the delivery of {} had no answer for {} seconds: the local cloud is broken for good. Look at the logs in \
             .local/chaos/logs",
            delivery.event_id,
            GIVE_UP.as_secs()
        )
    }

    async fn try_once(&self, delivery: &PlannedDelivery) -> Result<EndpointResponse> {
        let secret = if delivery.delivery_kind == DeliveryKind::Forged { &self.foreign_secret } else { &self.secret };
        let route = EventRoute::demo();
        webhooks::post_signed(&self.gateway, secret, &route, &delivery.event_id, &delivery.body()).await
    }
}

impl SenderLog {
    fn record(&mut self, delivery: &PlannedDelivery, answer: &EndpointResponse) {
        let body = answer.json().unwrap_or_default();
        let id = body.get("id").and_then(Value::as_str);
        match (delivery.delivery_kind, answer.status.as_u16(), id) {
            (DeliveryKind::Genuine, 202, Some(id)) => {
                self.acknowledged += 1;
                self.accepted.entry(delivery.event_id.clone()).or_default().insert(id.to_owned());
            }
            (DeliveryKind::Forged, 401, _) | (DeliveryKind::Malformed, 400 | 422, _) => self.rejected += 1,
            (delivery_kind, status, _) => {
                self.unexpected.push(format!("{delivery_kind:?} {} was answered {status}: {body}", delivery.event_id));
            }
        }
    }

    /// Adds what other senders were answered.
    pub(crate) fn merge(&mut self, other: Self) {
        for (event, ids) in other.accepted {
            self.accepted.entry(event).or_default().extend(ids);
        }
        self.acknowledged += other.acknowledged;
        self.rejected += other.rejected;
        self.retries += other.retries;
        self.unexpected.extend(other.unexpected);
    }
}
