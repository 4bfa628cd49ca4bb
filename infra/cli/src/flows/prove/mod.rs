//! `ledgerline flows prove`

mod aims;
mod judge;
mod operators;
mod other_values;
mod shrink;
mod truth;
mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use shared::base::suggest::suggest;
use shared::flows::contract::Contracts;
use shared::flows::{Effect, File, Flow, Flows, Problems};
use shared::model::ModelChance;
use sim::{FlowsVersion, Timeline};

use crate::args::parse_duration;
use crate::scenarios::folder::{self, ReadScenarios};
use crate::scenarios::mistakes;
use crate::scenarios::observed::yaml;
use crate::scenarios::play::{Observed, STARTS_AT, play};
use crate::scenarios::written::{ScenarioFile, WrittenScenario};
use crate::{CommandExit, flows_folder, output};

pub use aims::Aim;
use judge::FlowInQuestion;
pub use judge::{AT_MOST_ONCE, Broken, EACH_ACTS, ENDS, IDENTITY, LEDGER_IS_TRUE, NOTHING_DIES, PROTECTED};
use truth::Truth;
pub(crate) use truth::rank;
use worlds::{FAULTS, Maker, PlannedCall, SmallWorld, below};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows prove                             asks of every flow that has scenarios whether it keeps its promises
  ledgerline flows prove --flow order-paid --for 5m  draws worlds for five minutes
  ledgerline flows prove --save tests/found.yaml     writes what was found as a scenario, which `flows test` repeats

Can a flow do something twice, lose something, or get stuck? Every single fault at every step, every bad behaviour that
its partners' guarantees allow, and then worlds drawn from seeds, over the event of its scenario file. What the file
states under `prove` is asked, too. Exit code 1 means that a promise was broken, or that one could not be seen kept.";

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
    /// What was not asked, because nothing is stated.
    pub not_asked: Vec<String>,
    /// What was asked, and no world could show.
    pub not_seen: BTreeSet<Aim>,
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
        let folder = flows_folder::find(self.folder.clone())?;
        let files = flows_folder::read(&folder)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        if let Some(name) = self.flow.as_ref().filter(|name| flows.flow(name).is_none()) {
            bail!("there is no flow `{name}`: {}", suggest(name, flows.all().map(|flow| flow.name.as_str())));
        }
        let (read, unread) = folder::read(&folder)?;
        for (file, problem) in &unread {
            output::print_problems(&Problems(vec![problem.clone()]), std::slice::from_ref(file));
        }
        let (proofs, refused) = self.ask_all(&files, &flows, &read);
        output::print_answer(json, &as_json(&proofs, &refused), || {
            proofs.iter().map(text).chain(refused.iter().map(refusal)).collect()
        })?;
        let found = proofs.iter().find_map(|proof| proof.found.as_ref());
        if let (Some(found), Some(path)) = (found, &self.save) {
            std::fs::write(path, &found.scenario).with_context(|| format!("cannot write {}", path.display()))?;
            output::print_notice(&format!("wrote {}: `ledgerline flows test` repeats it\n", path.display()));
        }
        let all_kept = proofs.iter().all(ProvedFlow::keeps) && refused.is_empty() && unread.is_empty();
        Ok(if all_kept { CommandExit::Success } else { CommandExit::Problems })
    }

    /// Asks of each flow, and says of which it cannot, and why.
    fn ask_all(&self, files: &[File], flows: &Flows, read: &[ReadScenarios]) -> (Vec<ProvedFlow>, Vec<Refused>) {
        let draws = self.seeds.map_or(Draws::For(self.span), Draws::Seeds);
        let wanted = |name: &str| self.flow.as_ref().is_none_or(|flow| flow == name);
        let (mut proofs, mut refused) = (Vec::new(), Vec::new());
        for read in read.iter().filter(|read| wanted(&read.written.flow) && read.written.event.is_some()) {
            match prove(files, flows, read, draws) {
                Ok(proof) => proofs.push(proof),
                Err(why) => refused.push(Refused { flow: read.written.flow.clone(), why: format!("{why:#}") }),
            }
        }
        for flow in flows.all().filter(|flow| wanted(&flow.name)) {
            if !read.iter().any(|read| read.written.flow == flow.name && read.written.event.is_some()) {
                let name = &flow.name;
                let why = format!(
                    "no scenario file has an event to begin with: write tests/{name}.yaml with `flow` and `event`"
                );
                refused.push(Refused { flow: name.clone(), why });
            }
        }
        only_never_seen(&mut proofs);
        (proofs, refused)
    }
}

