//! The switchboard: what operators change at run time, with no deploy: pauses, safe mode, retry policies.
//!
//! The whole board is one small document, so that a container reads one item every few seconds, and a change
//! is one conditional write. Only [`Board::changed`] makes another board, and it declines one that the flows
//! cannot use. The flows may have changed since the board was written, so the reader checks it again, and uses
//! the last good one until an operator corrects it.

mod cache;
mod current;
mod flow_waits;
mod policy;
mod turn;
mod turn_history;
mod understood;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use cache::{BoardCache, BoardProblem, InForce};
pub use current::Switchboard;
pub use flow_waits::{FlowWaits, MARK_KNOWN_AFTER, change_waits};
pub use turn::{Subject, Turn, TurnError, look, read, turn};
pub use turn_history::{FlowLog, Turned};

use crate::base::document::Document;
use crate::base::time::Timestamp;
use crate::flows::Flows;
use crate::ledger::SignOff;
use crate::operate::log::LogLevel;

/// The positions of all switches, and the latest turns.
///
/// An older version may find a switch that it does not know: [`understood`] stands still there, rather than overlook it.
/// It declines to turn any switch then, for it would drop what it does not know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Board {
    /// The switches over everything.
    #[serde(skip_serializing_if = "is_default")]
    all: Switches,
    /// The switches of each flow.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    flows: BTreeMap<String, Switches>,
    /// The switches of each integration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    integrations: BTreeMap<String, Switches>,
    /// The marks of flows of which events wait, or waited not long ago.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    waits: BTreeMap<String, FlowWaits>,
    /// The latest turns, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    turned: Vec<Turned>,
}

/// The switches of one subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Switches {
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Switch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safe_mode: Option<Switch>,
    /// The operator's changes to a flow's retry policy.
    #[serde(skip_serializing_if = "Map::is_empty")]
    retry: Map<String, Value>,
    /// The sign-off of the changed policy. Boards of earlier versions have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_by: Option<Switch>,
}

impl Switches {
    fn turn(&mut self, turn: Turn, sign_off: SignOff<'_>, now: Timestamp) {
        let on = |until| Some(Switch { since: now, until, by: sign_off.by.into(), why: sign_off.why.into() });
        match turn {
            Turn::Pause { until } => self.paused = on(until),
            Turn::Resume => self.paused = None,
            Turn::SafeMode { until } => self.safe_mode = on(Some(until)),
            Turn::Normal => self.safe_mode = None,
            // It stands in the record of turns.
            Turn::Log { .. } | Turn::UsualLog => (),
            Turn::Retry(change) => {
                self.retry_by = on(None).filter(|_| !change.is_empty());
                self.retry = change;
            }
        }
    }

    fn positions(&self, now: Timestamp) -> Vec<Position<'_>> {
        let retry = (!self.retry.is_empty()).then_some(Position::Retry(&self.retry, self.retry_by.as_ref()));
        let paused = on(&self.paused, now).map(Position::Paused);
        let safe = on(&self.safe_mode, now).map(Position::SafeMode);
        paused.into_iter().chain(safe).chain(retry).collect()
    }
}

