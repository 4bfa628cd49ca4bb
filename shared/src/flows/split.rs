//! One delivery with several events in it: which lists hold them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Field;

/// The lists that hold the events of a delivery, from the outside in: `entry[*].changes[*]`.
///
/// Each event is the whole document with each of these lists narrowed to one item, so that a flow reads it in the same places
/// whether or not the delivery held others. Where the document itself is a list, an event is its item.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String")]
pub struct Split(Vec<Vec<String>>);

/// The place of one event in its delivery: an index into each list. One that ends before the last list is of an item that
/// lacks the next list: it holds no event, and may hold what is none of this source's.
pub type PartPlace = Vec<usize>;

impl Split {
    /// The places of the events, in order, and of the items without any. `None` says that the outermost list is missing, or
    /// that something else stands in the place of a list. It finds no more than `most` and one.
    pub fn places(&self, document: &Value, most: usize) -> Option<Vec<PartPlace>> {
        let mut places = Vec::new();
        self.find(document, &self.0, &mut Vec::new(), most, &mut places)?;
        Some(places)
    }

    fn find(
        &self,
        value: &Value,
        lists: &[Vec<String>],
        here: &mut PartPlace,
        most: usize,
        places: &mut Vec<PartPlace>,
    ) -> Option<()> {
        let Some((path, rest)) = lists.split_first() else {
            places.push(here.clone());
            return Some(());
        };
        let list = path.iter().try_fold(value, |value, name| value.get(name));
        let Some(list) = list.filter(|list| !list.is_null()) else {
            places.push(here.clone());
            return (!here.is_empty() && value.is_object()).then_some(());
        };
        for (index, item) in list.as_array()?.iter().enumerate() {
            if places.len() > most {
                break;
            }
            here.push(index);
            self.find(item, rest, here, most, places)?;
            here.pop();
        }
        Some(())
    }

    /// Whether an event stands at a place.
    pub fn is_event(&self, place: &[usize]) -> bool {
        place.len() == self.0.len()
    }

    /// Whether the whole document is a list, and each event an item of it.
    pub fn is_of_the_whole(&self) -> bool {
        self.0.first().is_some_and(Vec::is_empty)
    }

    /// The event at a place of a document.
    pub fn part(&self, document: &Value, place: &[usize]) -> Value {
        let mut part = narrowed(document, &self.0, place);
        match (self.is_of_the_whole(), &mut part) {
            (true, Value::Array(items)) => items.pop().unwrap_or_default(),
            _ => part,
        }
    }

    /// A JSON pointer into the document as one into the event at a place. `None` says that it points at another event.
    pub fn pointer(&self, pointer: &str, place: &[usize]) -> Option<String> {
        let mut steps: Vec<&str> = pointer.split('/').skip(1).collect();
        let mut at = 0;
        for (path, index) in self.0.iter().zip(place) {
            let within = steps.get(at..at + path.len()).is_some_and(|steps| steps.iter().eq(path.iter()));
            let Some(item) = steps.get(at + path.len()).filter(|_| within) else { break };
            if *item != index.to_string() {
                return None;
            }
            steps[at + path.len()] = "0";
            at += path.len() + 1;
        }
        if at > 0 && self.is_of_the_whole() {
            steps.remove(0);
        }
        Some(steps.iter().map(|step| format!("/{step}")).collect())
    }

    /// The lists as files write them.
    pub fn text(&self) -> String {
        let list = |path: &Vec<String>| format!("{}[*]", path.join("."));
        self.0.iter().map(list).collect::<Vec<_>>().join(".").replace("].[", "][")
    }
}

/// A value with each list on the way narrowed to one item. What stands beside is copied, the other items are not.
fn narrowed(value: &Value, lists: &[Vec<String>], place: &[usize]) -> Value {
    match (lists.split_first(), place.split_first()) {
        (Some((path, rest)), Some((index, inner))) => along(value, path, &|list: &Value| {
            Value::Array(list.get(index).map(|item| narrowed(item, rest, inner)).into_iter().collect())
        }),
        _ => value.clone(),
    }
}

/// A copy of a value with something else at the end of a path.
fn along(value: &Value, path: &[String], end: &dyn Fn(&Value) -> Value) -> Value {
    let Some((name, rest)) = path.split_first() else { return end(value) };
    let Some(fields) = value.as_object() else { return value.clone() };
    let field = |(key, field): (&String, &Value)| {
        let copy = if key == name { along(field, rest, end) } else { field.clone() };
        (key.clone(), copy)
    };
    Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
}

