//! A night on real processes: thousands of events of one flow wait, and events of another flow settle as fast as before.
//!
//! An operator pauses a flow, and its senders send on. Each of its events leaves the queue and waits in the ledger: the
//! poller stops to receive when as many messages are in flight as the limit allows, as SQS does, and says nothing. Events
//! of another flow come all the time, and their settle times are compared before, while the others come, while they wait,
//! and while they go on. In the morning the operator resumes the flow, and the wakes of each minute do the rest.
//!
//! With `--outage` nobody pauses the flow: its partner answers every call with 503, while its events come at a steady rate,
//! and is well again in the end.
//!
//! In the end every event has to be done once, and those of an entity in the order in which they were sent.

mod report;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use futures::future::try_join_all;
use serde_json::{Value, json};
use shared::adapters::machine::{SystemClock, read_flows};
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::ledger::Row;
use tokio::time::sleep;

use crate::aws::Endpoint;
use crate::chaos::bar;
use crate::chaos::ledger_table;
use crate::chaos::partner_control::PartnerControl;
use crate::chaos::plan::{DeliveryKind, PlannedDelivery};
use crate::chaos::senders::{SenderLog, Senders};
use crate::cloud::{CloudAddress, CloudOptions, LocalCloud};
use crate::flows_copy;
use crate::lambda::{InvocationOutcome, Lambda};
use crate::output::print;
use crate::partners::{FaultChance, PartnerCall};
use crate::project::Project;
use crate::queues;
use crate::step_progress::StepProgress;
use report::{NightPart, NightReport};

/// The flow that is paused, with its partner, and the flow whose settle times are measured, which is a chaos flow.
const PAUSED: (&str, &str) = ("booking", "hotel");
const OTHER: (&str, &str) = ("note", "chat");

/// The number of entities that the other flow's events belong to.
const OTHER_ENTITIES: usize = 50;

/// How long a container may go by the switchboard that it read before a switch was turned.
const SWITCHED: Duration = Duration::from_secs(6);

/// The time between two wakes: the template's schedule, which is off here.
const BETWEEN_WAKES: Duration = Duration::from_secs(60);

/// The time between two looks at the queue, and at the partner's log. An outage of hours is looked at more seldom.
const LOOKS_OF_A_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));
const LOOKS_OF_AN_OUTAGE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));

/// The most messages that the other flow has on the queue, and how often in a row the queue must have no more.
const FEW: u64 = 5;
const LOOKS: usize = 8;

/// Longer than any wait of a minute's wake: what does not move for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(240);

/// The options of a night.
#[derive(Clone, Debug, Args)]
pub struct NightArgs {
    /// How many events wait.
    #[arg(long, default_value_t = NightArgs::default().events)]
    pub events: usize,
    /// How many messages may be in flight.
    #[arg(long, default_value_t = NightArgs::default().in_flight)]
    pub in_flight: usize,
    /// How many entities the events belong to.
    #[arg(long, default_value_t = NightArgs::default().entities, value_parser = at_least_one)]
    pub entities: usize,
    /// For how many seconds the other flow is measured before the night, and in it.
    #[arg(long, default_value_t = NightArgs::default().seconds)]
    pub seconds: u64,
    /// How many milliseconds are between two events of the other flow.
    #[arg(long, default_value_t = NightArgs::default().every, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// How many senders there are.
    #[arg(long, default_value_t = NightArgs::default().senders, value_parser = at_least_one)]
    pub senders: usize,
    /// For how many seconds the flow's partner is down, instead of a pause of the flow. The events come in this time.
    #[arg(long, value_name = "SECONDS")]
    pub outage: Option<u64>,
}

impl Default for NightArgs {
    fn default() -> Self {
        Self { events: 5000, in_flight: 500, entities: 1000, seconds: 60, every: 500, senders: 8, outage: None }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "it must be a number of at least 1".into())
}

/// The options of the cloud that a night needs: the chaos flows with the one that waits, and a limit of messages in flight.
pub fn options(project: &Project, flags: &NightArgs) -> Result<CloudOptions> {
    let flows = flows_of_nights(project);
    flows_copy::merge(&project.chaos_flows(), &project.night_flows(), &flows)
        .context("the local cloud cannot start: cannot copy the flows of a night")?;
    Ok(CloudOptions {
        name: "night".into(),
        flows: Some(flows),
        in_flight_limit: Some(flags.in_flight),
        ..CloudOptions::test()
    })
}

fn flows_of_nights(project: &Project) -> PathBuf {
    project.state("night-flows")
}

