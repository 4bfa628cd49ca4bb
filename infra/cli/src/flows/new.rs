//! `ledgerline flows new`

mod first_event;
mod guess;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use shared::flows::catalog::Shelf;
use shared::flows::{File, Flows, Problem, Source, Takes};
use sim::FlowsVersion;

use self::first_event::FirstEvent;
use self::guess::{FlowGuess, last_name};
use super::FlowsFolderArgs;
use super::check::{CHANGE_ME, unfilled};
use crate::scenarios::folder;
use crate::scenarios::observed::{self, with_expectation, yaml};
use crate::scenarios::play::play;
use crate::{CommandExit, flows_folder, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows new order-paid --source shopify --type orders/paid --sample order.json --partner klaviyo.create_event

Writes flows/<name>.yaml with a schema that is made from the sample, the source and the partner's integration where they
are not there yet, and tests/<name>.yaml with a first scenario, which holds. Then read each line: the key, the order and
what is sent are guesses.";

/// How long a new flow remembers a key, unless its sender repeats for longer.
const TTL: Duration = Duration::from_secs(72 * 3600);

/// What a new source may send at most, unless the catalogue says so of its sender.
const MAX_BODY: &str = "256KiB";

/// Make a flow and its first scenario from a sample event, for a partner of the catalogue.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The flow's name.
    name: String,
    /// The source: one of sources.yaml, or a sender of the catalogue, as typeform.
    #[arg(long)]
    source: String,
    /// The event's type. Without it, what the sample says where its sender has it.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// The file with an event, as its sender sends it.
    #[arg(long, value_name = "FILE")]
    sample: PathBuf,
    /// The call of a partner, as twilio.send_message.
    #[arg(long, value_name = "PARTNER.CALL")]
    partner: String,
    #[command(flatten)]
    common: FlowsFolderArgs,
}

impl NewArgs {
    pub(crate) fn run(self) -> Result<CommandExit> {
        let folder = flows_folder::find(self.common.folder.clone())?;
        let path = folder.join(format!("flows/{}.yaml", self.name));
        let tests = folder.join(format!("{}/{}.yaml", folder::FOLDER, self.name));
        if let Some(there) = [&path, &tests].into_iter().find(|path| path.exists()) {
            bail!("nothing was written: {} is there already", there.display());
        }
        let text =
            std::fs::read_to_string(&self.sample).with_context(|| format!("cannot read {}", self.sample.display()))?;
        let sample = self.read(&text)?;
        let files = self.made(&folder, &sample)?;
        let flows = match Flows::parse(&without_open_key(&files)) {
            Ok(flows) => flows,
            Err(problems) => {
                output::print_problems(&problems, &files);
                bail!("nothing was written: the flow that was made has mistakes");
            }
        };
        let to_fill = unfilled::of(&files);
        let scenario = self.scenario(&sample, &flows, !to_fill.is_empty())?;
        for inner in ["flows", folder::FOLDER] {
            let inner = folder.join(inner);
            std::fs::create_dir_all(&inner).with_context(|| format!("cannot make {}", inner.display()))?;
        }
        for file in files.iter().filter(|file| ["sources.yaml", "integrations.yaml"].contains(&file.path.as_str())) {
            write(&folder.join(&file.path), &file.text)?;
        }
        write(&path, &files.last().context("the flow was made")?.text)?;
        write(&tests, &scenario)?;
        output::print_text(&self.next_steps(&to_fill, &folder))?;
        Ok(CommandExit::Success)
    }

    /// What the author has to do now.
    fn next_steps(&self, to_fill: &[Problem], folder: &Path) -> String {
        let folder = match &self.common.folder {
            Some(_) => format!(" {}", folder.display()),
            None => String::new(),
        };
        let places: String = to_fill
            .iter()
            .map(|Problem { file, place, .. }| format!("  {file}:{}:{}\n", place.line, place.column))
            .collect();
        let first = match places.is_empty() {
            true => String::new(),
            false => {
                format!("Fill in first what still is {CHANGE_ME}; until then, ledgerline flows check fails:\n{places}")
            }
        };
        format!(
            "{first}Read each line: the key, the order and what is sent are guesses. Then: ledgerline flows test{folder}\n"
        )
    }

