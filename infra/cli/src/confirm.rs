//! Asking before something is done that cannot be taken back.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Result, bail};
use clap::Args;

/// Do it without asking.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask before it is done. Without a terminal to ask on, nothing is done unless you say so.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl ConfirmArgs {
    /// Whether it shall be done.
    pub(crate) fn confirm(self, question: &str) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            bail!("nothing was changed: there is no terminal to ask on. Say --yes if you mean it");
        }
        anstream::eprint!("{question} [y/N] ");
        std::io::stderr().flush()?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        let agreed = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        if !agreed {
            anstream::eprintln!("Nothing was changed.");
        }
        Ok(agreed)
    }
}
