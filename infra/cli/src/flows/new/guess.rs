//! What a new flow guesses of its sample: the fields that tell one event from another, and those of its entity.
//!
//! A key that is too wide does something twice, which shows. One that is too narrow takes events for repetitions and loses
//! them, which does not: where the sample cannot say which, the author decides.

use shared::flows::{IdAt, Source};

use super::CHANGE_ME;
use super::first_event::FirstEvent;

/// The senders whose id is that of a resource, and not of a delivery: it comes back with each change of the resource.
const ID_OF_RESOURCE: [&str; 3] = ["calendly", "shopify", "woocommerce"];

/// The senders whose id alone does not tell their events apart, with the fields that do beside it.
const BESIDE_THE_ID: [(&str, &[&str]); 2] =
    [("hubspot", &["objectId", "occurredAt"]), ("twilio", &["MessageStatus", "CallStatus"])];

/// What happens to a resource once.
const ONCE: [&str; 12] = [
    "created",
    "create",
    "deleted",
    "delete",
    "paid",
    "cancelled",
    "canceled",
    "fulfilled",
    "completed",
    "placed",
    "submitted",
    "uninstalled",
];

/// The fields that say which state of a resource an event is about.
const CHANGED_AT: [&str; 6] =
    ["updated_at", "updatedAt", "date_modified_gmt", "date_modified", "modified_at", "last_modified"];

/// The names that an event has for itself.
const OWN_IDS: [&str; 5] = ["id", "event_id", "eventId", "uuid", "message_id"];

/// What stands beside an event: an id below one of these is not the event's own.
const OTHERS: [&str; 13] = [
    "account",
    "author",
    "contact",
    "customer",
    "definition",
    "form",
    "from",
    "owner",
    "page",
    "sender",
    "shop",
    "store",
    "user",
];

/// The guessed key and order of a flow.
pub(super) struct FlowGuess {
    /// The fields of the key.
    pub(super) key: Vec<String>,
    /// What the author should know of the key.
    pub(super) about_key: String,
    /// The field of the event's entity.
    pub(super) order_by: String,
}

impl FlowGuess {
    pub(super) fn of(source: &Source, event: &FirstEvent, event_type: &str) -> Self {
        let fields = EventFields { event, all: event.leaves() };
        let own = fields.own_id(event_type);
        let entity = fields.nearest(&["customer_id", "email"]);
        if !event.has_id(source) {
            let order_by = entity.unwrap_or_else(|| own.clone());
            return FlowGuess { key: vec![own], about_key: SAME.to_owned(), order_by };
        }
        let named = match &source.id_at {
            Some(IdAt::Field(field)) => field.to_string(),
            _ => own,
        };
        let sender = source.uses.as_deref().unwrap_or_default();
        let (beside, about_key) = beside_the_id(sender, &fields, event_type);
        let key = ["$id".to_owned()].into_iter().chain(beside).collect();
        FlowGuess { key, about_key, order_by: entity.unwrap_or(named) }
    }
}

const SAME: &str = "Two deliveries that agree in the fields of the key are the same event.";

/// The fields that belong into a key beside the sender's id, and why.
fn beside_the_id(sender: &str, fields: &EventFields<'_>, event_type: &str) -> (Vec<String>, String) {
    if let Some((_, names)) = BESIDE_THE_ID.iter().find(|(name, _)| *name == sender) {
        let beside = names.iter().filter_map(|name| fields.nearest(&[name])).collect();
        return (beside, format!("{SAME} The id of {sender} alone would take different events for one."));
    }
    let happened = event_type.rsplit(['/', '.', ':']).next().unwrap_or_default();
    let once = ONCE.contains(&happened);
    if !ID_OF_RESOURCE.contains(&sender) {
        return (Vec::new(), SAME.to_owned());
    }
    if once {
        let about = format!("{SAME} `$id` is that of the resource, to which `{event_type}` should happen once.");
        return (Vec::new(), about);
    }
    let why = format!(
        "`$id` is that of the resource: alone, it would take every later `{event_type}` of it for a repetition, and lose it."
    );
    match fields.nearest(&CHANGED_AT) {
        Some(field) => (vec![field.clone()], format!("{SAME} {why} `{field}` tells them apart.")),
        None => {
            let next = format!(
                "The sample has no field such as `updated_at`: write the fields that tell them apart for {CHANGE_ME}."
            );
            (vec![CHANGE_ME.to_owned()], format!("{why}\n# {next}"))
        }
    }
}

