//! The variables of an integration: an account's id, a data centre, the id of a list.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::base::wrong::{Wrong, step};

/// A variable that is in force.
#[derive(Clone, Debug, PartialEq)]
pub enum Var {
    /// A text, a number or a boolean, as the flow files say it.
    Plain(Value),
    /// A SecureString below `integrations/<integration>/vars/<name>/`: no file has its value.
    Secret,
}

/// The variables of an integration that are in force, by name. Templates read `vars.<name>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vars(BTreeMap<String, Var>);

impl Vars {
    /// The variable of that name.
    pub fn get(&self, name: &str) -> Option<&Var> {
        self.0.get(name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names of the secret variables.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, var)| **var == Var::Secret).map(|(name, _)| name.as_str())
    }

    /// The plain variables with their values.
    pub fn plain(&self) -> Map<String, Value> {
        let plain = self.0.iter().filter_map(|(name, var)| match var {
            Var::Plain(value) => Some((name.clone(), value.clone())),
            Var::Secret => None,
        });
        plain.collect()
    }
}

impl FromIterator<(String, Var)> for Vars {
    fn from_iter<I: IntoIterator<Item = (String, Var)>>(vars: I) -> Self {
        Vars(vars.into_iter().collect())
    }
}

/// A variable as it is written: a value, or a mapping that says what it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct VarSettings {
    /// Whether its value is a SecureString in Parameter Store.
    #[serde(default)]
    pub(super) secret: bool,
    /// Whether an integration that uses this catalogue file has to say it.
    #[serde(default)]
    pub(super) required: bool,
    /// Its value, where nobody says another one.
    #[serde(default)]
    pub(super) default: Option<Value>,
    /// What it is, and where to find it.
    #[serde(default)]
    pub(super) about: Option<String>,
}

/// A variable as it is written. A value alone is its default.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WrittenVar(pub(super) VarSettings);

impl From<&str> for WrittenVar {
    fn from(text: &str) -> Self {
        WrittenVar(VarSettings { default: Some(text.into()), ..VarSettings::default() })
    }
}

impl WrittenVar {
    /// The variable that it puts in force, if it says one.
    pub(super) fn var(&self) -> Option<Var> {
        match &self.0 {
            VarSettings { secret: true, .. } => Some(Var::Secret),
            VarSettings { default, .. } => default.clone().map(Var::Plain),
        }
    }

    /// The mistake in the variable of this name, if it is one.
    pub(super) fn check(&self, name: &str) -> Option<Wrong> {
        let VarSettings { secret, required, default, .. } = &self.0;
        let plain = default.as_ref().is_none_or(|value| value.is_string() || value.is_number() || value.is_boolean());
        let (what, hint) = match () {
            () if !is_name(name) => ("no template could read it", "a name has letters, digits and _"),
            () if !plain => ("its value is no text, number or boolean", "write lists and mappings where they are used"),
            () if *secret && default.is_some() => {
                ("it is a secret, and its value stands in a file", "put the value into Parameter Store")
            }
            () if *required && default.is_some() => {
                ("it is required and has a value all the same", "leave one of them out")
            }
            () => return None,
        };
        Some(Wrong::at(format!("/vars{}", step(name)), format!("the variable `{name}`: {what}")).hint(hint))
    }
}

fn is_name(name: &str) -> bool {
    let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    word && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() <= 64
}

impl<'de> Deserialize<'de> for WrittenVar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueOrSettings)
    }
}

struct ValueOrSettings;

impl ValueOrSettings {
    fn value<E>(value: impl Into<Value>) -> Result<WrittenVar, E> {
        Ok(WrittenVar(VarSettings { default: Some(value.into()), ..VarSettings::default() }))
    }
}

impl<'de> Visitor<'de> for ValueOrSettings {
    type Value = WrittenVar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a boolean, or `{secret: true}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<WrittenVar, E> {
        Self::value(text)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<WrittenVar, E> {
        Self::value(value)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<WrittenVar, E> {
        Self::value(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<WrittenVar, E> {
        Self::value(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<WrittenVar, E> {
        Self::value(number)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenVar, A::Error> {
        VarSettings::deserialize(MapAccessDeserializer::new(map)).map(WrittenVar)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn var(yaml: &str) -> WrittenVar {
        serde_saphyr::from_str(yaml).expect("a variable")
    }

    #[test]
    fn a_variable_is_a_value_or_says_what_it_is() {
        for (yaml, expected) in [
            ("us21", Some(Var::Plain(json!("us21")))),
            ("7", Some(Var::Plain(json!(7)))),
            ("true", Some(Var::Plain(json!(true)))),
            ("\"+15550100\"", Some(Var::Plain(json!("+15550100")))),
            ("{secret: true}", Some(Var::Secret)),
            ("{default: v3, about: the version}", Some(Var::Plain(json!("v3")))),
            ("{required: true}", None),
        ] {
            assert_eq!(var(yaml).var(), expected, "{yaml}");
            assert_eq!(var(yaml).check("a"), None, "{yaml}");
        }
        assert!(serde_saphyr::from_str::<WrittenVar>("[1]").is_err());
        assert!(serde_saphyr::from_str::<WrittenVar>("{secrt: true}").is_err());
    }

    #[test]
    fn what_contradicts_itself_is_a_mistake() {
        for bad in ["{secret: true, default: a}", "{required: true, default: a}", "{default: [1]}"] {
            assert!(var(bad).check("a").is_some(), "{bad}");
        }
        assert!(var("a").check("my-list").is_some());
    }
}
