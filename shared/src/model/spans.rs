//! Spans in memory.

use std::sync::{Arc, Mutex};

use super::locked;
use crate::base::trace::Trace;
use crate::operate::span::{Spans, TraceSpan};

/// The spans that were exported.
#[derive(Clone, Debug, Default)]
pub struct ModelSpans {
    put: Arc<Mutex<Vec<TraceSpan>>>,
    in_cloudwatch: bool,
}

impl ModelSpans {
    /// Spans that are exported to CloudWatch, beside X-Ray's own.
    pub fn in_cloudwatch() -> Self {
        ModelSpans { in_cloudwatch: true, ..ModelSpans::default() }
    }

    /// All of them, in the order in which they ended.
    pub fn all(&self) -> Vec<TraceSpan> {
        locked(&self.put).clone()
    }
}

impl Spans for ModelSpans {
    fn share_has(&self, _: &Trace) -> Option<bool> {
        Some(true)
    }

    fn put(&self, span: TraceSpan) {
        locked(&self.put).push(span);
    }

    fn are_in_cloudwatch(&self) -> bool {
        self.in_cloudwatch
    }
}
