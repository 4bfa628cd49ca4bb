//! Fields: places in an event, as flow files write them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A field of an event: a dotted path such as `data.email`. `entry[0].id` goes into the first item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String")]
pub struct Field(Vec<FieldStep>);

/// One step of a field's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldStep {
    /// Into the field of an object.
    Name(String),
    /// Into the item of a list, counted from 0.
    Item(usize),
}

impl FieldStep {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            FieldStep::Name(name) => value.get(name),
            FieldStep::Item(index) => value.get(index),
        }
    }
}

impl Field {
    /// The value at this place, if there is one.
    pub fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| step.of(value))
    }

    /// Puts a value into this place, and the objects around it where they are missing. `None` says that something else
    /// stands there.
    pub fn set(&self, value: &mut Value, new: Value) -> Option<()> {
        let place = self.0.iter().try_fold(value, |value, step| match step {
            FieldStep::Name(name) => {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                Some(value.as_object_mut()?.entry(name.as_str()).or_insert(Value::Null))
            }
            FieldStep::Item(index) => value.get_mut(index),
        })?;
        *place = new;
        Some(())
    }

    /// Takes the value away that stands in this place. `None` says that none does.
    pub fn remove(&self, value: &mut Value) -> Option<Value> {
        let (last, above) = self.0.split_last()?;
        let around = above.iter().try_fold(value, |value, step| match step {
            FieldStep::Name(name) => value.get_mut(name),
            FieldStep::Item(index) => value.get_mut(index),
        })?;
        match (last, around) {
            (FieldStep::Name(name), Value::Object(fields)) => fields.remove(name),
            (FieldStep::Item(index), Value::Array(items)) if *index < items.len() => Some(items.remove(*index)),
            _ => None,
        }
    }

    /// What a schema says of this place; null where it does not list it.
    pub fn in_schema<'s>(&self, schema: &'s Value) -> &'s Value {
        self.0.iter().fold(schema, |level, step| match step {
            FieldStep::Name(name) => &level["properties"][name],
            FieldStep::Item(index) => match &level["prefixItems"][*index] {
                Value::Null => &level["items"],
                own => own,
            },
        })
    }

    /// The place as a JSON pointer.
    pub fn pointer(&self) -> String {
        let step = |step: &FieldStep| match step {
            FieldStep::Name(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            FieldStep::Item(index) => format!("/{index}"),
        };
        self.0.iter().map(step).collect()
    }

    /// The steps of the path, from the outside in.
    pub fn steps(&self) -> &[FieldStep] {
        &self.0
    }

    /// The innermost name of the path.
    pub(crate) fn last_name(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            FieldStep::Name(name) => Some(name.as_str()),
            FieldStep::Item(_) => None,
        })
    }

    /// Whether a schema lists this place and requires it on every level.
    pub fn required_by(&self, schema: &Value) -> bool {
        let mut level = schema;
        self.0.iter().all(|step| {
            let required = match step {
                FieldStep::Name(name) => {
                    let names = level["required"].as_array();
                    let required = names.is_some_and(|names| names.iter().any(|n| n == name.as_str()));
                    level = &level["properties"][name];
                    required
                }
                FieldStep::Item(index) => {
                    let required = level["minItems"].as_u64().is_some_and(|least| least > *index as u64);
                    let own = &level["prefixItems"][*index];
                    level = if own.is_null() { &level["items"] } else { own };
                    required
                }
            };
            required && !level.is_null()
        })
    }
}

/// The steps that a text between two dots stands for: `changes[0]` is a name and an item. What is in brackets and no number is
/// a part of the name, as in a form's `data[email]`.
fn steps_of(text: &str) -> Option<Vec<FieldStep>> {
    let (mut name, mut items) = (text, Vec::new());
    while let Some((before, index)) = name.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
        let digits = !index.is_empty() && index.len() <= 6 && index.bytes().all(|byte| byte.is_ascii_digit());
        let Some(index) = digits.then(|| index.parse().ok()).flatten() else { break };
        items.push(FieldStep::Item(index));
        name = before;
    }
    let named = (!name.is_empty()).then(|| FieldStep::Name(name.to_owned()));
    let steps: Vec<FieldStep> = named.into_iter().chain(items.into_iter().rev()).collect();
    (!steps.is_empty()).then_some(steps)
}

impl From<Vec<FieldStep>> for Field {
    fn from(steps: Vec<FieldStep>) -> Self {
        Field(steps)
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Only the whole event may be a list by itself: `a.[0]` is no path.
        let lone = text.split('.').skip(1).any(|part| part.starts_with('['));
        let steps = text.split('.').map(steps_of).collect::<Option<Vec<_>>>().filter(|_| !lone);
        let steps = steps.ok_or_else(|| format!("`{text}` is not a field; write `data.email`, or `items[0].id`"))?;
        Ok(Field(steps.concat()))
    }
}

