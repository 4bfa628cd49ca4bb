//! How the body of a request is written on the wire.

use serde::{Deserialize, Deserializer};

use super::text_or_map::text_or_map;

/// The form in which a body is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    #[default]
    Json,
    /// A form, as browsers send it: `application/x-www-form-urlencoded`.
    Form(FormLists),
    /// A text, sent as its template renders it.
    Text,
}

impl Format {
    /// The format in a word, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Form(FormLists::Indexed) => "form",
            Format::Form(FormLists::Repeated) => "form with repeated lists",
            Format::Text => "text",
        }
    }
}

/// How a list is written in a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum FormLists {
    /// `a[0]=x&a[1]=y`, as Stripe wants it.
    #[default]
    Indexed,
    /// `a=x&a=y`, as Twilio wants it.
    Repeated,
}

/// The long form of a format.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenFormat {
    /// A form, and how it writes lists.
    form: FormSettings,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
struct FormSettings {
    /// How a list is written: `indexed` as `a[0]=x`, `repeated` as `a=x&a=y`.
    #[serde(default)]
    lists: FormLists,
}

impl TryFrom<String> for Format {
    type Error = String;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        match word.as_str() {
            "json" => Ok(Format::Json),
            "form" => Ok(Format::Form(FormLists::default())),
            "text" => Ok(Format::Text),
            other => Err(format!("`{other}` is no format of a body: write `json`, `form` or `text`")),
        }
    }
}

impl From<WrittenFormat> for Format {
    fn from(written: WrittenFormat) -> Self {
        Format::Form(written.form.lists)
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "`json`, `form`, `text`, or `{form: {lists: repeated}}`";
        text_or_map::<_, Format, WrittenFormat, _>(deserializer, forms)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Format {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Format".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [{"enum": ["json", "form", "text"]}, generator.subschema_for::<WrittenFormat>()]})
    }
}

#[cfg(feature = "schema")]
impl serde::Serialize for Format {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Format::Json => "json".serialize(serializer),
            Format::Text => "text".serialize(serializer),
            Format::Form(lists) => WrittenFormat { form: FormSettings { lists: *lists } }.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_a_word_or_says_how_a_form_writes_lists() {
        for (yaml, expected) in [
            ("json", Format::Json),
            ("form", Format::Form(FormLists::Indexed)),
            ("{form: {lists: repeated}}", Format::Form(FormLists::Repeated)),
            ("{form: {}}", Format::Form(FormLists::Indexed)),
            ("text", Format::Text),
        ] {
            assert_eq!(serde_saphyr::from_str::<Format>(yaml).expect("a format"), expected, "{yaml}");
        }
        for bad in ["xml", "{form: {lists: bracketed}}", "{text: {}}", "7"] {
            assert!(serde_saphyr::from_str::<Format>(bad).is_err(), "{bad}");
        }
    }
}
