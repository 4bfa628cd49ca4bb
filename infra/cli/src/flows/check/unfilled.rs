//! What `flows new` leaves for the author to fill in.

use serde_json::Value;
use shared::base::wrong::step;
use shared::flows::{File, Problem};

/// What stands for a value that only the author knows.
pub(crate) const CHANGE_ME: &str = "CHANGE-ME";

/// The places where nothing was filled in yet: a partner would get the placeholder itself.
pub(crate) fn of(files: &[File]) -> Vec<Problem> {
    let marked = files.iter().filter(|file| file.text.contains(CHANGE_ME));
    let of_file = |file: &File| {
        let written: Value = serde_saphyr::from_str(&file.text).unwrap_or_default();
        let mut places = Vec::new();
        collect(&written, "", &mut places);
        let what = format!("this still is `{CHANGE_ME}`: write what belongs here");
        places.into_iter().map(|at| Problem::at(file, &at, &what)).collect::<Vec<_>>()
    };
    marked.flat_map(of_file).collect()
}

fn collect(value: &Value, at: &str, places: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains(CHANGE_ME) => places.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, item)| collect(item, &format!("{at}/{number}"), places));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| collect(field, &format!("{at}{}", step(name)), places));
        }
        _ => (),
    }
}
