//! Flow files that change while the local cloud runs: checked on save, and in force with the next event.
//!
//! Functions read their flows when they start. So their processes are ended, in the way that Lambda ends
//! them too, with no warning; the next event starts new ones. A bad file changes nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use shared::flows::catalog::Shelf;
use tokio::time::sleep;

use crate::cloud::CloudAddress;
use crate::flows_copy::FlowsCopy;
use crate::output::print;
use crate::processes::{self, Signal};

/// How often the folder is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The functions that read the flows.
const FUNCTIONS: [&str; 4] = ["intake", "processor", "replay", "console"];

/// Watches a folder of flows for as long as the local cloud runs.
pub async fn watch(flows: &FlowsCopy, address: &CloudAddress) -> Result<()> {
    let mut seen = newest(flows.own());
    loop {
        sleep(LOOK_EVERY).await;
        let now = newest(flows.own());
        if now == seen {
            continue;
        }
        seen = now;
        match flows.renew() {
            Ok(_) => {
                end_functions(address).await?;
                print("The flow files have changed and are good: the next event follows them.\n");
            }
            Err(error) => eprintln!(
                "The flow files have changed and have problems: the functions still follow the old ones. Correct the files \
                 and save them.\n{error}"
            ),
        }
    }
}

async fn end_functions(address: &CloudAddress) -> Result<()> {
    for name in FUNCTIONS {
        for pid in processes::of_function(address.function(name)?, &address.endpoint)? {
            // The process may have ended by itself just now.
            let _ = processes::send(Signal::Kill, pid).await;
        }
    }
    Ok(())
}

/// When each file of the folder was last written.
fn newest(flows: &Path) -> Vec<(PathBuf, Option<SystemTime>)> {
    let folders = ["", "flows"].into_iter().chain(Shelf::ALL.map(Shelf::folder)).map(|within| flows.join(within));
    let folders: Vec<PathBuf> = folders.collect();
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let yaml = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let mut files: Vec<_> = yaml.map(|path| (path.clone(), path.metadata().and_then(|m| m.modified()).ok())).collect();
    files.sort();
    files
}
