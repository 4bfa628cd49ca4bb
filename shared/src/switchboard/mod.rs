//! What operators change at run time, with no deploy: pauses, safe mode, retry policies.
//!
//! All of it is one small document, so that a container reads one item every few seconds, and a change
//! is one conditional write. Only [`Board::changed`] makes another board, and it refuses what the flows
//! cannot go by. The flows may have changed since it was written, so the reader judges again, and goes
//! by the last good one until somebody mends it.

mod cache;
mod live;
mod policy;
mod turn;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use cache::{Cache, InForce, Problem};
pub use live::Switchboard;
pub use turn::{TurnError, read, turn};

use crate::flow::Flows;
use crate::time::Timestamp;

/// The positions of all switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Board {
    /// Those over everything.
    #[serde(skip_serializing_if = "is_default")]
    all: Switches,
    /// Those of each flow.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    flows: BTreeMap<String, Switches>,
    /// Those of each integration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    integrations: BTreeMap<String, Switches>,
}

/// The switches of one subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Switches {
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Switch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safe_mode: Option<Switch>,
    /// What an operator changes in a flow's retry policy.
    #[serde(skip_serializing_if = "Map::is_empty")]
    retry: Map<String, Value>,
}

impl Switches {
    fn positions(&self, now: Timestamp) -> Vec<Position<'_>> {
        let retry = Some(&self.retry).filter(|retry| !retry.is_empty());
        let paused = on(&self.paused, now).map(Position::Paused);
        let safe = on(&self.safe_mode, now).map(Position::SafeMode);
        paused.into_iter().chain(safe).chain(retry.map(Position::Retry)).collect()
    }
}

/// A switch that is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Position<'b> {
    /// Nothing is called.
    Paused(&'b Switch),
    /// Flows do what their `safe_mode` says.
    SafeMode(&'b Switch),
    /// A flow's policy is changed in this.
    Retry(&'b Map<String, Value>),
}

fn is_default(switches: &Switches) -> bool {
    *switches == Switches::default()
}

/// A switch that is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Since when.
    pub since: Timestamp,
    /// Until when; without it, until somebody turns it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who turned it on.
    pub by: String,
    /// Why.
    pub why: String,
}

impl Switch {
    fn is_on(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// What a switch is of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Everything.
    All,
    /// A flow.
    Flow(String),
    /// An integration.
    Integration(String),
}

/// What an operator does to the board.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Nothing is called until it is resumed, or until the switch's end.
    Pause(Switch),
    /// Calls go on.
    Resume,
    /// Flows do what their `safe_mode` says, until the switch's end.
    SafeMode(Switch),
    /// Flows do what they do.
    Normal,
    /// A flow's policy is changed in this; in nothing, it is the flow's own again.
    Retry(Map<String, Value>),
}

/// The flows cannot go by this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Refused(pub Vec<String>);

fn refuse<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(vec![why.into()]))
}

/// The board as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How often it was written. It never goes back.
    pub version: u64,
    /// The board, as JSON.
    pub text: String,
}

impl Board {
    /// Reads a board. What it does not know is an error: an older reader must not go by half of it.
    pub fn read(text: &str) -> Result<Board, Refused> {
        // A list would do for serde, but not for us.
        let named = serde_json::from_str::<Map<String, Value>>(text);
        let board = named.and_then(|named| serde_json::from_value(Value::Object(named)));
        board.map_err(|error| Refused(vec![error.to_string()]))
    }

    /// The board as JSON.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The board after an operator's turn, if the flows can go by it. What has ended is left out.
    pub fn changed(&self, subject: &Subject, turn: Turn, flows: &Flows, now: Timestamp) -> Result<Board, Refused> {
        check(subject, &turn, flows, now)?;
        let mut board = self.clone();
        let switches = match subject {
            Subject::All => &mut board.all,
            Subject::Flow(name) => board.flows.entry(name.clone()).or_default(),
            Subject::Integration(name) => board.integrations.entry(name.clone()).or_default(),
        };
        match turn {
            Turn::Pause(switch) => switches.paused = Some(switch),
            Turn::Resume => switches.paused = None,
            Turn::SafeMode(switch) => switches.safe_mode = Some(switch),
            Turn::Normal => switches.safe_mode = None,
            Turn::Retry(change) => switches.retry = change,
        }
        board.prune(now);
        match board.text().len() {
            ..=MAX_BOARD => Ok(board),
            _ => refuse("there is no room for more switches: turn some off"),
        }
    }

