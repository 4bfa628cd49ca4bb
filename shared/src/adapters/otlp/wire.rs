//! Spans on the wire: OTLP's protobuf, written straight from our own types.
//!
//! The types that OpenTelemetry's project generates own every name and text once more, and measure each message before they
//! write it: that was a quarter of what a span cost. What is written here is read as those types by the tests, and by the
//! command. The numbers are those of `opentelemetry/proto/trace/v1/trace.proto`.

use prost::bytes::BufMut as _;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::SpansOf;
use crate::base::time::Timestamp;
use crate::operate::span::{
    AttributeValue, BUSINESS_ID, MESSAGING_DESTINATION_NAME, MESSAGING_SYSTEM, SCHEMA_URL, SERVICE_NAME,
    SERVICE_VERSION, SpanLink, SpanSide, TraceSpan,
};

/// The bytes that most spans have room in.
const USUAL: usize = 640;

/// The flag of a span that was sampled. Ours are, if they are sent.
const SAMPLED: u32 = 1;

/// The code of a status that is an error.
const ERROR: u64 = 2;

/// A span as it is sent.
pub(super) struct WireSpan {
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) bytes: Vec<u8>,
}

crate::base::masked::prints_only!(WireSpan as "WireSpan", began, ended);

impl WireSpan {
    pub(super) fn new(span: &TraceSpan, of: &SpansOf) -> Self {
        WireSpan { began: span.began, ended: span.ended, bytes: encoded(span, of.queue.as_deref()) }
    }
}

/// Spans as the body of one request to a collector.
pub(super) fn request(of: &SpansOf, spans: &[WireSpan]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = Vec::with_capacity(spans.iter().map(|span| span.bytes.len() + 4).sum::<usize>() + USUAL);
    message(&mut out, 1, |out| {
        message(out, 1, |out| {
            let service = [(SERVICE_NAME, of.service.into()), (SERVICE_VERSION, version.into())];
            service.iter().chain(&of.resource).for_each(|(name, value)| attribute(out, 1, name, value));
        });
        message(out, 2, |out| {
            message(out, 1, |out| {
                text(out, 1, "ledgerline");
                text(out, 2, version);
            });
            spans.iter().for_each(|span| bytes(out, 2, &span.bytes));
            text(out, 3, SCHEMA_URL);
        });
        text(out, 3, SCHEMA_URL);
    });
    out
}

fn encoded(span: &TraceSpan, queue: Option<&str>) -> Vec<u8> {
    let out = &mut Vec::with_capacity(USUAL);
    bytes(out, 1, &span.trace_id.to_be_bytes());
    bytes(out, 2, &span.id.number().to_be_bytes());
    if let Some(parent) = span.parent {
        bytes(out, 4, &parent.number().to_be_bytes());
    }
    text(out, 5, &span.name);
    number(out, 6, kind(span.side));
    fixed64(out, 7, nanos(span.began));
    fixed64(out, 8, nanos(span.ended));
    for (name, value) in &span.attributes {
        attribute(out, 9, name, value);
    }
    if let Some(queue) = queue.filter(|_| span.attributes.iter().any(|(name, _)| *name == MESSAGING_SYSTEM)) {
        pair(out, 9, ["", MESSAGING_DESTINATION_NAME], |out| text(out, 1, queue));
    }
    for (name, id) in &span.business {
        pair(out, 9, [BUSINESS_ID, name], |out| text(out, 1, id));
    }
    for link in &span.links {
        message(out, 13, |out| linked(out, link));
    }
    if let Some(error) = &span.error {
        message(out, 15, |out| {
            text(out, 2, error);
            number(out, 3, ERROR);
        });
    }
    fixed32(out, 16, SAMPLED);
    std::mem::take(out)
}

fn linked(out: &mut Vec<u8>, SpanLink(trace): &SpanLink) {
    bytes(out, 1, &trace.trace_id().to_be_bytes());
    bytes(out, 2, &trace.parent().number().to_be_bytes());
    if trace.is_sampled() {
        fixed32(out, 6, SAMPLED);
    }
}

fn kind(side: SpanSide) -> u64 {
    match side {
        SpanSide::Internal => 1,
        SpanSide::Server => 2,
        SpanSide::Client => 3,
        SpanSide::Producer => 4,
        SpanSide::Consumer => 5,
    }
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or_default().saturating_mul(1_000_000)
}

fn attribute(out: &mut Vec<u8>, tag: u32, name: &str, value: &AttributeValue) {
    pair(out, tag, ["", name], |out| match value {
        AttributeValue::Text(told) => text(out, 1, told),
        AttributeValue::Flag(flag) => number(out, 2, u64::from(*flag)),
        AttributeValue::Number(told) => number(out, 3, told.cast_unsigned()),
    });
}

/// A name, in two pieces, and its value.
fn pair(out: &mut Vec<u8>, tag: u32, [first, second]: [&str; 2], value: impl FnOnce(&mut Vec<u8>)) {
    message(out, tag, |out| {
        encode_key(1, WireType::LengthDelimited, out);
        encode_varint((first.len() + second.len()) as u64, out);
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(second.as_bytes());
        message(out, 2, value);
    });
}

/// A message within a message. Most have a length of one byte, and those that do not are moved on behind theirs.
fn message(out: &mut Vec<u8>, tag: u32, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(tag, WireType::LengthDelimited, out);
    let at = out.len();
    out.push(0);
    write(out);
    match out.len() - at - 1 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 128")]
        short @ ..128 => out[at] = short as u8,
        long => {
            let mut length = Vec::new();
            encode_varint(long as u64, &mut length);
            out.splice(at..=at, length);
        }
    }
}

fn text(out: &mut Vec<u8>, tag: u32, text: &str) {
    bytes(out, tag, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn number(out: &mut Vec<u8>, tag: u32, number: u64) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

fn fixed64(out: &mut Vec<u8>, tag: u32, number: u64) {
    encode_key(tag, WireType::SixtyFourBit, out);
    out.put_u64_le(number);
}

fn fixed32(out: &mut Vec<u8>, tag: u32, number: u32) {
    encode_key(tag, WireType::ThirtyTwoBit, out);
    out.put_u32_le(number);
}