/// A flow of which nothing could be asked.
struct Refused {
    flow: String,
    why: String,
}

/// An effect that the event of one file does not reach may be reached by that of another.
fn only_never_seen(proofs: &mut [ProvedFlow]) {
    let mut never: BTreeMap<String, BTreeSet<Aim>> = BTreeMap::new();
    for ProvedFlow { flow, not_seen, .. } in proofs.iter() {
        let unseen = never.entry(flow.clone()).or_insert_with(|| not_seen.clone());
        unseen.retain(|aim| not_seen.contains(aim));
    }
    for ProvedFlow { flow, not_seen, .. } in proofs {
        not_seen.retain(|aim| !matches!(aim, Aim::Effect(_)) || never[flow.as_str()].contains(aim));
    }
}

impl ProvedFlow {
    /// Whether the flow was seen to keep all that was asked.
    pub fn keeps(&self) -> bool {
        self.found.is_none() && self.not_seen.is_empty()
    }
}

/// Asks of the flow of a scenario file whether it keeps its promises.
pub fn prove(files: &[File], flows: &Flows, read: &ReadScenarios, draws: Draws) -> Result<ProvedFlow> {
    let ScenarioFile { flow, event, prove: stated, .. } = &read.written;
    let flow = flows.flow(flow).with_context(|| format!("there is no flow `{flow}`"))?;
    let event = event.as_ref().with_context(|| format!("{} names no `event` to begin with", read.file.path))?;
    let event = read.event(event)?;
    if let Some((at, what)) = mistakes::of_statements(flows, flow, &event, stated).into_iter().next() {
        bail!("{}, {at}: {what}", read.file.path);
    }
    let truth = Truth::of(flows, as_catalogued(files).unwrap_or_else(|| flows.clone()), flow, stated);
    let starts_at = read.written.starts_at.map_or(STARTS_AT, |moment| moment.0);
    let contracts = Contracts::of_flow(flow);
    let maker = Maker { flows, flow, event: &event, stated, truth: &truth, starts_at, contracts };
    let not_seen = Aim::of(flow, stated);
    let version = FlowsVersion::of(flows.clone());
    let mut prover = Prover { version, flow, read, event: &event, worlds: 0, not_seen };
    let mut seeds = 0;
    let found = match prover.sweep(&maker)? {
        Some(found) => Some(found),
        None => prover.draw(&maker, draws, &mut seeds)?,
    };
    let mut assumed = truth.assumed.clone();
    assumed.push("our tables and queues keep their contracts, and clocks are right".into());
    let Prover { worlds, not_seen, .. } = prover;
    let not_asked = not_asked(read, flow);
    Ok(ProvedFlow { flow: flow.name.clone(), worlds, seeds, assumed, not_asked, not_seen, found })
}