    /// Why a flow's events wait, if an operator paused it.
    pub fn paused_flow(&self, flow: &str, now: Timestamp) -> Option<&Switch> {
        let switches = [Some(&self.all), self.flows.get(flow)];
        switches.into_iter().flatten().find_map(|switches| on(&switches.paused, now))
    }

    /// Why an integration is not called, if an operator paused it.
    pub fn paused_integration(&self, integration: &str, now: Timestamp) -> Option<&Switch> {
        self.integrations.get(integration).and_then(|switches| on(&switches.paused, now))
    }

    /// Why a flow is in safe mode, if it is.
    pub fn safe_mode(&self, flow: &str, now: Timestamp) -> Option<&Switch> {
        let switches = [Some(&self.all), self.flows.get(flow)];
        switches.into_iter().flatten().find_map(|switches| on(&switches.safe_mode, now))
    }

    /// Every switch that is on, and what it is of.
    pub fn positions(&self, now: Timestamp) -> Vec<(Subject, Position<'_>)> {
        let flows = self.flows.iter().map(|(name, switches)| (Subject::Flow(name.clone()), switches));
        let integrations = self.integrations.iter().map(|(name, of)| (Subject::Integration(name.clone()), of));
        let every = [(Subject::All, &self.all)].into_iter().chain(flows).chain(integrations);
        every.flat_map(|(subject, of)| of.positions(now).into_iter().map(move |at| (subject.clone(), at))).collect()
    }

    fn retry(&self, flow: &str) -> Option<&Map<String, Value>> {
        self.flows.get(flow).map(|switches| &switches.retry).filter(|retry| !retry.is_empty())
    }

    fn prune(&mut self, now: Timestamp) {
        let every = self.flows.values_mut().chain(self.integrations.values_mut()).chain([&mut self.all]);
        for switches in every {
            switches.paused.take_if(|switch| !switch.is_on(now));
            switches.safe_mode.take_if(|switch| !switch.is_on(now));
        }
        self.flows.retain(|_, switches| !is_default(switches));
        self.integrations.retain(|_, switches| !is_default(switches));
    }
}

fn on(switch: &Option<Switch>, now: Timestamp) -> Option<&Switch> {
    switch.as_ref().filter(|switch| switch.is_on(now))
}

fn check(subject: &Subject, turn: &Turn, flows: &Flows, now: Timestamp) -> Result<(), Refused> {
    match subject {
        Subject::Flow(name) if flows.flow(name).is_none() => return refuse(format!("there is no flow `{name}`")),
        Subject::Integration(name) if flows.integration(name).is_none() => {
            return refuse(format!("there is no integration `{name}`"));
        }
        _ => (),
    }
    match (turn, subject) {
        (Turn::Retry(change), Subject::Flow(name)) => match flows.flow(name) {
            Some(flow) => policy::merged(flow, change).map(drop),
            None => Ok(()),
        },
        (Turn::Retry(_), _) => refuse("only a flow has a retry policy"),
        (Turn::SafeMode(_) | Turn::Normal, Subject::Integration(_)) => refuse("only flows have a safe mode"),
        // A safe mode that nobody ends would be the flow's new behaviour, without a review.
        (Turn::SafeMode(switch), _) if switch.until.is_none_or(|until| until > now + MAX_SAFE_MODE) => {
            refuse("a safe mode must have an end within 7 days")
        }
        (Turn::Pause(_) | Turn::Resume | Turn::SafeMode(_) | Turn::Normal, _) => Ok(()),
    }
}