impl TryFrom<String> for Split {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wrong = || format!("`{text}` names no lists; write `entry[*].changes[*]`");
        let mut lists = Vec::new();
        let mut rest = text.as_str();
        while let Some((path, behind)) = rest.split_once("[*]") {
            let names = path.strip_prefix('.').unwrap_or(path);
            let names: Vec<String> = if names.is_empty() && lists.is_empty() {
                Vec::new()
            } else {
                names.split('.').map(str::to_owned).collect()
            };
            let plain = |name: &String| !name.is_empty() && name.parse::<Field>().is_ok() && !name.contains(['[', ']']);
            if !names.iter().all(plain) || (!lists.is_empty() && !path.starts_with('.')) {
                return Err(wrong());
            }
            lists.push(names);
            rest = behind;
        }
        if lists.is_empty() || !rest.is_empty() { Err(wrong()) } else { Ok(Split(lists)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn split(text: &str) -> Split {
        text.to_owned().try_into().expect("lists")
    }

    fn parts(text: &str, document: &Value) -> Option<Vec<Value>> {
        let split = split(text);
        let places = split.places(document, 100)?;
        let events = places.iter().filter(|place| split.is_event(place));
        Some(events.map(|place| split.part(document, place)).collect())
    }

    #[test]
    fn each_event_is_the_document_with_its_lists_narrowed() {
        let document = json!({"object": "page", "entry": [
            {"id": 1, "changes": [{"v": "a"}, {"v": "b"}]},
            {"id": 2, "changes": [{"v": "c"}]},
        ]});
        let part = |id: u64, v: &str| json!({"object": "page", "entry": [{"id": id, "changes": [{"v": v}]}]});
        assert_eq!(parts("entry[*].changes[*]", &document), Some(vec![part(1, "a"), part(1, "b"), part(2, "c")]));
        let whole = json!({"object": "page", "entry": [{"id": 2, "changes": [{"v": "c"}]}]});
        assert_eq!(parts("entry[*]", &document).expect("parts")[1], whole);
        assert_eq!(parts("[*]", &json!([1, {"a": 2}])), Some(vec![json!(1), json!({"a": 2})]));
        assert_eq!(parts("a.b[*]", &json!({"a": {"b": [1], "c": 2}})), Some(vec![json!({"a": {"b": [1], "c": 2}})]));
    }

    #[test]
    fn a_document_of_another_form_has_no_events() {
        let entry = |entry: Value| json!({"entry": [{"changes": [1]}, entry]});
        for other in [
            json!({}),
            json!([]),
            json!({"entry": {}}),
            json!({"entry": [1]}),
            entry(json!(1)),
            entry(json!([])),
            entry(json!({"changes": 1})),
            entry(json!({"changes": {"0": 1}})),
            json!({"entry": null}),
        ] {
            assert_eq!(parts("entry[*].changes[*]", &other), None, "{other}");
        }
        for empty in [json!({"entry": []}), json!({"entry": [{"changes": []}]})] {
            assert_eq!(parts("entry[*].changes[*]", &empty), Some(Vec::new()), "{empty}");
        }
    }

    #[test]
    fn an_item_without_the_next_list_holds_no_event_and_spoils_no_other() {
        let document = json!({"entry": [{"messaging": [1]}, {"changes": [{"v": "a"}]}, {"changes": null}]});
        let lists = split("entry[*].changes[*]");
        assert_eq!(lists.places(&document, 100), Some(vec![vec![0], vec![1, 0], vec![2]]));
        assert_eq!(parts("entry[*].changes[*]", &document), Some(vec![json!({"entry": [{"changes": [{"v": "a"}]}]})]));
        let deep = json!({"a": [{"b": {}}, {"b": {"c": [1]}}]});
        assert_eq!(split("a[*].b.c[*]").places(&deep, 100), Some(vec![vec![0], vec![1, 0]]));
    }

    #[test]
    fn no_more_places_are_found_than_are_wanted() {
        let document = json!({"a": vec![json!({"b": vec![1; 100]}); 100]});
        assert_eq!(split("a[*].b[*]").places(&document, 10).expect("places").len(), 11);
    }

    #[test]
    fn a_pointer_goes_with_its_event() {
        let lists = split("entry[*].changes[*]");
        let at = |pointer: &str, place: [usize; 2]| lists.pointer(pointer, &place);
        assert_eq!(at("/entry/1/changes/2/v", [1, 2]), Some("/entry/0/changes/0/v".into()));
        assert_eq!(at("/entry/1/time", [1, 2]), Some("/entry/0/time".into()));
        assert_eq!(at("/object", [1, 2]), Some("/object".into()));
        assert_eq!((at("/entry/0/time", [1, 2]), at("/entry/1/changes/0/v", [1, 2])), (None, None));
        let root = split("[*]");
        assert_eq!(root.pointer("/3/v", &[3]), Some("/v".into()));
        assert_eq!(root.pointer("/2/v", &[3]), None);
    }

    #[test]
    fn only_lists_are_read() {
        for good in ["[*]", "a[*]", "a.b[*].c[*]"] {
            assert_eq!(split(good).text(), good);
        }
        for bad in ["", "a", "a[*].b", "a[0]", "a[*]b[*]", "a[*][*]", ".a[*]x", "a..b[*]"] {
            assert!(Split::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
