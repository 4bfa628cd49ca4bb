//! Where things are in the source tree.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The source tree that the local cloud runs from.
#[derive(Clone, Debug)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project that the working directory is in: the nearest folder above with a template.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context("the working directory is gone")?;
        let Some(root) = here.ancestors().find(|dir| dir.join("infra/template.yaml").is_file()) else {
            bail!("no infra/template.yaml here or above: run this inside the project's folder");
        };
        Ok(Self::at(root))
    }

    /// The project in this folder.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The folder with the workspace's `Cargo.toml`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The one description of the system.
    pub fn template(&self) -> PathBuf {
        self.root.join("infra/template.yaml")
    }

    /// Sources, integrations and flows.
    pub fn flows(&self) -> PathBuf {
        self.root.join("infra/flows")
    }

    /// Those of a chaos run: one partner for each guarantee.
    pub fn chaos_flows(&self) -> PathBuf {
        self.root.join("infra/local/chaos")
    }

    /// This crate's folder, where the tools are pinned.
    pub fn pins(&self) -> PathBuf {
        self.root.join("infra/local")
    }

    /// The project's own Python environment.
    pub fn venv(&self, name: &str) -> PathBuf {
        self.root.join(".local").join(name)
    }

    /// The folder that one local cloud keeps everything in.
    pub fn state(&self, name: &str) -> PathBuf {
        self.root.join(".local").join(name)
    }
}
