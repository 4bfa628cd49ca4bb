//! What happened in a run, to be read and to be compared.

use std::fmt;
use std::time::Duration;

use crate::faults::Fault;

/// Who did something: a container, or something outside of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Intake(usize),
    Processor(usize),
    Replay(usize),
    Sender(usize),
    Operator(usize),
    Cloud,
}

impl Who {
    /// The function that a container runs, or nothing for whoever is outside.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Who::Intake(_) => "intake",
            Who::Processor(_) => "processor",
            Who::Replay(_) => "replay",
            Who::Sender(_) | Who::Operator(_) | Who::Cloud => "",
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Intake(number) => write!(f, "intake-{number}"),
            Who::Processor(number) => write!(f, "processor-{number}"),
            Who::Replay(number) => write!(f, "replay-{number}"),
            Who::Sender(number) => write!(f, "sender-{number}"),
            Who::Operator(number) => write!(f, "operator-{number}"),
            Who::Cloud => write!(f, "cloud"),
        }
    }
}

/// The lines of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline(Vec<TimelineEntry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct TimelineEntry {
    at: Duration,
    who: Who,
    call: &'static str,
    about: String,
    outcome: String,
    fault: Option<Fault>,
}

impl Timeline {
    pub(crate) fn push(
        &mut self,
        at: Duration,
        who: Who,
        call: &'static str,
        about: &str,
        outcome: &str,
        fault: Option<Fault>,
    ) {
        let (about, outcome) = (about.to_owned(), outcome.to_owned());
        self.0.push(TimelineEntry { at, who, call, about, outcome, fault });
    }

    /// A number that two runs share only if all their lines are the same (FNV-1a).
    pub fn hash(&self) -> u64 {
        let text = self.to_string();
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TimelineEntry { at, who, call, about, outcome, fault } in &self.0 {
            let at = format!("{}.{:03}", at.as_secs(), at.subsec_millis());
            write!(f, "{at:>10}s  {who:<12} {call:<18} {about:<24} {outcome}", who = who.to_string())?;
            match fault {
                Some(fault) => writeln!(f, "   ✗ {fault}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
