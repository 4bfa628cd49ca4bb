//! `ledgerline flows schemas`

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use shared::effects::invocation;
use shared::flows::schema::schemas;

use crate::scenarios::written::ScenarioFile;
use crate::{CommandExit, flows_folder};

/// Write the JSON Schemas of flow files, for editors, and of the documents of invoked functions.
#[derive(Debug, Args)]
pub struct SchemasArgs {
    /// The flows folder. Without it, that of the project that you are in.
    folder: Option<PathBuf>,
}

impl SchemasArgs {
    pub(crate) fn run(self) -> Result<CommandExit> {
        let folder = flows_folder::find(self.folder)?.join("schema");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("the schemas were not written: cannot create the folder {}", folder.display()))?;
        for (name, text) in texts() {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("the schemas were not all written: cannot write {}", path.display()))?;
        }
        Ok(CommandExit::Success)
    }
}

/// The schema of a scenario file.
fn scenarios() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<ScenarioFile>();
    schema.insert("title".into(), "The scenarios of a flow: tests/<flow>.yaml".into());
    schema.to_value()
}

/// The text of each schema file, by its name.
pub fn texts() -> impl Iterator<Item = (&'static str, String)> {
    let documents = invocation::schemas();
    schemas()
        .into_iter()
        .chain(documents)
        .chain([("scenarios.json", scenarios())])
        .map(|(name, schema)| (name, format!("{schema:#}\n")))
}
