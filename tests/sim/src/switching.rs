//! Operators who turn switches: pauses, safe mode, retry policies.

use replay::Operation;
use serde_json::{Value, json};

use crate::world::SimWorld;

/// How often an operator turns a switch, instead of looking at what is parked.
const SWITCHES: f64 = 0.3;

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

    /// Fewer attempts than any flow has, or the flow's own again.
    fn policy(&self) -> Value {
        if self.scheduler.happens(0.5) { json!({"max_attempts": 2}) } else { json!({}) }
    }

    fn one_of<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        let names: Vec<&str> = names.collect();
        names.get(usize::try_from(self.scheduler.below(names.len() as u64)).unwrap_or_default()).copied()
    }
}
