//! The rows of an import: read from a file, completed by the options, and packed into requests.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use shared::ledger::batch::Filter;

use super::csv;

/// The rows of a file that can be sent, and the lines that cannot.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ImportFile {
    pub(crate) rows: Vec<Value>,
    pub(crate) rejected: Vec<(u64, String)>,
}

/// What the options say of every row that does not say it itself.
#[derive(Debug, Default)]
pub(crate) struct RowDefaults {
    pub(crate) tenant: Option<String>,
    pub(crate) at: Option<String>,
}

/// The most rows of one request.
const MAX_ROWS: usize = Filter::MAX_LISTED as usize;

/// The most bytes of rows in one request, and of one row. Lambda takes 6 MB.
const MAX_REQUEST: usize = 1024 * 1024;
const MAX_ROW: usize = 256 * 1024;

impl ImportFile {
    /// Reads a file by the ending of its name.
    pub(crate) fn parse(path: &Path, text: &str, defaults: &RowDefaults) -> Result<Self> {
        let lines = match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => csv_lines(text)?,
            Some("jsonl") => json_lines(text),
            _ => bail!("nothing was sent: {} must end with .csv or .jsonl", path.display()),
        };
        let mut file = ImportFile::default();
        for (line, columns) in lines {
            match columns.and_then(|columns| row(line, columns, defaults)) {
                Ok(row) => file.rows.push(row),
                Err(why) => file.rejected.push((line, why)),
            }
        }
        Ok(file)
    }

    /// The rows in the order of the file, as many in each pack as one request takes.
    pub(crate) fn packs(&self) -> Vec<Vec<Value>> {
        let mut packs: Vec<Vec<Value>> = Vec::new();
        let mut bytes = 0;
        for row in &self.rows {
            let size = row.to_string().len();
            match packs.last_mut() {
                Some(pack) if pack.len() < MAX_ROWS && bytes + size <= MAX_REQUEST => {
                    pack.push(row.clone());
                    bytes += size;
                }
                _ => {
                    packs.push(vec![row.clone()]);
                    bytes = size;
                }
            }
        }
        packs
    }
}

/// The columns of a line, by their names, or why they cannot be read.
type Line = (u64, Result<Map<String, Value>, String>);

fn csv_lines(text: &str) -> Result<Vec<Line>> {
    let mut records = csv::records(text).into_iter();
    let Some((_, head)) = records.next() else { return Ok(Vec::new()) };
    let head: Vec<String> = head.iter().map(|name| name.trim().to_owned()).collect();
    if !head.iter().any(|name| name == "email") {
        bail!("nothing was sent: the first line must name the columns, and `email` among them");
    }
    let columns = |cells: Vec<String>| {
        if cells.len() != head.len() {
            return Err(format!("the line has {} cells, and the first line {}", cells.len(), head.len()));
        }
        Ok(head
            .iter()
            .cloned()
            .zip(cells.iter().map(|cell| value(cell)))
            .filter(|(_, cell)| *cell != json!(""))
            .collect())
    };
    Ok(records.map(|(line, cells)| (line, columns(cells))).collect())
}

/// A cell: true and false, null, and otherwise a text, so that a phone number keeps its first zero.
fn value(cell: &str) -> Value {
    match cell.trim() {
        "true" | "TRUE" | "True" => json!(true),
        "false" | "FALSE" | "False" => json!(false),
        "null" => Value::Null,
        text => json!(text),
    }
}

fn json_lines(text: &str) -> Vec<Line> {
    let numbered = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let columns = |line: &str| serde_json::from_str(line).map_err(|_| "the line is no JSON object".to_owned());
    numbered.map(|(number, line)| (number, columns(line))).collect()
}

