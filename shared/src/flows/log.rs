//! The business ids in flow files: what the logs may say of an event, beside its id.

use serde::{Deserialize, Deserializer};

use super::template::Read;
use super::text_or_map::text_or_map;
use super::{Field, Flow, Normalizer, contract};
use crate::base::suggest::suggest;
use crate::base::wrong::{Wrong, step};

/// A field of an event that the logs may tell, and how it is normalised first: `data.order_id`, or
/// `{field: data.email, normalize: [trim, lower, sha256]}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedField {
    /// The field.
    pub field: Field,
    /// The normalisers, in their order.
    pub normalize: Vec<Normalizer>,
}

/// The long form of a logged field.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NormalizedLog {
    field: Field,
    normalize: Vec<Normalizer>,
}

impl From<Field> for LoggedField {
    fn from(field: Field) -> Self {
        LoggedField { field, normalize: Vec::new() }
    }
}

impl From<NormalizedLog> for LoggedField {
    fn from(NormalizedLog { field, normalize }: NormalizedLog) -> Self {
        LoggedField { field, normalize }
    }
}

impl<'de> Deserialize<'de> for LoggedField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "a field, as `data.order_id` or `{field: data.email, normalize: [trim, lower, sha256]}`";
        text_or_map::<_, Field, NormalizedLog, _>(deserializer, forms)
    }
}

/// The most ids of an event in a line of the log.
const MAX_IDS: usize = 8;

/// The longest name of an id.
const MAX_NAME: usize = 32;

/// Words by which fields of a person are known.
const PERSONAL: [&str; 2] = ["email", "phone"];

/// The mistakes in the ids of a flow.
pub(super) fn check(flow: &Flow) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if flow.log.len() > MAX_IDS {
        wrong.push(Wrong::at("/log", format!("log names more than {MAX_IDS} ids: logs are paid for by their length")));
    }
    for (name, logged) in &flow.log {
        let at = format!("/log{}", step(name));
        let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(legal) {
            let what = format!("`{name}` is no name of an id: a to z, 0 to 9 and _ only, {MAX_NAME} at most");
            wrong.push(Wrong::at(&at, what));
        }
        wrong.extend(check_field(flow, &at, &logged.field));
        if !logged.normalize.contains(&Normalizer::Sha256) && is_personal(flow, &logged.field) {
            let what = format!("the logs would tell `{}`, which says who a person is", logged.field);
            let hint = format!("hash it: `{name}: {{field: {}, normalize: [trim, lower, sha256]}}`", logged.field);
            wrong.push(Wrong::at(&at, what).hint(hint));
        }
    }
    wrong
}

fn check_field(flow: &Flow, at: &str, field: &Field) -> Option<Wrong> {
    let (unknown, known) = contract::unlisted(&flow.schema, field.steps())?;
    let what = format!("the logs are to tell `{field}`, which the schema does not list");
    Some(Wrong::at(at, what).hint(suggest(unknown, known)))
}

/// Whether a field is the contact's email, or is named like one of a person.
fn is_personal(flow: &Flow, field: &Field) -> bool {
    let name = field.last_name().map(str::to_lowercase).unwrap_or_default();
    let read = format!("event.{field}");
    let reads = flow.contact.iter().flat_map(|contact| Read::of_body(&contact.email));
    PERSONAL.iter().any(|word| name.contains(word)) || reads.into_iter().any(|of| of.name == read)
}
