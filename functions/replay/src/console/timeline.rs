//! The timeline of an event: a bar for each span, in which work is told from waiting, and from what nobody knows.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::ledger::Row;
use shared::ledger::timeline::{EventTimeline, Gap, Scale, SpanEnd, SpanKind, TimelineSpan};

use super::chart::TimeBar;
use super::html::{Html, html};
use super::{Access, Console, parts};

/// The timeline of a row; nothing where nothing was done for it yet. Who may only look reads our own words alone.
pub(super) fn of(console: &Console<'_>, row: &Row, now: Timestamp) -> Html {
    let timeline = match console.access {
        Access::Operate => EventTimeline::of(row, now),
        Access::Read => EventTimeline::unquoted(row, now),
    };
    let Some(first) = timeline.spans.first() else { return Html::default() };
    let (scale, began) = (Scale::of(&timeline, now), first.began);
    let mut gap = timeline.gap;
    let mut lines = Vec::new();
    for span in &timeline.spans {
        lines.extend(gap.take_if(|gap| gap.after < span.began).map(|gap| missing(&gap)));
        lines.push(line(span, &scale, began, now));
    }
    lines.extend(gap.map(|gap| missing(&gap)));
    let lines: Html = lines.into_iter().collect();
    html(
        r#"<h3>Timeline</h3><table class="timeline"><tr><th>at</th><th>took</th><th class="span">the scale is logarithmic</th><th>what</th></tr>{}</table>"#,
        &[&lines],
    )
}

fn line(span: &TimelineSpan, scale: &Scale, first: Timestamp, now: Timestamp) -> Html {
    let ended = span.ended.unwrap_or(now.max(span.began));
    let at = format!("{}+{}", if span.began_later { "~" } else { "" }, length(span.began.since(first)));
    let took = length(ended.since(span.began)) + if span.ended.is_some() { "" } else { "…" };
    let (from, to) = (scale.place(span.began), scale.place(ended));
    let what = what(span);
    let kind = kind(span);
    let bar = TimeBar { from, length: to - from, class: kind, told: format!("{kind}: {what}, {took}") };
    html(
        r#"<tr class="{}"><td title="{}">{}</td><td>{}</td><td class="span">{}</td><td class="text">{}</td></tr>"#,
        &[&kind, &span.began.to_string(), &at, &took, &bar.drawn(), &what],
    )
}

/// What a bar is: its class, and the word that its title says.
fn kind(span: &TimelineSpan) -> &'static str {
    match (span.kind.is_waiting(), span.end) {
        (true, _) => "waiting",
        (false, SpanEnd::Unknown) => "unknown",
        (false, SpanEnd::Failed) => "failed",
        (false, SpanEnd::Done | SpanEnd::Open) => "working",
    }
}

fn what(span: &TimelineSpan) -> String {
    let (what, said) = match &span.kind {
        SpanKind::Accepted => ("accepted".to_owned(), ""),
        SpanKind::Waited { waited_for } => (format!("waited for {waited_for}"), ""),
        SpanKind::Worked { claim } => (format!("claim {claim}"), &*span.said),
        SpanKind::Called { effect, attempt } => (format!("{effect}, attempt {attempt}"), &*span.said),
        SpanKind::LookedUp { effect } => (format!("{effect} looked up"), &*span.said),
        SpanKind::Replayed { replay, by } => (format!("replay {replay} by {by}"), ""),
        SpanKind::Approved { by, .. } => (format!("approved by {by}"), ""),
        SpanKind::Woken { wake, by: Some(by) } => (format!("wake {wake} by {by}"), ""),
        SpanKind::Woken { wake, by: None } => (format!("wake {wake}"), ""),
        SpanKind::Ended => ("ended".to_owned(), &*span.said),
    };
    if said.is_empty() { what } else { format!("{what}: {said}") }
}

/// A length of time, to the millisecond where it is short.
fn length(time: Duration) -> String {
    match time.as_secs() {
        0..2 => format!("{} ms", time.as_millis()),
        secs => parts::span(secs),
    }
}

fn missing(Gap { lines, after, before }: &Gap) -> Html {
    let told = format!("{lines} lines of the history are missing here, from {after} to {before}");
    html(r#"<tr><td colspan="4">{}</td></tr>"#, &[&told])
}
