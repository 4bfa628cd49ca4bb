//! The disruptions of a run, by its plan: kills, stops of the emulator, outages of partners.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::partner_control::PartnerControl;
use super::plan::{ChaosPlan, EmulatorStop, Kill, Outage, Timed};
use crate::cloud::{CloudAddress, LocalCloud};
use crate::emulator::EmulatorProcess;
use crate::journal::{self, Journal};
use crate::processes::{self, Signal};

/// How often, and how far apart, a kill looks for a process.
const LOOKS: usize = 10;
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How many disruptions there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DisruptionCounts {
    /// Function processes that were killed.
    pub(super) killed: usize,
    /// How often the emulator was frozen.
    pub(super) freezes: usize,
    /// How often the emulator was ended and started.
    pub(super) restarts: usize,
    /// How often a partner was down.
    pub(super) outages: usize,
}

/// How many deliveries were answered so far.
pub(super) type DeliveryCount = watch::Receiver<usize>;

/// Makes every disruption of the plan, each after its number of deliveries, or as soon as the one before it is
/// over.
pub(super) async fn disrupt(
    cloud: &mut LocalCloud,
    partners: &PartnerControl,
    plan: &ChaosPlan,
    made: DeliveryCount,
    journal: &Journal,
) -> Result<DisruptionCounts> {
    let address = cloud.address().clone();
    let (killed, (freezes, restarts), outages) = tokio::try_join!(
        kill_all(&address, &plan.kills, made.clone(), journal),
        stop_all(cloud.emulator(), &plan.stops, made.clone(), journal),
        all_outages(partners, &plan.outages, made, journal),
    )?;
    Ok(DisruptionCounts { killed, freezes, restarts, outages })
}

async fn wait_for_deliveries(made: &mut DeliveryCount, count: usize) -> Result<()> {
    made.wait_for(|made| *made >= count).await.context("the disruptions stopped: the senders ended with an error")?;
    Ok(())
}

async fn kill_all(
    address: &CloudAddress,
    kills: &[Timed<Kill>],
    mut made: DeliveryCount,
    journal: &Journal,
) -> Result<usize> {
    let mut killed = 0;
    for (at, kill) in kills {
        wait_for_deliveries(&mut made, *at).await?;
        let instance = find_instance(address, *kill).await?;
        // The process may have ended by itself just now.
        if let Some(pid) = instance
            && processes::send(Signal::Kill, pid).await.is_ok()
        {
            killed += 1;
            note(journal, &format!("{kill:?}: {pid}"));
        }
    }
    Ok(killed)
}

/// The id of a function's process, as soon as there is one: the emulator may have been restarted just now.
async fn find_instance(address: &CloudAddress, kill: Kill) -> Result<Option<u32>> {
    for _ in 0..LOOKS {
        let pids = processes::of_function(address.function(kill.function)?, &address.endpoint)?;
        if !pids.is_empty() {
            return Ok(Some(pids[kill.which % pids.len()]));
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(None)
}

async fn stop_all(
    emulator: &mut EmulatorProcess,
    stops: &[Timed<EmulatorStop>],
    mut made: DeliveryCount,
    journal: &Journal,
) -> Result<(usize, usize)> {
    let (mut freezes, mut restarts) = (0, 0);
    for (at, stop) in stops {
        wait_for_deliveries(&mut made, *at).await?;
        note(journal, &format!("{stop:?}"));
        match *stop {
            EmulatorStop::Freeze(time) => {
                emulator.freeze().await?;
                sleep(time).await;
                emulator.thaw().await?;
                freezes += 1;
            }
            EmulatorStop::Restart(pause) => {
                emulator.restart(pause).await?;
                restarts += 1;
            }
        }
    }
    Ok((freezes, restarts))
}

async fn all_outages(
    partners: &PartnerControl,
    outages: &[Timed<Outage>],
    mut made: DeliveryCount,
    journal: &Journal,
) -> Result<usize> {
    for (at, outage) in outages {
        wait_for_deliveries(&mut made, *at).await?;
        note(journal, &format!("{outage:?}"));
        partners.take_down(outage.integration, outage.status).await?;
        sleep(outage.time).await;
        partners.disturb(outage.integration).await?;
    }
    Ok(outages.len())
}

fn note(journal: &Journal, what: &str) {
    journal.add(&json!({"time": journal::now(), "disruption": what}));
}
