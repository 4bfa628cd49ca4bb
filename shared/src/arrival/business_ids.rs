//! The business ids of an event, as its flow lets the logs tell them.

use serde_json::{Map, Value};

use super::key::logged;
use crate::flows::Flow;

/// The longest id that is told, in characters: a hash has 64.
const MAX_CHARS: usize = 64;

/// The ids, each by its name. What an event lacks is left out, and so is what is no plain value.
pub fn business_ids<'f>(flow: &'f Flow, payload: &Value) -> Vec<(&'f str, String)> {
    let id = |(name, field)| Some((name, logged(field, payload)?.chars().take(MAX_CHARS).collect()));
    flow.log.iter().map(|(name, field)| (name.as_str(), field)).filter_map(id).collect()
}

/// The same as JSON, for a line of the log, if the flow marks any.
pub fn business_ids_as_json(flow: &Flow, payload: &Value) -> Option<String> {
    let ids = business_ids(flow, payload).into_iter();
    let ids: Map<String, Value> = ids.map(|(name, id)| (name.to_owned(), Value::String(id))).collect();
    (!ids.is_empty()).then(|| Value::Object(ids).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flows::{File, Flows};

    #[test]
    fn ids_are_told_as_the_flow_says_and_hashed_where_it_says_so() {
        let log = "log: {order: order_id, who: {field: email, normalize: [trim, lower, sha256]}, gone: note}";
        let flow = format!(
            "
name: leads
version: 1
on: {{source: web-forms, type: lead.created}}
schema: {{required: [email], properties: {{email: {{}}, order_id: {{}}, note: {{}}}}}}
key: {{version: 1, fields: [email]}}
order_by: email
ttl: 24h
{log}
effects: [{{id: crm, integration: crm, request: {{method: POST, path: /leads}}}}]
retry: {{strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}}
"
        );
        let files = [
            (
                "sources.yaml",
                "web-forms: {scheme: standard-webhooks, max_body: 128KiB, rate: 100/s, type_at: type}".to_owned(),
            ),
            ("integrations.yaml", "crm: {base_url: https://api.crm.example.com, timeout: 3s}".to_owned()),
            ("flows/leads.yaml", flow),
        ];
        let files = files.map(|(path, text)| File { path: path.into(), text });
        let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
        let flow = flows.flow("leads").expect("the flow");
        let event = json!({"email": " Ada@Example.com", "order_id": 7, "note": {"not": "plain"}});
        let hashed = "b5fc85e55755f9e0d030a10ab4429b6b2944855f9a0d60077fe832becbc41d72";
        let [order, who] = &business_ids(flow, &event)[..] else { panic!("two ids") };
        assert_eq!((order.0, order.1.as_str()), ("order", "7"));
        assert_eq!((who.0, who.1.as_str()), ("who", hashed));
        let long = json!({"email": "a", "order_id": "x".repeat(500)});
        assert_eq!(business_ids(flow, &long)[0].1.len(), MAX_CHARS);
    }
}
