//! W3C trace context: one trace from the webhook to the partner's API, through queue and replay.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A `traceparent`: the trace's id, and the parent span's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Trace {
    trace_id: u128,
    parent_id: u64,
    flags: u8,
}

impl Trace {
    /// Starts a trace from three random numbers. Zero is not a legal id, so zero becomes one.
    pub fn start(high: u64, low: u64, span: u64) -> Self {
        let trace_id = (u128::from(high) << 64) | u128::from(low);
        Self { trace_id: trace_id.max(1), parent_id: span.max(1), flags: 1 }
    }

    /// Reads a `traceparent` header. A malformed one is `None`: the trace then starts here.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let parent_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
        let whole = version != 0xff && (version != 0 || parts.next().is_none());
        (whole && trace_id != 0 && parent_id != 0).then_some(Self { trace_id, parent_id, flags })
    }

    /// The trace with another span as the parent of what comes next.
    #[must_use]
    pub fn child(&self, span: u64) -> Self {
        Self { parent_id: span.max(1), ..self.clone() }
    }

    /// The trace's id alone, for logs and answers.
    pub fn id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }
}

/// Reads exactly `len` lower-case hex digits, as the standard wants them.
fn hex(digits: &str, len: usize) -> Option<u128> {
    let legal = digits.len() == len && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    legal.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}

impl From<Trace> for String {
    fn from(trace: Trace) -> String {
        trace.to_string()
    }
}

impl TryFrom<String> for Trace {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Trace::parse(&text).ok_or("not a traceparent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn reads_what_it_writes() {
        let trace = Trace::parse(HEADER).expect("the standard's own example");
        assert_eq!(trace.to_string(), HEADER);
        assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.child(2).id(), trace.id());
    }

    #[test]
    fn refuses_what_the_standard_refuses() {
        for bad in [
            "",
            "00-0-0-0",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn never_starts_an_illegal_trace() {
        assert!(Trace::parse(&Trace::start(0, 0, 0).to_string()).is_some());
    }
}
