//! Completion scripts for shells.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::{CommandExit, OperatorCli};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline completions bash > ~/.local/share/bash-completion/completions/ledgerline
  ledgerline completions zsh  > \"${fpath[1]}/_ledgerline\"
  ledgerline completions fish > ~/.config/fish/completions/ledgerline.fish";

pub(crate) fn print(shell: Shell) -> Result<CommandExit> {
    clap_complete::generate(shell, &mut OperatorCli::command(), "ledgerline", &mut std::io::stdout());
    Ok(CommandExit::Success)
}