fn not_asked(read: &ReadScenarios, flow: &Flow) -> Vec<String> {
    let stated = &read.written.prove;
    let mut not_asked = Vec::new();
    if stated.identity.is_none() {
        not_asked.push("whether two deliveries of one thing may both act: state `prove: {identity: […]}`".to_owned());
    }
    if flow.caps().next().is_some() && stated.protects.is_empty() {
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
    /// What no world has shown so far.
    not_seen: BTreeSet<Aim>,
}

/// How often operators look at the events of a world at most.
const LOOKS: usize = 12;

impl Prover<'_> {
    /// Everything that is tried once.
    fn sweep(&mut self, maker: &Maker<'_>) -> Result<Option<Found>> {
        let plain = maker.plain();
        let (played, seen) = self.play_through(plain.clone(), None)?;
        self.is_taken(&seen)?;
        if let Some(broken) = self.judge(&played, &seen) {
            return self.found(played, broken).map(Some);
        }
        let calm = [maker.hours(), maker.without_optional_fields(), maker.others()].concat();
        let senders = [maker.repetitions(), maker.crowds()].concat();
        let calls = counted(&seen.port_calls);
        for world in [calm, senders, maker.bad_partners(), with_faults(maker, &plain, &calls)].concat() {
            if let Some(found) = self.ask(world)? {
                return Ok(Some(found));
            }
        }
        self.sweep_doubts(maker, &calls)
    }

    /// Every fault at the calls that only an event in doubt makes: its lookup, its next try, its parking.
    fn sweep_doubts(&mut self, maker: &Maker<'_>, known: &[PlannedCall]) -> Result<Option<Found>> {
        let mut known = known.to_vec();
        for effect in outward(self.flow) {
            let world = maker.in_doubt(effect);
            let (_, seen) = self.play_through(world.clone(), None)?;
            let mut calls = counted(&seen.port_calls);
            // Of what happens again and again, the first time beyond what was tried tells the most.
            calls.retain(|call| !known.contains(call));
            let mut kinds = BTreeSet::new();
            calls.retain(|call| kinds.insert((call.function.clone(), call.call.clone())));
            for world in with_faults(maker, &world, &calls) {
                if let Some(found) = self.ask(world)? {
                    return Ok(Some(found));
                }
            }
            known.extend(calls);
        }
        Ok(None)
    }

    /// Whether the flow takes the event at all. Of one that it does not take, nothing could be seen.
    fn is_taken(&self, seen: &Observed) -> Result<()> {
        let file = &self.read.file.path;
        if let Some(answer) = seen.answers.first().filter(|answer| answer.status >= 300) {
            let problem = answer.problem().unwrap_or_default();
            bail!(
                "{file}: the delivery of its `event` is answered with {} {problem}: nothing can be asked of it",
                answer.status
            );
        }
        let own = seen.rows.iter().find(|row| row.flow == self.flow.name);
        let Some(row) = own else { bail!("{file}: the flow does not take its `event`: nothing can be asked of it") };
        if let Some(death) = row.death.as_ref().filter(|death| death.reason.as_str() == "invalid") {
            bail!("{file}: its `event` is parked at once, {}: nothing can be asked of it", death.error);
        }
        Ok(())
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
            let chance = ModelChance::seeded(*seeds ^ 0x9e37);
            let world = maker.drawn(&chance, *seeds, &calls);
            if let Some(found) = self.ask_operated(world, &chance)? {
                return Ok(Some(found));
            }
            *seeds += 1;
        }
        Ok(None)
    }

    /// Plays a world of which operators answer every question.
    fn ask(&mut self, world: SmallWorld) -> Result<Option<Found>> {
        let (world, seen) = self.play_through(world, None)?;
        self.see(world, &seen)
    }

    /// Plays a world in which operators do what they do by chance.
    fn ask_operated(&mut self, world: SmallWorld, chance: &ModelChance) -> Result<Option<Found>> {
        let (mut world, seen) = self.play_through(world, Some(chance))?;
        if let Some(found) = self.see(world.clone(), &seen)? {
            return Ok(Some(found));
        }
        let decisions = operators::decisions(self.flow, &seen);
        if decisions.is_empty() || below(chance, 2) == 0 {
            return Ok(None);
        }
        world.then(decisions);
        self.ask(world)
    }

    fn see(&mut self, world: SmallWorld, seen: &Observed) -> Result<Option<Found>> {
        match self.judge(&world, seen) {
            Some(broken) => self.found(world, broken).map(Some),
            None => {
                let asked =
                    FlowInQuestion { flows: self.version.flows(), flow: self.flow, stated: &self.read.written.prove };
                let shown = Aim::shown(asked, &world, seen);
                self.not_seen.retain(|aim| !shown.contains(aim));
                Ok(None)
            }
        }
    }

    /// Plays a world, and again with the answers to what was asked in it.
    fn play_through(&mut self, mut world: SmallWorld, chance: Option<&ModelChance>) -> Result<(SmallWorld, Observed)> {
        let mut seen = self.play(&world.scenario)?;
        for _ in 0..LOOKS {
            let answers = operators::answers(self.flow, &seen, chance);
            if answers.is_empty() {
                break;
            }
            // Whoever hears nothing of an answer gives it again.
            let times = if world.loses_operations() { 2 } else { 1 };
            (0..times).for_each(|_| world.then(answers.clone()));
            seen = self.play(&world.scenario)?;
        }
        Ok((world, seen))
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
    let ProvedFlow { flow, worlds, seeds, assumed, not_asked, not_seen, found } = proof;
    let (flow, played) = (output::styled(output::BOLD, flow), output::count(*worlds, "world"));
    let played = format!("{played} ({seeds} drawn from seeds)");
    let mut text = match found {
        None if not_seen.is_empty() => {
            format!("{flow} {} in {played}\n", output::styled(output::GOOD, "keeps its promises"))
        }
        None => {
            let unseen = output::count(not_seen.len(), "thing");
            let verdict = output::styled(output::BAD, "is not proven");
            format!("{flow} {verdict}: {unseen} could not be seen in {played}\n")
        }
        Some(Found { broken, timeline, scenario }) => format!(
            "{flow} {}: {} (world {worlds})\n\n{timeline}\n{scenario}\n",
            output::styled(output::BAD, format!("breaks `{}`", broken.promise)),
            broken.seen,
        ),
    };
    // Whoever found one broken promise did not look for all of the others.
    if found.is_none() {
        text.extend(not_seen.iter().map(|aim| format!("  not seen   {aim}\n")));
    }
    text.extend(assumed.iter().map(|line| format!("  assumed    {line}\n")));
    text.extend(not_asked.iter().map(|line| format!("  not asked  {line}\n")));
    text
}

