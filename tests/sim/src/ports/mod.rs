//! The ports as a container of the simulation sees them: the models, with a turn to wait for before and
//! after each call, and whatever goes wrong with it.

mod functions;
mod ledger;
mod partners;
mod pressure;
mod queues;
mod windows;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use shared::base::errors::Unavailable;
use shared::base::machine::{Clock, Sleep};
use shared::base::time::Timestamp;
use shared::model::ModelClock;

pub(crate) use functions::SimFunctions;
pub(crate) use ledger::SimLedger;
pub(crate) use partners::SimPartners;
pub(crate) use pressure::{SimBoard, SimTables};
pub(crate) use queues::SimQueue;
pub(crate) use windows::SimWindows;

use crate::faults::Fault;
use crate::oracle::Oracle;
use crate::scheduler::{Due, Scheduler};
use crate::stores::{ItemCall, ItemFault, ItemUse};
use crate::timeline::Who;

/// A container's place in the simulation.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) who: Who,
}

/// How long a client waits for a table or a queue.
const PATIENCE: Duration = Duration::from_secs(3);

/// How much later a slow network delivers a write that its client has long repeated.
const LATE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(100));

/// A call, and the same call again where the network can deliver it twice.
pub(crate) struct PortCall<'c> {
    pub(crate) name: &'static str,
    pub(crate) about: &'c str,
    pub(crate) again: Option<Box<dyn FnOnce() + Send>>,
    /// The item of a table that the call is about, if it is about one.
    item: Option<ItemCall>,
}

impl<'c> PortCall<'c> {
    pub(crate) fn of(name: &'static str, about: &'c str) -> Self {
        PortCall { name, about, again: None, item: None }
    }

    /// A call about the row of an event, whose short id `about` begins with.
    pub(crate) fn of_row(name: &'static str, about: &'c str, does: ItemUse) -> Self {
        let item = about.split(' ').next().unwrap_or_default().to_owned();
        PortCall { item: Some(ItemCall { item, does }), ..PortCall::of(name, about) }
    }

    /// A call about an item of one of the small tables.
    pub(crate) fn of_item(name: &'static str, about: &'c str, item: &str) -> Self {
        let item = Some(ItemCall { item: item.to_owned(), does: ItemUse::Other });
        PortCall { item, ..PortCall::of(name, about) }
    }

    pub(crate) fn with_echo(self, again: impl FnOnce() + Send + 'static) -> Self {
        PortCall { again: Some(Box::new(again)), ..self }
    }
}

impl Seat {
    /// One call of a port. `tell` says its outcome for the timeline.
    pub(crate) async fn call<T: Send>(
        &self,
        call: PortCall<'_>,
        act: impl Future<Output = T> + Send,
        tell: fn(&T) -> String,
    ) -> Result<T, Unavailable> {
        let fault = self.enter(call.name, call.about).await;
        if fault.is_some() {
            self.oracle.failed(self.who);
        }
        match fault {
            Some(Fault::Throttle) => return Err(self.silent(&call, Fault::Throttle)),
            Some(Fault::TimeOutUndone) => {
                self.pause(PATIENCE).await;
                return Err(self.silent(&call, Fault::TimeOutUndone));
            }
            _ => (),
        }
        let faulty = call.item.as_ref().and_then(|item| Some((self.scheduler.item_fault(item)?, item.does)));
        if let Some((fault, _)) = faulty.filter(|(fault, does)| !fault.lands(*does)) {
            return Err(self.fails(call.name, call.about, fault).await);
        }
        let answer = act.await;
        self.oracle.observe(&self.scheduler, Some(self.who));
        self.scheduler.note(self.who, call.name, call.about, &tell(&answer), fault);
        match fault {
            Some(Fault::CrashAfter) => self.crash().await,
            Some(Fault::TimeOutDone) => {
                self.pause(PATIENCE).await;
                return Err(Unavailable { port: call.name, why: "timed out".into() });
            }
            Some(Fault::Echo) => {
                let again = call.again.unwrap_or_else(|| Box::new(|| ()));
                self.scheduler.after(self.scheduler.between(LATE.0, LATE.1), Due::Land(again));
            }
            _ => (),
        }
        self.latency().await;
        match faulty {
            Some((fault, _)) => Err(self.fails(call.name, call.about, fault).await),
            None => Ok(answer),
        }
    }

    /// A call that its client gives up on, and that lands later.
    pub(crate) async fn lands_late<T>(
        &self,
        call: PortCall<'_>,
        land: impl FnOnce() + Send + 'static,
    ) -> Result<T, Unavailable> {
        self.enter(call.name, call.about).await;
        self.oracle.failed(self.who);
        self.scheduler.note(self.who, call.name, call.about, "timed out, and lands later", None);
        self.scheduler.after(self.scheduler.between(LATE.0, LATE.1), Due::Land(Box::new(land)));
        self.pause(PATIENCE).await;
        Err(Unavailable { port: call.name, why: "timed out".into() })
    }

    /// Fails by what is wrong with its item.
    async fn fails(&self, name: &'static str, about: &str, fault: ItemFault) -> Unavailable {
        let error = fault.error(name);
        self.oracle.failed(self.who);
        self.scheduler.note(self.who, name, about, &error.why, None);
        self.latency().await;
        error
    }

    /// Waits for its turn, and says what goes wrong.
    pub(crate) async fn enter(&self, name: &'static str, about: &str) -> Option<Fault> {
        let fault = self.scheduler.fault(self.who, name);
        self.latency().await;
        match fault {
            Some(Fault::CrashBefore) => {
                self.scheduler.note(self.who, name, about, "", fault);
                self.crash().await;
            }
            Some(Fault::Stall(time)) => {
                self.scheduler.note(self.who, name, about, "", fault);
                self.scheduler.stall(self.who, true);
                self.pause(time).await;
            }
            _ => (),
        }
        fault
    }

    fn silent(&self, call: &PortCall<'_>, fault: Fault) -> Unavailable {
        self.scheduler.note(self.who, call.name, call.about, "", Some(fault));
        Unavailable { port: call.name, why: fault.to_string() }
    }

    /// Never comes back.
    pub(crate) async fn crash(&self) {
        self.scheduler.crash(self.who);
        std::future::pending().await
    }

    pub(crate) async fn pause(&self, time: Duration) {
        self.scheduler.pause(self.who, time).await;
    }

    async fn latency(&self) {
        let latency = self.scheduler.between(Duration::ZERO, Duration::from_millis(12));
        self.pause(latency).await;
    }
}

/// A container's short waits, in virtual time.
#[async_trait]
impl Sleep for Seat {
    async fn sleep(&self, time: Duration) {
        self.pause(time).await;
    }
}

/// A container's clock, which is not quite right.
#[derive(Clone)]
pub(crate) struct SkewedClock {
    pub(crate) clock: ModelClock,
    pub(crate) skew_millis: i64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.now().millis() + self.skew_millis)
    }
}

/// An id as a reader of the timeline needs it.
pub(crate) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// What came of a call that says no more than that.
fn told<T, E: std::fmt::Display>(answer: &Result<T, E>) -> String {
    answer.as_ref().map_or_else(ToString::to_string, |_| "ok".into())
}
