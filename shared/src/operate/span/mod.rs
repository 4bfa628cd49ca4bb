//! Spans, for whoever looks at traces: what was done for a request or an event, by whom and for how long.
//!
//! Names and attributes are those of OpenTelemetry's semantic conventions, in the version that [`SCHEMA_URL`] names; what
//! they do not know begins with `ledgerline.`. Nothing that people wrote is in a span: ids, names of the flow's own, and
//! numbers.

mod lost;
mod names;
mod rebuilt;
mod sent;

use std::borrow::Cow;

pub use opentelemetry_semantic_conventions::SCHEMA_URL;

use crate::base::time::Timestamp;
use crate::base::trace::{SpanId, Trace};
use crate::ledger::timeline::SpanEnd;

pub use lost::export_lost;
pub use names::*;
pub use rebuilt::{of_timeline, rebuilt};
pub use sent::{export_sent, link_to};

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpan {
    /// The trace's id.
    pub trace_id: u128,
    /// The span's id.
    pub id: SpanId,
    /// The span that it belongs to, if there is one.
    pub parent: Option<SpanId>,
    /// The span's name. There are few of them.
    pub name: Cow<'static, str>,
    /// On which side of a call or a queue it was.
    pub side: SpanSide,
    /// The moment when it began.
    pub began: Timestamp,
    /// The moment when it ended.
    pub ended: Timestamp,
    /// What is known of it.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// The event's business ids, as its flow lets the logs tell them.
    pub business: Vec<(String, String)>,
    /// The spans of other traces that it has to do with.
    pub links: Vec<SpanLink>,
    /// What went wrong, if something did.
    pub error: Option<Cow<'static, str>>,
}

/// On which side of a call or a queue a span was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanSide {
    /// On none: it is our own.
    Internal,
    /// It answered a request.
    Server,
    /// It sent a request, and waited for the answer.
    Client,
    /// It sent a message.
    Producer,
    /// It took a message.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        AttributeValue::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        AttributeValue::Text(Cow::Owned(text))
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        AttributeValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        AttributeValue::Flag(flag)
    }
}

/// A span of another trace: the one that the trace names as its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanLink(pub Trace);

impl TraceSpan {
    /// A span in which nothing went wrong, and of which nothing else is known yet.
    pub fn new(
        trace: &Trace,
        (id, parent): (SpanId, Option<SpanId>),
        name: impl Into<Cow<'static, str>>,
        side: SpanSide,
        (began, ended): (Timestamp, Timestamp),
    ) -> Self {
        let (name, ended) = (name.into(), ended.max(began));
        let attributes = Vec::with_capacity(12);
        let (business, links, trace_id) = (Vec::new(), Vec::new(), trace.trace_id());
        TraceSpan { trace_id, id, parent, name, side, began, ended, attributes, business, links, error: None }
    }

    /// The span with one more attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<AttributeValue>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// Whether nobody knows how it ended.
    pub fn is_unknown(&self) -> bool {
        self.attributes.iter().any(|(name, value)| *name == END && *value == SpanEnd::Unknown.as_str().into())
    }

    /// The span with what went wrong in it, if something did.
    #[must_use]
    pub fn or_error(mut self, error: Option<impl Into<Cow<'static, str>>>) -> Self {
        self.error = error.map(Into::into);
        self
    }
}

/// The exporter of spans. It never waits and never fails.
pub trait Spans: Send + Sync {
    /// Whether a trace is among those that are exported, whoever began it. `None` where nothing is exported.
    fn share_has(&self, trace: &Trace) -> Option<bool>;

    /// Takes a span, to be sent later.
    fn put(&self, span: TraceSpan);

    /// Whether they are exported to CloudWatch, where the console shows them.
    fn are_in_cloudwatch(&self) -> bool {
        false
    }

    /// The span of Lambda's own that is the parent of what comes next. Only X-Ray has it, and only if it records the trace:
    /// anywhere else it would be a parent that nobody finds.
    fn parent_of_lambda(&self, lambdas: &Trace) -> Option<SpanId> {
        (self.are_in_cloudwatch() && lambdas.is_sampled()).then(|| lambdas.parent())
    }

    /// Whether spans of this trace are exported: it is in the share, and whoever had it before wants it recorded. Who would
    /// make a span asks first.
    fn takes(&self, trace: &Trace) -> bool {
        trace.is_sampled() && self.share_has(trace) == Some(true)
    }

    /// The trace of a sender as whoever has it next is told it: as recorded, if it is exported. Where nothing is exported, it
    /// is handed on as it came.
    fn marks(&self, trace: Trace) -> Trace {
        match self.share_has(&trace) {
            None => trace,
            Some(in_share) => {
                let sampled = trace.is_sampled();
                trace.marked(sampled && in_share)
            }
        }
    }

    /// The same for a trace of which no sender has decided: one that starts here, or that Lambda began for itself. X-Ray
    /// records few, and that is not what is asked here.
    fn marks_own(&self, trace: Trace) -> Trace {
        match self.share_has(&trace) {
            None => trace,
            Some(in_share) => trace.marked(in_share),
        }
    }
}

/// Where there is no exporter, nothing is exported.
impl<S: Spans> Spans for Option<S> {
    fn share_has(&self, trace: &Trace) -> Option<bool> {
        self.as_ref().and_then(|spans| spans.share_has(trace))
    }

    fn are_in_cloudwatch(&self) -> bool {
        self.as_ref().is_some_and(Spans::are_in_cloudwatch)
    }

    fn put(&self, span: TraceSpan) {
        if let Some(spans) = self {
            spans.put(span);
        }
    }
}
