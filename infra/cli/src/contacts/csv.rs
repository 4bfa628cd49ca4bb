//! CSV as RFC 4180 has it: commas, quotes, and doubled quotes within quotes.

/// One record of a CSV file: the line that it begins on, and its cells.
pub(crate) type CsvRecord = (u64, Vec<String>);

/// Reads all records. A quote that is never closed takes in the rest of the text.
pub(crate) fn records(text: &str) -> Vec<CsvRecord> {
    let mut records = Vec::new();
    let mut reader = CsvReader { line: 1, begins: 1, ..CsvReader::default() };
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if reader.quoted && chars.peek() == Some(&'"') => {
                chars.next();
                reader.cell.push('"');
            }
            '"' if reader.quoted || reader.cell.is_empty() => reader.quoted = !reader.quoted,
            ',' if !reader.quoted => reader.end_cell(),
            '\n' if !reader.quoted => records.extend(reader.end_record()),
            '\r' if !reader.quoted && chars.peek() == Some(&'\n') => (),
            c => {
                reader.line += u64::from(c == '\n');
                reader.cell.push(c);
            }
        }
    }
    records.extend(reader.end_record());
    records
}

#[derive(Default)]
struct CsvReader {
    /// The line that is read.
    line: u64,
    /// The line that the record began on.
    begins: u64,
    quoted: bool,
    cell: String,
    cells: Vec<String>,
}

impl CsvReader {
    fn end_cell(&mut self) {
        self.cells.push(std::mem::take(&mut self.cell));
    }

    /// The record that ends here, unless its line is empty.
    fn end_record(&mut self) -> Option<CsvRecord> {
        self.end_cell();
        let begins = self.begins;
        self.line += 1;
        self.begins = self.line;
        let cells = std::mem::take(&mut self.cells);
        (cells != [""]).then_some((begins, cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_told_apart_as_rfc_4180_has_it() {
        let text = "\u{feff}email,note\r\nada@x,\"a, \"\"b\"\"\nand c\"\n\nbob@x,\n";
        let read: Vec<(u64, Vec<String>)> = records(text);
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            read,
            [(1, cells(["email", "note"])), (2, cells(["ada@x", "a, \"b\"\nand c"])), (5, cells(["bob@x", ""]))]
        );
    }
}
