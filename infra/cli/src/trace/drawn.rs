//! A timeline, drawn for a terminal.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::ledger::timeline::{EventTimeline, Gap, Scale, SpanEnd, SpanKind, TimelineSpan};

use crate::output::{BAD, BOLD, DIM, GOOD, printable, styled};

/// The width of the bars, in characters.
const WIDTH: usize = 40;

/// The timeline as text: a line for each span, in the order in which they began.
pub(super) fn text(timeline: &EventTimeline, now: Timestamp) -> String {
    let began = timeline.spans.first().map_or(now, |span| span.began);
    let state = timeline.state.as_str();
    let head = format!(
        "{}  {}\n  event  {}\n  trace  {}\n  began  {began}\n\n",
        styled(BOLD, printable(&timeline.flow)),
        styled(BOLD, state),
        printable(timeline.event.as_str()),
        printable(&timeline.trace_id),
    );
    head + &bars(timeline, now)
}

/// The lines alone, and what their signs mean.
pub(crate) fn bars(timeline: &EventTimeline, now: Timestamp) -> String {
    let scale = Scale::of(timeline, now);
    let began = timeline.spans.first().map_or(now, |span| span.began);
    let (mut text, mut gap) = (String::new(), timeline.gap);
    for span in &timeline.spans {
        if let Some(gap) = gap.take_if(|gap| gap.after < span.began) {
            text.push_str(&missing(&gap));
        }
        text.push_str(&line(span, &scale, began, now));
    }
    gap.iter().for_each(|gap| text.push_str(&missing(gap)));
    text + &styled(
        DIM,
        "\n█ working  ░ waiting  ▒ nobody knows  ~ it may have begun later  The scale is logarithmic.\n",
    )
}

fn line(span: &TimelineSpan, scale: &Scale, first: Timestamp, now: Timestamp) -> String {
    let ended = span.ended.unwrap_or(now.max(span.began));
    let later = if span.began_later { "~" } else { "" };
    let at = format!("{later}+{}", short(span.began.since(first)));
    let took = short(ended.since(span.began)) + if span.ended.is_some() { "" } else { "…" };
    let (from, to) = (scale.place(span.began), scale.place(ended));
    format!("{at:>9}  {took:>8}  {}  {}\n", bar(span, from, to), what(span))
}

/// A bar from one place to another: at least one character, so that everything is seen.
fn bar(span: &TimelineSpan, from: f64, to: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to the width")]
    let column = |place: f64| (place * WIDTH as f64).round() as usize;
    let from = column(from).min(WIDTH - 1);
    let to = column(to).clamp(from + 1, WIDTH);
    let (fill, style) = match (span.kind.is_waiting(), span.end) {
        (true, _) => ("░", DIM),
        (false, SpanEnd::Unknown) => ("▒", BAD),
        (false, SpanEnd::Failed) => ("█", BAD),
        (false, SpanEnd::Done | SpanEnd::Open) => ("█", GOOD),
    };
    format!("│{}{}{}│", " ".repeat(from), styled(style, fill.repeat(to - from)), " ".repeat(WIDTH - to))
}

fn what(span: &TimelineSpan) -> String {
    let said = Some(printable(&span.said)).filter(|said| !said.is_empty());
    let (what, said) = match &span.kind {
        SpanKind::Accepted => ("accepted".into(), None),
        SpanKind::Waited { waited_for } => (format!("waited for {}", printable(waited_for)), None),
        SpanKind::Worked { claim } => (format!("claim {claim}"), said),
        SpanKind::Called { effect, attempt } => (format!("  {} {attempt}", printable(effect)), said),
        SpanKind::LookedUp { effect } => (format!("  {} looked up", printable(effect)), said),
        SpanKind::Replayed { replay, by } => (format!("replay {replay} by {}", printable(by)), None),
        SpanKind::Approved { by, .. } => (format!("approved by {}", printable(by)), None),
        SpanKind::Woken { wake, by } => {
            let by = by.as_ref().map_or_else(String::new, |by| format!(" by {}", printable(by)));
            (format!("wake {wake}{by}"), None)
        }
        SpanKind::Ended => (String::new(), said),
    };
    let words = [Some(what), said].into_iter().flatten().filter(|word| !word.is_empty());
    let told = words.collect::<Vec<_>>().join(": ");
    if matches!(span.end, SpanEnd::Unknown) { styled(BAD, told) } else { told }
}

fn missing(Gap { lines, after, before }: &Gap) -> String {
    let told = format!("{:>9}  {lines} lines of the history are missing here, from {after} to {before}\n", "…");
    styled(BOLD, told)
}

/// A time, short enough for a column.
fn short(time: Duration) -> String {
    let (secs, millis) = (time.as_secs(), time.subsec_millis());
    match secs {
        0 => format!("{millis}ms"),
        1..60 => format!("{secs}.{}s", millis / 100),
        60..3600 => format!("{}m{:02}s", secs / 60, secs % 60),
        3600..86_400 => format!("{}h{:02}m", secs / 3600, secs / 60 % 60),
        _ => format!("{}d{:02}h", secs / 86_400, secs / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn timeline() -> EventTimeline {
        let span = |id: u64, kind: serde_json::Value, from: i64, to: Option<i64>, end: &str, said: &str| {
            let mut span = json!({"id": format!("{id:016x}"), "parent": "00f067aa0ba902b7", "began": from, "end": end, "said": said});
            span["ended"] = json!(to);
            span.as_object_mut()
                .into_iter()
                .for_each(|span| span.extend(kind.as_object().cloned().unwrap_or_default()));
            span
        };
        let calls = |attempt| json!({"kind": "called", "effect": "crm", "attempt": attempt});
        let waits = |what| json!({"kind": "waited", "waited_for": what});
        let mut spans = vec![
            span(1, json!({"kind": "accepted"}), 0, Some(4), "done", ""),
            span(2, waits("a worker"), 4, Some(30), "done", ""),
            span(3, json!({"kind": "worked", "claim": 1}), 30, Some(300_030), "unknown", "the worker was lost"),
            span(4, calls(1), 30, Some(300_030), "unknown", "the worker was lost"),
            span(5, json!({"kind": "worked", "claim": 2}), 301_000, Some(301_090), "failed", "dead: terminal"),
            span(6, calls(2), 301_000, Some(301_080), "failed", "answered 422 (E1)\u{1b}[2J"),
            span(7, waits("an operator"), 301_090, Some(9_000_000), "done", ""),
            span(
                8,
                json!({"kind": "replayed", "replay": 1, "by": "ada: the CRM is back"}),
                9_000_000,
                Some(9_000_000),
                "done",
                "",
            ),
            span(9, waits("a worker"), 9_000_000, None, "open", ""),
        ];
        spans[3]["began_later"] = json!(true);
        let timeline = json!({
            "event": "1b16f576", "flow": "lead-routing", "state": "queued", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "spans": spans, "gap": {"lines": 12, "after": 301_000, "before": 301_080},
        });
        serde_json::from_value(timeline).expect("a timeline")
    }

    #[test]
    fn a_timeline_tells_work_from_waiting_and_says_what_nobody_knows() {
        let text = text(&timeline(), Timestamp::from_millis(9_000_700));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text));
    }

    #[test]
    fn a_time_is_short() {
        let told = [7, 1_234, 61_000, 3_661_000, 90_000_000].map(|millis| short(Duration::from_millis(millis)));
        assert_eq!(told, ["7ms", "1.2s", "1m01s", "1h01m", "1d01h"]);
    }
}
