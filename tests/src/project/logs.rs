//! Whoever reads a warning at night can find its event, and the runbook quotes what is really logged.

use crate::fixtures::{root, shown, sources, without_tests};

/// Warnings and errors that are about no event, or that know only a part of its ids: a part of the message,
/// and why.
const WITHOUT_ALL_IDS: [(&str, &str); 20] = [
    ("the marks of waiting events were not renewed or removed", "a tick is about no event"),
    ("the waiting events were not counted", "they are many events"),
    ("the resumed events were not woken", "a resume is about many events"),
    ("the stored switchboard cannot be used", "it is about no event"),
    ("a switch is not understood", "it is about no event"),
    ("a newer version sent this dead letter", "this version may not be able to read it"),
    ("no newer version came back for its message", "this version may not be able to read it"),
    ("the message of a newer version was not moved", "this version may not be able to read it"),
    ("a row that could not be read was not looked at", "the flow and the trace are in the row that cannot be read"),
    ("the timeout of an integration does not fit", "it is about no event"),
    ("the deployed times do not fit one another", "it is about no event"),
    ("the dead letter of a malformed message was not sent", "the message is no event: it has an id of the queue's"),
    ("a row of the ledger cannot be read", "the flow and the trace are in the row that cannot be read"),
    ("the operation was not done", "an operator names an event by its id alone"),
    ("the tick of a new batch was not sent", "a batch is about many events"),
    ("the lane could not go on with its batch", "a batch is about many events"),
    ("the lane's tick was not postponed", "a batch is about many events"),
    ("the sender's rate was not reached", "there is no event before the delivery is read"),
    ("the delivery was not accepted", "there is no event before the delivery is accepted"),
    ("the delivery was rejected", "there is no event before the delivery is accepted"),
];

/// One call of `warn!` or `error!`: where it is, and its text from the opening parenthesis to the closing one.
struct LogCall {
    place: String,
    text: String,
    /// What stands before it in its file, for a message that is bound to a name.
    before: String,
}

impl LogCall {
    /// The message: the last text of the call, or the text that it names.
    fn message(&self) -> String {
        let quoted = self.text.rsplit('"').nth(1).unwrap_or_default();
        match quoted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            None => quoted.to_owned(),
            Some(name) => {
                let bound = self.before.rsplit(&format!("let {name} = ")).next().unwrap_or_default();
                bound.split('"').nth(1).unwrap_or_default().to_owned()
            }
        }
    }

    fn has_field(&self, name: &str) -> bool {
        let fields = self.text.trim_start_matches('(').split(',').map(str::trim);
        fields.into_iter().any(|field| field == name || field.starts_with(&format!("{name} =")))
    }
}

fn calls(file: &str, text: &str) -> Vec<LogCall> {
    let code = without_tests(text);
    let mut calls = Vec::new();
    for name in ["warn!", "error!"] {
        for (at, _) in code.match_indices(&format!("{name}(")) {
            let rest = &code[at + name.len()..];
            let mut depth = 0;
            let end = rest.find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            });
            let line = code[..at].lines().count();
            let text = rest[..end.expect("a call ends")].to_owned();
            calls.push(LogCall { place: format!("{file}:{line}"), text, before: code[..at].to_owned() });
        }
    }
    calls
}

fn all_calls() -> Vec<LogCall> {
    let files = ["shared/src", "functions"].into_iter().flat_map(sources);
    let calls = files.flat_map(|(path, text)| calls(&shown(&path), &text));
    calls.collect()
}

#[test]
fn a_warning_carries_the_ids_that_it_could_have() {
    let calls = all_calls();
    assert!(calls.len() > 15, "the log calls were not found: {}", calls.len());
    for call in calls {
        let message = call.message();
        let has_all = ["event", "flow", "trace_id"].iter().all(|id| call.has_field(id));
        let excused = WITHOUT_ALL_IDS.iter().any(|(part, _)| message.starts_with(part));
        assert!(has_all || excused, "{}: \"{message}\" has no event, flow and trace_id", call.place);
    }
}

/// A message stands alone: it is a sentence that names what failed.
#[test]
fn a_warning_is_a_sentence() {
    for call in all_calls() {
        let message = call.message();
        assert!(message.split_whitespace().count() >= 5, "{}: \"{message}\" does not stand alone", call.place);
        assert!(message.starts_with(char::is_lowercase), "{}: \"{message}\"", call.place);
    }
}

/// What the runbook quotes as `log: …` is logged.
#[test]
fn the_runbook_quotes_what_is_logged() {
    let runbook = std::fs::read_to_string(root().join("infra/RUNBOOK.md")).expect("the runbook");
    let logged: Vec<String> = all_calls().iter().map(LogCall::message).collect();
    let runbook = runbook.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted: Vec<&str> = runbook.split('“').skip(1).filter_map(|rest| rest.split('”').next()).collect();
    assert!(quoted.len() >= 5, "the runbook quotes log messages in “…”: {quoted:?}");
    for message in quoted {
        assert!(logged.iter().any(|known| known.contains(message)), "nothing logs “{message}”");
    }
}