    /// The sample: JSON, or a form, whose fields are the event's.
    fn read(&self, text: &str) -> Result<Value> {
        let form = || form_of(text.trim());
        let read = serde_json::from_str(text).ok().or_else(form);
        read.with_context(|| format!("{} is neither JSON nor a form", self.sample.display()))
    }

    /// The files of the folder, and at last the new flow.
    fn made(&self, folder: &Path, sample: &Value) -> Result<Vec<File>> {
        let mut files = self.there(folder)?;
        let (partner, call) = self.partner.split_once('.').context("--partner names a call, as twilio.send_message")?;
        self.add_source(&mut files)?;
        let is_ours = parsed(&files, Shelf::Partners.user()).get(partner).is_some();
        let is_known = folder.join(Shelf::Partners.path(partner)).is_file();
        let shipped = crate::catalog::shipped(Shelf::Partners);
        if !is_ours && !is_known && !shipped.iter().any(|(name, _)| *name == partner) {
            let names: Vec<&str> = shipped.iter().map(|(name, _)| *name).collect();
            bail!("--partner {}: the catalogue has no partner `{partner}`: it has {}", self.partner, names.join(", "));
        }
        add_partner(&mut files, partner);
        let flows = Flows::parse(&files).map_err(|problems| {
            output::print_problems(&problems, &files);
            anyhow::anyhow!("nothing was written: the files that are there have mistakes")
        })?;
        let source = flows.source(&self.source).context("the source was added")?;
        let event = FirstEvent::of(source, sample)?;
        let said = source.type_of(&event.body).map(str::to_owned);
        if let (Some(said), Some(asked)) =
            (&said, self.event_type.as_ref().filter(|asked| Some(*asked) != said.as_ref()))
        {
            bail!(
                "nothing was written: --type is `{asked}`, and the sample is of the type `{said}`: no `{asked}` would come of it"
            );
        }
        let event_type = self.event_type.clone().or(said);
        let event_type = event_type.context("the sample does not say which type it is: add --type")?;
        let with = self.with(&files, partner, call, &event)?;
        let guess = FlowGuess::of(source, &event, &event_type);
        let text = self.flow(source, &event, (&event_type, &guess), &with);
        files.push(File { path: format!("flows/{}.yaml", self.name), text });
        Ok(files)
    }

    /// The files of the folder. One that is empty, and that the command names, gets its first.
    fn there(&self, folder: &Path) -> Result<Vec<File>> {
        let is_empty = folder.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        if self.common.folder.is_none() || !is_empty {
            return flows_folder::read(folder);
        }
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        Ok(vec![file("sources.yaml", "# Who sends events.\n"), file("integrations.yaml", "# Whom flows call.\n")])
    }

    /// Adds the source, as the catalogue knows its sender.
    fn add_source(&self, files: &mut Vec<File>) -> Result<()> {
        let name = &self.source;
        if parsed(files, "sources.yaml").get(name).is_some() {
            return Ok(());
        }
        append(files, "sources.yaml", &format!("\n{name}:\n  uses: {name}\n"));
        *files = crate::catalog::complete(std::mem::take(files));
        let path = Shelf::Sources.path(name);
        if !files.iter().any(|file| file.path == path) {
            let known: Vec<&str> = crate::catalog::shipped(Shelf::Sources).iter().map(|(name, _)| *name).collect();
            bail!(
                "sources.yaml has no source `{name}`, and the catalogue no sender of this name: it has {}",
                known.join(", ")
            );
        }
        let known = parsed(files, &path);
        let max_body = if known["max_body"].is_null() { format!("  max_body: {MAX_BODY}\n") } else { String::new() };
        let rate = if known["rate"].is_null() { "  rate: {limit: 50/s, burst: 200}\n" } else { "" };
        append(files, "sources.yaml", &format!("{max_body}{rate}"));
        Ok(())
    }

