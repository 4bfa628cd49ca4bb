//! The charts of the overview: the shape of the last hours, from the same metrics as the graphs of the dashboards.
//!
//! Two numbers are only on the dashboards, because AWS counts them in namespaces of its own, and this function reads one:
//! what an hour costs, and the age of the oldest message on the queue.

use std::time::Duration;

use shared::operate::metric::{MetricPoints, MetricQuery, MetricStatistic, MetricWindow};

use super::Console;
use super::chart::{self, ChartLine, MAX_LINES, Numbers};
use super::html::{Html, html};
use super::plots::{Kind, Plot, plots};
use crate::Replay;

/// How far the charts look back, and in which steps.
const HOURS: Duration = Duration::from_secs(3 * 3600);
const STEP: Duration = Duration::from_secs(300);

/// All charts, drawn; in their place a sentence where CloudWatch does not answer.
pub(super) async fn charts(console: &Console<'_>) -> Html {
    let now = console.replay.clock.now();
    let (window, plots) = (MetricWindow::until(now, HOURS, STEP), plots(console.replay));
    let queries: Vec<MetricQuery> =
        plots.iter().flat_map(|plot| plot.lines.iter().map(|(_, query)| query.clone())).collect();
    let series = match console.replay.figures.series(&queries, window, now).await {
        Ok(series) => series,
        Err(unavailable) => {
            return html("<h3>The last hours</h3><p>They cannot be drawn now: {}</p>", &[&unavailable.to_string()]);
        }
    };
    let mut series = series.iter();
    let drawn: Html = plots.iter().map(|plot| plot.drawn(series.by_ref().take(plot.lines.len()), window)).collect();
    let none = (drawn == Html::default()).then(|| html("<p>Nothing was counted.</p>", &[]));
    let head = format!("The last {} hours, in steps of {} minutes", HOURS.as_secs() / 3600, STEP.as_secs() / 60);
    html(r#"<h3>{}</h3>{}<div class="charts">{}</div>"#, &[&head, &none, &drawn])
}

/// The queries of all charts.
pub(crate) fn queries(replay: &Replay) -> Vec<MetricQuery> {
    plots(replay).into_iter().flat_map(|plot| plot.lines).map(|(_, query)| query).collect()
}

impl Plot {
    fn drawn<'s>(&self, series: impl Iterator<Item = &'s MetricPoints>, window: MetricWindow) -> Html {
        let span = format!("From {} to {}", window.from, window.until);
        let lines: Vec<ChartLine> =
            self.lines.iter().zip(series).map(|((label, query), points)| line(label, query, points, window)).collect();
        let sums =
            || lines.iter().map(|line| (line.label.clone(), line.points.iter().flatten().sum())).collect::<Vec<_>>();
        match self.kind {
            Kind::Lines(numbers) => chart::lines(&self.title, numbers, &span, &lines),
            Kind::Bars => chart::bars(&self.title, &span, &largest(sums())),
            Kind::Funnel => chart::bars(&self.title, &span, &funnel(&sums())),
            Kind::BurnRate => chart::lines(&self.title, Numbers::Plain, &span, &[burn_rate(&lines)]),
        }
    }
}

/// The points in their periods. Of what is counted none is nothing; of what is measured it is not known.
fn line(label: &str, query: &MetricQuery, points: &MetricPoints, window: MetricWindow) -> ChartLine {
    let absent = (query.statistic == MetricStatistic::Sum && !points.is_empty()).then_some(0.0);
    let mut line = ChartLine { label: label.to_owned(), points: vec![absent; window.periods()] };
    for (at, value) in points.iter().filter(|(at, _)| *at >= window.from) {
        if let Some(point) = line.points.get_mut(window.period_of(*at)) {
            *point = Some(*value);
        }
    }
    line
}

/// The largest bars; the rest in one.
fn largest(mut bars: Vec<(String, f64)>) -> Vec<(String, f64)> {
    bars.retain(|(_, value)| *value > 0.0);
    bars.sort_by(|one, other| other.1.total_cmp(&one.1));
    let rest: f64 = bars.iter().skip(MAX_LINES - 1).map(|(_, value)| value).sum();
    if bars.len() > MAX_LINES {
        bars.truncate(MAX_LINES - 1);
        bars.push(("others".into(), rest));
    }
    bars
}

