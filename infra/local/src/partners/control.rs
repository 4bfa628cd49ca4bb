//! Control requests: how the stub shall behave as an integration.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::fault_chance::FaultChance;

/// The behaviour of one integration for its next calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// What the integration does with a call.
    pub mode: Mode,
    /// The faults by chance that take the mode's place.
    pub chance: Option<FaultChance>,
    /// How many calls it lasts; afterwards the integration is healthy. Without a number, until the next request.
    pub times: Option<u32>,
    /// Whether the integration honours idempotency keys.
    pub idempotent: bool,
}

/// What an integration does with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Apply it and answer 200.
    Ok,
    /// Answer with this status.
    Status {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` header's value.
        retry_after: Option<String>,
        /// Whether the effect happens: unless told otherwise, if the status is a success.
        apply: bool,
        /// The body instead of the usual one. Null is none at all.
        body: Option<Value>,
        /// More header fields of the answer.
        headers: Vec<(String, String)>,
        /// How late the answer comes.
        time: Duration,
    },
    /// Answer nothing for this long, then close the connection.
    Hang {
        /// Whether the effect happens all the same.
        apply: bool,
        /// How long.
        time: Duration,
    },
    /// Close the connection at once, with no answer.
    Reset {
        /// Whether the effect happens all the same.
        apply: bool,
    },
    /// Apply it, and answer 200 once the stub is told anything else.
    Hold,
    /// Apply it and answer 200, but late.
    Slow {
        /// How late.
        time: Duration,
    },
    /// Apply it and begin to answer 200 at once, but end the answer's body late.
    SlowBody {
        /// How late.
        time: Duration,
    },
}

impl Mode {
    /// The mode that answers with this status, and nothing else of its own.
    pub fn status(status: u16, apply: bool) -> Self {
        let (retry_after, body, headers, time) = (None, None, Vec::new(), Duration::ZERO);
        Self::Status { status, retry_after, apply, body, headers, time }
    }

    /// The mode's name in control requests and in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Status { .. } => "status",
            Self::Hang { .. } => "hang",
            Self::Reset { .. } => "reset",
            Self::Hold => "hold",
            Self::Slow { .. } => "slow",
            Self::SlowBody { .. } => "slow_body",
        }
    }
}

impl Behaviour {
    /// The mode's name in control requests.
    pub(super) fn name(&self) -> &'static str {
        if self.chance.is_some() { "chance" } else { self.mode.name() }
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { mode: Mode::Ok, chance: None, times: None, idempotent: true }
    }
}

/// Reads a control request. The error says what to write.
pub(super) fn parse(body: &[u8]) -> Result<Behaviour, String> {
    let control: Control = serde_json::from_slice(body).map_err(|error| {
        format!(r#"Nothing was changed: {error}. Write something like {{"mode":"status","status":500,"times":3}}."#)
    })?;
    Ok(Behaviour {
        mode: mode(&control)?,
        chance: chance(&control)?,
        times: control.times,
        idempotent: control.idempotent.unwrap_or(true),
    })
}

/// A control request, as people type it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    mode: String,
    status: Option<u16>,
    retry_after: Option<Value>,
    apply: Option<bool>,
    #[serde(default, deserialize_with = "even_null")]
    body: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    seconds: Option<u64>,
    ms: Option<u64>,
    seed: Option<u64>,
    percent: Option<u8>,
    times: Option<u32>,
    idempotent: Option<bool>,
}

/// Null is a value here, and no absence.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn mode(control: &Control) -> Result<Mode, String> {
    match control.mode.as_str() {
        "ok" | "chance" => Ok(Mode::Ok),
        "status" => {
            let status = status(control)?;
            let apply = control.apply.unwrap_or((200..300).contains(&status));
            let retry_after = control.retry_after.as_ref().map(as_text);
            let headers = control.headers.clone().into_iter().collect();
            let time = Duration::from_millis(control.ms.unwrap_or(0));
            Ok(Mode::Status { status, retry_after, apply, body: control.body.clone(), headers, time })
        }
        "hang" => Ok(Mode::Hang {
            apply: control.apply.unwrap_or(false),
            time: Duration::from_secs(control.seconds.unwrap_or(30)),
        }),
        "reset" => Ok(Mode::Reset { apply: control.apply.unwrap_or(false) }),
        "hold" => Ok(Mode::Hold),
        "slow" => Ok(Mode::Slow { time: how_slow(control)? }),
        "slow_body" => Ok(Mode::SlowBody { time: how_slow(control)? }),
        other => Err(format!(
            "Nothing was changed: there is no mode {other:?}: use ok, status, hang, reset, hold, slow, slow_body or chance."
        )),
    }
}

fn chance(control: &Control) -> Result<Option<FaultChance>, String> {
    match (control.mode.as_str(), control.seed, control.percent) {
        ("chance", Some(seed), Some(percent @ 0..=100)) => Ok(Some(FaultChance { seed, percent })),
        ("chance", ..) => Err(r#"Nothing was changed: the mode chance needs a seed and a percent. Write {"mode":"chance","seed":7,"percent":15}."#.into()),
        _ => Ok(None),
    }
}

fn how_slow(control: &Control) -> Result<Duration, String> {
    let ms = control.ms.ok_or_else(|| {
        format!(r#"Nothing was changed: the mode {0} needs a time. Write {{"mode":"{0}","ms":500}}."#, control.mode)
    })?;
    Ok(Duration::from_millis(ms))
}

fn status(control: &Control) -> Result<u16, String> {
    match control.status {
        Some(status @ 200..=599) => Ok(status),
        Some(other) => Err(format!("Nothing was changed: {other} is no status of an answer. Use 200 to 599.")),
        None => {
            Err(r#"Nothing was changed: the mode status needs a status. Write {"mode":"status","status":500}."#.into())
        }
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        let read = |text: &str| parse(text.as_bytes()).expect(text);
        assert_eq!(read(r#"{"mode":"ok"}"#), Behaviour::default());
        assert!(!read(r#"{"mode":"ok","idempotent":false}"#).idempotent);
        let throttle = read(r#"{"mode":"status","status":429,"retry_after":7,"times":3}"#);
        assert!(matches!(&throttle.mode, Mode::Status { status: 429, retry_after, apply: false, body: None, .. }
            if retry_after.as_deref() == Some("7")));
        for (told, read_as) in [("null", Value::Null), (r#"{"ok":false}"#, serde_json::json!({"ok": false}))] {
            let mode = read(&format!(r#"{{"mode":"status","status":200,"body":{told}}}"#)).mode;
            assert!(matches!(mode, Mode::Status { status: 200, apply: true, body: Some(body), .. } if body == read_as));
        }
        let late = read(r#"{"mode":"status","status":202,"headers":{"X-Message-Id":"m1"},"ms":250}"#).mode;
        let Mode::Status { headers, time, .. } = late else { panic!("{late:?}") };
        assert_eq!((headers, time), (vec![("X-Message-Id".into(), "m1".into())], Duration::from_millis(250)));
        assert_eq!(throttle.times, Some(3));
        let hang = read(r#"{"mode":"hang","apply":true,"seconds":2}"#);
        assert_eq!(hang.mode, Mode::Hang { apply: true, time: Duration::from_secs(2) });
        let chance = read(r#"{"mode":"chance","seed":7,"percent":15}"#);
        assert_eq!(chance.chance, Some(FaultChance { seed: 7, percent: 15 }));
    }

    #[test]
    fn a_bad_request_is_told_what_to_write() {
        let sentence = |text: &str| parse(text.as_bytes()).expect_err(text);
        assert!(sentence(r#"{"mode":"status"}"#).contains(r#"{"mode":"status","status":500}"#));
        assert!(
            sentence(r#"{"mode":"down"}"#).contains("use ok, status, hang, reset, hold, slow, slow_body or chance")
        );
        assert!(sentence(r#"{"mode":"chance","seed":7}"#).contains(r#""percent":15"#));
        assert!(sentence(r#"{"mode":"ok","time":3}"#).contains("unknown field `time`"));
        assert!(sentence("500").contains("Write something like"));
    }
}
