//! Whom the events are about: some agreed to hear from us, some did not, and some nobody knows.

use serde_json::{Value, json};
use sim::KnownContact;

/// The tenants of the shipped payloads and of our own flows.
const TENANTS: [&str; 2] = ["acme", "sim"];

/// How many entities events are about, at most.
pub(super) const ENTITIES: u64 = 8;

/// The address of an entity.
pub(super) const EMAIL: &str = "entity{entity}@example.com";

/// The same address, as senders spell it.
pub(super) const SPELLINGS: [&str; 3] = [EMAIL, "Entity{entity}@Example.com", " ENTITY{entity}@EXAMPLE.COM "];

/// The contacts that are known when a run begins.
pub(super) fn known() -> Vec<KnownContact> {
    let of = |tenant: &'static str| (0..ENTITIES).filter_map(move |entity| contact(tenant, entity));
    TENANTS.into_iter().flat_map(of).collect()
}

fn contact(tenant: &str, entity: u64) -> Option<KnownContact> {
    let email = EMAIL.replace("{entity}", &entity.to_string());
    let fields = fields(entity)?.as_object().expect("fields have names").clone();
    Some(KnownContact { tenant: tenant.to_owned(), email, fields })
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
