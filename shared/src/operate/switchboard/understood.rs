//! The board as far as this version understands it. What it does not understand stands still.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{BadBoard, Board, Switch, Switches};
use crate::base::time::Timestamp;

/// The board to go by, and what of it is not understood.
///
/// A newer version may have a switch that this one does not know. It was turned for a reason, so that overlooking it
/// could do what it should prevent: what it names is paused here. If it cannot be told what is named, everything is.
pub(super) fn understood(text: &str) -> Result<(Board, Vec<String>), BadBoard> {
    let fields: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| BadBoard(vec![format!("it is no board: {error}")]))?;
    let mut board = Board::default();
    let (mut unknown, mut stopped) = (Vec::new(), None);
    for (name, value) in fields {
        match name.as_str() {
            "all" => board.all = switches(value, "all", &mut unknown),
            // Each of them is the switches of one subject, by its name.
            "flows" | "integrations" => match value {
                Value::Object(subjects) => {
                    let read = subjects.into_iter().map(|(subject, value)| {
                        let of = switches(value, &format!("{name}.{subject}"), &mut unknown);
                        (subject, of)
                    });
                    let known = if name == "flows" { &mut board.flows } else { &mut board.integrations };
                    known.extend(read);
                }
                _ => stopped = Some(name),
            },
            // A mark that is not understood could hide that an event waits.
            "waits" => match read(value) {
                Some(waits) => board.waits = waits,
                None => stopped = Some(name),
            },
            // Nothing depends on the record of turns.
            "turned" => board.turned = read(value).unwrap_or_default(),
            _ => stopped = Some(name),
        }
    }
    if let Some(place) = stopped {
        board.all.paused = Some(stop(&place));
        unknown.push(place);
    }
    Ok((board, unknown))
}

/// The switches of one subject, which is paused if one of them is not understood.
fn switches(value: Value, place: &str, unknown: &mut Vec<String>) -> Switches {
    if let Some(switches) = read::<Switches>(value.clone()) {
        return switches;
    }
    unknown.push(place.to_owned());
    let mut known = Switches { paused: Some(stop(place)), ..Switches::default() };
    if let Value::Object(fields) = value {
        let field = |name: &str| fields.get(name).cloned();
        known.safe_mode = field("safe_mode").and_then(read);
        known.retry = field("retry").and_then(read).unwrap_or_default();
        known.retry_by = field("retry_by").and_then(read);
    }
    known
}

fn read<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

/// The pause in the place of a switch that is not understood.
fn stop(place: &str) -> Switch {
    let why = format!("this version does not understand a switch at `{place}`: it stands still until a newer one runs");
    Switch { since: Timestamp::from_secs(0), until: None, by: "ledgerline".into(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn board(text: &str) -> Board {
        understood(text).expect("a board").0
    }

    #[test]
    fn what_is_understood_is_what_the_strict_reader_reads() {
        let text = r#"{"all": {"paused": {"since": 0, "by": "ada", "why": "stop"}},
            "flows": {"leads": {"retry": {"max_attempts": 5}}}, "integrations": {"crm": {"safe_mode": null}}}"#;
        assert_eq!(understood(text), Ok((Board::read(text).expect("a good board"), Vec::new())));
    }

    #[test]
    fn a_switch_of_tomorrow_stops_what_it_names() {
        let text = r#"{"flows": {"leads": {"half_speed": {"since": 0}, "retry": {"max_attempts": 5}}, "carts": {}}}"#;
        let flow = board(text);
        assert!(flow.paused_flow("leads", NOW).is_some_and(|switch| switch.why.contains("flows.leads")));
        assert!(flow.paused_flow("carts", NOW).is_none() && flow.paused_integration("crm", NOW).is_none());
        assert!(flow.retry("leads").is_some(), "what is understood stays in force");

        let partner = board(r#"{"integrations": {"crm": {"paused": {"since": 0, "by": "a", "why": "b", "of": "x"}}}}"#);
        assert!(partner.paused_integration("crm", NOW).is_some() && partner.paused_flow("leads", NOW).is_none());
    }

    #[test]
    fn where_it_cannot_tell_what_is_named_everything_stops() {
        let unknown = [
            r#"{"tenants": {"north": {"paused": true}}}"#,
            r#"{"flows": ["leads"]}"#,
            r#"{"all": {"half_speed": {"since": 0}}}"#,
            r#"{"a": 1, "all": {"safe_mode": {"since": 0, "until": 1, "by": "ada", "why": "x"}}}"#,
        ];
        for text in unknown {
            assert!(board(text).paused_flow("any", NOW).is_some(), "{text}");
        }
    }

    /// The version before this one read turns with these fields, and left out others.
    #[test]
    fn an_older_version_does_not_stand_still_for_a_level_of_the_log() {
        #[derive(serde::Deserialize)]
        struct Earlier {
            #[expect(dead_code, reason = "it is read, and that is all")]
            what: String,
        }
        let text = r#"{"turned": [{"at": 0, "what": "log level debug", "of": {"flow": "leads"}, "by": "ada", "why": "look",
            "log": {"level": "debug", "until": 1900000000000}}]}"#;
        let (board, unknown) = understood(text).expect("a board");
        assert_eq!((unknown, board.paused_flow("leads", NOW)), (Vec::new(), None));
        assert!(board.log_level("leads", NOW).is_some());
        let fields: Map<String, Value> = serde_json::from_str(text).expect("an object");
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["turned"], "no switch is among the switches");
        assert!(read::<Vec<Earlier>>(fields["turned"].clone()).is_some());
    }

    #[test]
    fn a_text_that_is_no_board_is_bad() {
        for text in ["", "[]", "5", "max_attempts = 9"] {
            assert!(understood(text).is_err(), "{text}");
        }
    }
}
