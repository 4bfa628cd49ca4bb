//! Confirmation by the operator before a change that cannot be taken back.

use std::io::{BufRead, IsTerminal};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::output;

/// The option that replaces the confirmation.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do it without asking. Where there is no terminal to ask on, the command changes nothing without --yes.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl ConfirmArgs {
    /// Whether the operator wants it: by `--yes`, or by the answer on the terminal.
    pub(crate) fn confirm(self, question: &str) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            bail!(
                "nothing was changed: this command asks before it changes anything, and there is no terminal to ask \
                 on. Add --yes to do it without asking"
            );
        }
        output::print_notice(&format!("{question} [y/N] "));
        let mut answer = String::new();
        std::io::stdin()
            .lock()
            .read_line(&mut answer)
            .context("nothing was changed: your answer could not be read from the terminal")?;
        let agreed = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        if !agreed {
            output::print_notice("You did not answer y: nothing was changed.\n");
        }
        Ok(agreed)
    }
}