impl TryFrom<String> for Field {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, step)| match step {
            FieldStep::Name(name) if at == 0 => f.write_str(name),
            FieldStep::Name(name) => write!(f, ".{name}"),
            FieldStep::Item(index) => write!(f, "[{index}]"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(text: &str) -> Field {
        text.parse().expect("a field")
    }

    #[test]
    fn finds_its_value() {
        let event = json!({"data": {"email": "a@example.com"}});
        assert_eq!(field("data.email").of(&event), Some(&json!("a@example.com")));
        assert_eq!(field("data.phone").of(&event), None);
        assert_eq!(field("data.email.more").of(&event), None);
    }

    #[test]
    fn is_a_pointer_too() {
        assert_eq!(field("data.email").pointer(), "/data/email");
        assert_eq!(field("a/b.c~d").pointer(), "/a~1b/c~0d");
    }

    #[test]
    fn knows_whether_a_schema_requires_it() {
        let schema = json!({
            "required": ["data"],
            "properties": {"data": {"required": ["id"], "properties": {"id": {}, "email": {}}}}
        });
        assert!(field("data.id").required_by(&schema));
        assert!(!field("data.email").required_by(&schema));
        assert!(!field("id").required_by(&schema));
    }

    #[test]
    fn goes_into_lists() {
        let event = json!({"entry": [{"changes": [{"value": {"id": 7}}]}], "data[email]": "a"});
        let id = field("entry[0].changes[0].value.id");
        assert_eq!(id.of(&event), Some(&json!(7)));
        assert_eq!(id.pointer(), "/entry/0/changes/0/value/id");
        assert_eq!(id.to_string(), "entry[0].changes[0].value.id");
        assert_eq!(field("entry[1]").of(&event), None);
        assert_eq!(field("data[email]").of(&event), Some(&json!("a")), "a form's name");
        assert_eq!(field("[0].id").of(&json!([{"id": 1}])), Some(&json!(1)));
        assert_eq!(field("a[0][1]").of(&json!({"a": [[1, 2]]})), Some(&json!(2)));
    }

    #[test]
    fn an_item_is_required_where_its_list_has_so_many() {
        let schema = |least: u64| {
            json!({"required": ["entry"], "properties": {"entry": {"minItems": least,
                "items": {"required": ["id"], "properties": {"id": {}}}}}})
        };
        assert!(field("entry[0].id").required_by(&schema(1)));
        assert!(!field("entry[1].id").required_by(&schema(1)));
        assert!(!field("entry[0].id").required_by(&schema(0)));
        assert!(!field("entry[0].other").required_by(&schema(1)));
    }

    #[test]
    fn a_value_is_put_into_its_place() {
        let mut event = json!({"list": [{}], "text": "x"});
        assert_eq!(field("a.b").set(&mut event, json!(1)), Some(()));
        assert_eq!(field("list[0].c").set(&mut event, json!(2)), Some(()));
        assert_eq!(event, json!({"a": {"b": 1}, "list": [{"c": 2}], "text": "x"}));
        for nowhere in ["text.a", "list[1]", "list.a"] {
            assert_eq!(field(nowhere).set(&mut event.clone(), json!(1)), None, "{nowhere}");
        }
    }

    #[test]
    fn a_value_is_taken_out_of_its_place() {
        let mut event = json!({"list": [1, {"a": 2}], "b": {"c": 3}});
        assert_eq!(field("list[1].a").remove(&mut event), Some(json!(2)));
        assert_eq!(field("list[0]").remove(&mut event), Some(json!(1)));
        assert_eq!(field("b.c").remove(&mut event), Some(json!(3)));
        assert_eq!(field("b.c").remove(&mut event), None);
        assert_eq!(field("list[1]").remove(&mut event), None);
        assert_eq!(event, json!({"list": [{}], "b": {}}));
    }

    #[test]
    fn a_schema_says_what_stands_in_it() {
        let schema = json!({"properties": {"list": {"prefixItems": [{"const": 0}], "items": {"properties": {"a": {"const": 1}}}}}});
        assert_eq!(field("list[0]").in_schema(&schema), &json!({"const": 0}));
        assert_eq!(field("list[7].a").in_schema(&schema), &json!({"const": 1}));
        assert_eq!(field("list.a").in_schema(&schema), &Value::Null);
    }

    #[test]
    fn refuses_an_empty_step() {
        for bad in ["", ".", "data.", ".email", "a..b", "a.[0]"] {
            assert!(bad.parse::<Field>().is_err(), "{bad}");
        }
    }
}
