//! W3C trace context: one trace from the webhook to the partner's API, through queue and replay.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// A `traceparent`: the trace's id, and the parent span's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Trace {
    trace_id: u128,
    parent_id: u64,
    flags: u8,
}

/// How many seconds before an event X-Ray's id of its trace is given out, and, as clocks differ, after it.
const X_RAY_BEFORE: i64 = 900;
const X_RAY_AFTER: i64 = 60;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

impl Trace {
    /// Starts a trace from three random numbers. Zero is not a legal id, so zero becomes one.
    pub fn start(high: u64, low: u64, span: u64) -> Self {
        let trace_id = (u128::from(high) << 64) | u128::from(low);
        Self { trace_id: trace_id.max(1), parent_id: span.max(1), flags: SAMPLED }
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

    /// Reads X-Ray's header, as Lambda tells it: `Root=1-67890abc-0123456789abcdef01234567;Parent=…;Sampled=1`. Without a
    /// parent, or with a malformed one, it is `None`: no span of X-Ray's stands above.
    pub fn parse_x_ray(header: &str) -> Option<Self> {
        let part = |name: &str| header.split(';').find_map(|part| part.trim().strip_prefix(name));
        let mut root = part("Root=")?.splitn(3, '-');
        let (version, time, rest) = (root.next()?, root.next()?, root.next()?);
        let trace_id = (hex(time, 8)? << 96) | hex(rest, 24)?;
        let parent_id = u64::try_from(hex(part("Parent=")?, 16)?).ok()?;
        let flags = u8::from(part("Sampled=") == Some("1"));
        (version == "1" && trace_id != 0 && parent_id != 0).then_some(Self { trace_id, parent_id, flags })
    }

    /// The trace with another span as the parent of what comes next.
    #[must_use]
    pub fn child(&self, span: SpanId) -> Self {
        Self { parent_id: span.0, ..self.clone() }
    }

    /// The span that is the parent of what comes next.
    pub fn parent(&self) -> SpanId {
        SpanId::new(self.parent_id)
    }

    /// Whether whoever had the trace before has recorded it, or wants it recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The trace, marked as recorded or not for whoever has it next.
    #[must_use]
    pub fn marked(mut self, sampled: bool) -> Self {
        self.flags = if sampled { self.flags | SAMPLED } else { self.flags & !SAMPLED };
        self
    }

    /// The trace's id as a number.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// Whether the id is one of X-Ray's that was given out about then: its first digits are a time. Others' are random.
    pub fn is_of_x_ray(&self, then: Timestamp) -> bool {
        let given = i64::try_from(self.trace_id >> 96).unwrap_or_default();
        (then.secs() - X_RAY_BEFORE..=then.secs() + X_RAY_AFTER).contains(&given)
    }

    /// The trace's id alone, for logs and answers.
    pub fn id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }
}

/// A `tracestate`: what the systems above want to be handed on. It is no one's to read, and is neither logged nor exported.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct TraceState(String);

crate::base::masked::prints_only!(TraceState as "TraceState");

/// Our own name in a `tracestate`.
const OWN: &str = "ledgerline";

impl TraceState {
    /// The most characters that are handed on, and the most members: what the standard asks for.
    const MAX: (usize, usize) = (512, 32);

    /// Reads a header. One that breaks the standard's grammar is empty: it belongs to nobody. Of one that is too long, the
    /// members are kept that came last to it: they stand first.
    pub fn read(header: &str) -> Self {
        let members: Vec<&str> = header.split(',').map(|member| member.trim_matches([' ', '\t'])).collect();
        let members: Vec<&str> = members.into_iter().filter(|member| !member.is_empty()).collect();
        let keys: Option<Vec<&str>> = members.iter().map(|member| legal_key(member)).collect();
        let is_legal = keys.is_some_and(|mut keys| {
            let (all, most) = (keys.len(), Self::MAX.1);
            keys.sort_unstable();
            keys.dedup();
            all == keys.len() && all <= most
        });
        let mut state = String::new();
        for member in members.into_iter().filter(|_| is_legal) {
            let comma = if state.is_empty() { "" } else { "," };
            if state.len() + comma.len() + member.len() > Self::MAX.0 {
                break;
            }
            state.push_str(comma);
            state.push_str(member);
        }
        TraceState(state)
    }

