//! Keys: two deliveries with the same key are the same event.

use std::borrow::Cow;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::window::Sighting;
use crate::base::id::{EventId, Parts, hex};
use crate::base::retention::UNSETTLED_RETENTION;
use crate::base::time::Timestamp;
use crate::flows::template::Scope;
use crate::flows::{Bucket, Field, Flow, Header, Key, KeyField, LoggedField, Normalizer, OrderBy, Part, normal_email};

/// The sender's names of an event, besides its fields.
#[derive(Clone, Copy, Default)]
pub struct Names<'n> {
    /// The provider's own id of the event, from signed content.
    pub id: Option<&'n str>,
    /// The header `Idempotency-Key`.
    pub idempotency_key: Option<&'n str>,
    /// The event's place in its batch, from 0. A header names the whole batch.
    pub in_batch: Option<u32>,
}

crate::base::masked::prints_only!(Names<'_> as "Names", in_batch);

/// The reason why an event cannot be keyed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A field of the key or of the order has no value that two deliveries could agree on.
    #[error("the event cannot be keyed: `{0}` must be a text, a whole number or a boolean")]
    NotPlain(String),
    /// A field that should be a moment is none.
    #[error("the event cannot be keyed: `{0}` must be a moment in RFC 3339, or in Unix seconds")]
    NoMoment(String),
    /// The key needs the provider's own id of the event, and there is none.
    #[error("the event cannot be keyed: its source names no id for it")]
    NoId,
    /// The flow demands an `Idempotency-Key`, and there is none.
    #[error("the header Idempotency-Key is missing")]
    HeaderMissing,
    /// The `Idempotency-Key` is empty, too long, or has invisible characters.
    #[error("the header Idempotency-Key must have 1 to 255 visible characters")]
    HeaderMalformed,
    /// The moment of the key's window lies too far ahead.
    #[error("the event cannot be keyed: its moment lies more than 24 hours ahead")]
    MomentAhead,
    /// The moment of the key's window lies so far back that its event, if it had one, is forgotten.
    #[error("the event cannot be keyed: its moment is older than the events of this key that are remembered")]
    MomentForgotten,
}

/// Derives the id of an event of this flow. The flow's name and its key's version are part of it. Where the key has a
/// window, it is the id that the event has if it is the first one in it.
pub fn derive(flow: &Flow, payload: &Value, names: Names<'_>, received_at: Timestamp) -> Result<EventId, KeyError> {
    id_and_sighting(flow, payload, names, received_at).map(|(id, _)| id)
}

/// The same, with the event's place in time, where its key has a window.
pub(super) fn id_and_sighting(
    flow: &Flow,
    payload: &Value,
    names: Names<'_>,
    received_at: Timestamp,
) -> Result<(EventId, Option<Sighting>), KeyError> {
    let sighting = sighting(flow, payload, names, received_at)?;
    let id = match &sighting {
        Some(first) => first.id_at(first.moment),
        None => hash(flow, payload, names)?.id(),
    };
    Ok((id, sighting))
}

/// The event's place in time, where its key has a window. The header `Idempotency-Key` has none.
pub fn sighting(
    flow: &Flow,
    payload: &Value,
    names: Names<'_>,
    received_at: Timestamp,
) -> Result<Option<Sighting>, KeyError> {
    let by_header = header_of(flow, names)?.is_some();
    let Some(window) = flow.key.window.as_ref().filter(|_| !by_header) else { return Ok(None) };
    let moment = window.field.as_ref().map_or(Ok(received_at), |field| moment_at(field, payload))?;
    let expires_at = (received_at + UNSETTLED_RETENTION + flow.ttl).secs();
    Ok(Some(Sighting { key: hash(flow, payload, names)?.hex(), moment, within: window.within, expires_at }))
}

/// Whether the names are there that the key needs, whatever the payload is.
pub fn check_names(flow: &Flow, names: Names<'_>) -> Result<(), KeyError> {
    let reads_id = flow.key.fields.iter().any(|field| field.part == Part::Id);
    let needs_id = header_of(flow, names)?.is_none() && reads_id;
    if needs_id && names.id.is_none_or(str::is_empty) { Err(KeyError::NoId) } else { Ok(()) }
}

/// The header `Idempotency-Key`, where it is the event's key.
pub fn header_of<'n>(flow: &Flow, names: Names<'n>) -> Result<Option<&'n str>, KeyError> {
    match (flow.key.header, names.idempotency_key) {
        (Header::Required, None) => Err(KeyError::HeaderMissing),
        (Header::Required | Header::Preferred, Some(header)) => header_key(header).map(Some),
        (Header::Preferred, None) | (Header::Ignored, _) => Ok(None),
    }
}

