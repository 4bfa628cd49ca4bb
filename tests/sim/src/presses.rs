//! People in Slack: they press the buttons below a question, more than once and late.

use std::sync::Arc;
use std::time::Duration;

use shared::base::id::EventId;
use shared::flows::{Action, Flow};
use shared::operate::approval::Question;

use crate::mutation::Handling;
use crate::recipe::HumanAnswer;
use crate::senders::Sender;
use crate::world::SimWorld;

/// How many of ten people say yes.
const YES: u64 = 7;

/// Presses are events with numbers of their own, above those of senders.
const FIRST_PRESS: u64 = 1000;

impl SimWorld {
    /// Somebody presses a button below the question of this number. Slack tells us.
    pub(crate) fn press(&mut self, number: usize) {
        let answers = |flow: &&Flow| flow.effects.iter().any(|effect| matches!(effect.action, Action::Decide(_)));
        let scenario = Arc::clone(&self.setup.scenario);
        let Some(flow) = scenario.flows().find(answers) else { return };
        let question: Question = self.models.partner.question(number).parse().expect("a question of ours");
        let approves = self.scheduler.below(10) < YES;
        if approves {
            self.oracle.said_yes(&question.id, &question.hash);
        }
        let hash = self.understood(&question.id, &question.hash);
        let answer = HumanAnswer { question: Question { hash, ..question }.to_value(), yes: approves };
        let post = scenario.post(flow, FIRST_PRESS + self.setup.senders.len() as u64, 0, Some(&answer));
        let again_after = if self.scheduler.happens(0.3) { vec![Duration::from_secs(3)] } else { Vec::new() };
        self.setup.senders.push(Sender::of(vec![post], Duration::ZERO, again_after));
        self.post(self.setup.senders.len() - 1);
    }

    /// The hash that the product takes an answer to be about: the one that was seen.
    pub(crate) fn understood(&self, id: &EventId, seen: &str) -> String {
        let asked = self.models.ledger.get(id).and_then(|row| row.ask);
        match asked {
            Some(ask) if self.setup.mutation.handling == Handling::AnyHash => ask.hash,
            _ => seen.to_owned(),
        }
    }
}
