//! A local cloud's folder: its lock, its logs, and the address that other processes read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::aws::Endpoint;
use crate::private_files;
use crate::project::Project;
use crate::run_credentials::RunCredentials;
use crate::template;

/// The address of a running local cloud and of all its parts. Kept in `cloud.json` while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloudAddress {
    /// The process that runs it.
    pub pid: u32,
    /// The URL of the API that senders post to.
    pub url: String,
    /// The URL of the partner stub.
    pub partners_url: String,
    /// The URL of the emulator, as `AWS_ENDPOINT_URL`.
    pub endpoint: String,
    /// The functions' names, by what follows the stack's name in each.
    pub functions: BTreeMap<String, String>,
    /// The name of the ledger's table.
    pub ledger_table: String,
    /// The name of the rate limits' table.
    pub limits_table: String,
    /// The name of the contacts' table.
    pub contacts_table: String,
    /// The URL of the queue that the intake sends to.
    pub events_queue_url: String,
    /// The URL of the queue that dead letters go to.
    pub dead_letters_queue_url: String,
    /// The folder with the sources, integrations and flows that its functions read.
    pub flows: PathBuf,
    /// The state folder, with `logs/` in it.
    pub state: PathBuf,
    /// The keys of this run.
    pub credentials: RunCredentials,
}

impl CloudAddress {
    /// The address of the local cloud that `make run` started.
    pub fn of_running() -> Result<Self> {
        let file = Project::find()?.state("run").join(ADDRESS);
        let text = fs::read(&file)
            .ok()
            .context("no local cloud runs in this project: start one with `make run` in another terminal")?;
        serde_json::from_slice(&text).with_context(|| format!(
                "the local cloud's address in {} is damaged: end the cloud with Ctrl-C in its terminal, and start it again \
                 with `make run`",
                file.display()
            ))
    }

    /// The address of the console, with the token that opens it in the part that a browser sends to nobody.
    pub fn console_url(&self) -> String {
        format!("{}/console#token={}", self.url, self.credentials.control_token)
    }

    /// The emulator, for requests that are signed with the keys of this run.
    pub fn emulator(&self) -> Endpoint {
        Endpoint::signed(self.endpoint.clone(), self.credentials.clone())
    }

    /// A function's name with the alias by which it is run.
    pub fn live(&self, short: &str) -> Result<String> {
        Ok(template::live(self.function(short)?))
    }

    /// The name that a function was deployed under.
    pub fn function(&self, short: &str) -> Result<&str> {
        let name = self.functions.get(short).map(String::as_str);
        name.with_context(|| {
            let known: Vec<_> = self.functions.keys().map(String::as_str).collect();
            format!("the local cloud has no function {short}: name one of {}", known.join(", "))
        })
    }
}

const ADDRESS: &str = "cloud.json";

/// The header that opens the controls of the partner stub, as `curl -H @file` takes it.
const CONTROL: &str = "control.header";

/// A local cloud's folder, held by a lock that ends with the process, however it ends.
#[derive(Debug)]
pub(crate) struct StateFolder {
    folder: PathBuf,
    _lock: File,
}

impl StateFolder {
    /// Locks the folder, and clears the logs and the emulator's files of the last run. The staged package and the
    /// secrets stay.
    pub(crate) fn take(project: &Project, name: &str) -> Result<Self> {
        let folder = project.state(name);
        private_files::create_folder(&folder)
            .with_context(|| format!("the local cloud cannot start: cannot create its folder {}", folder.display()))?;
        let lock = private_files::create(&folder.join("lock"))
            .context("the local cloud cannot start: cannot create the lock in its folder")?;
        lock.try_lock().ok().with_context(|| {
            format!(
                "the local cloud cannot start: another one is running in .local/{name}. Stop it first (`make stop` stops that \
                 of `make run`)"
            )
        })?;
        let state = Self { folder, _lock: lock };
        state.clear_last_run().context("the local cloud cannot start: cannot delete the files of the last run")?;
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

    /// Writes the address down, where other processes find it.
    pub(crate) fn publish(&self, address: &CloudAddress) -> Result<()> {
        let text = serde_json::to_vec_pretty(address)?;
        private_files::write(&self.folder.join(ADDRESS), text)
            .context("the local cloud cannot start: cannot write its address to cloud.json")?;
        let header = format!("Authorization: {}\n", address.credentials.control_header());
        private_files::write(&self.folder.join(CONTROL), header)
            .context("the local cloud cannot start: cannot write the header that opens its controls")
    }

    fn clear_last_run(&self) -> std::io::Result<()> {
        self.withdraw();
        for old in ["logs", "tmp"] {
            let old = self.folder.join(old);
            if old.exists() {
                fs::remove_dir_all(&old)?;
            }
            private_files::create_folder(&old)?;
        }
        Ok(())
    }

    fn withdraw(&self) {
        for name in [ADDRESS, CONTROL] {
            let _ = fs::remove_file(self.folder.join(name));
        }
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
