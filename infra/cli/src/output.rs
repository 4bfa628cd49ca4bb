//! How things look: problems with the lines they are on, tables, colours.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use shared::base::locate::Place;
use shared::flows::{File, Problem, Problems};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();

/// A text in a style. [`anstream`] takes the style away where it is not wanted.
pub(crate) fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// `1 flow`, `2 flows`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Shows problems, each with its line.
pub(crate) fn problems(problems: &Problems, files: &[File]) {
    anstream::eprint!("{}", render(problems, files, &Renderer::styled()));
}

/// Problems as text, each with its line.
pub fn render(problems: &Problems, files: &[File], renderer: &Renderer) -> String {
    problems.0.iter().map(|problem| renderer.render(&[report(problem, files)]) + "\n\n").collect()
}

fn report<'r>(problem: &'r Problem, files: &'r [File]) -> Group<'r> {
    let text = files.iter().find(|file| file.path == problem.file).map_or("", |file| &file.text);
    let place = AnnotationKind::Primary.span(span(problem.place, text));
    let report = Level::ERROR.primary_title(&problem.what);
    let report = report.element(Snippet::source(text).path(&problem.file).annotation(place));
    report.elements(problem.hint.iter().map(|hint| Level::HELP.message(hint)))
}

/// The bytes of a text at a place, within its line.
fn span(place: Place, text: &str) -> Range<usize> {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let before: usize = text.split_inclusive('\n').take(number(place.line - 1)).map(str::len).sum();
    let line = text[before..].lines().next().unwrap_or_default();
    let bytes = |text: &str, count: usize| -> usize { text.chars().take(count).map(char::len_utf8).sum() };
    let start = bytes(line, number(place.column - 1));
    let len = bytes(&line[start..], number(place.len).max(1));
    before + start..before + start + len
}

/// Problems for scripts.
pub(crate) fn problems_as_json(problems: &[Problem]) -> Value {
    let problem = |Problem { file, place, what, hint }: &Problem| json!({"file": file, "line": place.line, "column": place.column, "what": what, "hint": hint});
    problems.iter().map(problem).collect()
}

/// Prints rows with aligned columns.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) {
    anstream::print!("{}", columns(head, rows));
}

/// Rows with aligned columns, as text.
pub(crate) fn columns<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| printable(cell))).collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or_default()
    });
    let line = |cells: [&str; N]| {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    [styled(BOLD, line(head))].into_iter().chain(rows).map(|line| line + "\n").collect()
}

/// A text on one line, and nothing in it that a terminal would obey: partners and senders wrote some of it.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The start of a text that may be long.
pub(crate) fn short(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Prints a text. A reader that has gone, as `head` goes, is an error that ends the command.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints what a verb found: an answer for scripts, or a text for people.
pub(crate) fn print_answer(as_json: bool, answer: &Value, text: impl FnOnce() -> String) -> io::Result<()> {
    if as_json { print(&format!("{answer:#}\n")) } else { print(&text()) }
}

/// Prints a value for scripts.
pub(crate) fn json(value: &Value) {
    println!("{value:#}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_others_controls_the_terminal() {
        for hostile in ["\u{1b}[2J", "\u{1b}]0;title\u{7}", "\u{9b}31m", "one\r\ntwo\tthree\u{8}"] {
            assert!(!printable(hostile).chars().any(char::is_control), "{hostile:?}");
        }
    }
}
