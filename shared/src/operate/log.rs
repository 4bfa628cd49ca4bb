//! Logs: what is logged in a unit of work, and how much of it.
//!
//! A container works on messages of several flows at once, on one thread. So what a line needs to know of its unit is set
//! for as long as the unit's future is polled, and no longer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;

use crate::base::id::EventId;
use crate::base::sample_rate::SampleRate;
use crate::base::trace::Trace;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what is wrong.
    Error,
    /// Also what may become wrong.
    Warn,
    /// Also one line for each unit of work.
    Info,
    /// Also each step of it.
    Debug,
}

impl LogLevel {
    /// The level's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }

    /// The level of this name.
    pub fn named(name: &str) -> Option<Self> {
        [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug]
            .into_iter()
            .find(|level| level.as_str() == name)
    }

    /// The lines that the level lets through.
    pub const fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// What a line of the log, or a span, takes from its unit of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogScope {
    /// The id of the request, as Lambda tells it.
    pub request_id: Option<Arc<str>>,
    /// The trace of the invocation, as Lambda tells it: X-Ray's.
    pub invocation: Option<Trace>,
    /// How much is logged here, where that differs from the container's own level.
    pub level: Option<LogLevel>,
}

impl LogScope {
    /// The scope of one invocation: its request's id, and Lambda's trace header.
    pub fn of_invocation(id: &str, trace: Option<&str>) -> Self {
        LogScope { request_id: Some(id.into()), invocation: trace.and_then(Trace::parse_x_ray), level: None }
    }
}

thread_local! {
    static SCOPE: RefCell<LogScope> = RefCell::default();
}

/// Reads the scope that is in force.
pub fn scope<T>(read: impl FnOnce(&LogScope) -> T) -> T {
    SCOPE.with_borrow(read)
}

/// Does a unit of work within a scope. What the scope leaves open, the one around it says.
pub async fn within<T>(scope: LogScope, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _entered = Entered::new(&scope);
        work.as_mut().poll(context)
    })
    .await
}

/// A scope while it is in force. It ends with a panic, too.
struct Entered(LogScope);

impl Entered {
    fn new(scope: &LogScope) -> Self {
        let within = |around: &LogScope| LogScope {
            request_id: scope.request_id.clone().or_else(|| around.request_id.clone()),
            invocation: scope.invocation.clone().or_else(|| around.invocation.clone()),
            level: scope.level.or(around.level),
        };
        Entered(SCOPE.with_borrow_mut(|around| {
            let inner = within(around);
            std::mem::replace(around, inner)
        }))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        SCOPE.set(std::mem::take(&mut self.0));
    }
}

/// Which successes are logged: a share of the events, the same ones in every container. Failures always are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogSampling(SampleRate);

impl LogSampling {
    /// Every success is logged.
    pub const ALL: LogSampling = LogSampling(SampleRate::ALL);

    /// This share of the successes is logged.
    pub fn new(share: SampleRate) -> Self {
        LogSampling(share)
    }

    /// Whether a success of this event is logged. A flow whose level an operator has changed is looked at: all of it is.
    pub fn keeps(self, event: &EventId) -> bool {
        scope(|scope| scope.level.is_some()) || self.takes(event)
    }

    fn takes(self, event: &EventId) -> bool {
        // Ids are hashes: their first digits are as good as drawn. What is no id of ours is logged.
        let drawn = event.as_str().get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        drawn.is_none_or(|drawn| self.0.takes(drawn))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join;

    use super::*;

    #[test]
    fn a_scope_is_in_force_while_its_own_work_is_polled() {
        let level = |level| LogScope { level: Some(level), ..LogScope::default() };
        let seen = || scope(Clone::clone);
        let turn = || futures::future::ready(()).then(|()| async move { seen() });
        let both = within(
            LogScope::of_invocation("r1", None),
            join(within(level(LogLevel::Debug), turn()), within(level(LogLevel::Warn), turn())),
        );
        let (one, other) = both.now_or_never().expect("nothing waits");
        assert_eq!((one.level, one.request_id.as_deref()), (Some(LogLevel::Debug), Some("r1")));
        assert_eq!((other.level, other.request_id.as_deref()), (Some(LogLevel::Warn), Some("r1")));
        assert_eq!(seen(), LogScope::default(), "and no longer");
    }

    #[test]
    fn a_scope_ends_with_a_panic() {
        let scoped =
            within(LogScope { level: Some(LogLevel::Debug), ..LogScope::default() }, async { panic!("on purpose") });
        assert!(
            std::panic::AssertUnwindSafe(scoped)
                .catch_unwind()
                .now_or_never()
                .is_some_and(|ended: Result<(), _>| ended.is_err())
        );
        assert_eq!(scope(Clone::clone), LogScope::default());
    }

    #[test]
    fn the_same_share_of_events_is_taken_everywhere() {
        let event = |n: u32| EventId::named(format!("{:08x}rest", n.wrapping_mul(2_654_435_761)));
        let sampling = |share| LogSampling::new(SampleRate::new(share).expect("a share"));
        let (tenth, none) = (sampling(0.1), sampling(0.0));
        let taken = (0..10_000).filter(|n| tenth.takes(&event(*n))).count();
        assert!((900..1100).contains(&taken), "{taken}");
        assert!((0..100).all(|n| tenth.takes(&event(n)) == tenth.takes(&event(n))));
        assert!((0..1000).all(|n| LogSampling::ALL.takes(&event(n)) && !none.takes(&event(n + 1))));
        assert!(none.takes(&EventId::named("(malformed)")));
        assert_eq!([1.1, -0.1, f64::NAN].map(SampleRate::new), [None; 3]);
    }
}
