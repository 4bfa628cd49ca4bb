//! The names that a template reads, so that they can be checked before an event comes.

use std::collections::BTreeSet;

use minijinja::Environment;

use super::environment::{path, text};
use super::{Body, Condition, Path, each_leaf, expression};

/// The names at the root of a template: the fields of a [`Scope`](super::Scope).
pub const ROOTS: [&str; 5] = ["event", "effects", "enrich", "flow", "now"];

/// The names that the template engine itself knows.
const BUILT_IN: [&str; 5] = ["range", "dict", "namespace", "debug", "omit"];

/// A name that a template reads, such as `event.data.email`, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The place, as a JSON pointer.
    pub at: String,
    /// The name, up to the point where only the event knows how it goes on.
    pub name: String,
}

impl Read {
    /// The names that a path reads.
    pub fn of_path(path: &Path) -> Vec<Read> {
        names(self::path(), &path.0).into_iter().map(Read::here).collect()
    }

    /// The names that a condition reads.
    pub fn of_condition(condition: &Condition) -> Vec<Read> {
        let compiled = text().compile_expression(&condition.0).map(|e| e.undeclared_variables(true));
        known_to_us(compiled.unwrap_or_default()).map(Read::here).collect()
    }

    /// The names that a body reads, leaf by leaf.
    pub fn of_body(body: &Body) -> Vec<Read> {
        let mut reads = Vec::new();
        each_leaf(&body.0, "", &mut |at, leaf| {
            reads.extend(names(text(), leaf).into_iter().map(|name| Read::here(name).under(at)));
        });
        reads
    }

    fn here(name: String) -> Self {
        Read { at: String::new(), name }
    }

    /// The name as seen from further up.
    #[must_use]
    pub fn under(self, pointer: &str) -> Self {
        Read { at: format!("{pointer}{}", self.at), ..self }
    }
}

/// The names that a well-formed template reads and does not define itself.
fn names(environment: &Environment<'_>, text: &str) -> BTreeSet<String> {
    let names = match expression(text) {
        Some(expression) => environment.compile_expression(expression).map(|e| e.undeclared_variables(true)),
        None => environment.template_from_str(text).map(|t| t.undeclared_variables(true)),
    };
    known_to_us(names.unwrap_or_default()).collect()
}

fn known_to_us(names: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    names.into_iter().filter(|name| !BUILT_IN.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_name_is_found_where_it_stands() {
        let tree =
            json!({"a": ["{{ event.x.y | default(none) }}"], "b": "{% for l in event.lines %}{{ l.sku }}{% endfor %}"});
        let body: Body = serde_json::from_value(tree).expect("a body");
        let reads: Vec<(String, String)> = Read::of_body(&body).into_iter().map(|read| (read.at, read.name)).collect();
        assert_eq!(reads, [("/a/0".into(), "event.x.y".into()), ("/b".into(), "event.lines".into())]);

        let path = Path::try_from("/{{ effects.crm.id }}/{{ range(3) }}".to_owned()).expect("a path");
        assert_eq!(Read::of_path(&path), [Read::here("effects.crm.id".into())]);
    }
}
