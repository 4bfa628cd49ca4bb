//! A cloud's folder, and what it tells other processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::project::Project;

/// Where everything of a running cloud is. Kept in `cloud.json` while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloudAddress {
    /// The process that runs it.
    pub pid: u32,
    /// The front door.
    pub url: String,
    /// The partner stub.
    pub partners_url: String,
    /// The emulator, as `AWS_ENDPOINT_URL`.
    pub endpoint: String,
    /// The functions' names, by what follows the stack's name in each.
    pub functions: BTreeMap<String, String>,
    /// The ledger's table.
    pub ledger_table: String,
    /// The rate limits' table.
    pub limits_table: String,
    /// The contacts' table.
    pub contacts_table: String,
    /// The queue that intake sends to.
    pub events_queue_url: String,
    /// The queue that dead letters go to.
    pub dead_letters_queue_url: String,
    /// Its state folder, with `logs/` in it.
    pub state: PathBuf,
}

impl CloudAddress {
    /// The cloud that `make run` has up.
    pub fn of_running() -> Result<Self> {
        let file = Project::find()?.state("run").join(ADDRESS);
        let text = fs::read(&file).ok().context("no local cloud is up: start one with `make run`")?;
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))
    }

    /// The name that a function was deployed under.
    pub fn function(&self, short: &str) -> Result<&str> {
        let name = self.functions.get(short).map(String::as_str);
        name.with_context(|| {
            let known: Vec<_> = self.functions.keys().map(String::as_str).collect();
            format!("there is no function {short}: there are {}", known.join(", "))
        })
    }
}

const ADDRESS: &str = "cloud.json";

/// A cloud's folder, held by a lock that ends with the process, however it ends.
#[derive(Debug)]
pub(crate) struct StateFolder {
    folder: PathBuf,
    _lock: File,
}

impl StateFolder {
    /// Hold the folder. Logs and the emulator's files are of one run; what was staged and the
    /// secrets stay.
    pub(crate) fn take(project: &Project, name: &str) -> Result<Self> {
        let folder = project.state(name);
        fs::create_dir_all(folder.join("logs")).with_context(|| format!("cannot create {}", folder.display()))?;
        let lock = File::create(folder.join("lock")).context("cannot create the lock")?;
        lock.try_lock().ok().with_context(|| {
            format!("another local cloud holds .local/{name}: end it first (`make stop` ends the one of `make run`)")
        })?;
        let state = Self { folder, _lock: lock };
        state.forget_last_run().context("cannot clear what the last run left")?;
        Ok(state)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs().join(name)
    }

    /// Let other processes find the cloud.
    pub(crate) fn publish(&self, address: &CloudAddress) -> Result<()> {
        let text = serde_json::to_vec_pretty(address)?;
        fs::write(self.folder.join(ADDRESS), text).context("cannot write cloud.json")
    }

    fn forget_last_run(&self) -> std::io::Result<()> {
        self.withdraw();
        for old in ["logs", "tmp"] {
            let old = self.folder.join(old);
            if old.exists() {
                fs::remove_dir_all(&old)?;
            }
            fs::create_dir_all(&old)?;
        }
        Ok(())
    }

    fn withdraw(&self) {
        let _ = fs::remove_file(self.folder.join(ADDRESS));
    }
}

impl Drop for StateFolder {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_serves_one_cloud_at_a_time() {
        let root = std::env::temp_dir().join(format!("ledgerline-state-{}", std::process::id()));
        let project = Project::at(&root);

        let first = StateFolder::take(&project, "run").expect("nobody holds it");
        let refused = StateFolder::take(&project, "run").expect_err("somebody holds it");
        drop(first);
        let again = StateFolder::take(&project, "run");
        fs::remove_dir_all(root).expect("the folder");

        assert!(refused.to_string().contains(".local/run"), "{refused}");
        assert!(again.is_ok());
    }
}
