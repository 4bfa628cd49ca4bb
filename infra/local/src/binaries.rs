//! The functions' binaries, as cargo's dev profile builds them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::process::Command;

use crate::project::Project;

/// The path of each binary of the workspace, by its name.
pub type Binaries = BTreeMap<String, PathBuf>;

/// Builds the workspace's binaries; returns their paths.
///
/// The whole workspace, not only the functions: cargo unifies the features of what it builds
/// together, and a smaller selection would compile the dependencies a second time.
pub async fn build(project: &Project) -> Result<Binaries> {
    let output = Command::new(cargo())
        .args(["build", "--workspace", "--bins", "--message-format=json-render-diagnostics"])
        .current_dir(project.root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .context("the functions were not built: cannot run cargo. Install Rust, and put cargo on PATH")?;
    if !output.status.success() {
        bail!("the functions were not built: cargo build failed. Its messages are above");
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// The cargo that started us, where one did, so that both use the same toolchain.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

fn executables(messages: &str) -> Binaries {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    parsed.filter_map(|message| Some((message.target?.name, message.executable?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_with_an_executable_name_a_binary() {
        let found = executables(concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"shared"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"intake"},"executable":"/t/debug/intake"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        ));
        assert_eq!(found, Binaries::from([("intake".into(), PathBuf::from("/t/debug/intake"))]));
    }
}
