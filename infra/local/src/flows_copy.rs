//! The copy of a flows folder that the functions of a local cloud read.
//!
//! It is whole: a partner that the folder uses and does not have itself comes from the shipped catalogue, as
//! `ledgerline flows check` takes it. And it is good: files that are saved with a mistake in them are not copied, so that
//! a function that starts meanwhile follows the last good ones.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use shared::adapters::machine::read_flows;
use shared::flows::Flows;
use shared::flows::catalog::{self, Shelf};

use crate::private_files;
use crate::project::Project;

/// A folder of flows, and the copy of it that functions read.
#[derive(Clone, Debug)]
pub struct FlowsCopy {
    /// The folder that people write.
    own: PathBuf,
    /// The folder that functions read.
    running: PathBuf,
    /// The folder whose catalogue completes it.
    shipped: PathBuf,
}

impl FlowsCopy {
    /// The copy of a folder of flows, in a state folder of the project.
    pub fn make(project: &Project, own: &Path, state: &Path) -> Result<Self> {
        // The functions run in other folders.
        let own = own.canonicalize().with_context(|| {
            format!("the local cloud cannot start: cannot find the flows folder {}. Check --flows", own.display())
        })?;
        let copy = FlowsCopy { own, running: state.join("flows"), shipped: project.flows() };
        copy.renew()?;
        Ok(copy)
    }

    /// The folder that people write.
    pub fn own(&self) -> &Path {
        &self.own
    }

    /// The folder that functions read.
    pub fn running(&self) -> &Path {
        &self.running
    }

    /// Copies the folder again, unless there is a mistake in it. Returns the flows.
    pub fn renew(&self) -> Result<Flows> {
        let next = self.running.with_extension("next");
        copy(&self.own, &next)?;
        complete(&next, &self.shipped)?;
        let flows = read_flows(&next)?;
        remove(&self.running)?;
        std::fs::rename(&next, &self.running)?;
        Ok(flows)
    }
}

/// Makes a folder that has the flows and the integrations of another folder, too.
pub fn merge(flows: &Path, more: &Path, into: &Path) -> Result<()> {
    copy(flows, into)?;
    copy_files(&more.join("flows"), &into.join("flows"))?;
    let integrations = |folder: &Path| std::fs::read_to_string(folder.join("integrations.yaml"));
    private_files::write(&into.join("integrations.yaml"), integrations(flows)? + &integrations(more)?)?;
    Ok(())
}

/// Adds what a folder uses of the catalogue and does not have, as far as the shipped catalogue has it.
fn complete(folder: &Path, shipped: &Path) -> Result<()> {
    for shelf in Shelf::ALL {
        let users = std::fs::read_to_string(folder.join(shelf.user())).unwrap_or_default();
        for path in catalog::used(&users).iter().map(|name| shelf.path(name)) {
            if !folder.join(&path).is_file() && shipped.join(&path).is_file() {
                private_files::create_folder(&folder.join(shelf.folder()))?;
                private_files::copy(&shipped.join(&path), &folder.join(&path))?;
            }
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    for within in ["", "flows"].into_iter().chain(Shelf::ALL.map(Shelf::folder)) {
        if from.join(within).is_dir() {
            copy_files(&from.join(within), &to.join(within))?;
        }
    }
    Ok(())
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    private_files::create_folder(to)?;
    for entry in std::fs::read_dir(from)?.flatten().filter(|entry| entry.path().is_file()) {
        private_files::copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ledgerline-{name}-{}", std::process::id()));
            remove(&folder).expect("a scratch folder");
            private_files::create_folder(&folder.join("own/flows")).expect("a scratch folder");
            let scratch = Scratch(folder);
            let files = [("sources.yaml", SOURCES), ("integrations.yaml", USES), ("flows/paid.yaml", FLOW)];
            files.iter().for_each(|(path, text)| scratch.write(path, text));
            scratch
        }

        fn write(&self, path: &str, text: &str) {
            private_files::write(&self.0.join("own").join(path), text).expect("a file");
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const SOURCES: &str = "shop: {scheme: shopify, max_body: 64KiB, rate: 10/s, type_at: type}";
    const USES: &str = "sms: {uses: twilio, vars: {account_sid: AC1}}";
    const FLOW: &str = r#"
name: paid
version: 1
on: {source: shop, type: paid}
schema: {type: object, required: [id, phone], properties: {id: {type: string}, phone: {type: string}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 24h
effects: [{id: sms, call: sms.send_message, with: {To: "{{ event.phone }}", From: "1", Body: Thanks}}]
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 4}
"#;

    fn project() -> Project {
        Project::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
    }

    #[test]
    fn a_folder_without_a_catalogue_gets_the_partners_that_it_uses_and_no_others() {
        let scratch = Scratch::new("whole");
        let copy = FlowsCopy::make(&project(), &scratch.0.join("own"), &scratch.0).expect("good flows");
        let partners = std::fs::read_dir(copy.running().join(Shelf::Partners.folder())).expect("a catalogue");
        let partners: Vec<_> = partners.flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(partners, ["twilio.yaml"]);
        assert!(read_flows(copy.running()).expect("good flows").flow("paid").is_some());
        assert!(!copy.own().join("catalog").exists(), "the folder of its owner stays as it is");
    }

    #[test]
    fn a_mistake_is_told_and_not_copied() {
        let scratch = Scratch::new("mistake");
        let copy = FlowsCopy::make(&project(), &scratch.0.join("own"), &scratch.0).expect("good flows");
        scratch.write("flows/paid.yaml", &FLOW.replace("phone }}", "fone }}"));
        let told = copy.renew().expect_err("a mistake").to_string();
        assert!(told.contains("fone"), "{told}");
        assert!(read_flows(copy.running()).is_ok(), "the last good files are followed");
    }
}