const MAX_SAFE_MODE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The board is one item that every container reads each few seconds.
const MAX_BOARD: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    fn switch(until: Option<Timestamp>) -> Switch {
        Switch { since: NOW, until, by: "ada".into(), why: "the CRM is moving".into() }
    }

    fn flow() -> Subject {
        Subject::Flow("lead-routing".into())
    }

    fn turned(subject: &Subject, turn: Turn) -> Result<Board, Refused> {
        Board::default().changed(subject, turn, &policy::tests::flows(), NOW)
    }

    #[test]
    fn a_pause_holds_until_its_end_or_its_resume() {
        let flows = policy::tests::flows();
        let board = turned(&flow(), Turn::Pause(switch(Some(NOW + minutes(10))))).expect("a good pause");
        assert!(board.paused_flow("lead-routing", NOW + minutes(9)).is_some());
        assert!(board.paused_flow("lead-routing", NOW + minutes(10)).is_none());
        assert!(board.paused_flow("another", NOW).is_none());
        let resumed = board.changed(&flow(), Turn::Resume, &flows, NOW).expect("resumed");
        assert_eq!(resumed, Board::default(), "nothing is left behind");
        let all = turned(&Subject::All, Turn::Pause(switch(None))).expect("a good pause");
        assert!(all.paused_flow("lead-routing", NOW + minutes(100_000)).is_some());
    }

    #[test]
    fn an_integration_is_paused_alone() {
        let crm = Subject::Integration("crm".into());
        let board = turned(&crm, Turn::Pause(switch(None))).expect("a good pause");
        assert!(board.paused_integration("crm", NOW).is_some());
        assert!(board.paused_flow("lead-routing", NOW).is_none());
    }

    #[test]
    fn a_safe_mode_has_an_end() {
        let on = |until| turned(&flow(), Turn::SafeMode(switch(until)));
        assert!(on(None).is_err());
        assert!(on(Some(NOW + minutes(8 * 24 * 60))).is_err());
        let board = on(Some(NOW + minutes(60))).expect("a good end");
        assert!(board.safe_mode("lead-routing", NOW).is_some());
        assert!(board.safe_mode("lead-routing", NOW + minutes(60)).is_none());
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let flow = Subject::Flow("led-routing".into());
        assert_eq!(turned(&flow, Turn::Resume), refuse("there is no flow `led-routing`"));
        let partner = Subject::Integration("cmr".into());
        assert_eq!(turned(&partner, Turn::Resume), refuse("there is no integration `cmr`"));
        let retry = |change: Value| Turn::Retry(change.as_object().cloned().unwrap_or_default());
        assert!(turned(&Subject::All, retry(json!({"max_attempts": 5}))).is_err());
        assert!(turned(&self::flow(), retry(json!({"max_attempts": 99}))).is_err());
        assert!(turned(&self::flow(), retry(json!({"max_attempts": 5}))).is_ok());
    }

    #[test]
    fn a_board_round_trips_and_half_of_one_is_not_read() {
        let board = turned(&flow(), Turn::Pause(switch(None))).expect("a good pause");
        assert_eq!(Board::read(&board.text()), Ok(board));
        assert_eq!(Board::read("{}"), Ok(Board::default()));
        for bad in ["", "[]", "5", r#"{"flow": {}}"#, r#"{"all": {"paused": true}}"#] {
            assert!(Board::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_board_is_bounded() {
        let mut board = Board::default();
        let wordy = Switch { why: "x".repeat(MAX_BOARD), ..switch(None) };
        assert!(board.changed(&Subject::All, Turn::Pause(wordy), &policy::tests::flows(), NOW).is_err());
        board.flows.insert("gone".into(), Switches { paused: Some(switch(Some(NOW))), ..Switches::default() });
        let pruned = board.changed(&Subject::All, Turn::Resume, &policy::tests::flows(), NOW);
        assert_eq!(pruned, Ok(Board::default()), "what has ended is left out");
    }
}
