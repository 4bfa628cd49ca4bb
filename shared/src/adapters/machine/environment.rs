//! Configuration, read once and with all its errors at once.

use std::fmt;
use std::time::Duration;

use crate::operate::log::{LogLevel, LogSampling};

/// The process's environment, and the mistakes found in it so far.
#[derive(Debug, Default)]
pub struct Environment {
    wrong: Vec<String>,
}

/// The mistakes in the environment, each naming its variable.
#[derive(Debug, thiserror::Error)]
pub struct ConfigError(Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variables are wrong: {}", self.0.join("; "))
    }
}

impl Environment {
    /// A variable that must be there and not empty.
    pub fn text(&mut self, name: &str) -> String {
        let value = self.optional(name);
        if value.is_none() {
            self.wrong.push(format!("{name} is not set"));
        }
        value.unwrap_or_default()
    }

    /// A variable that may be missing or empty.
    pub fn optional(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    /// A variable that is a number of seconds.
    pub fn seconds(&mut self, name: &str) -> Duration {
        let text = self.text(name);
        let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
        if seconds.is_none() && !text.is_empty() {
            self.wrong.push(format!("{name} is `{text}`, not a number of seconds"));
        }
        Duration::from_secs(seconds.unwrap_or_default())
    }

    /// A variable that is a level of the log.
    pub fn log_level(&mut self, name: &str) -> LogLevel {
        let text = self.text(name);
        let level = LogLevel::named(&text);
        if level.is_none() && !text.is_empty() {
            self.wrong.push(format!("{name} is `{text}`, not one of error, warn, info and debug"));
        }
        level.unwrap_or(LogLevel::Info)
    }

    /// A variable that is the share of successes that are logged.
    pub fn log_sampling(&mut self, name: &str) -> LogSampling {
        let text = self.text(name);
        let sampling = text.parse().ok().and_then(LogSampling::new);
        if sampling.is_none() && !text.is_empty() {
            self.wrong.push(format!("{name} is `{text}`, not a number from 0 to 1"));
        }
        sampling.unwrap_or(LogSampling::ALL)
    }

    /// Ends the reading, with all mistakes at once.
    pub fn check(self) -> Result<(), ConfigError> {
        if self.wrong.is_empty() { Ok(()) } else { Err(ConfigError(self.wrong)) }
    }
}
