//! What the command prints: tables, problems with their lines, colours; and where its reader is gone.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use shared::base::locate::Place;
use shared::base::visible;
use shared::flows::{File, Problem, Problems};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();

/// Prints what a verb found: JSON for scripts, or a text for people.
///
/// Where the reader is gone, as `head` goes, the verb has still done its work: its exit code says how that ended.
pub(crate) fn print_answer(as_json: bool, answer: &Value, text: impl FnOnce() -> String) -> io::Result<()> {
    print_text(&if as_json { format!("{}\n", visible::in_json(&format!("{answer:#}"))) } else { text() })
}

/// Prints a text on standard output. A closed pipe is no error.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    match print_or_end(text) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// Prints a text on standard output. A closed pipe is an error, which ends a verb that goes on forever.
pub(crate) fn print_or_end(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    out.write_all(inert(text).as_bytes())?;
    out.flush()
}

/// Prints a text on standard error, for the person at the terminal. Where that is closed, there is none.
pub fn print_notice(text: &str) {
    let mut out = anstream::stderr();
    let _ = out.write_all(inert(text).as_bytes()).and_then(|()| out.flush());
}

/// Prints an error on standard error: its sentence first, then each cause on a line of its own.
pub fn print_error(error: &anyhow::Error) {
    let causes = error.chain().skip(1).map(|cause| format!("Cause: {cause}\n"));
    print_notice(&visible::on_lines(&format!("{error}\n{}", causes.collect::<String>())));
}

/// Whether the reader of a pipe is gone.
pub(crate) fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

/// Prints problems on standard error, each with its line.
pub(crate) fn print_problems(problems: &Problems, files: &[File]) {
    print_notice(&render(problems, files, &Renderer::styled()));
}

/// Problems as text, each with its line.
pub fn render(problems: &Problems, files: &[File], renderer: &Renderer) -> String {
    problems.0.iter().map(|problem| renderer.render(&[report(problem, files)]) + "\n\n").collect()
}

/// Problems for scripts.
pub(crate) fn problems_as_json(problems: &[Problem]) -> Value {
    let problem = |Problem { file, place, what, hint }: &Problem| json!({"file": file, "line": place.line, "column": place.column, "what": what, "hint": hint});
    problems.iter().map(problem).collect()
}

/// A table: a head and rows, with aligned columns.
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

/// A text on one line, with the characters that a terminal would obey written out: partners and senders wrote some of
/// it.
pub(crate) fn printable(text: &str) -> String {
    visible::on_one_line(text)
}

/// A whole output, styles of ours included: nothing else in it acts on the terminal, whatever was forgotten above.
fn inert(text: &str) -> String {
    let pieces = text.split('\u{1b}').map(visible::on_lines);
    pieces.collect::<Vec<_>>().join("\u{1b}")
}

/// The first characters of a text that may be long.
pub(crate) fn short(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text in a style. [`anstream`] takes the style away where it is not wanted.
pub(crate) fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// `1 flow`, `2 flows`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_others_controls_the_terminal() {
        for hostile in ["\u{1b}[2J", "\u{1b}]0;title\u{7}", "\u{9b}31m", "one\r\ntwo\tthree\u{8}", "\u{202e}txt.exe"] {
            assert!(!printable(hostile).chars().any(visible::is_invisible), "{hostile:?}");
        }
        assert_eq!(printable("a\u{1b}[2J"), r"a\u{1b}[2J", "it is seen that it is there");
    }
    #[test]
    fn whatever_is_printed_has_our_own_styles_and_nothing_else_that_acts() {
        let text = inert(&format!("{}\u{9b}31m\u{202e}\u{7}\r\none\ttwo", styled(BOLD, "a")));
        assert_eq!(text, format!("{}\\u{{9b}}31m\\u{{202e}}\\u{{7}}\\r\none\ttwo", styled(BOLD, "a")));
    }
}
