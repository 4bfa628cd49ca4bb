//! What was seen against what is expected, each difference with its place in the file.

use std::collections::BTreeSet;

use serde_json::Value;
use shared::base::suggest::suggest;
use shared::base::time::Timestamp;
use shared::flows::{File, Problem};
use shared::ledger::Row;
use sim::stage::{DeliveryAnswer, MadeCall};

use super::observed::{call_line, state_of};
use super::play::Observed;
use super::written::{
    Expectation, ExpectedAnswer, ExpectedCall, ExpectedEnd, WrittenFault, WrittenScenario, WrittenSpan,
};

/// A difference between what is expected and what was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The place in the scenario file, as a JSON pointer.
    pub at: String,
    /// What is about.
    pub what: String,
    /// What is expected.
    pub expected: String,
    /// What was seen.
    pub seen: String,
    /// The lines of both, where a list differs.
    pub lines: Vec<String>,
}

impl Difference {
    /// A difference that its sentence says alone.
    pub fn plain(at: String, what: String) -> Self {
        Difference { at, what, expected: String::new(), seen: String::new(), lines: Vec::new() }
    }

    /// The difference as a problem of its file.
    pub fn problem(&self, file: &File) -> Problem {
        let Difference { at, what, expected, seen, .. } = self;
        let told = match (expected.is_empty(), seen.is_empty()) {
            (true, true) => what.clone(),
            _ => format!("{what}: expected {expected}, and saw {seen}"),
        };
        Problem::at(file, at, &told)
    }
}

/// The differences of a scenario, which is the one of this number in its file.
pub fn differences(scenario: usize, written: &WrittenScenario, seen: &Observed) -> Vec<Difference> {
    let expectation = &written.expect;
    let at = format!("/scenarios/{scenario}");
    let mut found = Differences { at: at.clone(), found: Vec::new() };
    for (step, why) in &seen.declined {
        found.plain(format!("{at}/given/{step}"), why.clone());
    }
    for integration in &seen.unused {
        found.plain(
            format!("{at}/partners/{integration}"),
            format!("nobody asked `{integration}` for all of these answers"),
        );
    }
    for (place, made) in &seen.not_struck {
        found.plain(format!("{at}/faults/{place}"), not_struck(&written.faults[*place], *made, seen));
    }
    for ((integration, effect), times) in &seen.unanswered {
        if !leaves_in_doubt(expectation, effect) {
            found.plain(at.clone(), unanswered(integration, effect, *times));
        }
    }
    if expectation.says_nothing() {
        let what = "the scenario expects nothing: say what it should, or let `flows test --update` write what is seen";
        found.plain(at.clone(), what.into());
    }
    if !seen.rests {
        found.plain(at.clone(), "it does not come to rest within 40 days".into());
    }
    found.at = format!("{at}/expect");
    found.answers(expectation, seen);
    found.calls(expectation, seen);
    found.acted(expectation, seen);
    found.ends(expectation, seen);
    found.found
}

/// Whether a scenario means to leave the lookup of an effect without an answer: it says how a doubt ends, or how often the
/// effect is really done, whatever its partner tells of it.
fn leaves_in_doubt(expectation: &Expectation, effect: &str) -> bool {
    let in_doubt = |end: &ExpectedEnd| end.reason.as_deref() == Some("unknown_outcome");
    let is_counted = expectation.acted.as_ref().is_some_and(|acted| acted.contains_key(effect));
    is_counted || expectation.ends.iter().flatten().any(in_doubt)
}

/// A fault at a call that was not made, or not so often.
fn not_struck(WrittenFault { at, nth, .. }: &WrittenFault, made: usize, seen: &Observed) -> String {
    let calls: BTreeSet<String> = seen.port_calls.iter().map(|(function, call)| format!("{function} {call}")).collect();
    let hint = match made {
        0 => suggest(at, calls.iter().map(String::as_str)),
        _ => format!("it was made {made} times, and the fault is for the {}th", nth.unwrap_or(1)),
    };
    format!("the fault at `{at}` never struck: {hint}")
}

/// What to write where a lookup has no answer.
fn unanswered(integration: &str, effect: &str, times: usize) -> String {
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!(
        "the lookup of {integration} was asked {times} and the scenario has no answer for it: what its `found` looks for, \
         only you know. Write `partners: {{{integration}: [{{lookup: true, effect: {effect}, always: true, body: {{…}}}}]}}`, \
         with a body in which `found` finds the call"
    )
}

struct Differences {
    at: String,
    found: Vec<Difference>,
}

impl Differences {
    fn plain(&mut self, at: String, what: String) {
        self.with_lines(at, what, Vec::new());
    }

    fn with_lines(&mut self, at: String, what: String, lines: Vec<String>) {
        self.found.push(Difference { at, what, expected: String::new(), seen: String::new(), lines });
    }