/// The fields of an event that hold plain values.
struct EventFields<'e> {
    event: &'e FirstEvent,
    all: Vec<String>,
}

impl EventFields<'_> {
    /// The field that names the event itself: inside the item that its source splits off, if there is one, before what all
    /// items of a delivery share; and the shallowest.
    fn own_id(&self, event_type: &str) -> String {
        let of_type: Vec<String> = event_type.split(|c: char| !c.is_ascii_alphanumeric()).map(id_of).collect();
        let own = |field: &&String| {
            let name = last_name(field);
            OWN_IDS.contains(&name) || of_type.iter().any(|id| id == name)
        };
        let any = |field: &&String| last_name(field) == "id" || last_name(field).ends_with("_id");
        let places = [self.inside(), self.all.iter().collect()];
        let ids = places.iter().find_map(|fields| {
            let mine = || fields.iter().copied().filter(|field| !is_of_another(field));
            let own = mine().filter(own).min_by_key(|field| depth(field));
            let any_mine = || mine().filter(any).min_by_key(|field| depth(field));
            own.or_else(any_mine).or_else(|| fields.iter().copied().filter(any).min_by_key(|field| depth(field)))
        });
        ids.or(self.inside().first().copied()).or(self.all.first()).cloned().unwrap_or_default()
    }

    /// The shallowest field with one of these names; the earlier name first.
    fn nearest(&self, names: &[&str]) -> Option<String> {
        let places = [self.inside(), self.all.iter().collect()];
        names.iter().find_map(|name| {
            let named = |fields: &Vec<&String>| {
                fields
                    .iter()
                    .copied()
                    .filter(|field| last_name(field) == *name)
                    .min_by_key(|field| depth(field))
                    .cloned()
            };
            places.iter().find_map(named)
        })
    }

    /// The fields inside the item that the source splits off.
    fn inside(&self) -> Vec<&String> {
        let item = self.event.item.as_ref();
        let is_inside = |field: &&String| {
            item.is_some_and(|item| field.strip_prefix(item.as_str()).is_some_and(|rest| rest.starts_with(['.', '['])))
        };
        self.all.iter().filter(is_inside).collect()
    }
}

fn id_of(word: &str) -> String {
    format!("{}_id", word.strip_suffix('s').unwrap_or(word).to_ascii_lowercase())
}

fn depth(field: &str) -> usize {
    field.matches('.').count()
}

/// Whether a field stands below what is beside an event.
fn is_of_another(field: &str) -> bool {
    let above = field.rsplit_once('.').map_or("", |(above, _)| above);
    above.split('.').any(|step| OTHERS.contains(&step.split('[').next().unwrap_or_default()))
}

