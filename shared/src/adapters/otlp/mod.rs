//! Spans as OTLP messages: the types are those that OpenTelemetry's own project generates.

#[cfg(feature = "aws")]
mod exporter;
#[cfg(feature = "aws")]
mod requests;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtlpSpan, Status};

#[cfg(feature = "aws")]
pub use exporter::{OtlpSpans, TracesExport, TracesTo};

use crate::base::time::Timestamp;
use crate::operate::span::{
    AttributeValue, BUSINESS_ID, MESSAGING_DESTINATION_NAME, MESSAGING_SYSTEM, SCHEMA_URL, SERVICE_NAME,
    SERVICE_VERSION, SpanLink, SpanSide, TraceSpan,
};

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

/// Spans as one request to a collector.
pub fn request(of: &SpansOf, spans: Vec<TraceSpan>) -> ExportTraceServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let service = [(SERVICE_NAME, of.service.into()), (SERVICE_VERSION, version.into())];
    let attributes = service.into_iter().chain(of.resource.clone()).map(attribute).collect();
    let scope =
        InstrumentationScope { name: "ledgerline".into(), version: version.into(), ..InstrumentationScope::default() };
    let message = |span| message(span, of.queue.as_deref());
    let scope_spans = ScopeSpans {
        scope: Some(scope),
        spans: spans.into_iter().map(message).collect(),
        schema_url: SCHEMA_URL.into(),
    };
    let resource_spans = ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![scope_spans],
        schema_url: SCHEMA_URL.into(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

fn message(mut span: TraceSpan, queue: Option<&str>) -> OtlpSpan {
    let queue = queue.filter(|_| span.attributes.iter().any(|(name, _)| *name == MESSAGING_SYSTEM));
    span.attributes.extend(queue.map(|name| (MESSAGING_DESTINATION_NAME, name.to_owned().into())));
    let status = span.error.map(|error| Status { message: error.into_owned(), code: StatusCode::Error.into() });
    OtlpSpan {
        trace_id: span.trace_id.to_be_bytes().to_vec(),
        span_id: span.id.number().to_be_bytes().to_vec(),
        parent_span_id: span.parent.map(|parent| parent.number().to_be_bytes().to_vec()).unwrap_or_default(),
        flags: SAMPLED,
        name: span.name.into_owned(),
        kind: kind(span.side).into(),
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.ended),
        attributes: span
            .attributes
            .into_iter()
            .map(attribute)
            .chain(span.business.into_iter().map(business_id))
            .collect(),
        links: span.links.into_iter().map(link).collect(),
        status,
        ..OtlpSpan::default()
    }
}

/// The flag of a span that was sampled. Ours are, if they are sent.
const SAMPLED: u32 = 1;

fn kind(side: SpanSide) -> SpanKind {
    match side {
        SpanSide::Internal => SpanKind::Internal,
        SpanSide::Server => SpanKind::Server,
        SpanSide::Client => SpanKind::Client,
        SpanSide::Producer => SpanKind::Producer,
        SpanSide::Consumer => SpanKind::Consumer,
    }
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or_default().saturating_mul(1_000_000)
}

fn attribute((name, value): (&'static str, AttributeValue)) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => any_value::Value::StringValue(text.into_owned()),
        AttributeValue::Number(number) => any_value::Value::IntValue(number),
        AttributeValue::Flag(flag) => any_value::Value::BoolValue(flag),
    };
    KeyValue { key: name.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn business_id((name, id): (String, String)) -> KeyValue {
    let value = Some(any_value::Value::StringValue(id));
    KeyValue { key: format!("{BUSINESS_ID}{name}"), value: Some(AnyValue { value }), ..KeyValue::default() }
}

fn link(SpanLink(trace): SpanLink) -> Link {
    Link {
        trace_id: trace.trace_id().to_be_bytes().to_vec(),
        span_id: trace.parent().number().to_be_bytes().to_vec(),
        flags: u32::from(trace.is_sampled()) * SAMPLED,
        ..Link::default()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::TracesData;
    use serde_json::json;

    use super::*;
    use crate::base::trace::{SpanId, Trace};
    use crate::operate::span::{EVENT, FAAS_NAME, SERVICE_NAMESPACE, SQS};

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
        let sent = json!(request(&of, vec![span]));
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
