//! Places in YAML texts, for error messages.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
    /// The length in characters, or 0 where it is not known.
    pub len: u64,
}

impl Place {
    /// The beginning of a file: the place of a problem that has no other.
    pub const START: Place = Place { line: 1, column: 1, len: 0 };
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        if location == Location::UNKNOWN {
            return Place::START;
        }
        Place { line: location.line(), column: location.column(), len: location.span().len() }
    }
}

/// Finds the place of a JSON pointer, or of its nearest parent that is there. The place of a list or a mapping
/// is that of its name.
pub(crate) fn locate(text: &str, pointer: &str) -> Place {
    let Ok(root) = serde_saphyr::from_str::<Spanned<Node>>(text) else { return Place::START };
    let (mut node, mut place) = (root.value, root.referenced);
    for step in pointer.split('/').skip(1) {
        match node.into_child(&step.replace("~1", "/").replace("~0", "~")) {
            Some((child, found)) => (node, place) = (child, found),
            None => break,
        }
    }
    place.into()
}

/// The place of the mapping that has one of its names at this place.
pub(crate) fn owner(text: &str, place: Place) -> Place {
    let root = serde_saphyr::from_str::<Spanned<Node>>(text).ok();
    root.and_then(|root| root.value.owner(root.referenced, place)).map_or(place, Place::from)
}

/// A YAML value of which only the places matter.
enum Node {
    Leaf,
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl Node {
    fn into_child(self, step: &str) -> Option<(Node, Location)> {
        match self {
            Node::Leaf => None,
            Node::List(items) => {
                let item = items.into_iter().nth(step.parse().ok()?)?;
                Some((item.value, item.referenced))
            }
            Node::Map(fields) => {
                let (name, field) = fields.into_iter().find(|(name, _)| name.value == step)?;
                let place = if matches!(field.value, Node::Leaf) { field.referenced } else { name.referenced };
                Some((field.value, place))
            }
        }
    }
}

impl Node {
    /// The place of the mapping inside this value; `here` is the place of this value.
    fn owner(&self, here: Location, place: Place) -> Option<Location> {
        match self {
            Node::Leaf => None,
            Node::List(items) => items.iter().find_map(|item| item.value.owner(item.referenced, place)),
            Node::Map(fields) => {
                let is_here = fields.iter().any(|(name, _)| Place::from(name.referenced) == place);
                let inner = || fields.iter().find_map(|(name, field)| field.value.owner(name.referenced, place));
                if is_here { Some(here) } else { inner() }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: leads\nolder:\n  1: {type: object}\neffects:\n  - id: crm\n    needs: [a, 'b']\n  - id: ~\nübung/x: {y: 7}\n";

    fn at(pointer: &str) -> (u64, u64, String) {
        let Place { line, column, len } = locate(TEXT, pointer);
        let [line_index, column_index, len] = [line - 1, column - 1, len].map(|n| usize::try_from(n).expect("small"));
        let line_text = TEXT.lines().nth(line_index).expect("a line");
        (line, column, line_text.chars().skip(column_index).take(len).collect())
    }

    #[test]
    fn finds_a_value_of_any_kind() {
        assert_eq!(at("/name"), (1, 7, "leads".into()));
        assert_eq!(at("/older/1/type"), (3, 13, "object".into()));
        assert_eq!(at("/effects/0/needs/1"), (6, 16, "'b'".into()));
        assert_eq!(at("/effects/1/id"), (7, 9, "~".into()));
        assert_eq!(at("/übung~1x/y"), (8, 14, "7".into()));
    }

    #[test]
    fn a_list_stands_where_its_name_does() {
        assert_eq!(at("/effects"), (4, 1, "effects".into()));
        assert_eq!(at("/effects/0/needs"), (6, 5, "needs".into()));
    }

    #[test]
    fn a_name_leads_to_its_mapping() {
        let owner_of = |line, column, len| owner(TEXT, Place { line, column, len });
        assert_eq!(owner_of(3, 7, 4), locate(TEXT, "/older/1"));
        assert_eq!(owner_of(6, 5, 5), locate(TEXT, "/effects/0"));
        assert_eq!((owner_of(4, 1, 7).line, owner_of(4, 1, 7).column), (1, 1));
    }

    #[test]
    fn what_is_missing_is_shown_at_the_nearest_place_above() {
        assert_eq!(at("/effects/0/needs/7"), at("/effects/0/needs"));
        assert_eq!(at("/effects/0/lookup/path"), at("/effects/0"));
        assert_eq!(locate("", "/name"), Place::START);
    }
}