/// What was received, and what is left of it after each stage.
fn funnel(sums: &[(String, f64)]) -> Vec<(String, f64)> {
    let of = |name: &str| sums.iter().find(|(label, _)| label == name).map_or(0.0, |(_, sum)| *sum);
    let (new, duplicates, refused) = (of("new"), of("duplicates"), of("refused"));
    // An invalid event died before it was valid, and one that was replayed has ended before.
    let (ends, again) = (of("succeeded") + of("no-op") + of("dead"), of("replays settled") + of("replays dead"));
    let stages = [
        ("received", new + duplicates + refused),
        ("believed", new + duplicates),
        ("new", new),
        ("valid", (new - of("invalid")).max(0.0)),
        ("ended", (ends - of("invalid") - again).max(0.0)),
        ("persisted", of("succeeded")),
    ];
    stages.map(|(label, value)| (label.to_owned(), value)).into()
}

/// How many times faster than allowed: what was spent, for each event that was good or bad.
fn burn_rate(lines: &[ChartLine]) -> ChartLine {
    let at = |line: usize, n: usize| lines.get(line).and_then(|line| line.points[n]).unwrap_or_default();
    let rate = |n: usize| {
        let events = at(0, n) + at(1, n);
        (events > 0.0).then(|| at(2, n) / events)
    };
    let periods = lines.first().map_or(0, |line| line.points.len());
    ChartLine { label: "burn rate".into(), points: (0..periods).map(rate).collect() }
}

#[cfg(test)]
mod tests {
    use shared::base::time::Timestamp;
    use shared::operate::metric::Metric;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600 + 60 * minute)
    }

    #[test]
    fn nothing_counted_is_nothing_and_nothing_measured_is_not_known() {
        let window = MetricWindow::until(at(12), Duration::from_secs(900), STEP);
        let points = vec![(at(5), 3.0), (at(90), 9.0)];
        let of = |query: MetricQuery| line("", &query, &points, window).points;
        assert_eq!(of(MetricQuery::sum(Metric::Accepted)), [Some(0.0), Some(3.0), Some(0.0)]);
        assert_eq!(of(MetricQuery::of(Metric::ParkedNow, MetricStatistic::Maximum)), [None, Some(3.0), None]);
        assert_eq!(line("", &MetricQuery::sum(Metric::Accepted), &vec![], window).points, [None; 3]);
    }

    #[test]
    fn a_funnel_narrows_by_what_each_stage_loses() {
        let sums = [
            ("new", 80.0),
            ("duplicates", 15.0),
            ("refused", 5.0),
            ("invalid", 10.0),
            ("dead", 18.0),
            ("succeeded", 60.0),
            ("no-op", 3.0),
            ("replays settled", 2.0),
            ("replays dead", 1.0),
        ];
        let stages: Vec<f64> =
            funnel(&sums.map(|(label, sum)| (label.to_owned(), sum))).into_iter().map(|(_, sum)| sum).collect();
        assert_eq!(stages, [100.0, 95.0, 80.0, 70.0, 68.0, 60.0]);
    }

    #[test]
    fn the_largest_reasons_are_shown_and_the_others_are_one() {
        let bars: Vec<_> = (1..=20).map(|n| (n.to_string(), f64::from(n))).collect();
        let shown = largest(bars);
        assert_eq!(
            (shown.len(), shown[0].1, &*shown[7].0, shown[7].1),
            (8, 20.0, "others", (1..=13).sum::<i32>().into())
        );
    }

    #[test]
    fn service_levels_are_spent_by_the_event() {
        let line = |points: &[Option<f64>]| ChartLine { label: String::new(), points: points.to_vec() };
        let rate = burn_rate(&[line(&[Some(18.0), None]), line(&[Some(2.0), None]), line(&[Some(40.0), None])]);
        assert_eq!(rate.points, [Some(2.0), None]);
    }
}