fn hash(flow: &Flow, payload: &Value, names: Names<'_>) -> Result<Parts, KeyError> {
    let hash = Parts::new("event").and(&flow.name).and(&flow.key.version.to_string());
    match header_of(flow, names)? {
        Some(header) => {
            let hash = hash.and("header").and(header);
            Ok(match names.in_batch {
                Some(place) => hash.and("in a batch").and(&place.to_string()),
                None => hash,
            })
        }
        None => from_fields(hash, &flow.key, payload, names.id),
    }
}

/// The queue's message group of an event: its ordering entity, hashed, because it may be an email. Without an
/// `order_by`, the contact is the entity, however its email is written.
pub fn group(flow: &Flow, version: u32, payload: &Value) -> Result<String, KeyError> {
    let hash = Parts::new("group").and(&flow.name);
    let hash = match &flow.order_by {
        Some(OrderBy { field, normalize: steps }) => {
            hash.and(&normalized(steps, &Part::Field(field.clone()), text(field, payload)?)?)
        }
        None => {
            let (tenant, email) = contact_of(flow, version, payload)?;
            hash.and("contact").and(&tenant).and(&normal_email(&email))
        }
    };
    let mut group = hash.hex();
    group.truncate(32);
    Ok(group)
}

fn contact_of(flow: &Flow, version: u32, payload: &Value) -> Result<(String, String), KeyError> {
    let contact = flow.contact.as_ref().expect("a parsed flow says what orders its events");
    let flow = json!({"name": flow.name, "version": version});
    let scope = Scope { flow, ..Scope::of(payload) };
    contact.named(&scope).map_err(|_| KeyError::NotPlain("contact".into()))
}

/// The hash of a payload: two deliveries under one key must have the same.
pub fn fingerprint(payload: &Value) -> String {
    let mut fingerprint = Parts::new("payload").and(&payload.to_string()).hex();
    fingerprint.truncate(32);
    fingerprint
}

fn from_fields(hash: Parts, key: &Key, payload: &Value, id: Option<&str>) -> Result<Parts, KeyError> {
    let mut hash = hash.and("fields");
    for field in &key.fields {
        hash = hash.and(&part(field, payload, id)?);
    }
    match &key.bucket {
        Some(Bucket { field, every }) => Ok(hash.and(&moment_at(field, payload)?.floor(*every).to_string())),
        None => Ok(hash),
    }
}

/// The key inside the header: a structured field's string, quoted, or bare as many senders write it.
fn header_key(header: &str) -> Result<&str, KeyError> {
    let header = header.trim();
    let bare = header.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(header);
    let legal = (1..=255).contains(&bare.len()) && bare.bytes().all(|byte| byte.is_ascii_graphic());
    legal.then_some(bare).ok_or(KeyError::HeaderMalformed)
}

fn part<'v>(key: &KeyField, payload: &'v Value, id: Option<&'v str>) -> Result<Cow<'v, str>, KeyError> {
    let value = match &key.part {
        Part::Id => Cow::Borrowed(id.filter(|id| !id.is_empty()).ok_or(KeyError::NoId)?),
        Part::Field(field) => text(field, payload)?,
    };
    normalized(&key.normalize, &key.part, value)
}

fn normalized<'v>(steps: &[Normalizer], part: &Part, value: Cow<'v, str>) -> Result<Cow<'v, str>, KeyError> {
    steps.iter().try_fold(value, |value, step| normalize(*step, part, value))
}

/// The value of a key's field as text. A number with a fraction or an exponent is no key: beyond 2^53 two ids could
/// round to one.
fn text<'v>(field: &Field, payload: &'v Value) -> Result<Cow<'v, str>, KeyError> {
    match field.of(payload) {
        Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
        Some(Value::Bool(value)) => Ok(Cow::Owned(value.to_string())),
        Some(Value::Number(number)) if !number.is_f64() => Ok(Cow::Owned(number.to_string())),
        _ => Err(KeyError::NotPlain(field.to_string())),
    }
}

fn normalize<'v>(step: Normalizer, part: &Part, value: Cow<'v, str>) -> Result<Cow<'v, str>, KeyError> {
    Ok(Cow::Owned(match step {
        Normalizer::Trim => value.trim().to_owned(),
        Normalizer::Lower => value.to_lowercase(),
        Normalizer::Sha256 => hex(&Sha256::digest(value.as_bytes())),
        Normalizer::Date(unit) => moment(part, &value)?.floor(unit.duration()).to_string(),
    }))
}

/// The value of a field that the logs may tell, normalised as the flow says.
pub(super) fn logged<'v>(LoggedField { field, normalize }: &LoggedField, payload: &'v Value) -> Option<Cow<'v, str>> {
    normalized(normalize, &Part::Field(field.clone()), text(field, payload).ok()?).ok()
}