    fn differ(&mut self, at: String, what: String, expected: impl ToString, seen: impl ToString) {
        let (expected, seen) = (expected.to_string(), seen.to_string());
        self.found.push(Difference { at, what, expected, seen, lines: Vec::new() });
    }

    fn answers(&mut self, expectation: &Expectation, seen: &Observed) {
        let Some(expected) = &expectation.answers else { return };
        let at = format!("{}/answers", self.at);
        if expected.len() != seen.answers.len() {
            let statuses: Vec<u16> = seen.answers.iter().map(|answer| answer.status).collect();
            self.differ(
                at.clone(),
                "the number of answers".into(),
                expected.len(),
                format!("{} ({statuses:?})", seen.answers.len()),
            );
        }
        for (number, (expected, seen)) in expected.iter().zip(&seen.answers).enumerate() {
            self.answer(&format!("{at}/{number}"), &format!("answer {}", number + 1), expected, seen);
        }
    }

    fn answer(&mut self, at: &str, what: &str, expected: &ExpectedAnswer, seen: &DeliveryAnswer) {
        if expected.status != seen.status {
            let problem = seen.problem().map(|problem| format!(" ({problem})")).unwrap_or_default();
            return self.differ(at.to_owned(), what.to_owned(), expected.status, format!("{}{problem}", seen.status));
        }
        if let Some(problem) = expected.problem.as_deref().filter(|problem| seen.problem() != Some(problem)) {
            self.differ(format!("{at}/problem"), what.to_owned(), problem, seen.problem().unwrap_or("no problem"));
        }
        let replayed = seen.headers.get("idempotent-replayed").is_some_and(|value| value == "true");
        if let Some(expected) = expected.replayed.filter(|expected| *expected != replayed) {
            self.differ(format!("{at}/replayed"), format!("{what}: whether it was known"), expected, replayed);
        }
        if let Some(body) = &expected.body {
            self.part(&format!("{at}/body"), &format!("{what}, body"), body, &seen.body);
        }
        for (name, value) in &expected.headers {
            let found = seen.headers.get(&name.to_ascii_lowercase());
            if found != Some(value) {
                let found = found.map_or("none", String::as_str);
                self.differ(format!("{at}/headers/{name}"), format!("{what}, header {name}"), value, found);
            }
        }
    }

    fn calls(&mut self, expectation: &Expectation, seen: &Observed) {
        let Some(expected) = &expectation.calls else { return };
        let at = format!("{}/calls", self.at);
        let lines: Vec<String> = seen.calls.iter().map(call_line).collect();
        let wanted: Vec<&str> = expected.iter().map(|call| call.call.as_str()).collect();
        if lines != wanted {
            let first = wanted.iter().zip(&lines).position(|(wanted, seen)| wanted != seen);
            let place = first.or((wanted.len() > lines.len()).then_some(lines.len()));
            let at = place.map_or_else(|| at.clone(), |place| format!("{at}/{place}"));
            return self.with_lines(at, "the calls differ".into(), diff(&wanted, &lines));
        }
        for (number, (expected, seen_call)) in expected.iter().zip(&seen.calls).enumerate() {
            let what = format!("call {}, {}", number + 1, expected.call);
            self.call(&format!("{at}/{number}"), &what, expected, seen_call, seen.starts_at);
        }
    }

    fn call(&mut self, at: &str, what: &str, expected: &ExpectedCall, seen: &MadeCall, starts_at: Timestamp) {
        let after = WrittenSpan(seen.at.since(starts_at));
        if let Some(expected) = expected.at.filter(|expected| *expected != after) {
            self.differ(format!("{at}/at"), format!("{what}: when"), expected, after);
        }
        for (name, value) in &expected.headers {
            let found = seen.headers.get(&name.to_ascii_lowercase());
            if found != Some(value) {
                let found = found.map_or("none", String::as_str);
                self.differ(format!("{at}/headers/{name}"), format!("{what}, header {name}"), value, found);
            }
        }
        let body = seen.body.clone().unwrap_or_default();
        if let Some(part) = &expected.body {
            self.part(&format!("{at}/body"), &format!("{what}, body"), part, &body);
        }
        if let Some(whole) = expected.exactly.as_ref().filter(|whole| !same(whole, &body)) {
            self.differ(format!("{at}/exactly"), format!("{what}, body"), whole, body);
        }
    }

    fn acted(&mut self, expectation: &Expectation, seen: &Observed) {
        for (effect, expected) in expectation.acted.iter().flatten() {
            let times = seen.acts.iter().filter(|act| act.effect == *effect).count();
            if times != *expected {
                let at = format!("{}/acted/{effect}", self.at);
                self.differ(at, format!("how often `{effect}` was really done"), expected, times);
            }
        }
    }

