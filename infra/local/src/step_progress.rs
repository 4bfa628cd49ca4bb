//! The steps of a start: a spinner while a step runs, and a line with its time when it is done.

use std::future::Future;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// Prints the progress of steps on standard error.
#[derive(Clone, Copy, Debug)]
pub struct StepProgress {
    shows: Shows,
}

/// What of a step is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Nothing,
    Lines,
    Spinner,
}

impl Default for StepProgress {
    fn default() -> Self {
        Self { shows: if std::io::stderr().is_terminal() { Shows::Spinner } else { Shows::Lines } }
    }
}

impl StepProgress {
    /// Prints nothing, for what is a part of another step.
    pub const SILENT: StepProgress = StepProgress { shows: Shows::Nothing };

    /// Runs one step behind a spinner.
    pub async fn step<T>(&self, name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let spinner = (self.shows == Shows::Spinner).then(|| spinner(name));
        let started = Instant::now();
        let outcome = work.await;
        if let Some(spinner) = spinner {
            spinner.finish_and_clear();
        }
        self.finish(name, started.elapsed(), outcome)
    }

    /// Runs one step that prints its own output: no spinner may draw over it.
    pub async fn loud_step<T>(&self, name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        if self.shows != Shows::Nothing {
            eprintln!("· {name} …");
        }
        let started = Instant::now();
        let outcome = work.await;
        self.finish(name, started.elapsed(), outcome)
    }

    fn finish<T>(self, name: &str, took: Duration, outcome: Result<T>) -> Result<T> {
        if self.shows != Shows::Nothing {
            let mark = if outcome.is_ok() { '✓' } else { '✗' };
            eprintln!("{mark} {name:<28} {:>6.1} s", took.as_secs_f64());
        }
        outcome.with_context(|| format!("the step \"{name}\" failed"))
    }
}

fn spinner(name: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{spinner} {msg}  {elapsed}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner().with_style(style).with_message(name.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
