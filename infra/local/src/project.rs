//! The places of files in the source tree.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The source tree that the local cloud runs from.
#[derive(Clone, Debug)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project around the working directory: the nearest folder with a template, here or above.
    pub fn find() -> Result<Self> {
        let here =
            std::env::current_dir().context("cannot read the working directory: change into the project's folder")?;
        let Some(root) = here.ancestors().find(|dir| dir.join("infra/template.yaml").is_file()) else {
            bail!(
                "no folder here or above has an infra/template.yaml: change into the project's folder, and run it there"
            );
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

    /// The template: the one description of the system.
    pub fn template(&self) -> PathBuf {
        self.root.join("infra/template.yaml")
    }

    /// The script that asks CloudFormation about stacks, and adopts what an earlier one left.
    pub fn stack_script(&self) -> PathBuf {
        self.root.join("infra/deploy/stack.py")
    }

    /// The script that asks a stack whether the platform does what we lean on.
    pub fn verify_script(&self) -> PathBuf {
        self.root.join("infra/deploy/verify.py")
    }

    /// The folder in which `sam build` leaves the functions.
    pub fn build(&self) -> PathBuf {
        self.root.join(".aws-sam/build")
    }

    /// The folder with sources, integrations and flows.
    pub fn flows(&self) -> PathBuf {
        self.root.join("infra/flows")
    }

    /// The flows of a chaos run: one partner for each guarantee.
    pub fn chaos_flows(&self) -> PathBuf {
        self.root.join("infra/local/chaos")
    }

    /// The flow and the partner that `make night` has beside those of a chaos run.
    pub fn night_flows(&self) -> PathBuf {
        self.root.join("infra/local/night")
    }

    /// The flows and integrations that the tests have beside the shipped ones.
    pub fn test_flows(&self) -> PathBuf {
        self.root.join("tests/cloud")
    }

    /// The template of the team's own functions: the samples.
    pub fn team_functions(&self) -> PathBuf {
        self.root.join("infra/samples/template.yaml")
    }

    /// The sample in TypeScript, whose lock file names the compiler.
    pub fn typescript_sample(&self) -> PathBuf {
        self.root.join("infra/samples/invoke-typescript")
    }

    /// The findings of checkov that are meant.
    pub fn explained_findings(&self) -> PathBuf {
        self.root.join("infra/checkov.yaml")
    }

    /// The permissions of the roles that no call to the emulator shows.
    pub fn unshown_permissions(&self) -> PathBuf {
        self.root.join("infra/local/permissions.yaml")
    }

    /// The folder with the lists of required Python packages.
    pub fn requirements(&self) -> PathBuf {
        self.root.join("infra/local")
    }

    /// The folder of a Python environment of the project's own.
    pub fn venv(&self, name: &str) -> PathBuf {
        self.root.join(".local").join(name)
    }

    /// The folder that one local cloud keeps all its files in.
    pub fn state(&self, name: &str) -> PathBuf {
        self.root.join(".local").join(name)
    }
}