    /// Whether there is nothing to hand on.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The state with a member of our own in front, in the place of an earlier one.
    #[must_use]
    pub fn with_own(&self, value: &str) -> Self {
        let others = self.0.split(',').filter(|member| member.split('=').next() != Some(OWN));
        let members = [format!("{OWN}={value}")].into_iter().chain(others.map(str::to_owned));
        Self::read(&members.collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<TraceState> for String {
    fn from(state: TraceState) -> String {
        state.0
    }
}

impl From<String> for TraceState {
    fn from(text: String) -> Self {
        TraceState::read(&text)
    }
}

/// The key of a member, if the member is legal.
fn legal_key(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    let in_key = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-*/@".contains(&c);
    let in_value = |c: u8| matches!(c, b' '..=b'~') && c != b',' && c != b'=';
    let starts = key.bytes().next().is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let legal = starts && key.len() <= 256 && key.bytes().all(in_key);
    let legal = legal && (1..=256).contains(&value.len()) && value.bytes().all(in_value) && !value.ends_with(' ');
    legal.then_some(key)
}

/// The id of a span. Zero is no legal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpanId(u64);

impl SpanId {
    /// The id that is this number. Zero becomes one.
    pub fn new(number: u64) -> Self {
        SpanId(number.max(1))
    }

    /// The id as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<SpanId> for String {
    fn from(id: SpanId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for SpanId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let number = hex(&text, 16).and_then(|number| u64::try_from(number).ok()).filter(|number| *number != 0);
        number.map(SpanId).ok_or("not a span's id")
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
        assert_eq!(trace.child(SpanId::new(2)).id(), trace.id());
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
    fn a_state_is_handed_on_as_it_came_if_it_is_legal_and_as_much_of_it_as_there_is_room_for() {
        let read = |header: &str| TraceState::read(header).to_string();
        for legal in ["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "1a-b*c/d_e@f= v!\"#~", ""] {
            assert_eq!(read(legal), legal);
        }
        assert_eq!(read(" a=1 ,\tb=2,, "), "a=1,b=2");
        for bad in ["a", "A=1", "=1", "a=", "a=1=2", "a=1,a=2", "a=\u{e4}", "a=1\n", "-a=1", "a b=1"] {
            assert_eq!(read(bad), "", "{bad}");
        }
        let many = |members: usize| (0..members).map(|n| format!("k{n}=1")).collect::<Vec<_>>().join(",");
        assert_eq!((read(&many(32)), read(&many(33))), (many(32), String::new()));
        let long = (0..10).map(|n| format!("k{n}={}", "x".repeat(100))).collect::<Vec<_>>().join(",");
        let kept = read(&long);
        assert!(kept.len() <= 512 && long.starts_with(&kept) && kept.matches("=").count() == 4, "{kept}");
        let own = TraceState::read("a=1,ledgerline=replay:1,b=2").with_own("replay:2");
        assert_eq!(own.to_string(), "ledgerline=replay:2,a=1,b=2");
        assert_eq!(TraceState::default().with_own("replay:2").to_string(), "ledgerline=replay:2");
    }

    #[test]
    fn reads_x_rays_header_and_no_other() {
        let header =
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a87bd80c:1|68fd508a:5";
        let trace = Trace::parse_x_ray(header).expect("Lambda's own example");
        assert_eq!(trace.to_string(), "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01");
        let unsampled = Trace::parse_x_ray(&header.replace("Sampled=1", "Sampled=0")).expect("the same");
        assert!(unsampled.to_string().ends_with("-00"));
        let given = 0x5759_e988;
        for (secs, is_near) in [(given, true), (given + 899, true), (given + 901, false), (given - 61, false)] {
            assert_eq!(trace.is_of_x_ray(Timestamp::from_secs(secs)), is_near, "{secs}");
        }
        for bad in [
            "",
            "Root=1-5759e988-bd862e3fe1be46a994272793",
            "Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-5759e98-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a99427279;Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=0000000000000000",
            "Parent=53995c3f42cd8ad8;Sampled=1",
        ] {
            assert_eq!(Trace::parse_x_ray(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_mark_changes_one_bit() {
        let trace = |flags: &str| Trace::parse(&HEADER.replace("-01", flags)).expect("a trace");
        assert_eq!(trace("-01").marked(false), trace("-00"));
        assert_eq!(trace("-02").marked(true).to_string(), HEADER.replace("-01", "-03"));
        assert!(trace("-03").is_sampled() && !trace("-02").is_sampled());
    }

    #[test]
    fn never_starts_an_illegal_trace() {
        assert!(Trace::parse(&Trace::start(0, 0, 0).to_string()).is_some());
    }
}
