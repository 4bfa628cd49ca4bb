//! Configuration, read once and with all its errors at once.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "aws")]
use crate::adapters::otlp::{SpansOf, TracesExport, TracesTo};
use crate::base::sample_rate::SampleRate;
use crate::operate::log::{LogLevel, LogSampling};
#[cfg(feature = "aws")]
use crate::operate::span;

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
        LogSampling::new(self.share(name))
    }

    /// A variable that is a share.
    pub fn share(&mut self, name: &str) -> SampleRate {
        let text = self.text(name);
        let share = text.parse().ok().and_then(SampleRate::new);
        if share.is_none() && !text.is_empty() {
            self.wrong.push(format!("{name} is `{text}`, not a number from 0 to 1"));
        }
        share.unwrap_or(SampleRate::ALL)
    }

    /// Where the spans of a function are exported to, of how many traces and as whose, if they are at all.
    #[cfg(feature = "aws")]
    pub fn traces(&mut self, service: &'static str) -> Option<TracesExport> {
        let text = self.optional("TRACES_ENDPOINT")?;
        let to = TracesTo::named(&text);
        if to.is_none() {
            let told = "TRACES_ENDPOINT is neither cloudwatch nor a collector's URL: https, or http on this machine";
            self.wrong.push(told.into());
        }
        let (share, of) = (self.share("TRACES_SAMPLE_RATE"), self.spans_of(service));
        Some(TracesExport { to: to?, share, of, every: TracesExport::EVERY })
    }

    /// Who the spans of a function are of, as Lambda and the template tell it.
    #[cfg(feature = "aws")]
    fn spans_of(&self, service: &'static str) -> SpansOf {
        let known = |name: &str| self.optional(name).unwrap_or_default();
        let on = [
            (span::SERVICE_NAMESPACE, known("METRICS_NAMESPACE")),
            (span::CLOUD_PROVIDER, "aws".to_owned()),
            (span::CLOUD_PLATFORM, "aws_lambda".to_owned()),
            (span::CLOUD_REGION, known("AWS_REGION")),
            (span::FAAS_NAME, known("AWS_LAMBDA_FUNCTION_NAME")),
            (span::FAAS_VERSION, known("AWS_LAMBDA_FUNCTION_VERSION")),
        ];
        SpansOf::new(service).on(on).with_queue(&known("EVENTS_QUEUE_URL"))
    }

    /// Ends the reading, with all mistakes at once.
    pub fn check(self) -> Result<(), ConfigError> {
        if self.wrong.is_empty() { Ok(()) } else { Err(ConfigError(self.wrong)) }
    }
}
