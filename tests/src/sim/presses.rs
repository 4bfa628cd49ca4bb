//! People in Slack: they press the buttons below a question, more than once and late.

use std::time::Duration;

use serde_json::json;
use shared::base::id::EventId;
use shared::flows::{Action, Flow};
use shared::operate::approval::Question;

use super::flows::parcel;
use super::mutants::Handler;
use super::senders::Sender;
use super::world::World;

/// How many of ten people say yes.
const YES: u64 = 7;

impl World {
    /// Somebody presses a button below the question of this number. Slack tells us.
    pub(super) fn press(&mut self, number: usize) {
        let answers = |flow: &&Flow| flow.effects.iter().any(|effect| matches!(effect.action, Action::Decide(_)));
        let Some(flow) = self.setup.versions[0].flows.all().find(answers) else { return };
        let question: Question = self.models.partner.question(number).parse().expect("a question of ours");
        let approves = self.scheduler.below(10) < YES;
        if approves {
            self.oracle.said_yes(&question.id, &question.hash);
        }
        let hash = self.understood(&question.id, &question.hash);
        let mut parcel = parcel(flow, 1000 + self.setup.senders.len() as u64, 0);
        parcel.body["actions"][0]["action_id"] = json!(if approves { "approve" } else { "reject" });
        parcel.body["actions"][0]["value"] = json!(Question { hash, ..question }.to_value());
        let source = flow.on.source.clone();
        let again_after = if self.scheduler.happens(0.3) { vec![Duration::from_secs(3)] } else { Vec::new() };
        self.setup.senders.push(Sender { source, parcel, first_at: Duration::ZERO, again_after });
        self.post(self.setup.senders.len() - 1);
    }

    /// The hash that the product takes an answer to be about: the one that was seen.
    pub(super) fn understood(&self, id: &EventId, seen: &str) -> String {
        let asked = self.models.ledger.get(id).and_then(|row| row.ask);
        match asked {
            Some(ask) if self.setup.mutant.handler == Handler::AnyHash => ask.hash,
            _ => seen.to_owned(),
        }
    }
}
