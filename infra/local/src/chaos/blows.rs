//! Breaking things, by plan.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::partners::Partners;
use super::plan::{Kill, Outage, Plan, Stop, Timed};
use crate::cloud::{Address, Cloud};
use crate::emulator::Emulator;
use crate::journal::{self, Journal};
use crate::processes::{self, Signal};

/// How often, and how far apart, a kill looks for its victim.
const LOOKS: usize = 10;
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// What was really broken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Damage {
    /// Function processes that were killed.
    pub(super) killed: usize,
    /// How often the emulator was held.
    pub(super) freezes: usize,
    /// How often the emulator was ended and started.
    pub(super) restarts: usize,
    /// How often a partner was down altogether.
    pub(super) outages: usize,
}

/// The deliveries that were made so far.
pub(super) type Made = watch::Receiver<usize>;

/// Break everything that the plan says, each thing after so many deliveries, or as soon as the one before
/// it is over.
pub(super) async fn strike(
    cloud: &mut Cloud,
    partners: &Partners,
    plan: &Plan,
    made: Made,
    journal: &Journal,
) -> Result<Damage> {
    let address = cloud.address().clone();
    let (killed, (freezes, restarts), outages) = tokio::try_join!(
        kill_all(&address, &plan.kills, made.clone(), journal),
        stop_all(cloud.emulator(), &plan.stops, made.clone(), journal),
        all_outages(partners, &plan.outages, made, journal),
    )?;
    Ok(Damage { killed, freezes, restarts, outages })
}

async fn until(made: &mut Made, count: usize) -> Result<()> {
    made.wait_for(|made| *made >= count).await.context("the senders are gone")?;
    Ok(())
}

async fn kill_all(address: &Address, kills: &[Timed<Kill>], mut made: Made, journal: &Journal) -> Result<usize> {
    let mut killed = 0;
    for (at, kill) in kills {
        until(&mut made, *at).await?;
        let victim = victim(address, *kill).await?;
        // It may have ended by itself just now.
        if let Some(pid) = victim
            && processes::send(Signal::Kill, pid).await.is_ok()
        {
            killed += 1;
            note(journal, &format!("{kill:?}: {pid}"));
        }
    }
    Ok(killed)
}

/// An instance, as soon as there is one: the emulator may have been restarted just now.
async fn victim(address: &Address, kill: Kill) -> Result<Option<u32>> {
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
    emulator: &mut Emulator,
    stops: &[Timed<Stop>],
    mut made: Made,
    journal: &Journal,
) -> Result<(usize, usize)> {
    let (mut freezes, mut restarts) = (0, 0);
    for (at, stop) in stops {
        until(&mut made, *at).await?;
        note(journal, &format!("{stop:?}"));
        match *stop {
            Stop::Freeze(time) => {
                emulator.freeze().await?;
                sleep(time).await;
                emulator.thaw().await?;
                freezes += 1;
            }
            Stop::Restart(pause) => {
                emulator.restart(pause).await?;
                restarts += 1;
            }
        }
    }
    Ok((freezes, restarts))
}

async fn all_outages(
    partners: &Partners,
    outages: &[Timed<Outage>],
    mut made: Made,
    journal: &Journal,
) -> Result<usize> {
    for (at, outage) in outages {
        until(&mut made, *at).await?;
        note(journal, &format!("{outage:?}"));
        partners.down(outage.integration).await?;
        sleep(outage.time).await;
        partners.disturb(outage.integration).await?;
    }
    Ok(outages.len())
}

fn note(journal: &Journal, what: &str) {
    journal.add(&json!({"time": journal::now(), "blow": what}));
}
