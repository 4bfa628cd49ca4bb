//! Charts: small pictures in SVG, without a script. Each says in words what it shows, and tells its lines apart by more than
//! their colour.
//!
//! Deliberately absent: `<use>` and anything that is loaded, which CloudWatch removes.

use std::fmt::Write as _;

use super::html::{Html, html};

/// The most lines of one chart, and the most bars: more cannot be told apart.
pub(super) const MAX_LINES: usize = 8;

/// The size of a chart in its own units. CSS says how large it is on the page.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 80.0;

/// One line of a chart: a value for each period, or none.
pub(super) struct ChartLine {
    pub(super) label: String,
    pub(super) points: Vec<Option<f64>>,
}

impl ChartLine {
    fn highest(&self) -> f64 {
        self.points.iter().flatten().copied().fold(0.0, f64::max)
    }

    fn total(&self) -> f64 {
        self.points.iter().flatten().sum()
    }

    fn is_empty(&self) -> bool {
        self.points.iter().all(Option::is_none)
    }

    /// The line as a path. A point that stands alone is a dot.
    fn path(&self, highest: f64) -> String {
        let step = WIDTH / (self.points.len().max(2) - 1) as f64;
        let mut path = String::new();
        let mut drawn = false;
        for (n, point) in self.points.iter().enumerate() {
            if let Some(value) = point {
                let (x, y) = (n as f64 * step, HEIGHT - HEIGHT * value / highest);
                let _ = write!(path, "{}{x:.1} {y:.1}", if drawn { "L" } else { "M" });
                if !drawn {
                    path.push_str("h.1");
                }
            }
            drawn = point.is_some();
        }
        path
    }
}

/// What the numbers of a chart are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// How many in a period: their sum means something.
    Counts,
    /// A time in milliseconds.
    Millis,
    /// A time in seconds.
    Seconds,
    /// Anything else.
    Plain,
}

impl Numbers {
    fn told(self, value: f64) -> String {
        match self {
            Numbers::Counts | Numbers::Plain => short(value),
            Numbers::Millis => format!("{} ms", short(value)),
            Numbers::Seconds => format!("{} s", short(value)),
        }
    }
}