    fn ends(&mut self, expectation: &Expectation, seen: &Observed) {
        let Some(expected) = &expectation.ends else { return };
        let at = format!("{}/ends", self.at);
        if expected.len() != seen.rows.len() {
            let states: Vec<String> = seen.rows.iter().map(state_of).collect();
            let told = format!("{} ({})", seen.rows.len(), states.join(", "));
            self.differ(at.clone(), "the number of events".into(), expected.len(), told);
        }
        for (number, (expected, row)) in expected.iter().zip(&seen.rows).enumerate() {
            self.end(&format!("{at}/{number}"), &format!("event {}", number + 1), expected, row);
        }
    }

    fn end(&mut self, at: &str, what: &str, expected: &ExpectedEnd, row: &Row) {
        let ExpectedEnd { state, guard, reason, effect, effects, history } = expected;
        if state != row.state.as_str() {
            return self.differ(at.to_owned(), format!("{what}: the end"), state, state_of(row));
        }
        let death = row.death.as_ref();
        let told = [
            ("guard", guard, row.noop.as_ref().map(|noop| noop.guard.as_str())),
            ("reason", reason, death.map(|death| death.reason.as_str())),
            ("effect", effect, death.and_then(|death| death.effect.as_deref())),
        ];
        for (name, expected, seen) in told {
            if let Some(expected) = expected.as_deref().filter(|expected| seen != Some(expected)) {
                self.differ(format!("{at}/{name}"), format!("{what}: the {name}"), expected, seen.unwrap_or("none"));
            }
        }
        for (effect, expected) in effects {
            let seen = row.effects.get(effect).map_or("nothing", |entry| entry.progress.as_str());
            if expected != seen {
                self.differ(format!("{at}/effects/{effect}"), format!("{what}: the effect {effect}"), expected, seen);
            }
        }
        let mut lines = row.history.iter().map(|moment| moment.what.as_str());
        for (number, expected) in history.iter().flatten().enumerate() {
            if !lines.any(|line| line == expected) {
                let told: Vec<&str> = row.history.iter().map(|moment| moment.what.as_str()).collect();
                let wanted: Vec<&str> = history.iter().flatten().map(String::as_str).collect();
                let told: Vec<String> = told.into_iter().map(str::to_owned).collect();
                let what = format!("{what}: `{expected}` is not in its history, or not there");
                return self.with_lines(format!("{at}/history/{number}"), what, diff(&wanted, &told));
            }
        }
    }

    /// What is expected is a part of what was seen: objects have at least these fields, lists these items.
    fn part(&mut self, at: &str, what: &str, expected: &Value, seen: &Value) {
        match (expected, seen) {
            (Value::Object(expected), Value::Object(seen)) => {
                for (name, value) in expected {
                    let step = name.replace('~', "~0").replace('/', "~1");
                    let what = format!("{what}.{name}");
                    match seen.get(name) {
                        Some(found) => self.part(&format!("{at}/{step}"), &what, value, found),
                        None => self.differ(format!("{at}/{step}"), what, value, "nothing"),
                    }
                }
            }
            (Value::Array(expected), Value::Array(seen)) if expected.len() == seen.len() => {
                for (index, (expected, seen)) in expected.iter().zip(seen).enumerate() {
                    self.part(&format!("{at}/{index}"), &format!("{what}[{index}]"), expected, seen);
                }
            }
            _ if same(expected, seen) => (),
            _ => self.differ(at.to_owned(), what.to_owned(), expected, seen),
        }
    }
}

/// Whether two values are the same, `1` and `1.0` among them.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

/// The lines of both, with `-` what was expected and not seen, and with `+` what was seen and not expected.
fn diff(expected: &[&str], seen: &[String]) -> Vec<String> {
    let mut common = vec![vec![0_usize; seen.len() + 1]; expected.len() + 1];
    for one in (0..expected.len()).rev() {
        for other in (0..seen.len()).rev() {
            common[one][other] = match expected[one] == seen[other] {
                true => common[one + 1][other + 1] + 1,
                false => common[one + 1][other].max(common[one][other + 1]),
            };
        }
    }
    let (mut lines, mut one, mut other) = (Vec::new(), 0, 0);
    while one < expected.len() || other < seen.len() {
        let both = one < expected.len() && other < seen.len() && expected[one] == seen[other];
        let (mark, line) = if both {
            (' ', expected[one])
        } else if other == seen.len() || (one < expected.len() && common[one + 1][other] >= common[one][other + 1]) {
            ('-', expected[one])
        } else {
            ('+', seen[other].as_str())
        };
        one += usize::from(mark != '+');
        other += usize::from(mark != '-');
        lines.push(format!("{mark} {line}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_is_on_one_side_only() {
        let seen = ["a", "x", "c"].map(str::to_owned);
        assert_eq!(diff(&["a", "b", "c"], &seen), ["  a", "- b", "+ x", "  c"]);
        assert_eq!(diff(&[], &seen[..1]), ["+ a"]);
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        assert!(same(&serde_json::json!({"a": [1]}), &serde_json::json!({"a": [1.0]})));
        assert!(!same(&serde_json::json!({"a": 1}), &serde_json::json!({"a": 1, "b": 2})));
    }
}