fn refusal(Refused { flow, why }: &Refused) -> String {
    format!("{} {}: {why}\n", output::styled(output::BOLD, flow), output::styled(output::BAD, "is not proven"))
}

fn as_json(proofs: &[ProvedFlow], refused: &[Refused]) -> Value {
    let proof = |proof: &ProvedFlow| {
        let found = proof.found.as_ref().map(|found| {
            json!({"promise": found.broken.promise, "seen": found.broken.seen, "scenario": found.scenario,
                   "timeline": found.timeline.to_string()})
        });
        let not_seen: Vec<String> =
            proof.not_seen.iter().filter(|_| found.is_none()).map(ToString::to_string).collect();
        json!({"flow": proof.flow, "keeps": proof.keeps(), "worlds": proof.worlds, "seeds": proof.seeds,
               "assumed": proof.assumed, "not_asked": proof.not_asked, "not_seen": not_seen, "found": found})
    };
    let refused = refused.iter().map(|Refused { flow, why }| json!({"flow": flow, "keeps": false, "refused": why}));
    proofs.iter().map(proof).chain(refused).collect()
}

/// The calls of a world, each with its number among those of its kind.
fn counted(calls: &[(String, String)]) -> Vec<PlannedCall> {
    let mut made: BTreeMap<&(String, String), usize> = BTreeMap::new();
    let planned = calls.iter().map(|named| {
        let nth = made.entry(named).or_default();
        *nth += 1;
        PlannedCall { function: named.0.clone(), call: named.1.clone(), nth: *nth }
    });
    planned.collect()
}

/// A world for each fault of each of these calls.
fn with_faults(maker: &Maker<'_>, base: &SmallWorld, calls: &[PlannedCall]) -> Vec<SmallWorld> {
    let of_call = |call| FAULTS.map(|fault| maker.with_fault(base, call, fault));
    calls.iter().flat_map(of_call).collect()
}

/// The effects that call somebody.
fn outward(flow: &Flow) -> impl Iterator<Item = &Effect> {
    flow.effects.iter().filter(|effect| effect.integration().is_some())
}
