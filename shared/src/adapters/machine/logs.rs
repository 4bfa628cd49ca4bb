//! Structured logs on standard output, where Lambda picks them up: one line of JSON each.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::SystemClock;
use crate::base::machine::Clock as _;
use crate::operate::log::{LogLevel, scope};

/// Logs as JSON, at this level. A unit of work may have another one.
pub fn log_as_json(level: LogLevel) {
    json_log(level, std::io::stdout).init();
}

/// The log, written there.
pub fn json_log(
    level: LogLevel,
    to: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    let lines = tracing_subscriber::fmt::layer().event_format(JsonLine).with_writer(to);
    tracing_subscriber::registry().with(Levels(level)).with(lines)
}

/// Which lines are written. Of libraries, what the container's level says; of our own code, what the unit of work says.
struct Levels(LogLevel);

/// The crates of our own.
const OURS: [&str; 4] = ["intake", "processor", "replay", "shared"];

fn is_ours(metadata: &Metadata<'_>) -> bool {
    OURS.contains(&metadata.target().split("::").next().unwrap_or_default())
}

impl<S: Subscriber> Layer<S> for Levels {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata {
            // Nothing reads them, and they would cost something with each call.
            spans if spans.is_span() => Interest::never(),
            ours if is_ours(ours) => Interest::sometimes(),
            others if *others.level() <= self.0.filter() => Interest::always(),
            _ => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let here = scope(|scope| scope.level).filter(|_| is_ours(metadata)).unwrap_or(self.0);
        !metadata.is_span() && *metadata.level() <= here.filter()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

/// One line: when, how bad, what, the fields, and the request.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = format!(r#"{{"timestamp":"{}","level":"{}""#, SystemClock.now(), event.metadata().level());
        event.record(&mut Fields(&mut line));
        if let Some(id) = scope(|scope| scope.request_id.clone()) {
            let _ = write!(line, r#","request_id":{}"#, quoted(&id));
        }
        line.push_str("}\n");
        writer.write_str(&line)
    }
}

/// Writes each field as JSON.
struct Fields<'l>(&'l mut String);

/// The field that is JSON already: the business ids of an event.
const IDS: &str = "ids";

impl Fields<'_> {
    fn raw(&mut self, field: &Field, json: impl fmt::Display) {
        let _ = write!(self.0, r#","{}":{json}"#, field.name());
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.record_str(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            IDS if serde_json::from_str::<serde_json::Value>(value).is_ok() => self.raw(field, value),
            _ => self.raw(field, quoted(value)),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.raw(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.raw(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.raw(field, value);
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use futures::FutureExt as _;
    use serde_json::{Value, json};
    use tracing::{debug, info, warn};

    use super::*;
    use crate::operate::log::{LogScope, within};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written at this level.
    fn written(level: LogLevel, log: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        tracing::subscriber::with_default(json_log(level, move || writer.clone()), log);
        let text = String::from_utf8(lines.0.lock().expect("not poisoned").clone()).expect("text");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    #[test]
    fn a_line_is_json_with_its_request_and_its_business_ids() {
        let scope = LogScope::of_invocation("r-1", None);
        let ids = json!({"order": "7\"8"}).to_string();
        let lines = written(LogLevel::Info, || {
            let log = async { info!(event = "e1", attempt = 2, fate = ?Some(1), ids, "it was \"processed\"") };
            within(scope, log).now_or_never().expect("nothing waits");
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let told = json!({"level": "INFO", "message": "it was \"processed\"", "event": "e1", "attempt": 2,
            "fate": "Some(1)", "ids": {"order": "7\"8"}, "request_id": "r-1", "timestamp": line["timestamp"]});
        assert_eq!(*line, told);
    }

    #[test]
    fn a_unit_of_work_has_a_level_of_its_own() {
        let scoped = |level| LogScope { level: Some(level), ..LogScope::default() };
        let log = || async {
            debug!("a step");
            info!("a unit");
            warn!("a warning");
        };
        let all = |level, scope: Option<LogScope>| {
            written(level, || match scope {
                Some(scope) => within(scope, log()).now_or_never().expect("nothing waits"),
                None => log().now_or_never().expect("nothing waits"),
            })
            .len()
        };
        assert_eq!(all(LogLevel::Info, None), 2);
        assert_eq!(all(LogLevel::Info, Some(scoped(LogLevel::Debug))), 3);
        assert_eq!(all(LogLevel::Info, Some(scoped(LogLevel::Warn))), 1);
        assert_eq!(all(LogLevel::Error, None), 0);
    }

    #[test]
    fn libraries_keep_to_the_container() {
        let scope = LogScope { level: Some(LogLevel::Debug), ..LogScope::default() };
        let lines = written(LogLevel::Info, || {
            let log = async { debug!(target: "aws_smithy_runtime::client", "a secret detail") };
            within(scope, log).now_or_never().expect("nothing waits");
        });
        assert_eq!(lines, Vec::<Value>::new());
    }
}
