//! Chaos on real processes: a local cloud under load, with disruptions, and then a check of every effect.
//!
//! Senders deliver signed webhooks until they are answered. Meanwhile partners fail by chance, function
//! processes are killed, the emulator is frozen and restarted. Then the queues drain, all is healed, and
//! an operator resolves and replays what is parked. In the end three ledgers must agree: what senders
//! were told, what our ledger says, what partners did. One effect too many or one too few is a failure.
//!
//! The seed fixes the plan ([`plan`], and the partner stub's faults): which events, which faults for the
//! nth call of which effect, which disruptions when. It cannot fix the interleaving.

mod reconciliation;
mod recovery;
mod disruptions;
mod operator;
pub(crate) mod partner_control;
pub(crate) mod plan;
mod report;
pub(crate) mod senders;
pub(crate) mod ledger_table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use shared::adapters::machine::read_flows;
use tokio::sync::watch;

use crate::cloud::{CloudOptions, LocalCloud};
use crate::deploy;
use crate::journal::Journal;
use crate::output::print;
use crate::partners::FaultChance;
use crate::project::Project;
use crate::queues;
use crate::step_progress::StepProgress;
use partner_control::PartnerControl;
use plan::ChaosPlan;
use reconciliation::ThreeLedgers;
use recovery::Recovery;
use report::ChaosReport;
use senders::{SenderLog, Senders};

/// The visibility of dead letters. As long as an event's: a killed replay function is not to take longer than a
/// killed processor.
const LETTERS_VISIBILITY: Duration = Duration::from_secs(deploy::TIMES[2]);

/// The options of a chaos run.
#[derive(Clone, Debug, Args)]
pub struct ChaosArgs {
    /// How many events the senders send.
    #[arg(long, default_value_t = ChaosArgs::default().events)]
    pub events: usize,
    /// How many minutes they send; more, where the machine is slower.
    #[arg(long, default_value_t = ChaosArgs::default().minutes)]
    pub minutes: f64,
    /// The seed that the plan is made from. Without it, a random one, which is printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// How many of a hundred calls to a partner have a fault.
    #[arg(long, default_value_t = ChaosArgs::default().faults, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub faults: u8,
    /// How many senders there are.
    #[arg(long, default_value_t = ChaosArgs::default().senders)]
    pub senders: usize,
    /// Kill no function process.
    #[arg(long)]
    pub no_kills: bool,
    /// Neither freeze nor restart the emulator.
    #[arg(long)]
    pub no_stops: bool,
}

impl Default for ChaosArgs {
    fn default() -> Self {
        Self { events: 5000, minutes: 2.0, seed: None, faults: 15, senders: 16, no_kills: false, no_stops: false }
    }
}

impl ChaosArgs {
    /// The length of the load.
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.minutes.max(0.0) * 60.0)
    }
}

/// The options of the cloud that a run needs: flows of every guarantee, and free ports.
pub fn options(project: &Project) -> CloudOptions {
    CloudOptions { name: "chaos".into(), flows: Some(project.chaos_flows()), ..CloudOptions::test() }
}

/// Runs on this cloud, prints the report, and fails unless every effect was done exactly once.
pub async fn run(cloud: &mut LocalCloud, project: &Project, flags: &ChaosArgs) -> Result<ExitCode> {
    let seed = match flags.seed {
        Some(seed) => seed,
        None => u64::from(
            getrandom::u32()
                .context("the chaos run cannot start: the system gives no random seed. Name one with --seed")?,
        ),
    };
    eprintln!(
        "\nSending {} events in {:.0} s, with disruptions, by the seed {seed}",
        flags.events,
        flags.length().as_secs_f64()
    );
    let flows = read_flows(&project.chaos_flows())?;
    let partners = PartnerControl::new(cloud.address(), &flows, FaultChance { seed, percent: flags.faults });
    let plan = ChaosPlan::new(flags, seed);
    let (progress, began) = (StepProgress::default(), Instant::now());

    let (log, disruptions) =
        progress.loud_step("load with disruptions", load_and_disrupt(cloud, &partners, &plan, flags)).await?;
    let load = began.elapsed();
    let recovery = Recovery::new(cloud.address(), &partners, &flows, &log);
    // The partners still fail: the last events are to meet as many faults as the first.
    progress.loud_step("drain the queues", recovery.drain()).await?;
    partners.heal_all().await?;
    let drain = began.elapsed() - load;
    let results = progress.loud_step("resolve and replay", recovery.operate()).await?;
    let times = [load, drain, began.elapsed() - load - drain];

    let (calls, rows) = (partners.log().await?, recovery.rows().await?);
    let account =
        ThreeLedgers { senders: &log, rows: &rows, calls: &calls, flows: &flows, listed: &results.listed }.reconcile();
    let report =
        ChaosReport { seed, senders: &log, disruptions, calls: &calls, results: &results, account: &account, times };
    print(&format!("\n{}{}\n", report.table(), report.findings()));
    Ok(if report.is_balanced() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends the load while everything is disrupted.
async fn load_and_disrupt(
    cloud: &mut LocalCloud,
    partners: &PartnerControl,
    plan: &ChaosPlan,
    flags: &ChaosArgs,
) -> Result<(SenderLog, disruptions::DisruptionCounts)> {
    let endpoint = cloud.address().emulator();
    queues::set_visibility(&endpoint, &cloud.address().dead_letters_queue_url, LETTERS_VISIBILITY).await?;
    partners.disturb_all().await?;
    let senders = Senders::new(&cloud.address().url, cloud.secret().text(), flags.senders);
    let journal = Journal::create(&cloud.address().state.join("logs/chaos.jsonl"))?;
    let (sent, made) = watch::channel(0);
    let bar = bar("load", plan.deliveries.len() as u64);
    let count = || {
        sent.send_modify(|sent| *sent += 1);
        bar.inc(1);
    };
    let load = senders.deliver(&plan.deliveries, count);
    let (log, disruptions) = tokio::try_join!(load, disruptions::disrupt(cloud, partners, plan, made, &journal))?;
    bar.finish_and_clear();
    Ok((log, disruptions))
}

pub(crate) fn bar(name: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:<8} {wide_bar} {pos}/{len}  {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style).with_message(name);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
