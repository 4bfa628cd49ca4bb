//! Structured logs on standard output, where Lambda picks them up.

use tracing_subscriber::filter::LevelFilter;

/// Logs as JSON, at the level that `RUST_LOG` names, else at `info`.
pub fn log_as_json() {
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO);
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(level)
        .with_target(false)
        .with_span_list(false)
        .init();
}
