//! The filter `since`: of a list, what is not older than a moment. Partners list what they did, newest and oldest; a lookup
//! asks for what they did since we first meant to call.

use std::time::Duration;

use minijinja::value::{Value as Jinja, ValueKind};
use minijinja::{Error, ErrorKind};

/// How much earlier than ours a partner's clock may say that something happened.
const TOLERANCE: Duration = Duration::from_secs(60);

/// The items whose attribute is a moment that is not before this one, by more than a minute. An item without it is left
/// out. Moments are RFC 3339 (`2026-11-16T09:00:00Z`), RFC 2822 (`Mon, 16 Nov 2026 09:00:00 +0000`), or Unix seconds.
pub(super) fn since(items: &Jinja, attribute: &str, moment: &Jinja) -> Result<Vec<Jinja>, Error> {
    let told = |what| Error::new(ErrorKind::InvalidOperation, what);
    let from = seconds(moment).ok_or_else(|| told("`since` needs a moment"))? - TOLERANCE.as_secs_f64();
    if items.is_undefined() {
        return Ok(Vec::new());
    }
    let items = items.try_iter().map_err(|_| told("`since` takes a list"))?;
    Ok(items
        .filter(|item| item.get_attr(attribute).ok().as_ref().and_then(seconds).is_some_and(|at| at >= from))
        .collect())
}

/// A moment in seconds since the Unix epoch.
fn seconds(value: &Jinja) -> Option<f64> {
    if value.kind() == ValueKind::Number {
        return f64::try_from(value.clone()).ok();
    }
    let text = value.as_str()?.trim();
    let since_epoch = |moment: jiff::Timestamp| moment.as_duration().as_secs_f64();
    let rfc3339 = || text.parse::<jiff::Timestamp>().ok().map(since_epoch);
    let rfc2822 = || jiff::fmt::rfc2822::parse(text).ok().map(|zoned| since_epoch(zoned.timestamp()));
    text.parse().ok().filter(|seconds: &f64| seconds.is_finite()).or_else(rfc3339).or_else(rfc2822)
}

#[cfg(test)]
mod tests {
    use minijinja::value::{Serde, Value as Jinja};
    use serde_json::{Value, json};

    use super::super::environment::lenient;

    fn evaluated(list: &Value) -> Option<String> {
        let expression = "list | since('at', '2026-11-16T09:00:00Z') | map(attribute='id') | join(',')";
        let values = Jinja::from(Serde(json!({"list": list})));
        let value = lenient().compile_expression(expression).expect("an expression").eval(values);
        value.ok().map(|value| value.to_string())
    }

    #[test]
    fn what_is_older_than_a_minute_before_the_moment_is_left_out() {
        let list = json!([
            {"id": 1, "at": "Mon, 16 Nov 2026 08:59:30 +0000"},
            {"id": 2, "at": "Mon, 16 Nov 2026 08:58:59 +0000"},
            {"id": 3, "at": "2026-11-16T10:00:00.000+01:00"},
            {"id": 4, "at": "1794819600.000100"},
            {"id": 5, "at": 1_794_819_000},
            {"id": 6, "at": null},
            {"id": 7},
            {"id": 8, "at": "yesterday"},
        ]);
        assert_eq!(evaluated(&list).as_deref(), Some("1,3,4"));
        assert_eq!(evaluated(&json!([])).as_deref(), Some(""));
        assert_eq!(evaluated(&json!(7)), None);
    }
}