/// The innermost name of a field's path.
pub(super) fn last_name(field: &str) -> &str {
    let last = field.rsplit('.').next().unwrap_or_default();
    last.split('[').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shared::flows::Flows;
    use shared::flows::catalog::Shelf;

    use super::*;

    /// The key and the order that are guessed of a sample.
    fn guessed(sender: &str, event_type: &str, sample: Value) -> (Vec<String>, String) {
        let sources = format!("them: {{uses: {sender}, max_body: 64KiB, rate: 50/s}}\n");
        let file = |path: &str, text: String| shared::flows::File { path: path.into(), text };
        let files = vec![file("sources.yaml", sources), file("integrations.yaml", "# None.\n".into())];
        let flows = Flows::parse(&crate::catalog::complete(files)).unwrap_or_else(|problems| panic!("{problems}"));
        let source = flows.source("them").expect("the source");
        let event = FirstEvent::of(source, &sample).expect("an event");
        let FlowGuess { key, order_by, .. } = FlowGuess::of(source, &event, event_type);
        (key, order_by)
    }

    #[test]
    fn an_item_of_a_delivery_is_named_by_its_own_id() {
        let sample = json!({"object": "page", "entry": [{"id": "1", "time": 5, "changes": [
            {"field": "leadgen", "value": {"ad_id": "3", "form_id": "9", "leadgen_id": "7", "page_id": "1"}}]}]});
        let id = "entry[0].changes[0].value.leadgen_id".to_owned();
        assert_eq!(guessed("meta", "leadgen", sample), (vec![id.clone()], id));
        let sample = json!({"object": "page", "entry": [{"id": "1", "time": 5, "changes": [
            {"field": "feed", "value": {"from": {"id": "9"}, "comment_id": "7"}}]}]});
        assert_eq!(guessed("meta", "feed", sample).0, ["entry[0].changes[0].value.comment_id"]);
    }

    #[test]
    fn the_shallowest_id_names_an_event() {
        let sample = || json!({"data": {"object": {"id": "o"}}, "id": "e", "customer": {"id": "c"}});
        for sender in ["token", "basic"] {
            assert_eq!(guessed(sender, "thing", sample()), (vec!["id".to_owned()], "id".to_owned()), "{sender}");
        }
        assert_eq!(guessed("hubspot", "contact.creation", json!([sample()])).0, ["id"]);
        let order = json!({"customer_id": 5, "order": {"id": 7}});
        assert_eq!(guessed("token", "order.paid", order), (vec!["order.id".to_owned()], "customer_id".to_owned()));
    }

    #[test]
    fn the_id_of_a_resource_is_no_key_for_what_happens_to_it_again() {
        let order = || json!({"id": 1, "line": {"updated_at": "x"}, "updated_at": "2026-11-16T09:00:00Z"});
        assert_eq!(guessed("shopify", "orders/updated", order()).0, ["$id", "updated_at"]);
        assert_eq!(guessed("shopify", "orders/partially_fulfilled", order()).0, ["$id", "updated_at"]);
        assert_eq!(guessed("shopify", "orders/paid", order()).0, ["$id"]);
        let order = json!({"id": 1, "date_modified": "x"});
        assert_eq!(guessed("woocommerce", "order.updated", order).0, ["$id", "date_modified"]);
        assert_eq!(guessed("shopify", "orders/updated", json!({"id": 1})).0, ["$id", CHANGE_ME]);
        let status = json!({"MessageSid": "SM1", "MessageStatus": "sent"});
        assert_eq!(guessed("twilio", "status", status).0, ["$id", "MessageStatus"]);
    }

    #[test]
    fn what_all_events_share_is_not_their_entity() {
        let response = json!({"event_id": "e", "event_type": "form_response",
                              "form_response": {"definition": {"id": "f"}, "form_id": "f", "token": "t"}});
        assert_eq!(guessed("typeform", "form_response", response), (vec!["$id".to_owned()], "event_id".to_owned()));
    }

    /// The catalogue says of whom an id is in the comment beside it.
    #[test]
    fn every_sender_whose_id_is_that_of_a_resource_is_known() {
        for (name, text) in crate::catalog::shipped(Shelf::Sources) {
            let line = text.lines().find(|line| line.starts_with("id_at:")).unwrap_or_default();
            let says = line.contains(" of ") || line.contains("not guaranteed");
            let known = ID_OF_RESOURCE.contains(name) || BESIDE_THE_ID.iter().any(|(known, _)| known == name);
            assert_eq!(says, known, "{name}: {line}");
        }
    }
}
