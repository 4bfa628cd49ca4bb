//! Fields: places in an event, as flow files write them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::Value;

/// A field of an event: a dotted path such as `data.email`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct Field(Vec<String>);

impl Field {
    /// The value at this place, if there is one.
    pub fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, name| value.get(name))
    }

    /// The place as a JSON pointer.
    pub fn pointer(&self) -> String {
        let step = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        self.0.iter().map(step).collect()
    }

    /// The steps of the path, from the outside in.
    pub(crate) fn steps(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Whether a schema lists this place and requires it on every level.
    pub fn required_by(&self, schema: &Value) -> bool {
        let mut level = schema;
        self.0.iter().all(|name| {
            let required = level["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name.as_str()));
            level = &level["properties"][name];
            required && !level.is_null()
        })
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(format!("`{text}` is not a field; write `data.email`"));
        }
        Ok(Field(names))
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
        f.write_str(&self.0.join("."))
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
    fn refuses_an_empty_step() {
        for bad in ["", ".", "data.", ".email", "a..b"] {
            assert!(bad.parse::<Field>().is_err(), "{bad}");
        }
    }
}