/// Runs on this cloud, prints the report, and fails unless everything holds that has to.
pub async fn run(cloud: &LocalCloud, project: &Project, flags: &NightArgs) -> Result<ExitCode> {
    let night = Night::new(cloud, project, flags)?;
    let began = Instant::now();
    let passed = tokio::select! {
        passed = night.pass() => passed?,
        watched = night.watch_queue() => watched?,
    };
    let report = NightReport {
        flags,
        passed: &passed,
        others: &night.others(),
        rows: &night.rows().await?,
        calls: &night.partners.log().await?,
        most_in_flight: &night.most_in_flight(),
        took: began.elapsed(),
    };
    print(&format!("\n{}{}\n", report.table(), report.failures()));
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was seen while the night passed.
struct PassedNight {
    /// What the senders of the paused flow were answered.
    sent: SenderLog,
    /// The ledger when all of them had come.
    asleep: HashMap<String, Row>,
    /// The moment of the resumption, and the calls to the flow's partner before it: all, and those that it did.
    resumed_at: Timestamp,
    calls_before: (usize, usize),
    /// How many events the resumption itself woke.
    woken_at_once: u64,
}

/// A night at work.
struct Night<'n> {
    flags: &'n NightArgs,
    address: &'n CloudAddress,
    endpoint: Endpoint,
    lambda: Lambda,
    partners: PartnerControl,
    senders: Vec<Senders>,
    /// What the senders of the other flow were answered, part by part.
    others: Mutex<BTreeMap<NightPart, SenderLog>>,
    /// The part that it is, and the most messages in flight in each.
    most_in_flight: Mutex<(NightPart, BTreeMap<NightPart, u64>)>,
}

impl<'n> Night<'n> {
    fn new(cloud: &'n LocalCloud, project: &Project, flags: &'n NightArgs) -> Result<Self> {
        let address = cloud.address();
        let flows = read_flows(&flows_of_nights(project))?;
        let sender = || Senders::new(&address.url, cloud.secret().text(), 1);
        Ok(Self {
            flags,
            address,
            endpoint: address.emulator(),
            lambda: Lambda::new(address.emulator(), address.state.join("logs")),
            partners: PartnerControl::new(address, &flows, FaultChance { seed: 0, percent: 0 }),
            senders: (0..flags.senders).map(|_| sender()).collect(),
            others: Mutex::default(),
            most_in_flight: Mutex::new((NightPart::Before, BTreeMap::new())),
        })
    }

    /// The whole night, part by part.
    async fn pass(&self) -> Result<PassedNight> {
        let progress = StepProgress::default();
        let measured = Duration::from_secs(self.flags.seconds);
        self.partners.heal_all().await?;
        progress.step("before", self.beside(NightPart::Before, rest(measured))).await?;
        match self.flags.outage {
            None => drop(self.operate("pause").await?),
            Some(_) => self.partners.take_down(PAUSED.1, 503).await?,
        }
        sleep(SWITCHED).await;
        let coming = self.beside(NightPart::Coming, self.while_woken(self.fall_asleep()));
        let sent = progress.loud_step("they come", coming).await?;
        let asleep = self.rows().await?;
        let waiting = self.beside(NightPart::Waiting, self.while_woken(rest(measured)));
        progress.step("they wait", waiting).await?;
        let calls_before = (self.calls_of_paused().await?.len(), self.done_by_partner().await?);
        let resumed_at = SystemClock.now();
        let woken_at_once = progress.loud_step("they go on", self.beside(NightPart::GoingOn, self.wake_up())).await?;
        Ok(PassedNight { sent, asleep, resumed_at, calls_before, woken_at_once })
    }

