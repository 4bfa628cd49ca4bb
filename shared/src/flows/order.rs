//! The order in flow files: which events of a flow are about one entity, and are processed in order.

use serde::{Deserialize, Deserializer};

use super::template::Read;
use super::text_or_map::text_or_map;
use super::{ContactRef, Field, Flow, Normalizer, contract};
use crate::base::suggest::suggest;
use crate::base::wrong::Wrong;

/// The field that names the entity, and how it is normalised first: `data.email`, or
/// `{field: data.email, normalize: [trim, lower]}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// The field.
    pub field: Field,
    /// The normalisers, in their order.
    pub normalize: Vec<Normalizer>,
}

/// The long form of `order_by`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NormalizedOrder {
    field: Field,
    normalize: Vec<Normalizer>,
}

impl From<Field> for OrderBy {
    fn from(field: Field) -> Self {
        OrderBy { field, normalize: Vec::new() }
    }
}

impl From<NormalizedOrder> for OrderBy {
    fn from(NormalizedOrder { field, normalize }: NormalizedOrder) -> Self {
        OrderBy { field, normalize }
    }
}

impl<'de> Deserialize<'de> for OrderBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "a field, as `data.email` or `{field: data.email, normalize: [trim, lower]}`";
        text_or_map::<_, Field, NormalizedOrder, _>(deserializer, forms)
    }
}

impl Flow {
    /// What names the entity of an event, in words: `data.email (trim, lower)`, or `the contact`.
    pub fn ordered_by(&self) -> String {
        match &self.order_by {
            None => "the contact".into(),
            Some(OrderBy { field, normalize }) if normalize.is_empty() => field.to_string(),
            Some(OrderBy { field, normalize }) => {
                let steps: Vec<&str> = normalize.iter().map(|step| step.as_str()).collect();
                format!("{field} ({})", steps.join(", "))
            }
        }
    }
}

/// The mistakes in a flow's order. Every event must have an entity.
pub(super) fn check(flow: &Flow) -> Vec<Wrong> {
    match (&flow.order_by, &flow.contact) {
        (Some(order), _) => check_required(flow, "/order_by/field", &order.field).into_iter().collect(),
        (None, Some(contact)) => check_contact(flow, contact),
        (None, None) => {
            let what = "nothing says which events are processed in order: there is neither an order_by nor a contact";
            let hint = "name the field that says whom or what an event is about: `order_by: data.customer_id`";
            vec![Wrong::at("/order_by", what).hint(hint)]
        }
    }
}

/// The mistake in a field that every event must have: a key or an order made of a field that may be missing would be
/// none.
pub(super) fn check_needed(flow: &Flow, at: &str, field: &Field, who: &str) -> Option<Wrong> {
    let (version, schema) = flow.schemas().find(|(_, schema)| !field.required_by(schema))?;
    let of = if flow.older.is_empty() { String::new() } else { format!(" of version {version}") };
    Some(match contract::unlisted(schema, field.steps()) {
        Some((unknown, known)) => Wrong::at(at, format!("{who} needs `{field}`, which the schema{of} does not list"))
            .hint(suggest(unknown, known)),
        None => Wrong::at(at, format!("{who} needs `{field}`, which an event may lack"))
            .hint(format!("name it in the schema's `required`{of}, on each level")),
    })
}

fn check_required(flow: &Flow, at: &str, field: &Field) -> Option<Wrong> {
    check_needed(flow, at, field, "the order")
}

/// The mistakes in a contact that is the entity, too. Intake names it, before anything is looked up or done.
fn check_contact(flow: &Flow, ContactRef { tenant, email }: &ContactRef) -> Vec<Wrong> {
    let reads = |at: &'static str, body| Read::of_body(body).into_iter().map(move |read| read.under(at));
    let check = |read: Read| match read.name.split_once('.') {
        // A field that no schema lists is told with the other templates.
        Some(("event", field)) => {
            let field: Field = field.parse().ok()?;
            let listed = flow.schemas().any(|(_, schema)| contract::unlisted(schema, field.steps()).is_none());
            let wrong = check_required(flow, &read.at, &field).filter(|_| listed)?;
            Some(wrong.hint("name it in the schema's `required`, on each level, or say `order_by`"))
        }
        Some(("flow", _)) => None,
        _ => {
            let what =
                format!("the contact reads `{}`, and there is no order_by: intake does not know it yet", read.name);
            Some(Wrong::at(&read.at, what).hint("name the field that orders events: `order_by: data.customer_id`"))
        }
    };
    reads("/contact/tenant", tenant).chain(reads("/contact/email", email)).filter_map(check).collect()
}
