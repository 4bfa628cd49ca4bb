//! Spans in memory.

use std::sync::{Arc, Mutex};

use super::locked;
use crate::base::trace::Trace;
use crate::operate::span::{Spans, TraceSpan};

/// The spans that were exported.
#[derive(Clone, Debug, Default)]
pub struct ModelSpans(Arc<Mutex<Vec<TraceSpan>>>);

impl ModelSpans {
    /// All of them, in the order in which they ended.
    pub fn all(&self) -> Vec<TraceSpan> {
        locked(&self.0).clone()
    }
}

impl Spans for ModelSpans {
    fn share_has(&self, _: &Trace) -> Option<bool> {
        Some(true)
    }

    fn put(&self, span: TraceSpan) {
        locked(&self.0).push(span);
    }
}