/// A number as people read it: without a part that does not matter.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value == value.trunc() || value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// A chart of lines over time; nothing where nothing was counted.
pub(super) fn lines(title: &str, numbers: Numbers, span: &str, lines: &[ChartLine]) -> Html {
    let lines: Vec<&ChartLine> = lines.iter().filter(|line| !line.is_empty()).take(MAX_LINES).collect();
    let highest = lines.iter().map(|line| line.highest()).fold(0.0, f64::max);
    let counted = numbers != Numbers::Counts || highest > 0.0;
    if lines.is_empty() || !counted {
        return Html::default();
    }
    // What was measured and is nothing is a line at the bottom.
    let scale = if highest > 0.0 { highest } else { 1.0 };
    let told: Vec<String> = lines.iter().map(|line| format!("{} {}", line.label, in_words(numbers, line))).collect();
    let path =
        |(n, line): (usize, &&ChartLine)| html(r#"<path class="line s{}" d="{}"></path>"#, &[&n, &line.path(scale)]);
    let paths: Html = lines.iter().enumerate().map(path).collect();
    let key = |(n, line): (usize, &&ChartLine)| {
        html(
            r#"<span><svg class="key" viewBox="0 0 16 6" aria-hidden="true"><path class="line s{}" d="M0 3h16"></path></svg> {}</span> "#,
            &[&n, &format!("{}: {}", line.label, in_words(numbers, line))],
        )
    };
    let keys: Html = lines.iter().enumerate().map(key).collect();
    let picture = html(
        r#"<svg class="picture" viewBox="-2 -4 304 90" preserveAspectRatio="none" role="img"><title>{}</title><desc>{}</desc><path class="axis" d="M0 80h300M0 0h300"></path>{}</svg>"#,
        &[&title, &format!("{span}. {}", told.join("; ")), &paths],
    );
    figure(title, &numbers.told(highest), &picture, &keys)
}

fn in_words(numbers: Numbers, line: &ChartLine) -> String {
    let last = line.points.iter().rev().flatten().next().copied().unwrap_or_default();
    match numbers {
        Numbers::Counts => format!("{} in all", short(line.total())),
        _ => format!("{} last, {} at most", numbers.told(last), numbers.told(line.highest())),
    }
}

/// A chart of bars, one below the other; nothing where all of them are nothing.
pub(super) fn bars(title: &str, span: &str, bars: &[(String, f64)]) -> Html {
    let highest = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if highest <= 0.0 {
        return Html::default();
    }
    let shown: Vec<&(String, f64)> = bars.iter().take(MAX_LINES).collect();
    let told: Vec<String> = shown.iter().map(|(label, value)| format!("{label} {}", short(*value))).collect();
    let row = |(label, value): &&(String, f64)| {
        let width = format!("{:.1}", (WIDTH * value / highest).max(0.0));
        html(
            r#"<tr><td>{}</td><td class="bar"><svg viewBox="0 0 300 12" preserveAspectRatio="none" aria-hidden="true"><rect class="bar" width="{}" height="12"></rect></svg></td><td>{}</td></tr>"#,
            &[label, &width, &short(*value)],
        )
    };
    let rows: Html = shown.iter().map(row).collect();
    let table = html(
        r#"<table class="bars" aria-label="{}">{}</table>"#,
        &[&format!("{title}. {span}. {}", told.join("; ")), &rows],
    );
    figure(title, "", &table, &Html::default())
}

fn figure(title: &str, highest: &str, picture: &Html, keys: &Html) -> Html {
    html(
        r#"<div class="chart"><b>{}</b> <span class="dim">{}</span>{}<p class="keys">{}</p></div>"#,
        &[&title, &highest, picture, keys],
    )
}

/// A bar on a line of time.
pub(super) struct TimeBar {
    /// Where it begins and how long it is, as shares of the whole.
    pub(super) from: f64,
    pub(super) length: f64,
    /// The class that says what it is.
    pub(super) class: &'static str,
    /// What it is, in words.
    pub(super) told: String,
}

impl TimeBar {
    /// The bar as a picture. What took no time is still seen.
    pub(super) fn drawn(&self) -> Html {
        let (x, width) = ((WIDTH * self.from).min(WIDTH - 1.0), (WIDTH * self.length).max(1.0));
        let (x, width) = (format!("{x:.1}"), format!("{width:.1}"));
        html(
            r#"<svg class="time" viewBox="0 0 300 12" preserveAspectRatio="none" role="img"><title>{}</title><rect class="{}" x="{}" width="{}" height="12"></rect></svg>"#,
            &[&self.told, &self.class, &x, &width],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, points: &[Option<f64>]) -> ChartLine {
        ChartLine { label: label.into(), points: points.to_vec() }
    }

    #[test]
    fn a_line_breaks_where_nothing_was_measured_and_a_lone_point_is_a_dot() {
        let drawn = line("p95", &[Some(10.0), Some(0.0), None, Some(5.0)]).path(10.0);
        assert_eq!(drawn, "M0.0 0.0h.1L100.0 80.0M300.0 40.0h.1");
    }

    #[test]
    fn a_chart_says_in_words_what_it_shows() {
        let hostile = line("<b>crm</b>", &[Some(1.0), Some(2.0)]);
        let page = lines("Calls", Numbers::Counts, "from 09:00 to 12:00", &[hostile]).into_text();
        assert!(
            page.contains("<title>Calls</title><desc>from 09:00 to 12:00. &lt;b&gt;crm&lt;/b&gt; 3 in all</desc>"),
            "{page}"
        );
        assert!(page.contains(r#"role="img""#) && !page.contains("<b>crm"), "{page}");
    }

    #[test]
    fn a_chart_of_nothing_is_none_and_one_of_much_is_bounded() {
        let nothing = [line("a", &[None, None]), line("b", &[Some(0.0), None])];
        assert_eq!(lines("t", Numbers::Counts, "", &nothing).into_text(), "");
        assert_eq!(bars("t", "", &[("a".into(), 0.0)]).into_text(), "");
        let many: Vec<ChartLine> = (0..50).map(|n| line(&n.to_string(), &[Some(1.0), Some(f64::from(n))])).collect();
        let page = lines("t", Numbers::Plain, "", &many).into_text();
        assert_eq!(page.matches(r#"<path class="line"#).count(), 2 * MAX_LINES);
    }

    #[test]
    fn a_bar_of_no_time_is_still_seen() {
        let end = TimeBar { from: 1.0, length: 0.0, class: "failed", told: "crm".into() };
        assert!(end.drawn().into_text().contains(r#"<rect class="failed" x="299.0" width="1.0""#));
    }
}
