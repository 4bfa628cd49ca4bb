//! Packages for Node, at fixed versions, from lock files: the compiler of the sample in TypeScript, and senders' libraries.
//!
//! Node itself is the machine's own. Only functions in TypeScript and some tests need it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::command::{run_logged, run_shown};
use crate::project::Project;
use crate::tools::fingerprint;

/// The oldest Node that the samples run on.
const NODE: u32 = 20;

/// The packages of a lock file after they were installed.
#[derive(Clone, Debug)]
pub struct NodeTools {
    modules: PathBuf,
}

impl NodeTools {
    /// Installs the compiler, or nothing where the last set-up had the same lock file.
    pub async fn set_up(project: &Project) -> Result<Self> {
        Self::install(&project.typescript_sample(), &project.state("node")).await
    }

    /// Installs the packages of a lock file into a folder, or nothing where the last set-up had the same one.
    pub async fn install(locked: &Path, folder: &Path) -> Result<Self> {
        check_node().await?;
        let (stamp, wanted) = (folder.join("installed"), fingerprint(&locked.join("package-lock.json"))?);
        let tools = Self { modules: folder.join("node_modules") };
        if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(tools);
        }
        std::fs::create_dir_all(folder)
            .with_context(|| format!("Node's packages were not installed: cannot create {}", folder.display()))?;
        for name in ["package.json", "package-lock.json", ".npmrc"] {
            std::fs::copy(locked.join(name), folder.join(name))
                .with_context(|| format!("Node's packages were not installed: cannot copy {name}"))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
        run_logged(&mut npm, &folder.join("npm.log")).await.context(
            "Node's packages were not installed: npm cannot download them. The first start needs a network, and \
             npm's registry or the one that npm is configured with: check the network and the proxy, then run the same \
             command again",
        )?;
        // Written last: a set-up that was cut short starts over.
        std::fs::write(&stamp, wanted).context("Node's packages are installed, and cannot be recorded as such")?;
        Ok(tools)
    }

    /// Checks and compiles the TypeScript of a folder with a `tsconfig.json` into another folder.
    pub async fn compile(&self, folder: &Path, into: &Path) -> Result<()> {
        // What a local cloud keeps is its owner's alone.
        let mut tsc = Command::new("sh");
        tsc.args(["-c", r#"umask 077; exec node "$@""#, "tsc"]).arg(self.modules.join("typescript/bin/tsc"));
        tsc.arg("--project").arg(folder).arg("--outDir").arg(into);
        tsc.arg("--typeRoots").arg(self.modules.join("@types"));
        run_shown(&mut tsc).await.with_context(|| format!("the TypeScript in {} has mistakes", folder.display()))
    }
}

async fn check_node() -> Result<()> {
    let check = format!("process.exit(parseInt(process.versions.node) < {NODE} ? 1 : 0)");
    let mut node = Command::new("node");
    match node.args(["-e", &check]).stdin(Stdio::null()).status().await {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => bail!("functions in TypeScript cannot run: node is older than {NODE}. Install Node {NODE} or newer"),
        Err(_) => bail!("functions in TypeScript cannot run: there is no node on PATH. Install Node {NODE} or newer"),
    }
}
