//! Which spans go together in one request, and which in none.

use std::time::Duration;

use super::wire::WireSpan;

/// The most spans of one request. They are joined and signed between the steps of a live invocation, and that takes less
/// than a millisecond.
const MOST_SPANS: usize = 256;

/// The most bytes of one request, and so of one span. CloudWatch takes 5 MB, and 200 kB.
pub(super) const MOST_BYTES: usize = 128 * 1024;

/// The longest time between the first begin and the last end in one request. CloudWatch rejects a request whose spans are
/// more than a day apart: the margin is for how it measures.
const WIDEST: Duration = Duration::from_secs(23 * 3600);

/// The spans of each request, in the order in which they began.
pub(super) fn requests(mut spans: Vec<WireSpan>) -> Vec<Vec<WireSpan>> {
    spans.sort_by_key(|span| span.began);
    let mut requests: Vec<Request> = Vec::new();
    for span in spans {
        match requests.last_mut().filter(|last| last.has_room(&span)) {
            Some(last) => {
                last.bytes += span.bytes.len();
                last.spans.push(span);
            }
            None => requests.push(Request { bytes: span.bytes.len(), spans: vec![span] }),
        }
    }
    requests.into_iter().map(|request| request.spans).collect()
}

/// A request in the making. It has at least one span.
struct Request {
    spans: Vec<WireSpan>,
    bytes: usize,
}

impl Request {
    fn has_room(&self, span: &WireSpan) -> bool {
        let is_near = span.ended.since(self.spans[0].began) <= WIDEST;
        is_near && self.spans.len() < MOST_SPANS && self.bytes + span.bytes.len() <= MOST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::otlp::{SpansOf, wire};
    use crate::base::time::Timestamp;
    use crate::base::trace::{SpanId, Trace};
    use crate::operate::span::{SpanSide, TraceSpan};

    fn span(began: u64, lasted: u64, text: usize) -> WireSpan {
        let trace = Trace::start(1, 2, 3);
        let at = |secs: u64| Timestamp::from_secs(i64::try_from(1_794_819_600 + secs).expect("a time"));
        let times = (at(began), at(began + lasted));
        let span = TraceSpan::new(&trace, (SpanId::new(9), Some(trace.parent())), "wait", SpanSide::Internal, times)
            .with("ledgerline.said", "x".repeat(text));
        WireSpan::new(&span, &SpansOf::new("x"))
    }

    fn sizes(spans: Vec<WireSpan>) -> Vec<usize> {
        requests(spans).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_request_has_so_many_spans_and_so_many_bytes() {
        assert_eq!(sizes(Vec::new()), Vec::<usize>::new());
        assert_eq!(sizes((0..600).map(|n| span(n, 0, 10)).collect()), [256, 256, 88]);
        let large = requests((0..30).map(|n| span(n, 0, 20_000)).collect());
        assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 6, 6]);
        for spans in large {
            assert!(wire::request(&SpansOf::new("x"), &spans).len() <= MOST_BYTES + 1024);
        }
    }

    #[test]
    fn what_is_a_day_apart_goes_apart() {
        let hour = 3600;
        assert_eq!(sizes(vec![span(30 * hour, 1, 1), span(0, 1, 1), span(hour, 1, 1)]), [2, 1]);
        assert_eq!(sizes(vec![span(0, 1, 1), span(hour, 30 * hour, 1), span(2 * hour, 1, 1)]), [1, 2]);
    }
}
