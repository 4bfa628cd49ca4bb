//! A file whose mistakes were taken out: its values, written so that each stands on a line of its own.

use std::collections::BTreeSet;

use serde_json::Value;
use shared::base::locate::Place;
use shared::flows::{File, Problem};

/// A file whose mistakes were taken out.
#[derive(Clone)]
pub(super) struct MendedFile {
    written: File,
    root: Value,
    /// The JSON pointers of what was changed.
    gone: BTreeSet<String>,
    text: String,
    /// What begins on each line of the text, as JSON pointers.
    lines: Vec<String>,
}

impl MendedFile {
    /// A file as it was written. Nothing, if it is not YAML.
    pub(super) fn of(file: &File) -> Option<Self> {
        let root: Value = serde_saphyr::from_str(&file.text).ok()?;
        root.is_object().then(|| MendedFile::new(file.clone(), root, BTreeSet::new()))
    }

    fn new(written: File, root: Value, gone: BTreeSet<String>) -> Self {
        let (mut text, mut lines) = (String::new(), Vec::new());
        write(&root, "", "", &mut text, &mut lines);
        MendedFile { written, root, gone, text, lines }
    }

    /// Its path inside the flows folder.
    pub(super) fn path(&self) -> &str {
        &self.written.path
    }

    /// The values.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The file as it is now.
    pub(super) fn file(&self) -> File {
        File { path: self.written.path.clone(), text: self.text.clone() }
    }

    /// What stands at a place of the file as it is now.
    pub(super) fn pointer_at(&self, place: Place) -> String {
        let line = usize::try_from(place.line).unwrap_or_default().saturating_sub(1);
        self.lines.get(line).cloned().unwrap_or_default()
    }

    /// What stands at a place of the file as it was written.
    pub(super) fn pointer_as_written(&self, place: Place) -> Option<String> {
        let here = |pointer: &&String| Problem::at(&self.written, pointer, "").place == place;
        self.lines.iter().filter(|pointer| !pointer.is_empty()).find(here).cloned()
    }

    /// Whether something at this place, or around it, was changed.
    pub(super) fn is_gone(&self, at: &str) -> bool {
        self.gone.iter().any(|gone| at == gone || at.starts_with(&format!("{gone}/")))
    }

    /// The file with another value in a place, or with nothing there.
    pub(super) fn with(&self, (place, value): &(String, Option<Value>)) -> Option<Self> {
        let (above, name) = place.rsplit_once('/')?;
        let mut root = self.root.clone();
        let name = name.replace("~1", "/").replace("~0", "~");
        match (root.pointer_mut(above)?, value) {
            (Value::Object(fields), Some(value)) => drop(fields.insert(name, value.clone())),
            (Value::Object(fields), None) => drop(fields.remove(&name)?),
            (Value::Array(items), Some(value)) => *items.get_mut(name.parse::<usize>().ok()?)? = value.clone(),
            // What stands behind it must keep its place.
            (Value::Array(items), None) if items.len() == name.parse::<usize>().ok()? + 1 => drop(items.pop()),
            _ => return None,
        }
        let gone = self.gone.iter().cloned().chain([place.clone()]);
        Some(MendedFile::new(self.written.clone(), root, gone.collect()))
    }
}

/// Writes a value as YAML that is JSON, each value on a line of its own; `before` stands before it on its first line.
fn write(value: &Value, at: &str, before: &str, text: &mut String, lines: &mut Vec<String>) {
    let mut line = |content: &str| {
        *text += &format!("{before}{content}\n");
        lines.push(at.to_owned());
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            line("{");
            for (name, value) in fields {
                let step = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                write(value, &step, &format!(" {}: ", Value::from(name.as_str())), text, lines);
                comma(text);
            }
            close("}", at, text, lines);
        }
        Value::Array(items) if !items.is_empty() => {
            line("[");
            for (index, value) in items.iter().enumerate() {
                write(value, &format!("{at}/{index}"), " ", text, lines);
                comma(text);
            }
            close("]", at, text, lines);
        }
        plain => line(&plain.to_string()),
    }
}

/// A comma behind what was written last.
fn comma(text: &mut String) {
    text.pop();
    text.push_str(",\n");
}

fn close(bracket: &str, at: &str, text: &mut String, lines: &mut Vec<String>) {
    *text += &format!(" {bracket}\n");
    lines.push(at.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { path: "flows/a.yaml".into(), text: text.into() }
    }

    #[test]
    fn what_is_written_anew_says_the_same_and_knows_its_places() {
        let mended = MendedFile::of(&file("a: [1, {b/c: x}]\nd: {}\n")).expect("YAML");
        let again: Value = serde_saphyr::from_str(&mended.file().text).expect("YAML");
        assert_eq!(&again, mended.root());
        let line = mended.text.lines().position(|line| line.contains("b/c")).expect("a line") as u64 + 1;
        assert_eq!(mended.pointer_at(Place { line, column: 1, len: 0 }), "/a/1/b~1c");
        let place = Problem::at(&mended.written, "/d", "").place;
        assert_eq!(mended.pointer_as_written(place).as_deref(), Some("/d"));
    }

    #[test]
    fn only_the_last_item_of_a_list_is_taken_away() {
        let mended = MendedFile::of(&file("a: [1, 2]\n")).expect("YAML");
        assert!(mended.with(&("/a/0".into(), None)).is_none());
        let without = mended.with(&("/a/1".into(), None)).expect("it is the last");
        assert_eq!(without.root()["a"], serde_json::json!([1]));
        assert!(without.is_gone("/a/1") && !without.is_gone("/a/0") && !without.is_gone("/a"));
    }
}
