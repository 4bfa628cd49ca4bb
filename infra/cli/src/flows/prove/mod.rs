//! `ledgerline flows prove`

mod judge;
mod shrink;
mod truth;
mod worlds;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use shared::flows::{File, Flow, Flows};
use sim::{FlowsVersion, Timeline};

use crate::args::parse_duration;
use crate::scenarios::folder::{self, ReadScenarios};
use crate::scenarios::observed::yaml;
use crate::scenarios::play::{Observed, play};
use crate::scenarios::written::{ScenarioFile, WrittenScenario};
use crate::{CommandExit, flows_folder, output};

use judge::FlowInQuestion;
pub use judge::{AT_MOST_ONCE, Broken, EACH_ACTS, ENDS, IDENTITY, LEDGER_IS_TRUE, NOTHING_DIES, PROTECTED};
use truth::Truth;
pub(crate) use truth::rank;
use worlds::{FAULTS, Maker, SmallWorld};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows prove                             asks of every flow that has scenarios whether it keeps its promises
  ledgerline flows prove --flow order-paid --for 5m  draws worlds for five minutes
  ledgerline flows prove --save tests/found.yaml     writes what was found as a scenario, which `flows test` repeats

Can a flow do something twice, lose something, or get stuck? Every single fault at every step, every bad behaviour that
its partners' guarantees allow, and then worlds drawn from seeds, over the event of its scenario file. What the file
states under `prove` is asked, too. Exit code 1 means that a promise was broken.";

/// Ask of flows whether they can do something twice, lose something, or get stuck, before they are deployed.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// The flows folder. Without it, that of the project that you are in.
    folder: Option<PathBuf>,
    /// Only this flow.
    #[arg(long)]
    flow: Option<String>,
    /// How long worlds are drawn from seeds, for each flow, after the sweeps.
    #[arg(long = "for", value_name = "2s", default_value = "2s", value_parser = parse_duration)]
    span: Duration,
    /// Draw exactly so many worlds instead.
    #[arg(long, value_name = "NUMBER")]
    seeds: Option<u64>,
    /// Write what was found as a scenario file, beside the flow's own, whose event it uses.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// What came of asking a flow.
pub struct ProvedFlow {
    /// The flow.
    pub flow: String,
    /// How many worlds were played.
    pub worlds: usize,
    /// How many of them were drawn from seeds.
    pub seeds: u64,
    /// What was taken for true.
    pub assumed: Vec<String>,
    /// What was not asked, and why.
    pub not_asked: Vec<String>,
    /// The first promise that was broken.
    pub found: Option<Found>,
}

/// A promise that was broken in a world.
pub struct Found {
    /// The promise, and what was seen.
    pub broken: Broken,
    /// The scenario that repeats it, as a file.
    pub scenario: String,
    /// What happened, line by line.
    pub timeline: Timeline,
}

/// How many worlds are drawn, or for how long.
#[derive(Clone, Copy, Debug)]
pub enum Draws {
    /// So many.
    Seeds(u64),
    /// As many as there is time for.
    For(Duration),
}

impl ProveArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let folder = flows_folder::find(self.folder)?;
        let files = flows_folder::read(&folder)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        let (read, broken) = folder::read(&folder)?;
        if let Some((file, problem)) = broken.first() {
            bail!("{} cannot be read: {problem}", file.path);
        }
        let wanted = |read: &&ReadScenarios| self.flow.as_ref().is_none_or(|flow| read.written.flow == *flow);
        let read: Vec<&ReadScenarios> = read.iter().filter(wanted).collect();
        if read.is_empty() {
            bail!("no scenario file has an event to begin with: write tests/<flow>.yaml with `flow` and `event`");
        }
        let draws = self.seeds.map_or(Draws::For(self.span), Draws::Seeds);
        let proofs = read.into_iter().map(|read| prove(&files, &flows, read, draws)).collect::<Result<Vec<_>>>()?;
        output::print_answer(json, &as_json(&proofs), || proofs.iter().map(text).collect())?;
        let found = proofs.iter().find_map(|proof| proof.found.as_ref());
        if let (Some(found), Some(path)) = (found, &self.save) {
            std::fs::write(path, &found.scenario).with_context(|| format!("cannot write {}", path.display()))?;
            output::print_notice(&format!("wrote {}: `ledgerline flows test` repeats it\n", path.display()));
        }
        Ok(if found.is_none() { CommandExit::Success } else { CommandExit::Problems })
    }
}

