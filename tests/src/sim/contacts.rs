//! Whom the events are about: some agreed to hear from us, some did not, and some nobody knows.

use futures::executor::block_on;
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::effects::contact::{ContactUpsert, Contacts as _};
use shared::model::ModelContacts;

use super::flows::email;
use crate::fixtures::NOW;

/// The tenants of the shipped payloads and of our own flows.
const TENANTS: [&str; 2] = ["acme", "sim"];

/// How many entities events are about, at most.
pub(super) const ENTITIES: u64 = 8;

/// The contacts that are known when a run begins.
pub(super) fn known() -> ModelContacts {
    let contacts = ModelContacts::default();
    for tenant in TENANTS {
        for (entity, fields) in (0..ENTITIES).filter_map(|entity| Some((entity, fields(entity)?))) {
            let fields = fields.as_object().expect("fields have names");
            let upsert = ContactUpsert::new(tenant, &email(entity), fields).expect("a good contact");
            let written = block_on(contacts.upsert(&upsert, &EventId::named("before"), NOW));
            written.expect("the model answers");
        }
    }
    contacts
}

fn fields(entity: u64) -> Option<Value> {
    match entity % 6 {
        0 | 1 => Some(json!({"consent_email": true, "consent_sms": true, "consent_push": true})),
        2 => Some(json!({"consent_email": false, "consent_sms": true})),
        // Where it is still night when a run begins.
        3 => Some(json!({"consent_email": true, "consent_push": true, "time_zone": "America/Sao_Paulo"})),
        4 => Some(json!({"consent_sms": false})),
        _ => None,
    }
}
