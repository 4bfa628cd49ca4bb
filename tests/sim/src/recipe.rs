//! How the events of a flow are made: a payload, and what differs in it from one event to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::flows::{Flow, Header, Source};

/// How the events of one flow are made.
///
/// Every text may hold `{event}`, which becomes the event's number, and `{entity}`, which becomes the number
/// of whom the event is about.
///
/// ```
/// use serde_json::json;
/// use sim::{EventRecipe, FieldValue};
///
/// let recipe = EventRecipe::of(json!({"order": "", "customer": "", "amount": 0}))
///     .with("/order", FieldValue::text("order-{event}"))
///     .with("/customer", FieldValue::text("customer{entity}@example.com"))
///     .with("/amount", FieldValue::Cycle(vec![json!(10), json!(2000)]));
/// assert_eq!(recipe.fields.len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecipe {
    /// The body, as its sender posts it.
    pub payload: Value,
    /// What is put where. A place is a JSON pointer into the payload, and the payload has something there.
    pub fields: BTreeMap<String, FieldValue>,
    /// The id that the sender signs with a delivery, where its scheme has one.
    pub delivery_id: String,
    /// The header `Idempotency-Key`, where the flow wants one.
    pub idempotency_key: String,
}

/// What is put into one field of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// A text. With `{event}` it names the event, with `{entity}` whom the event is about.
    Text(String),
    /// A number: this one, and one more with each event.
    Number {
        /// The number of the first event.
        first: u64,
    },
    /// A moment in RFC 3339: the start of the run, and this much later with each event.
    Moment {
        /// The time between two events.
        apart: Duration,
    },
    /// One of these after the other, by the event's number.
    Cycle(Vec<Value>),
    /// A text that tells the payload from others under the same key. A sender that edits what it repeats has another
    /// one each time. Flows send it on, so that a partner's calls show which payload they are made of.
    Variant,
    /// A text that means the same however it is written, and that such a sender writes in another way each time. It may
    /// hold `{event}` and `{entity}`.
    Spelled(String),
    /// The question that a person answers, as its button carries it. An event that answers nothing keeps what
    /// the payload has.
    Question,
    /// The answer of that person.
    Decision {
        /// What says yes.
        yes: Value,
        /// What says no.
        no: Value,
    },
}

impl EventRecipe {
    /// A recipe whose events are all this payload, and differ in their ids alone.
    pub fn of(payload: Value) -> Self {
        let (delivery_id, idempotency_key) = ("msg-{event}".into(), "evt-{event}".into());
        EventRecipe { payload, fields: BTreeMap::new(), delivery_id, idempotency_key }
    }

    /// The same recipe, with a value at a JSON pointer.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: FieldValue) -> Self {
        self.fields.insert(pointer.to_owned(), value);
        self
    }

    /// The event of these numbers, as its sender posts it.
    pub(crate) fn post(&self, flow: &Flow, source: &Source, numbers: &EventNumbers<'_>) -> EventPost {
        let mut body = self.payload.clone();
        for (pointer, value) in &self.fields {
            if let (Some(place), Some(value)) = (body.pointer_mut(pointer), value.of(numbers)) {
                *place = value;
            }
        }
        let named = source.type_of(&body).is_some();
        let keyed = flow.key.header == Header::Required;
        EventPost {
            source: flow.on.source.clone(),
            event_type: (!named).then(|| flow.on.event_type.clone()),
            delivery_id: numbers.written_in(&self.delivery_id),
            idempotency_key: keyed.then(|| numbers.written_in(&self.idempotency_key)),
            body,
        }
    }
}

impl FieldValue {
    /// A text, which may hold `{event}` and `{entity}`.
    pub fn text(text: impl Into<String>) -> Self {
        FieldValue::Text(text.into())
    }

    fn of(&self, numbers: &EventNumbers<'_>) -> Option<Value> {
        match self {
            FieldValue::Text(text) => Some(json!(numbers.written_in(text))),
            FieldValue::Number { first } => Some(json!(first + numbers.event)),
            FieldValue::Moment { apart } => Some(json!(numbers.moment(*apart).to_string())),
            FieldValue::Cycle(values) => {
                let place = numbers.event.checked_rem(values.len() as u64)?;
                match values.get(usize::try_from(place).ok()?)? {
                    Value::String(text) => Some(json!(numbers.written_in(text))),
                    value => Some(value.clone()),
                }
            }
            FieldValue::Variant => Some(json!(format!("{VARIANT}{}", numbers.variant))),
            FieldValue::Spelled(text) => Some(json!(numbers.spelled(&numbers.written_in(text)))),
            FieldValue::Question => numbers.answer.map(|answer| json!(answer.question)),
            FieldValue::Decision { yes, no } => numbers.answer.map(|answer| if answer.yes { yes } else { no }.clone()),
        }
    }
}

/// What a variant's text begins with. A number follows.
const VARIANT: &str = "variant-";

/// The variant that a text names, such as a request.
pub(crate) fn variant_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(VARIANT)?;
    Some(rest.chars().take_while(char::is_ascii_digit).collect())
}

/// Which event of a run it is.
pub(crate) struct EventNumbers<'a> {
    pub(crate) event: u64,
    pub(crate) entity: u64,
    pub(crate) starts_at: Timestamp,
    /// Which payload of the event it is.
    pub(crate) variant: u64,
    /// What a person answers with it.
    pub(crate) answer: Option<&'a HumanAnswer>,
}

/// What a person answers to which question.
pub(crate) struct HumanAnswer {
    pub(crate) question: String,
    pub(crate) yes: bool,
}

impl EventNumbers<'_> {
    fn written_in(&self, text: &str) -> String {
        text.replace("{event}", &self.event.to_string()).replace("{entity}", &self.entity.to_string())
    }

    fn spelled(&self, text: &str) -> String {
        if self.variant.is_multiple_of(2) { text.to_owned() } else { text.to_uppercase() }
    }

    fn moment(&self, apart: Duration) -> Timestamp {
        self.starts_at + apart.saturating_mul(u32::try_from(self.event).unwrap_or(u32::MAX))
    }
}

/// What a sender posts of one event.
#[derive(Clone, Debug)]
pub(crate) struct EventPost {
    pub(crate) source: String,
    /// The type that the path names, where the body does not.
    pub(crate) event_type: Option<String>,
    pub(crate) delivery_id: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) body: Value,
}
