//! Operators who turn switches (pauses, safe mode, retry policies), and who change contacts.

use std::time::Duration;

use replay::{ImportRow, Operation};
use serde_json::{Map, Value, json};
use shared::base::masked::Masked;
use shared::base::time::Timestamp;

use crate::world::SimWorld;

/// How often an operator turns a switch, instead of looking at what is parked.
const SWITCHES: f64 = 0.3;

/// How often an operator changes a contact, where it turns no switch.
const CONTACTS: f64 = 0.15;

impl SimWorld {
    /// Now and then an operator holds something back for a while, lets it go on, or has it done with care.
    pub(crate) fn turn_a_switch(&self) -> Option<Operation> {
        if self.scheduler.healed() || !self.scheduler.happens(SWITCHES) {
            return None;
        }
        let flows = &self.setup.versions[0].flows;
        let flow = self.one_of(flows.all().map(|flow| flow.name.as_str()))?;
        let integration = self.one_of(flows.integrations().map(|(name, _)| name));
        let mut operation = match self.scheduler.below(9) {
            0 => json!({"op": "pause", "for": "2m"}),
            1 => json!({"op": "resume"}),
            2 => json!({"op": "pause", "flow": flow, "for": "3m"}),
            3 => json!({"op": "resume", "flow": flow}),
            4 => json!({"op": "pause", "integration": integration?, "for": "3m"}),
            5 => json!({"op": "resume", "integration": integration?}),
            6 => json!({"op": "safe_mode", "for": "5m"}),
            7 => json!({"op": "safe_mode", "flow": flow, "for": "0s"}),
            _ => json!({"op": "policy", "flow": flow, "retry": self.policy()}),
        };
        operation["by"] = json!("ada");
        operation["reason"] = json!("maintenance");
        Some(serde_json::from_value(operation).expect("an operation"))
    }

    /// Now and then an operator sets a field of a contact as of now, or imports it as of a moment that has passed, in a
    /// spelling of its own.
    pub(crate) fn change_a_contact(&self) -> Option<Operation> {
        if self.scheduler.healed() || !self.scheduler.happens(CONTACTS) {
            return None;
        }
        let known = &self.setup.scenario.contacts;
        let contact = known.get(self.drawn(known.len()))?;
        let name =
            self.one_of(contact.fields.iter().filter(|(_, value)| value.is_boolean()).map(|(name, _)| &**name))?;
        let value = [json!(true), json!(false), json!(null)][self.drawn(3)].clone();
        let email = if self.scheduler.happens(0.5) { contact.email.clone() } else { contact.email.to_uppercase() };
        let (tenant, fields) = (contact.tenant.clone(), Map::from_iter([(name.to_owned(), value)]));
        let (by, reason) = ("ada".to_owned(), "they called".to_owned());
        if self.scheduler.happens(0.5) {
            return Some(Operation::SetContact { tenant, email: Masked(email), fields: Masked(fields), by, reason });
        }
        let ago = self.scheduler.between(Duration::ZERO, self.scheduler.elapsed());
        let at = Timestamp::from_millis(self.scheduler.now().millis() - i64::try_from(ago.as_millis()).ok()?);
        let rows = vec![ImportRow { line: 1, tenant, email, at: at.to_string(), fields }];
        Some(Operation::ImportContacts { rows, dry_run: false, by, reason })
    }

    fn drawn(&self, below: usize) -> usize {
        usize::try_from(self.scheduler.below(below as u64)).unwrap_or_default()
    }

    /// Fewer attempts than any flow has, or the flow's own again.
    fn policy(&self) -> Value {
        if self.scheduler.happens(0.5) { json!({"max_attempts": 2}) } else { json!({}) }
    }

    fn one_of<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        let names: Vec<&str> = names.collect();
        names.get(usize::try_from(self.scheduler.below(names.len() as u64)).unwrap_or_default()).copied()
    }
}
