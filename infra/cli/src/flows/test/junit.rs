//! A report in the form that CI systems read.

use std::fmt::Write as _;

use super::{FileResult, ScenarioResult};
use crate::scenarios::folder::Unread;

/// The report of all files: a suite each, also of one that cannot be read.
pub(super) fn report(results: &[FileResult], unread: &[Unread]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for FileResult { read, scenarios } in results {
        let failures = scenarios.iter().filter(|scenario| !scenario.failed.is_empty()).count();
        let name = escaped(&read.written.flow);
        let _ = writeln!(xml, "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">", scenarios.len());
        for ScenarioResult { it, failed, took, .. } in scenarios {
            let seconds = took.as_secs_f64();
            let _ = write!(xml, "    <testcase classname=\"{name}\" name=\"{}\" time=\"{seconds:.3}\"", escaped(it));
            if failed.is_empty() {
                xml.push_str("/>\n");
                continue;
            }
            xml.push_str(">\n");
            for difference in failed {
                let problem = difference.problem(&read.file);
                let lines = difference.lines.join("\n");
                let text = escaped(&format!("{problem}\n{lines}"));
                let _ = writeln!(xml, "      <failure message=\"{}\">{text}</failure>", escaped(&problem.what));
            }
            xml.push_str("    </testcase>\n");
        }
        xml.push_str("  </testsuite>\n");
    }
    for (file, problem) in unread {
        let name = escaped(&file.path);
        let _ = writeln!(xml, "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\">");
        let _ = writeln!(xml, "    <testcase classname=\"{name}\" name=\"can be read\" time=\"0.000\">");
        let text = escaped(&problem.to_string());
        let _ = writeln!(xml, "      <error message=\"{}\">{text}</error>", escaped(&problem.what));
        xml.push_str("    </testcase>\n  </testsuite>\n");
    }
    xml + "</testsuites>\n"
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
