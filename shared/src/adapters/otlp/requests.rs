//! Which spans go together in one request, and which in none.

use std::time::Duration;

use crate::operate::span::{AttributeValue, BUSINESS_ID, TraceSpan};

/// The most spans of one request. They are written and signed between the steps of a live invocation, and that takes less
/// than a millisecond.
const MOST_SPANS: usize = 256;

/// The most bytes of one request, and so of one span. CloudWatch takes 5 MB, and 200 kB.
pub(super) const MOST_BYTES: usize = 128 * 1024;

/// The longest time between the first begin and the last end in one request. CloudWatch rejects a request whose spans are
/// more than a day apart: the margin is for how it measures.
const WIDEST: Duration = Duration::from_secs(23 * 3600);

/// The spans of each request, in the order in which they began.
pub(super) fn requests(mut spans: Vec<TraceSpan>) -> Vec<Vec<TraceSpan>> {
    spans.sort_by_key(|span| span.began);
    let mut requests: Vec<Request> = Vec::new();
    for span in spans {
        let bytes = weight(&span);
        match requests.last_mut().filter(|last| last.has_room(&span, bytes)) {
            Some(last) => {
                last.bytes += bytes;
                last.spans.push(span);
            }
            None => requests.push(Request { spans: vec![span], bytes }),
        }
    }
    requests.into_iter().map(|request| request.spans).collect()
}

/// A request in the making. It has at least one span.
struct Request {
    spans: Vec<TraceSpan>,
    bytes: usize,
}

impl Request {
    fn has_room(&self, span: &TraceSpan, bytes: usize) -> bool {
        let is_near = span.ended.since(self.spans[0].began) <= WIDEST;
        is_near && self.spans.len() < MOST_SPANS && self.bytes + bytes <= MOST_BYTES
    }
}

/// The bytes of a span, at most: what it has in texts, and the most that is written around each.
pub(super) fn weight(span: &TraceSpan) -> usize {
    const AROUND: usize = 24;
    let value = |value: &AttributeValue| match value {
        AttributeValue::Text(text) => text.len(),
        AttributeValue::Number(_) | AttributeValue::Flag(_) => 10,
    };
    let attributes = span.attributes.iter().map(|(name, told)| name.len() + value(told) + AROUND);
    let business = span.business.iter().map(|(name, id)| BUSINESS_ID.len() + name.len() + id.len() + AROUND);
    let error = span.error.as_ref().map_or(0, |error| error.len() + AROUND);
    let links = span.links.len() * 48;
    // Ids, times, kind and flags; and the attribute that the exporter adds.
    224 + span.name.len() + attributes.chain(business).sum::<usize>() + links + error
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::adapters::otlp::{SpansOf, request};
    use crate::base::time::Timestamp;
    use crate::base::trace::{SpanId, Trace};
    use crate::operate::span::{SpanLink, SpanSide};

    fn span(began: u64, lasted: u64, text: usize) -> TraceSpan {
        let trace = Trace::start(1, 2, 3);
        let at = |secs: u64| Timestamp::from_secs(i64::try_from(1_794_819_600 + secs).expect("a time"));
        let times = (at(began), at(began + lasted));
        TraceSpan::new(&trace, (SpanId::new(9), Some(trace.parent())), "wait", SpanSide::Internal, times)
            .with("ledgerline.said", "x".repeat(text))
    }

    fn sizes(spans: Vec<TraceSpan>) -> Vec<usize> {
        requests(spans).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_request_has_so_many_spans_and_so_many_bytes() {
        assert_eq!(sizes(Vec::new()), Vec::<usize>::new());
        assert_eq!(sizes((0..600).map(|n| span(n, 0, 10)).collect()), [256, 256, 88]);
        let large = requests((0..30).map(|n| span(n, 0, 20_000)).collect());
        assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 6, 6]);
        for spans in large {
            assert!(request(&SpansOf::new("x"), spans).encoded_len() <= MOST_BYTES + 1024);
        }
    }

    #[test]
    fn what_is_a_day_apart_goes_apart() {
        let hour = 3600;
        assert_eq!(sizes(vec![span(30 * hour, 1, 1), span(0, 1, 1), span(hour, 1, 1)]), [2, 1]);
        assert_eq!(sizes(vec![span(0, 1, 1), span(hour, 30 * hour, 1), span(2 * hour, 1, 1)]), [1, 2]);
    }

    #[test]
    fn a_span_is_no_heavier_than_its_weight() {
        for text in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
            let mut span = span(0, 1, text).with("a", u64::MAX).with("b", true).or_error(Some("e".repeat(text)));
            span.business = vec![("order".into(), "y".repeat(text)); 3];
            span.links = vec![SpanLink(Trace::start(1, 2, 3)); 10];
            let weight = weight(&span);
            let sent = request(&SpansOf::new("x"), vec![span]);
            let encoded = sent.resource_spans[0].scope_spans[0].spans[0].encoded_len();
            assert!(encoded <= weight, "{encoded} of {weight}");
        }
    }
}
