//! Spans as OTLP messages.

#[cfg(feature = "aws")]
mod exporter;
#[cfg(feature = "aws")]
mod requests;
mod wire;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

#[cfg(feature = "aws")]
pub use exporter::{OtlpSpans, TracesExport, TracesTo};

use crate::operate::span::{AttributeValue, TraceSpan};
use wire::WireSpan;

/// Who spans are of.
#[derive(Clone, Debug)]
pub struct SpansOf {
    service: &'static str,
    resource: Vec<(&'static str, AttributeValue)>,
    queue: Option<String>,
}

impl SpansOf {
    /// A service of this version of the code.
    pub fn new(service: &'static str) -> Self {
        SpansOf { service, resource: Vec::new(), queue: None }
    }

    /// The same in a stack and on a machine, of which this is known. An empty text says nothing.
    #[must_use]
    pub fn on(mut self, resource: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let known = resource.into_iter().filter(|(_, text)| !text.is_empty());
        self.resource.extend(known.map(|(name, text)| (name, text.into())));
        self
    }

    /// The same with the name of the queue that its operations are on, from its URL.
    #[must_use]
    pub fn with_queue(mut self, url: &str) -> Self {
        self.queue = url.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned);
        self
    }
}

/// Spans as one request to a collector, in the types that OpenTelemetry's own project generates.
pub fn request(of: &SpansOf, spans: &[TraceSpan]) -> ExportTraceServiceRequest {
    let spans: Vec<WireSpan> = spans.iter().map(|span| WireSpan::new(span, of)).collect();
    ExportTraceServiceRequest::decode(&*wire::request(of, &spans)).expect("what we write is OTLP")
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::TracesData;
    use serde_json::json;

    use super::*;
    use crate::base::time::Timestamp;
    use crate::base::trace::{SpanId, Trace};
    use crate::operate::span::{
        EVENT, FAAS_NAME, MESSAGING_DESTINATION_NAME, MESSAGING_SYSTEM, SERVICE_NAMESPACE, SQS, SpanLink, SpanSide,
    };

    #[test]
    fn a_span_is_the_json_that_otlp_writes_it_as() {
        let trace = Trace::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").expect("a trace");
        let times = (Timestamp::from_millis(1_794_819_600_123), Timestamp::from_millis(1_794_819_600_456));
        let ids = (SpanId::new(0xabc), Some(trace.parent()));
        let mut span = TraceSpan::new(&trace, ids, "process events", SpanSide::Consumer, times)
            .with(MESSAGING_SYSTEM, SQS)
            .with(EVENT, "1b16".to_owned())
            .or_error(Some("unknown"));
        span.links = [true, false].map(|sampled| SpanLink(trace.child(SpanId::new(8)).marked(sampled))).into();
        let of = SpansOf::new("processor").with_queue("https://sqs.eu-central-1.amazonaws.com/1/shop-events.fifo");
        let of = of.on([(SERVICE_NAMESPACE, "Ledgerline/shop".to_owned()), (FAAS_NAME, String::new())]);
        let sent = json!(request(&of, &[span]));
        let resource = &sent["resourceSpans"][0]["resource"]["attributes"];
        assert_eq!(resource[2]["value"], json!({"stringValue": "Ledgerline/shop"}));
        assert_eq!(resource.as_array().map(Vec::len), Some(3), "what is not known is not told");
        let told = &sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(told["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(told["spanId"], "0000000000000abc");
        assert_eq!(told["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!(told["startTimeUnixNano"], "1794819600123000000");
        assert_eq!(told["status"], json!({"message": "unknown", "code": 2}));
        assert_eq!(told["kind"], 5);
        assert_eq!(told["links"][0]["spanId"], "0000000000000008");
        assert_eq!([&told["links"][0]["flags"], &told["links"][1]["flags"]], [1, 0]);
        let queue = json!({"key": MESSAGING_DESTINATION_NAME, "value": {"stringValue": "shop-events.fifo"}});
        assert_eq!(told["attributes"].as_array().and_then(|all| all.last()), Some(&queue));
        let data: TracesData = serde_json::from_value(sent).expect("OTLP's JSON");
        assert_eq!(data.resource_spans[0].scope_spans[0].spans.len(), 1);
    }
}