fn moment_at(field: &Field, payload: &Value) -> Result<Timestamp, KeyError> {
    moment(&Part::Field(field.clone()), &text(field, payload)?)
}

fn moment(part: &Part, text: &str) -> Result<Timestamp, KeyError> {
    Timestamp::parse(text.trim()).ok_or_else(|| match part {
        Part::Id => KeyError::NoId,
        Part::Field(field) => KeyError::NoMoment(field.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::{File, Flows};
    use proptest::prelude::*;

    const SOURCES: &str = "
web-forms: {scheme: standard-webhooks, max_body: 128KiB, rate: 100/s, type_at: type, id_at: {header: webhook-id}}
storefront: {scheme: shopify, max_body: 64KiB, rate: 50/s, type_at: type, id_at: cart_id}
";
    const INTEGRATIONS: &str = "crm: {base_url: https://api.crm.example.com, timeout: 3s}";
    const FLOW: &str = "
name: lead-routing
version: 1
on: {source: web-forms, type: lead.created}
schema: {required: [a, b, at], properties: {a: {}, b: {}, at: {}}}
order_by: a
ttl: 24h
effects: [{id: crm, integration: crm, request: {method: POST, path: /leads}}]
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}
";

    const NOON: Timestamp = Timestamp::from_secs(1_794_830_400);

    fn flow(key: &str) -> Flow {
        flow_with(FLOW, key)
    }

    fn flow_with(text: &str, key: &str) -> Flow {
        let text = format!("{text}key: {key}\n");
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [
            file("sources.yaml", SOURCES),
            file("integrations.yaml", INTEGRATIONS),
            file("flows/lead-routing.yaml", &text),
        ];
        let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
        flows.flow("lead-routing").expect("the flow").clone()
    }

    fn id(key: &str, payload: Value) -> Result<EventId, KeyError> {
        derive(&flow(key), &payload, Names::default(), NOON)
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let key = "{version: 1, fields: [a, b]}";
        assert_ne!(id(key, json!({"a": "ab", "b": "c"})), id(key, json!({"a": "a", "b": "bc"})));
    }

    #[test]
    fn a_new_version_is_a_new_key() {
        let event = json!({"a": "x"});
        assert_ne!(id("{version: 1, fields: [a]}", event.clone()), id("{version: 2, fields: [a]}", event));
    }

    #[test]
    fn normalisers_make_the_same_of_the_same() {
        let key = "{version: 1, fields: [{field: a, normalize: [trim, lower, sha256]}]}";
        assert_eq!(id(key, json!({"a": " Ada@Example.com "})), id(key, json!({"a": "ada@example.com"})));
        let key = "{version: 1, fields: [{field: at, normalize: [date(second)]}]}";
        let at = |text: &str| id(key, json!({"at": text}));
        assert_eq!(at("2026-11-16T12:00:00.123Z"), at("2026-11-16T13:00:00.9+01:00"));
        assert_ne!(at("2026-11-16T12:00:00Z"), at("2026-11-16T12:00:01Z"));
        assert_eq!(at("yesterday"), Err(KeyError::NoMoment("at".into())));
    }

    /// Customer, store and a bucket of five minutes; event, tenant and operation; source, event and a
    /// hashed email: the source is the flow's.
    #[test]
    fn the_keys_of_the_stories_can_be_written() {
        let cart = "{version: 1, fields: [a, b], bucket: {field: at, every: 5m}}";
        let cart = |at: &str| id(cart, json!({"a": "customer", "b": "store", "at": at}));
        assert_eq!(cart("2026-11-16T12:00:01Z"), cart("2026-11-16T12:04:59Z"));
        assert_ne!(cart("2026-11-16T12:04:59Z"), cart("2026-11-16T12:05:00Z"));
        assert!(id("{version: 1, fields: [a, b, at]}", json!({"a": "evt_1", "b": "acme", "at": "upsert"})).is_ok());
        assert!(
            id(
                "{version: 1, fields: [a, {field: b, normalize: [trim, lower, sha256]}]}",
                json!({"a": "evt_1", "b": "x@y"})
            )
            .is_ok()
        );
    }

    fn group_of(order: &str, payload: Value) -> Result<String, KeyError> {
        let flow = flow_with(&FLOW.replace("order_by: a\n", &format!("{order}\n")), "{version: 1, fields: [b]}");
        group(&flow, 1, &payload)
    }

    #[test]
    fn an_entity_is_one_group_however_it_is_written() {
        let (ada, shouted) =
            (json!({"a": "ada@example.com", "b": "acme"}), json!({"a": " Ada@Example.com ", "b": "acme"}));
        let both = |order: &str| (group_of(order, ada.clone()), group_of(order, shouted.clone()));
        let (one, other) = both("order_by: a");
        assert_ne!(one, other);
        let (one, other) = both("order_by: {field: a, normalize: [trim, lower]}");
        assert_eq!(one, other);
        assert_eq!(one, group_of("order_by: a", ada.clone()), "the normal form is the group that it was");
        let contact = r#"contact: {tenant: "{{ event.b }}", email: "{{ event.a }}"}"#;
        let (one, other) = both(contact);
        assert_eq!(one, other);
        assert_ne!(one, group_of(contact, json!({"a": "ada@example.com", "b": "globex"})), "another tenant's contact");
        assert_eq!(
            both(&format!("order_by: b\n{contact}")).0,
            group_of("order_by: b", ada.clone()),
            "order_by goes first"
        );
    }

    #[test]
    fn a_header_is_a_key_where_the_flow_says_so() {
        let derive = |key: &str, idempotency_key: Option<&str>| {
            derive(&flow(key), &json!({"a": "x"}), Names { idempotency_key, ..Names::default() }, NOON)
        };
        let required = "{version: 1, header: required}";
        assert_eq!(derive(required, None), Err(KeyError::HeaderMissing));
        assert_eq!(derive(required, Some("\"8e03978e\"")), derive(required, Some("8e03978e")));
        let long = "x".repeat(256);
        for bad in ["", "\"\"", "two words", "ümlaut", &long] {
            assert_eq!(derive(required, Some(bad)), Err(KeyError::HeaderMalformed), "{bad}");
        }
        let preferred = "{version: 1, header: preferred, fields: [a]}";
        assert_ne!(derive(preferred, None), derive(preferred, Some("8e03978e")));
        let ignored = "{version: 1, fields: [a]}";
        assert_eq!(derive(ignored, None), derive(ignored, Some("8e03978e")));
    }

    #[test]
    fn a_window_is_of_the_fields_alone() {
        let sighting = |key: &str, at: &str, idempotency_key: Option<&str>| {
            let names = Names { idempotency_key, ..Names::default() };
            sighting(&flow(key), &json!({"a": "x", "b": "y", "at": at}), names, NOON)
        };
        let by_field = "{version: 1, fields: [a, b], window: {field: at, within: 5m}}";
        let of = |at: &str| sighting(by_field, at, None).expect("a key").expect("a window");
        let (one, other) = (of("2026-11-16T09:04:59Z"), of("2026-11-16T09:05:01Z"));
        assert_eq!(one.key, other.key);
        assert_eq!(other.moment.since(one.moment).as_secs(), 2);
        assert_eq!(sighting(by_field, "soon", None), Err(KeyError::NoMoment("at".into())));
        let by_reception = sighting("{version: 1, fields: [a, b], window: 5m}", "soon", None).expect("a key");
        assert_eq!(by_reception.map(|sighting| sighting.moment), Some(NOON));
        let preferred = "{version: 1, header: preferred, fields: [a], window: 5m}";
        assert_eq!(sighting(preferred, "soon", Some("8e03978e")), Ok(None), "a header has no window");
        assert!(sighting(preferred, "soon", None).expect("a key").is_some());
    }

    #[test]
    fn the_providers_own_id_is_a_key() {
        let flow = flow("{version: 1, fields: [$id]}");
        let of = |id: Option<&str>| derive(&flow, &json!({"a": "x"}), Names { id, ..Names::default() }, NOON);
        assert_eq!(of(Some("msg_1")), of(Some("msg_1")));
        assert_ne!(of(Some("msg_1")), of(Some("msg_2")));
        assert_eq!((of(None), of(Some(""))), (Err(KeyError::NoId), Err(KeyError::NoId)));
    }

    #[test]
    fn a_value_that_could_round_to_another_is_no_key() {
        let key = "{version: 1, fields: [a]}";
        assert!(id(key, json!({"a": u64::MAX})).is_ok());
        for bad in [json!(1.5), json!(1e30), json!(null), json!([]), json!({})] {
            assert_eq!(id(key, json!({"a": bad})), Err(KeyError::NotPlain("a".into())));
        }
    }

    proptest! {
        #[test]
        fn different_fields_have_different_keys(one in any::<(String, String)>(), other in any::<(String, String)>()) {
            let flow = flow("{version: 1, fields: [a, b]}");
            let id = |(a, b): &(String, String)| derive(&flow, &json!({"a": a, "b": b}), Names::default(), NOON);
            prop_assert_eq!(one == other, id(&one) == id(&other));
        }
    }
}