/// Asks of the flow of a scenario file whether it keeps its promises.
pub fn prove(files: &[File], flows: &Flows, read: &ReadScenarios, draws: Draws) -> Result<ProvedFlow> {
    let ScenarioFile { flow, event, prove: stated, .. } = &read.written;
    let flow = flows.flow(flow).with_context(|| format!("there is no flow `{flow}`"))?;
    let event = event.as_ref().with_context(|| format!("{} names no `event` to begin with", read.file.path))?;
    let event = read.event(event)?;
    let truth = Truth::of(flows, as_catalogued(files).unwrap_or_else(|| flows.clone()), flow, stated);
    let maker = Maker { flows, flow, event: &event, stated, truth: &truth };
    let mut prover = Prover { version: FlowsVersion::of(flows.clone()), flow, read, event: &event, worlds: 0 };
    let mut seeds = 0;
    let found = prover.sweep(&maker)?;
    let found = match found {
        Some(found) => Some(found),
        None => prover.draw(&maker, draws, &mut seeds)?,
    };
    let mut assumed = truth.assumed.clone();
    assumed.push("our tables and queues keep their contracts, and clocks are right".into());
    let not_asked = not_asked(read, flow);
    Ok(ProvedFlow { flow: flow.name.clone(), worlds: prover.worlds, seeds, assumed, not_asked, found })
}

fn not_asked(read: &ReadScenarios, flow: &Flow) -> Vec<String> {
    let stated = &read.written.prove;
    let mut not_asked = Vec::new();
    if stated.identity.is_none() {
        not_asked.push("whether two deliveries of one thing may both act: state `prove: {identity: […]}`".to_owned());
    }
    let caps = flow.guards.iter().any(|guard| matches!(guard, shared::flows::Guard::Cap(_)));
    if caps && stated.protects.is_empty() {
        not_asked.push("whom the caps protect: state `prove: {protects: [{channel: …, who: […]}]}`".to_owned());
    }
    if stated.again_within.is_none() {
        not_asked.push("what comes again after more than ten minutes: state `prove: {again_within: …}`".to_owned());
    }
    not_asked
}

struct Prover<'p> {
    version: FlowsVersion,
    flow: &'p Flow,
    read: &'p ReadScenarios,
    event: &'p Value,
    worlds: usize,
}

