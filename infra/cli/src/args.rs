//! The arguments that several verbs take, read into plain data.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::RangedI64ValueParser;
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde_json::{Value, json};
use shared::base::time::{Timestamp, duration};
use shared::ledger::batch::Filter;
use shared::ledger::{Reason, SignOff, State};

use crate::cloud::CloudClient;

/// The heading in the help. Not on the whole struct: clap would put a verb's later options below it, too.
const EVENTS: &str = "Which events";

/// The options that choose parked events.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Only events of this flow.
    #[arg(long, help_heading = EVENTS)]
    pub(crate) flow: Option<String>,
    /// Only events that died for this reason: attempts_spent, terminal, unknown_outcome, … as `dead reasons` lists them.
    #[arg(long, help_heading = EVENTS, value_name = "REASON", value_parser = parse_word::<Reason>)]
    pub(crate) reason_was: Option<Reason>,
    /// Only events whose last error contains this text.
    #[arg(long, help_heading = EVENTS, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only events in this state: dead, awaiting_approval, waiting or queued.
    #[arg(long, help_heading = EVENTS, value_parser = parse_state)]
    pub(crate) state: Option<State>,
    /// Only events that were parked within this time (`2h`, `30m`), or since this moment (RFC 3339).
    #[arg(long, help_heading = EVENTS, value_name = "2h", value_parser = parse_since)]
    pub(crate) since: Option<Since>,
}

impl FilterArgs {
    /// The filter, as the replay function takes it.
    pub(crate) fn filter(&self, now: Timestamp) -> Filter {
        Filter {
            flow: self.flow.clone(),
            reason: self.reason_was,
            state: self.state,
            error: self.error.clone(),
            since: self.since.map(|since| since.at(now)),
            ..Filter::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filter(Timestamp::from_secs(0)) == Filter::default()
    }
}

/// Who makes a change, and why. Both are kept: in an event's history, with a batch, or on the switchboard.
#[derive(Clone, Debug, Args)]
pub(crate) struct ByAndReasonArgs {
    /// Why you do this. The reason is kept in the history.
    #[arg(long, value_name = "WHY", value_parser = parse_note)]
    pub(crate) reason: String,
    /// Your name, which is kept in the history. Without it, the name that AWS knows you by.
    #[arg(long, value_name = "NAME", value_parser = parse_note)]
    pub(crate) by: Option<String>,
}

impl ByAndReasonArgs {
    /// The operation with the operator's name and reason.
    pub(crate) async fn add_to(&self, cloud: &CloudClient, operation: Value) -> Value {
        let by = match &self.by {
            Some(by) => by.clone(),
            None => cloud.caller_name().await,
        };
        with_author(operation, &by, &self.reason)
    }
}

/// The operation with this name and this reason.
pub(crate) fn with_author(mut operation: Value, by: &str, reason: &str) -> Value {
    operation["by"] = json!(by);
    operation["reason"] = json!(reason);
    operation
}

/// The most events that the replay function lists or plans at once.
pub(crate) const MAX_LISTED: u32 = Filter::MAX_LISTED;

/// Reads a number from 1 to `most`.
pub(crate) fn up_to(most: u32) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(most))
}

/// The start of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    At(Timestamp),
}

impl Since {
    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Since::Ago(ago) => moment_before(now, ago),
            Since::At(at) => at,
        }
    }
}

/// The moment that is so long before another.
pub(crate) fn moment_before(now: Timestamp, ago: Duration) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
}

/// The time on this machine.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Reads a duration, as flow files write it.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let read: StrDeserializer<'_, Error> = text.into_deserializer();
    duration(read).map_err(|error| error.to_string())
}

/// Reads a change, `NAME=VALUE`: a number, true, false or null where the value is one, else a text.
pub(crate) fn parse_change(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, for example max_attempts=5")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
}

/// Reads a name or a reason, as the history takes it.
pub(crate) fn parse_note(text: &str) -> Result<String, String> {
    match text.trim().chars().count() {
        1..=SignOff::MAX_CHARS => Ok(text.trim().to_owned()),
        _ => Err(format!("write at least one character, and at most {}", SignOff::MAX_CHARS)),
    }
}

fn parse_since(text: &str) -> Result<Since, String> {
    let moment = Timestamp::parse(text).filter(|_| text.contains('T')).map(Since::At);
    moment
        .map_or_else(|| parse_duration(text).map(Since::Ago), Ok)
        .map_err(|error| format!("{error}, or `2026-11-16T10:00:00Z`"))
}

/// Reads one of the ledger's words. The error lists all of them.
fn parse_word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(json!(text)).map_err(|error| error.to_string())
}

/// Reads a state in which events are listed.
fn parse_state(text: &str) -> Result<State, String> {
    let listed = [State::Dead, State::AwaitingApproval, State::Waiting, State::Queued];
    let found = listed.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let names = listed.map(State::as_str).join(", ");
        format!("events in this state are not listed: write one of {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_while_or_a_moment() {
        let now = Timestamp::from_secs(1_794_830_400);
        let at = |text| parse_since(text).map(|since| since.at(now).to_string());
        assert_eq!(at("2h").as_deref(), Ok("2026-11-16T10:00:00.000Z"));
        assert_eq!(at("2026-11-16T09:00:00Z").as_deref(), Ok("2026-11-16T09:00:00.000Z"));
        for bad in ["", "yesterday", "2", "1794830400", "2026-11-16"] {
            let told = at(bad).expect_err(bad);
            assert!(told.contains("write `500ms`, `2s`, `48h`") && told.contains("2026-"), "{told}");
        }
    }

    #[test]
    fn a_reason_that_there_is_not_is_told_with_those_that_there_are() {
        assert_eq!(parse_word::<Reason>("attempts_spent"), Ok(Reason::AttemptsSpent));
        let told = parse_word::<Reason>("atempts").expect_err("no such reason");
        assert!(told.contains("attempts_spent") && told.contains("unknown_outcome"), "{told}");
    }

    #[test]
    fn a_state_that_is_never_listed_is_declined() {
        assert_eq!(parse_state("waiting"), Ok(State::Waiting));
        let told = parse_state("running").expect_err("it is never listed");
        assert!(told.contains("dead, awaiting_approval, waiting, queued"), "{told}");
    }

    #[test]
    fn a_filter_names_only_what_is_asked_for() {
        let only = FilterArgs {
            flow: Some("leads".into()),
            since: Some(Since::At(Timestamp::from_secs(7))),
            ..FilterArgs::default()
        };
        let filter = serde_json::to_value(only.filter(now())).expect("JSON");
        assert_eq!(filter, json!({"flow": "leads", "since": 7000}));
        assert!(FilterArgs::default().is_empty() && !only.is_empty());
    }

    #[test]
    fn a_change_is_in_numbers_and_words() {
        assert_eq!(parse_change("max_attempts=5"), Ok(("max_attempts".into(), json!(5))));
        assert_eq!(parse_change("base=2s"), Ok(("base".into(), json!("2s"))));
        assert_eq!(parse_change("consent_email=false"), Ok(("consent_email".into(), json!(false))));
        assert_eq!(parse_change("phone=null"), Ok(("phone".into(), json!(null))));
        assert!(parse_change("max_attempts").is_err());
    }

    #[test]
    fn words_say_something() {
        assert_eq!(parse_note(" the CRM is back ").as_deref(), Ok("the CRM is back"));
        assert!(parse_note("  ").is_err() && parse_note(&"x".repeat(121)).is_err());
    }
}