    /// What the call is given: of what it needs, the event's field whose name is nearest.
    fn with(&self, files: &[File], partner: &str, call: &str, event: &FirstEvent) -> Result<Value> {
        let integrations = parsed(files, "integrations.yaml");
        let uses = integrations[partner]["uses"].as_str().unwrap_or(partner).to_owned();
        let known = parsed(files, &format!("catalog/partners/{uses}.yaml"));
        let own = &integrations[partner]["calls"][call];
        let found = if own.is_null() { &known["calls"][call] } else { own };
        let takes = found["takes"].as_object();
        let takes = takes.with_context(|| {
            let calls = [&known["calls"], &integrations[partner]["calls"]].into_iter().filter_map(Value::as_object);
            let calls: Vec<&str> = calls.flat_map(Map::keys).map(String::as_str).collect();
            let nearest = calls.iter().find(|name| name.starts_with(call) || call.starts_with(*name));
            let meant = nearest.map(|name| format!("did you mean {partner}.{name}? ")).unwrap_or_default();
            format!("--partner {}: `{partner}` has no call `{call}`: {meant}It has {}", self.partner, calls.join(", "))
        })?;
        let required = json!(Takes::Required);
        let fields = event.leaves();
        let with = takes.iter().filter(|(_, takes)| **takes == required).map(|(name, _)| {
            let wanted = name.to_ascii_lowercase();
            let names = if wanted == "to" { vec!["phone", "email"] } else { vec![wanted.as_str()] };
            let ends = |name: &str| fields.iter().find(|field| last_name(field).eq_ignore_ascii_case(name));
            let near = names.into_iter().find_map(ends);
            let value = near.map_or(CHANGE_ME.to_owned(), |field| format!("{{{{ event{} }}}}", in_template(field)));
            (name.clone(), Value::from(value))
        });
        Ok(Value::Object(with.collect()))
    }

    fn flow(
        &self,
        source: &Source,
        event: &FirstEvent,
        (event_type, guess): (&str, &FlowGuess),
        with: &Value,
    ) -> String {
        let ttl = source.retries.map_or(TTL, |retries| TTL.max(retries.within + Duration::from_secs(24 * 3600)));
        let mut text = format!(
            "# yaml-language-server: $schema=../schema/flow.json\nname: {}\nversion: 1\non: {}\nschema:\n",
            self.name,
            format_args!("{{source: {}, type: {}}}", self.source, scalar(event_type))
        );
        yaml(&event.schema(), 2, &mut text);
        let key: Vec<String> = guess.key.iter().map(|field| scalar(field)).collect();
        text += &format!("# {}\nkey: {{version: 1, fields: [{}]}}\n", guess.about_key, key.join(", "));
        text += &format!(
            "order_by: {} # events that agree in this are processed in order\nttl: {}h\neffects:\n",
            scalar(&guess.order_by),
            ttl.as_secs() / 3600
        );
        let effect = json!([{"call": self.partner, "id": self.partner.split('.').next(), "with": with}]);
        yaml(&effect, 2, &mut text);
        text + "retry: {strategy: exponential, base: 2s, max_delay: 60s, max_attempts: 5}\n"
    }