impl Prover<'_> {
    /// Everything that is tried once.
    fn sweep(&mut self, maker: &Maker<'_>) -> Result<Option<Found>> {
        let plain = maker.plain();
        let seen = self.play(&plain.scenario)?;
        if let Some(broken) = self.judge(&plain, &seen) {
            return self.found(plain, broken).map(Some);
        }
        let calm = [maker.hours(), maker.without_optional_fields(), maker.others()].concat();
        let senders = [maker.repetitions(), maker.crowds()].concat();
        let faults = seen.port_calls.iter().enumerate().flat_map(|(place, (function, call))| {
            let nth =
                1 + seen.port_calls[..place].iter().filter(|known| *known == &(function.clone(), call.clone())).count();
            FAULTS.map(|fault| maker.with_fault(function, call, nth, fault))
        });
        let faults: Vec<SmallWorld> = faults.collect();
        for world in [calm, senders, maker.bad_partners(), faults].concat() {
            if let Some(found) = self.ask(world)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Worlds drawn from seeds.
    fn draw(&mut self, maker: &Maker<'_>, draws: Draws, seeds: &mut u64) -> Result<Option<Found>> {
        let calls = self.play(&maker.plain().scenario)?.port_calls;
        let began = Instant::now();
        let goes_on = |seed: u64| match draws {
            Draws::Seeds(count) => seed < count,
            Draws::For(span) => began.elapsed() < span,
        };
        while goes_on(*seeds) {
            if let Some(found) = self.ask(maker.drawn(*seeds, &calls))? {
                return Ok(Some(found));
            }
            *seeds += 1;
        }
        Ok(None)
    }

    fn ask(&mut self, world: SmallWorld) -> Result<Option<Found>> {
        let seen = self.play(&world.scenario)?;
        match self.judge(&world, &seen) {
            Some(broken) => self.found(world, broken).map(Some),
            None => Ok(None),
        }
    }

    fn judge(&self, world: &SmallWorld, seen: &Observed) -> Option<Broken> {
        let asked = FlowInQuestion { flows: self.version.flows(), flow: self.flow, stated: &self.read.written.prove };
        judge::judge(asked, world, seen)
    }

    fn play(&mut self, scenario: &Value) -> Result<Observed> {
        self.worlds += 1;
        let written: WrittenScenario = serde_json::from_value(scenario.clone()).context("a world is no scenario")?;
        play(&self.version, self.read, &written)
    }

    /// The smallest world in which the same promise is broken, as a scenario file.
    fn found(&mut self, world: SmallWorld, broken: Broken) -> Result<Found> {
        let mut smallest = (world, broken);
        loop {
            let mut smaller = None;
            for world in shrink::smaller(&smallest.0) {
                let Ok(seen) = self.play(&world.scenario) else { continue };
                if let Some(broken) = self.judge(&world, &seen).filter(|broken| broken.promise == smallest.1.promise) {
                    smaller = Some((world, broken));
                    break;
                }
            }
            match smaller {
                Some(found) => smallest = found,
                None => break,
            }
        }
        let (mut world, broken) = smallest;
        let timeline = self.play(&world.scenario)?.timeline;
        world.scenario["it"] = json!(world.it);
        world.scenario["expect"] = broken.expect.clone();
        let ScenarioFile { contacts, .. } = &self.read.written;
        let contacts: Vec<Value> = contacts
            .iter()
            .map(|contact| json!({"tenant": contact.tenant, "email": contact.email, "fields": contact.fields}))
            .collect();
        let event = self.read.written.event.as_ref().unwrap_or(self.event);
        let mut file = json!({"flow": self.flow.name, "event": event});
        if !contacts.is_empty() {
            file["contacts"] = json!(contacts);
        }
        if let Some(at) = self.read.written.starts_at {
            file["starts_at"] = json!(at.0.to_string());
        }
        file["scenarios"] = json!([world.scenario]);
        let mut scenario = format!("# Found by `flows prove`. It breaks `{}`: {}.\n", broken.promise, broken.seen);
        yaml(&file, 0, &mut scenario);
        Ok(Found { broken, scenario, timeline })
    }
}

/// The flows as the catalogue knows their partners: without what flows and integrations say themselves of calls that the
/// catalogue has. Nothing, if that is no whole set of flows.
fn as_catalogued(files: &[File]) -> Option<Flows> {
    let mut files = files.to_vec();
    for file in &mut files {
        let is_flow = file.path.starts_with("flows/");
        if !is_flow && file.path != "integrations.yaml" {
            continue;
        }
        let mut value: Value = serde_saphyr::from_str(&file.text).ok()?;
        let strip = |value: &mut Value, names: &[&str]| {
            if let Some(fields) = value.as_object_mut() {
                names.iter().for_each(|name| drop(fields.remove(*name)));
            }
        };
        if is_flow {
            let effects = value["effects"].as_array_mut().into_iter().flatten();
            effects
                .filter(|effect| effect.get("call").is_some())
                .for_each(|effect| strip(effect, &["guarantee", "lookup", "answers"]));
        } else {
            let integrations = value.as_object_mut().into_iter().flat_map(|all| all.values_mut());
            integrations
                .filter(|one| one.get("uses").is_some())
                .for_each(|one| strip(one, &["answers", "key_window", "calls"]));
        }
        file.text = value.to_string();
    }
    Flows::parse(&files).ok()
}

fn text(proof: &ProvedFlow) -> String {
    let ProvedFlow { flow, worlds, seeds, assumed, not_asked, found } = proof;
    let played = format!("{} ({seeds} drawn from seeds)", output::count(*worlds, "world"));
    let mut text = match found {
        None => format!(
            "{} {} in {played}\n",
            output::styled(output::BOLD, flow),
            output::styled(output::GOOD, "keeps its promises")
        ),
        Some(Found { broken, timeline, scenario }) => format!(
            "{} {}: {} (world {worlds})\n\n{timeline}\n{scenario}\n",
            output::styled(output::BOLD, flow),
            output::styled(output::BAD, format!("breaks `{}`", broken.promise)),
            broken.seen,
        ),
    };
    text.extend(assumed.iter().map(|line| format!("  assumed    {line}\n")));
    text.extend(not_asked.iter().map(|line| format!("  not asked  {line}\n")));
    text
}

fn as_json(proofs: &[ProvedFlow]) -> Value {
    let proof = |proof: &ProvedFlow| {
        let found = proof.found.as_ref().map(|found| {
            json!({"promise": found.broken.promise, "seen": found.broken.seen, "scenario": found.scenario,
                   "timeline": found.timeline.to_string()})
        });
        json!({"flow": proof.flow, "worlds": proof.worlds, "seeds": proof.seeds, "assumed": proof.assumed,
               "not_asked": proof.not_asked, "found": found})
    };
    proofs.iter().map(proof).collect()
}