/// A row as the replay function takes it. Whatever names neither the contact nor the moment is a field.
fn row(line: u64, mut columns: Map<String, Value>, defaults: &RowDefaults) -> Result<Value, String> {
    let mut named = |name: &str, default: Option<&String>| match columns.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Number(number)) => Ok(number.to_string()),
        None if default.is_some() => Ok(default.cloned().unwrap_or_default()),
        _ => Err(name.to_owned()),
    };
    let missing = |name: String| match name.as_str() {
        "email" => "the row has no `email`".to_owned(),
        name => format!("the row has no `{name}`: add the column, or the option --{name} for all rows without one"),
    };
    let email = named("email", None).map_err(missing)?;
    let tenant = named("tenant", defaults.tenant.as_ref()).map_err(missing)?;
    let at = named("at", defaults.at.as_ref()).map_err(missing)?;
    let row = json!({"line": line, "tenant": tenant, "email": email, "at": at, "fields": columns});
    if row.to_string().len() > MAX_ROW {
        return Err(format!("the row has more than {MAX_ROW} bytes"));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str, tenant: Option<&str>, at: Option<&str>) -> ImportFile {
        let defaults = RowDefaults { tenant: tenant.map(str::to_owned), at: at.map(str::to_owned) };
        ImportFile::parse(Path::new(name), text, &defaults).expect("a file")
    }

    #[test]
    fn a_csv_and_a_jsonl_say_the_same() {
        let csv = "email,at,consent_email,phone,city\nada@example.com,2026-11-01T00:00:00Z,true,0441,\n\
                   bob@example.com,,FALSE,null,\"London, UK\"\n";
        let jsonl = r#"
            {"email": "ada@example.com", "at": "2026-11-01T00:00:00Z", "consent_email": true, "phone": "0441"}
            {"email": "bob@example.com", "consent_email": false, "phone": null, "city": "London, UK"}"#;
        let (tenant, at) = (Some("acme"), Some("2026-10-01T00:00:00Z"));
        let rows = read("a.csv", csv, tenant, at).rows;
        assert_eq!(rows, read("a.jsonl", jsonl, tenant, at).rows);
        let bob = json!({"line": 3, "tenant": "acme", "email": "bob@example.com", "at": "2026-10-01T00:00:00Z",
                         "fields": {"consent_email": false, "phone": null, "city": "London, UK"}});
        assert_eq!(rows[1], bob);
    }

    #[test]
    fn a_bad_line_is_rejected_with_its_number_and_the_others_are_taken() {
        let csv = "email,tenant\nada@example.com,acme,x\n,acme\nbob@example.com,acme\n";
        let file = read("a.csv", csv, None, Some("2026-11-01T00:00:00Z"));
        assert_eq!((file.rows.len(), file.rejected.iter().map(|(line, _)| *line).collect::<Vec<_>>()), (1, vec![2, 3]));
        let jsonl = read("a.jsonl", "[]\n{\"email\": \"ada@example.com\"}", None, None);
        let why: Vec<&str> = jsonl.rejected.iter().map(|(_, why)| why.as_str()).collect();
        assert!(why[0].contains("no JSON object") && why[1].contains("--tenant"), "{why:?}");
    }

    #[test]
    fn a_row_without_a_moment_is_not_taken_for_one_of_now() {
        let file = read("a.csv", "email,tenant,consent_email\nada@example.com,acme,true\n", None, None);
        assert!(file.rows.is_empty() && file.rejected[0].1.contains("--at"), "{file:?}");
    }

    #[test]
    fn a_request_has_a_bounded_number_of_rows_and_bytes() {
        let lines = |count: usize, note: &str| {
            (0..count).map(|n| format!("{{\"email\": \"e{n}@x\", \"note\": \"{note}\"}}\n")).collect::<String>()
        };
        let packs = |text: &str| {
            let packs = read("a.jsonl", text, Some("acme"), Some("1")).packs();
            packs.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(packs(&lines(250, "")), [100, 100, 50]);
        assert!(packs(&lines(20, &"x".repeat(100_000))).iter().all(|rows| *rows <= 10));
        let huge = read("a.jsonl", &lines(1, &"x".repeat(MAX_ROW)), Some("acme"), Some("1"));
        assert_eq!((huge.rows.len(), huge.rejected.len()), (0, 1));
    }
}