/// A switch that is on, by its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Position<'b> {
    /// Calls are paused.
    Paused(&'b Switch),
    /// Flows do what their `safe_mode` block says.
    SafeMode(&'b Switch),
    /// A flow's retry policy is changed in these fields; the sign-off is missing on boards of earlier versions.
    Retry(&'b Map<String, Value>, Option<&'b Switch>),
    /// A flow's log has another level.
    Log(FlowLog, &'b Turned),
}

fn is_default(switches: &Switches) -> bool {
    *switches == Switches::default()
}

/// A switch that is on: since when, until when, and the operator's sign-off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The moment when the switch was turned on.
    pub since: Timestamp,
    /// The moment when the switch turns off by itself; without it, an operator turns it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The operator who turned the switch on.
    pub by: String,
    /// The operator's reason.
    pub why: String,
}

impl Switch {
    fn is_on(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The faults of a board that the flows cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct BadBoard(pub Vec<String>);

fn bad_board<T>(why: impl Into<String>) -> Result<T, BadBoard> {
    Err(BadBoard(vec![why.into()]))
}

impl Document for Board {
    const NAME: &'static str = "switchboard";

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Board {
    /// Reads a board, to change it. An unknown field is an error: an older writer must not drop it.
    pub fn read(text: &str) -> Result<Board, BadBoard> {
        // serde would read a list as a struct, too; a board must be an object.
        let named = serde_json::from_str::<Map<String, Value>>(text);
        let board = named.and_then(|named| serde_json::from_value(Value::Object(named)));
        board.map_err(|error| BadBoard(vec![error.to_string()]))
    }

    /// The board after an operator's turn, if the flows can use it. Switches that have ended are removed, and the
    /// oldest turns are forgotten where a switch needs their room.
    pub fn changed(
        &self,
        subject: &Subject,
        turn: Turn,
        sign_off: SignOff<'_>,
        flows: &Flows,
        now: Timestamp,
    ) -> Result<Board, BadBoard> {
        check(subject, &turn, flows, now)?;
        let mut board = self.clone();
        turn_history::remember(&mut board.turned, Turned::new(&turn, subject, sign_off, now));
        let switches = match subject {
            Subject::All => &mut board.all,
            Subject::Flow(name) => board.flows.entry(name.clone()).or_default(),
            Subject::Integration(name) => board.integrations.entry(name.clone()).or_default(),
        };
        switches.turn(turn, sign_off, now);
        board.prune(now);
        while board.text().len() > MAX_BOARD {
            if board.turned.pop().is_none() {
                return bad_board(
                    "the switchboard is full: nothing was changed; turn some switches off, then try again",
                );
            }
        }
        Ok(board)
    }

    /// The switch that pauses a flow, if one is on.
    pub fn paused_flow(&self, flow: &str, now: Timestamp) -> Option<&Switch> {
        let switches = [Some(&self.all), self.flows.get(flow)];
        switches.into_iter().flatten().find_map(|switches| on(&switches.paused, now))
    }

    /// The switch that pauses an integration, if one is on.
    pub fn paused_integration(&self, integration: &str, now: Timestamp) -> Option<&Switch> {
        self.integrations.get(integration).and_then(|switches| on(&switches.paused, now))
    }

    /// The switch that puts a flow into safe mode, if one is on.
    pub fn safe_mode(&self, flow: &str, now: Timestamp) -> Option<&Switch> {
        let switches = [Some(&self.all), self.flows.get(flow)];
        switches.into_iter().flatten().find_map(|switches| on(&switches.safe_mode, now))
    }

    /// The switches that are on, each with its subject.
    pub fn positions(&self, now: Timestamp) -> Vec<(Subject, Position<'_>)> {
        let flows = self.flows.iter().map(|(name, switches)| (Subject::Flow(name.clone()), switches));
        let integrations = self.integrations.iter().map(|(name, of)| (Subject::Integration(name.clone()), of));
        let every = [(Subject::All, &self.all)].into_iter().chain(flows).chain(integrations);
        let switches =
            every.flat_map(|(subject, of)| of.positions(now).into_iter().map(move |at| (subject.clone(), at)));
        let in_force = |log: &FlowLog| log.until > now;
        let logs = self.flow_logs().into_iter().filter(|(_, log, _)| in_force(log));
        switches
            .chain(logs.map(|(flow, log, turned)| (Subject::Flow(flow.into()), Position::Log(log, turned))))
            .collect()
    }

    /// The level of a flow's log, where an operator has changed it.
    pub fn log_level(&self, flow: &str, now: Timestamp) -> Option<LogLevel> {
        let of_flow =
            |turned: &&Turned| turned.log.is_some() && matches!(&turned.of, Subject::Flow(name) if name == flow);
        let log = self.turned.iter().find(of_flow)?.log?;
        (log.until > now).then_some(log.level)
    }

    /// The latest level of each flow's log.
    fn flow_logs(&self) -> Vec<(&str, FlowLog, &Turned)> {
        let mut logs: Vec<(&str, FlowLog, &Turned)> = Vec::new();
        for turned in &self.turned {
            if let (Subject::Flow(flow), Some(log)) = (&turned.of, turned.log)
                && !logs.iter().any(|(known, ..)| known == flow)
            {
                logs.push((flow, log, turned));
            }
        }
        logs
    }

    /// The latest turns, the newest first.
    pub fn turned(&self) -> &[Turned] {
        &self.turned
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

fn check(subject: &Subject, turn: &Turn, flows: &Flows, now: Timestamp) -> Result<(), BadBoard> {
    match subject {
        Subject::Flow(name) if flows.flow(name).is_none() => return bad_board(format!("there is no flow `{name}`")),
        Subject::Integration(name) if flows.integration(name).is_none() => {
            return bad_board(format!("there is no integration `{name}`"));
        }
        _ => (),
    }
    match (turn, subject) {
        (Turn::Retry(change), Subject::Flow(name)) => match flows.flow(name) {
            Some(flow) => policy::merged(flow, change).map(drop),
            None => Ok(()),
        },
        (Turn::Retry(_), _) => bad_board("only a flow has a retry policy: name a flow"),
        (Turn::SafeMode { .. } | Turn::Normal, Subject::Integration(_)) => {
            bad_board("only flows have a safe mode: name a flow, or none for all flows")
        }
        // A safe mode without an end would become the flow's new behaviour, without a review.
        (Turn::SafeMode { until }, _) if *until > now + MAX_SAFE_MODE => {
            bad_board("safe mode must have an end within 7 days: choose a shorter time")
        }
        (Turn::Log { .. } | Turn::UsualLog, Subject::All | Subject::Integration(_)) => {
            bad_board("only a flow has a level of its log: name a flow")
        }
        (Turn::Log { until, .. }, _) if *until > now + MAX_LOG => {
            bad_board("a level of the log must have an end within 24 hours: choose a shorter time")
        }
        (
            Turn::Pause { .. }
            | Turn::Resume
            | Turn::SafeMode { .. }
            | Turn::Normal
            | Turn::Log { .. }
            | Turn::UsualLog,
            _,
        ) => Ok(()),
    }
}

const MAX_SAFE_MODE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest time for which a flow's log has another level: it is for a look, and logs are paid for.
const MAX_LOG: Duration = Duration::from_secs(24 * 3600);

/// The largest board, in bytes: it is one item that every container reads every few seconds.
const MAX_BOARD: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    const MOVING: SignOff<'static> = SignOff { by: "ada", why: "the CRM is moving" };

    fn pause(until: Option<Timestamp>) -> Turn {
        Turn::Pause { until }
    }

    fn retry(change: Value) -> Turn {
        Turn::Retry(change.as_object().cloned().unwrap_or_default())
    }

    fn flow() -> Subject {
        Subject::Flow("lead-routing".into())
    }

    fn turned(subject: &Subject, turn: Turn) -> Result<Board, BadBoard> {
        then(&Board::default(), subject, turn)
    }

    fn then(board: &Board, subject: &Subject, turn: Turn) -> Result<Board, BadBoard> {
        board.changed(subject, turn, MOVING, &policy::tests::flows(), NOW)
    }

    #[test]
    fn a_pause_holds_until_its_end_or_its_resume() {
        let board = turned(&flow(), pause(Some(NOW + minutes(10)))).expect("a good pause");
        assert!(board.paused_flow("lead-routing", NOW + minutes(9)).is_some());
        assert!(board.paused_flow("lead-routing", NOW + minutes(10)).is_none());
        assert!(board.paused_flow("another", NOW).is_none());
        let resumed = then(&board, &flow(), Turn::Resume).expect("resumed");
        assert_eq!((resumed.positions(NOW), resumed.flows.len()), (vec![], 0), "no switch is left behind");
        let all = turned(&Subject::All, pause(None)).expect("a good pause");
        assert!(all.paused_flow("lead-routing", NOW + minutes(100_000)).is_some());
    }

    #[test]
    fn an_integration_is_paused_alone() {
        let crm = Subject::Integration("crm".into());
        let board = turned(&crm, pause(None)).expect("a good pause");
        assert!(board.paused_integration("crm", NOW).is_some());
        assert!(board.paused_flow("lead-routing", NOW).is_none());
    }

    #[test]
    fn a_safe_mode_has_an_end() {
        let on = |until| turned(&flow(), Turn::SafeMode { until });
        assert!(on(NOW + minutes(8 * 24 * 60)).is_err());
        let board = on(NOW + minutes(60)).expect("a good end");
        assert!(board.safe_mode("lead-routing", NOW).is_some());
        assert!(board.safe_mode("lead-routing", NOW + minutes(60)).is_none());
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let flow = Subject::Flow("led-routing".into());
        assert_eq!(turned(&flow, Turn::Resume), bad_board("there is no flow `led-routing`"));
        let partner = Subject::Integration("cmr".into());
        assert_eq!(turned(&partner, Turn::Resume), bad_board("there is no integration `cmr`"));
        assert!(turned(&Subject::All, retry(json!({"max_attempts": 5}))).is_err());
        assert!(turned(&self::flow(), retry(json!({"max_attempts": 99}))).is_err());
        assert!(turned(&self::flow(), retry(json!({"max_attempts": 5}))).is_ok());
    }

    #[test]
    fn every_kind_of_turn_is_remembered_with_its_word() {
        let kinds = [
            (pause(None), "paused"),
            (Turn::Resume, "resumed"),
            (Turn::SafeMode { until: NOW + minutes(60) }, "safe mode"),
            (Turn::Normal, "safe mode off"),
            (retry(json!({"max_attempts": 5})), "policy"),
            (retry(json!({})), "policy taken back"),
        ];
        let mut board = Board::default();
        for (turn, what) in kinds {
            board = then(&board, &flow(), turn).expect("a good turn");
            let (by, why) = (MOVING.by.to_owned(), MOVING.why.to_owned());
            assert_eq!(board.turned()[0], Turned { at: NOW, what: what.into(), of: flow(), by, why, log: None });
        }
        assert_eq!((board.turned().len(), board.positions(NOW)), (6, vec![]));
    }

    #[test]
    fn a_policy_has_its_word_for_as_long_as_it_stands() {
        let mut board = turned(&flow(), retry(json!({"max_attempts": 5}))).expect("a good policy");
        board.turned.clear();
        let positions = board.positions(NOW);
        let [(_, Position::Retry(_, Some(switch)))] = positions[..] else { panic!("{positions:?}") };
        assert_eq!((switch.since, switch.by.as_str(), switch.why.as_str()), (NOW, MOVING.by, MOVING.why));
    }

    #[test]
    fn a_level_of_the_log_is_of_one_flow_and_has_an_end() {
        let log = |until| Turn::Log { level: LogLevel::Debug, until };
        let board = turned(&flow(), log(NOW + minutes(30))).expect("a good level");
        assert_eq!(board.log_level("lead-routing", NOW + minutes(29)), Some(LogLevel::Debug));
        assert_eq!(board.log_level("lead-routing", NOW + minutes(30)), None);
        assert_eq!(board.log_level("another", NOW), None);
        assert!(matches!(board.positions(NOW)[..], [(Subject::Flow(_), Position::Log(..))]));
        let off = then(&board, &flow(), Turn::UsualLog).expect("a good turn");
        assert_eq!((off.log_level("lead-routing", NOW), off.positions(NOW)), (None, vec![]));
        assert!(turned(&Subject::All, log(NOW + minutes(30))).is_err());
        assert!(turned(&flow(), log(NOW + minutes(25 * 60))).is_err());
        assert_eq!(Board::read(&board.text()), Ok(board));
    }

    #[test]
    fn a_board_round_trips_and_half_of_one_is_not_read() {
        let board = turned(&flow(), pause(None)).and_then(|board| then(&board, &Subject::All, Turn::Resume));
        let board = board.expect("good turns");
        assert_eq!(Board::read(&board.text()), Ok(board));
        assert_eq!(Board::read("{}"), Ok(Board::default()));
        for bad in ["", "[]", "5", r#"{"flow": {}}"#, r#"{"all": {"paused": true}}"#] {
            assert!(Board::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_board_from_before_turns_were_remembered_is_read() {
        let board = Board::read(
            r#"{"all": {"paused": {"since": 0, "by": "ada", "why": "stop"}},
                "flows": {"lead-routing": {"retry": {"max_attempts": 5}}}}"#,
        );
        let board = board.expect("a good board");
        let positions = board.positions(NOW);
        assert!(matches!(positions[..], [(_, Position::Paused(_)), (_, Position::Retry(_, None))]), "{positions:?}");
        assert_eq!(board.turned(), []);
        assert!(!board.text().contains("turned"), "and an older reader reads it still: {}", board.text());
    }

    #[test]
    fn a_board_is_bounded() {
        let (mut board, flows) = (Board::default(), policy::tests::flows());
        let (filling, room) = ("x".repeat(MAX_BOARD), "x".repeat(MAX_BOARD - 200));
        let wordy = |why| Board::default().changed(&Subject::All, pause(None), SignOff { why, ..MOVING }, &flows, NOW);
        assert!(wordy(&filling).is_err());
        assert!(wordy(&room).is_ok_and(|board| board.turned().is_empty()), "the turn itself is forgotten");
        let ended = Some(Switch { since: NOW, until: Some(NOW), by: "ada".into(), why: "x".into() });
        board.flows.insert("gone".into(), Switches { paused: ended, ..Switches::default() });
        let pruned = then(&board, &Subject::All, Turn::Resume).expect("resumed");
        assert_eq!(pruned.flows.len(), 0, "what has ended is left out");
    }

    #[test]
    fn a_full_board_takes_a_switch_and_forgets_the_oldest_turns() {
        let mut board = turned(&flow(), retry(json!({"max_attempts": 5}))).expect("a good policy");
        board = then(&board, &flow(), Turn::Normal).expect("a good turn");
        let room = MAX_BOARD - board.text().len();
        let filling = Switch { since: NOW, until: None, by: "ada".into(), why: "x".repeat(room - 80) };
        board.all.paused = Some(filling);
        assert!((MAX_BOARD - 80..=MAX_BOARD).contains(&board.text().len()), "{}", board.text().len());
        let full = then(&board, &Subject::Integration("crm".into()), pause(None)).expect("it is taken");
        assert!(full.paused_integration("crm", NOW).is_some() && full.paused_flow("any", NOW).is_some());
        let what: Vec<&str> = full.turned().iter().map(|turned| turned.what.as_str()).collect();
        assert_eq!(what, ["paused"], "the newest is remembered");
    }
}
