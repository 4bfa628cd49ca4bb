//! Whatever is around the flows in a rehearsal: partners by a scenario, and contacts by a file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use shared::flows::{File, Flows, read_yaml};
use sim::KnownContact;

use super::rehearsal::RehearsalWorld;
use crate::contacts::rows::{ImportFile, RowDefaults};
use crate::scenarios::folder;
use crate::scenarios::play::known;

/// What partners answer, and who is known.
#[derive(Debug, Default, Args)]
pub(crate) struct WorldArgs {
    /// What partners answer: a YAML file with a list for each integration.
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    answers: Option<PathBuf>,
    /// What partners answer and keep, and who is known: a file of scenarios.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "answers"])]
    scenario: Option<PathBuf>,
    /// With --scenario: the scenario whose sentence has this in it, where the file has several.
    #[arg(long, value_name = "TEXT", requires = "scenario")]
    only: Option<String>,
    /// Who is known when the export begins: a file as `contacts import` reads it.
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    contacts: Option<PathBuf>,
    /// With --contacts: the tenant of rows that name none.
    #[arg(long, requires = "contacts")]
    tenant: Option<String>,
}

impl WorldArgs {
    pub(super) fn read(&self, flows: &Flows) -> Result<RehearsalWorld> {
        let mut world = match (&self.answers, &self.scenario) {
            (Some(path), _) => RehearsalWorld { partners: answers(path)?, ..RehearsalWorld::default() },
            (None, Some(path)) => scenario(path, self.only.as_deref())?,
            (None, None) => RehearsalWorld::default(),
        };
        if let Some(path) = &self.contacts {
            world.contacts.extend(contacts(path, self.tenant.clone())?);
        }
        let unknown = world.partners.keys().chain(world.keeps.keys()).find(|name| flows.integration(name).is_none());
        match unknown {
            Some(name) => bail!("what partners answer names `{name}`, and there is no such integration"),
            None => Ok(world),
        }
    }
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn answers<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let file = File { path: path.display().to_string(), text: text(path)? };
    read_yaml(&file).map_err(|problem| anyhow::anyhow!("{problem}"))
}

/// The partners and the contacts of one scenario of a file.
fn scenario(path: &Path, only: Option<&str>) -> Result<RehearsalWorld> {
    let read = folder::of_text(&path.display().to_string(), text(path)?, path);
    let read = read.map_err(|unread| anyhow::anyhow!("{}", unread.1))?;
    let wanted = read.written.scenarios.iter().filter(|scenario| only.is_none_or(|text| scenario.it.contains(text)));
    let [scenario] = wanted.collect::<Vec<_>>()[..] else {
        let all: Vec<String> = read.written.scenarios.iter().map(|scenario| format!("\n  {}", scenario.it)).collect();
        bail!("say with --only which scenario of {} it is, by its sentence:{}", path.display(), all.concat());
    };
    Ok(RehearsalWorld {
        partners: scenario.partners.clone(),
        keeps: scenario.keeps.clone(),
        contacts: read.written.contacts.iter().chain(&scenario.contacts).map(known).collect(),
    })
}

/// The contacts of a file. Of what a rehearsal knows at its beginning, no row needs a moment.
fn contacts(path: &Path, tenant: Option<String>) -> Result<Vec<KnownContact>> {
    let defaults = RowDefaults { tenant, at: Some("0".into()) };
    let file = ImportFile::parse(path, &text(path)?, &defaults)?;
    if let Some((line, why)) = file.rejected.first() {
        bail!("line {line} of {} cannot be read: {why}", path.display());
    }
    let known = |row: Value| {
        let named = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let fields = row["fields"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        KnownContact { tenant: named("tenant"), email: named("email"), fields }
    };
    Ok(file.rows.into_iter().map(known).collect())
}