    /// The first scenario, with what is seen as what is expected: of calls with something to fill in, how many there are.
    fn scenario(&self, sample: &Value, flows: &Flows, to_fill: bool) -> Result<String> {
        let mut text = format!("# yaml-language-server: $schema=../schema/scenarios.json\nflow: {}\n", self.name);
        yaml(&json!({ "event": sample }), 0, &mut text);
        text += "scenarios:\n  - it: does what it should, once\n    given:\n      - deliver: {}\n      - deliver: {}\n";
        let read = folder::of_text("tests", text.clone(), Path::new("tests"));
        let read = read.map_err(|unread| anyhow::anyhow!("the scenario that was made has a mistake: {}", unread.1))?;
        let scenario = &read.written.scenarios[0];
        let seen = play(&FlowsVersion::of(flows.clone()), &read, scenario)?;
        let mut expectation = observed::expectation(&scenario.expect, &seen, !to_fill);
        if expectation["calls"].to_string().contains(CHANGE_ME) {
            let fields = expectation.as_object_mut().context("an expectation has fields")?;
            fields.remove("calls");
            let effect = self.partner.split('.').next().unwrap_or_default();
            fields.insert("acted".into(), json!({ effect: 1 }));
        }
        with_expectation(&text, 0, &expectation).context("the scenario that was made cannot be completed")
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    output::print_notice(&format!("wrote {}\n", path.display()));
    Ok(())
}

fn parsed(files: &[File], path: &str) -> Value {
    let file = files.iter().find(|file| file.path == path);
    file.and_then(|file| serde_saphyr::from_str(&file.text).ok()).unwrap_or_default()
}

fn append(files: &mut [File], path: &str, text: &str) {
    if let Some(file) = files.iter_mut().find(|file| file.path == path) {
        file.text = format!("{}\n{text}", file.text.trim_end());
    }
}

/// The files as they can be played before the author has said what the key is.
fn without_open_key(files: &[File]) -> Vec<File> {
    let open = format!(", {CHANGE_ME}]}}");
    files.iter().map(|File { path, text }| File { path: path.clone(), text: text.replace(&open, "]}") }).collect()
}

/// Adds the integration, as the catalogue knows its partner.
fn add_partner(files: &mut Vec<File>, partner: &str) {
    if parsed(files, "integrations.yaml").get(partner).is_some() {
        return;
    }
    append(files, "integrations.yaml", &format!("\n{partner}:\n  uses: {partner}\n"));
    *files = crate::catalog::complete(std::mem::take(files));
    let known = parsed(files, &Shelf::Partners.path(partner));
    let vars = known["vars"].as_object().into_iter().flatten();
    let wanted: Vec<String> =
        vars.filter(|(_, var)| var["required"] == true).map(|(name, _)| format!("{name}: {CHANGE_ME}")).collect();
    if !wanted.is_empty() {
        append(files, "integrations.yaml", &format!("  vars: {{{}}}\n", wanted.join(", ")));
    }
}

/// The fields of a form, if a text is one.
fn form_of(text: &str) -> Option<Value> {
    let fields: Map<String, Value> = form_urlencoded::parse(text.as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
        .collect();
    let is_form = text.contains('=') && !text.contains(['{', '\n', ' ']);
    is_form.then_some(Value::Object(fields))
}

/// A text as YAML: bare where that is plain enough.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$') && text.chars().skip(1).all(plain);
    match is_word && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str())
    {
        true => text.to_owned(),
        false => json!(text).to_string(),
    }
}

/// A field's path as a template reads it below `event`.
fn in_template(field: &str) -> String {
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let step = |step: &str| {
        let (name, item) = step.split_at(step.find('[').unwrap_or(step.len()));
        if plain(name) { format!(".{name}{item}") } else { format!("[{}]{item}", json!(name)) }
    };
    field.split('.').map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_reads_a_field_whatever_its_name() {
        assert_eq!(in_template("data.email"), ".data.email");
        assert_eq!(in_template("entry[0].event-data.id"), ".entry[0][\"event-data\"].id");
    }

    #[test]
    fn a_sample_may_be_a_form() {
        assert_eq!(form_of("Body=Hi+there&From=%2B491"), Some(json!({"Body": "Hi there", "From": "+491"})));
        assert_eq!((form_of("{\"a\": \"b=c\""), form_of("text")), (None, None));
    }
}