    /// Does this while the schedule wakes, if the partner is down: a wake sees whether it is back.
    async fn while_woken<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            never = self.wake_in_an_outage() => match never {},
        }
    }

    async fn wake_in_an_outage(&self) -> Infallible {
        loop {
            sleep(BETWEEN_WAKES).await;
            if self.flags.outage.is_some() {
                self.wake().await;
            }
        }
    }

    /// One wake of the schedule. An answer that is lost is as good as a tick that did not come.
    async fn wake(&self) {
        drop(self.invoke(&json!({"op": "wake"})).await);
    }

    /// Does this while events of the other flow come.
    async fn beside<T>(&self, part: NightPart, work: impl Future<Output = Result<T>>) -> Result<T> {
        locked(&self.most_in_flight).0 = part;
        let over = AtomicBool::new(false);
        let work = async {
            let done = work.await;
            over.store(true, Ordering::Relaxed);
            done
        };
        let trickle = async {
            for number in 0.. {
                let answered = self.senders[0].deliver(&[other_event(part, number)], || ()).await?;
                locked(&self.others).entry(part).or_default().merge(answered);
                sleep(Duration::from_millis(self.flags.every)).await;
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        };
        Ok(tokio::try_join!(work, trickle)?.0)
    }

    /// Sends the events of the paused flow, and waits until all of them wait in the ledger. Each entity has one sender,
    /// which sends its events one after the other.
    async fn fall_asleep(&self) -> Result<SenderLog> {
        let bar = bar("sent", self.flags.events as u64);
        let send = async |(number, sender): (usize, &Senders)| {
            let own = |event: &usize| event % self.flags.entities % self.flags.senders == number;
            let between = Duration::from_secs(self.flags.outage.unwrap_or_default()).div_f64(self.flags.events as f64);
            let delivery = |event: usize| PlannedDelivery {
                at: between.mul_f64(event as f64),
                ..waiting_event(event, self.flags.entities)
            };
            let deliveries: Vec<PlannedDelivery> = (0..self.flags.events).filter(own).map(delivery).collect();
            sender.deliver(&deliveries, || bar.inc(1)).await
        };
        let mut log = SenderLog::default();
        try_join_all(self.senders.iter().enumerate().map(send)).await?.into_iter().for_each(|sent| log.merge(sent));
        bar.finish_and_clear();
        self.until_few_are_queued().await?;
        Ok(log)
    }

    /// Waits until the queue has no more messages than the other flow's.
    async fn until_few_are_queued(&self) -> Result<()> {
        let bar = bar("leave", 0);
        let (mut least, mut moved) = (u64::MAX, Instant::now());
        let mut few = 0;
        while few < LOOKS && moved.elapsed() < STUCK_AFTER {
            let depth = queues::depth(&self.endpoint, &self.address.events_queue_url).await?;
            bar.set_length(bar.length().unwrap_or_default().max(depth));
            bar.set_position(bar.length().unwrap_or_default() - depth);
            few = if depth <= FEW { few + 1 } else { 0 };
            if depth < least {
                (least, moved) = (depth, Instant::now());
            }
            sleep(self.looks().0).await;
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Resumes the flow or heals its partner, and wakes each minute what that did not wake, until all is done or nothing
    /// moves. Returns how many events the resumption woke.
    async fn wake_up(&self) -> Result<u64> {
        let woken = match self.flags.outage {
            None => self.operate("resume").await?["woken"].as_u64().unwrap_or_default(),
            Some(_) => self.partners.heal_all().await.map(|()| 0)?,
        };
        let bar = bar("done", self.flags.events as u64);
        let (mut woken_at, mut moved) = (Instant::now(), Instant::now());
        loop {
            let done = self.done_by_partner().await? as u64;
            if done > bar.position() {
                moved = Instant::now();
            }
            bar.set_position(done);
            if done >= self.flags.events as u64 || moved.elapsed() > STUCK_AFTER {
                break;
            }
            if woken_at.elapsed() > BETWEEN_WAKES {
                woken_at = Instant::now();
                self.wake().await;
            }
            sleep(self.looks().1).await;
        }
        bar.finish_and_clear();
        self.until_few_are_queued().await?;
        Ok(woken)
    }

    /// Turns the paused flow's switch, as an operator does.
    async fn operate(&self, op: &str) -> Result<Value> {
        self.invoke(&json!({"op": op, "flow": PAUSED.0, "by": "night", "reason": "a night on the local cloud"})).await
    }

    async fn invoke(&self, operation: &Value) -> Result<Value> {
        match self.lambda.invoke(&self.address.live("replay")?, operation).await? {
            InvocationOutcome::Answered(answer) if answer.get("error").is_none() => Ok(answer),
            other => bail!("the replay function did not do {operation}: {other:?}"),
        }
    }

    /// Looks all the time at how many messages are in flight. It never ends by itself.
    async fn watch_queue<T>(&self) -> Result<T> {
        loop {
            let in_flight = queues::in_flight(&self.endpoint, &self.address.events_queue_url).await?;
            {
                let (part, most) = &mut *locked(&self.most_in_flight);
                let most = most.entry(*part).or_default();
                *most = in_flight.max(*most);
            }
            sleep(self.looks().0).await;
        }
    }

    fn looks(&self) -> (Duration, Duration) {
        if self.flags.outage.is_some() { LOOKS_OF_AN_OUTAGE } else { LOOKS_OF_A_PAUSE }
    }

    async fn rows(&self) -> Result<HashMap<String, Row>> {
        ledger_table::rows(&self.endpoint, &self.address.ledger_table).await
    }

    async fn calls_of_paused(&self) -> Result<Vec<PartnerCall>> {
        Ok(self.partners.log().await?.into_iter().filter(|call| call.integration == PAUSED.1).collect())
    }

    async fn done_by_partner(&self) -> Result<usize> {
        Ok(self.calls_of_paused().await?.iter().filter(|call| call.applied).count())
    }

    fn others(&self) -> BTreeMap<NightPart, SenderLog> {
        std::mem::take(&mut *locked(&self.others))
    }

    fn most_in_flight(&self) -> BTreeMap<NightPart, u64> {
        locked(&self.most_in_flight).1.clone()
    }
}

/// The nth event of the paused flow. Its id says which one of its entity it is.
fn waiting_event(number: usize, entities: usize) -> PlannedDelivery {
    event(PAUSED.0, format!("w{number:06}"), format!("w{}", number % entities))
}

fn other_event(part: NightPart, number: usize) -> PlannedDelivery {
    event(OTHER.0, format!("o{}x{number}", part as usize), format!("o{}", number % OTHER_ENTITIES))
}

fn event(kind: &'static str, event_id: String, contact: String) -> PlannedDelivery {
    PlannedDelivery { at: Duration::ZERO, event_id, kind, contact, delivery_kind: DeliveryKind::Genuine }
}

async fn rest(time: Duration) -> Result<()> {
    sleep(time).await;
    Ok(())
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
