//! The ports on the machine that a function runs on, and the configuration that a `main.rs` reads.

mod folder;

#[cfg(feature = "aws")]
mod chance;
#[cfg(feature = "aws")]
mod clock;
#[cfg(feature = "aws")]
mod environment;
#[cfg(feature = "aws")]
mod logs;
#[cfg(feature = "aws")]
mod metrics;

pub use folder::{FlowsError, read_catalog, read_files, read_flows};

#[cfg(feature = "aws")]
pub use chance::SystemChance;
#[cfg(feature = "aws")]
pub use clock::SystemClock;
#[cfg(feature = "aws")]
pub use environment::{ConfigError, Environment};
#[cfg(feature = "aws")]
pub use logs::{json_log, log_as_json};
#[cfg(feature = "aws")]
pub use metrics::EmfMetrics;
