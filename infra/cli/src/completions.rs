//! `ledgerline completions`: completion scripts for shells.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::output;
use crate::{CommandExit, OperatorCli};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline completions bash > ~/.local/share/bash-completion/completions/ledgerline
  ledgerline completions zsh  > \"${fpath[1]}/_ledgerline\"
  ledgerline completions fish > ~/.config/fish/completions/ledgerline.fish";

/// Prints the script. It is made in memory first: clap's generator panics where its reader is gone.
pub(crate) fn print(shell: Shell) -> Result<CommandExit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut OperatorCli::command(), "ledgerline", &mut script);
    output::print_text(&String::from_utf8_lossy(&script))?;
    Ok(CommandExit::Success)
}
