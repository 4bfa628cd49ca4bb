//! Approvals: the question as Slack shows it, and the effect of an answer.

use std::str::FromStr;

use serde_json::{Value, json};

use super::requeue::{Record, RequeueError, end};
use crate::arrival::event::Event;
use crate::base::id::EventId;
use crate::base::mask::preview;
use crate::base::time::Timestamp;
use crate::flows::{Flow, Flows};
use crate::ledger::plan::Plan;
use crate::ledger::queue::Queue;
use crate::ledger::{Declined, Records, Row, SignOff};

/// A question to a human: may this plan be done for this event?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The event's id.
    pub id: EventId,
    /// The hash of the plan.
    pub hash: String,
}

impl Question {
    /// The question as the value of a Slack button.
    pub fn to_value(&self) -> String {
        format!("{} {}", self.id, self.hash)
    }
}

impl FromStr for Question {
    type Err = Declined;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(' ') {
            Some((id, hash)) if !id.is_empty() && !hash.is_empty() && text.len() <= MAX_VALUE => {
                Ok(Question { id: EventId::named(id), hash: hash.to_owned() })
            }
            _ => Err(Declined(
                "the answer names no event and no plan: it does not belong to a question of Ledgerline".into(),
            )),
        }
    }
}

/// The longest value of a Slack button, in characters.
const MAX_VALUE: usize = 2000;

/// A human's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// The plan may be done.
    Approve,
    /// Nothing may be done for the event.
    Reject,
}

impl FromStr for ApprovalAnswer {
    type Err = Declined;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "approve" => Ok(ApprovalAnswer::Approve),
            "reject" => Ok(ApprovalAnswer::Reject),
            _ => Err(Declined("the answer must be `approve` or `reject`".into())),
        }
    }
}

/// Applies an answer to the event that awaits it. An approval sends the event through the queue again; the
/// same answer again changes nothing. After a rejection, the key is remembered for as long as the flow says.
pub async fn decide(
    records: &dyn Records,
    queue: &dyn Queue,
    flows: &Flows,
    question: &Question,
    answer: ApprovalAnswer,
    sign_off: SignOff<'_>,
    now: Timestamp,
) -> Result<Row, RequeueError> {
    let Question { id, hash } = question;
    match answer {
        ApprovalAnswer::Approve => {
            Record::read(records, id).await?.send(records, queue, |row| row.approved(hash, sign_off, now)).await
        }
        ApprovalAnswer::Reject => {
            let rejected = |row: Row| {
                let retention = flows.remembered(&row.flow);
                row.rejected(hash, sign_off, retention, now)
            };
            end(records, id, rejected).await
        }
    }
}

/// The question as a message of Slack's Block Kit. It shows the effects of the plan, and the event's payload
/// masked.
pub fn message(room: &str, flow: &Flow, event: &Event, plan: &Plan, until: Timestamp) -> Value {
    let question = Question { id: event.id.clone(), hash: plan.hash().to_owned() };
    let title = format!("Approve {}?", flow.name);
    let effects: Vec<&str> = plan.steps.iter().map(|step| step.effect.as_str()).collect();
    let short: String = event.id.as_str().chars().take(12).collect();
    let facts = format!("*Event* `{short}`\n*Would do* {}\n*Until* {until}", effects.join(", "));
    let shape = format!("```{}```", preview(&event.payload).join("\n"));
    let button = |answer: &str, label: &str, style: &str| {
        json!({
            "type": "button", "action_id": answer, "style": style, "value": question.to_value(),
            "text": {"type": "plain_text", "text": label},
        })
    };
    json!({
        "channel": room,
        "text": title,
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": title}},
            {"type": "section", "text": {"type": "mrkdwn", "text": facts}},
            {"type": "section", "text": {"type": "mrkdwn", "text": shape}},
            {"type": "actions", "elements": [button("approve", "Approve", "primary"), button("reject", "Reject", "danger")]},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_comes_back_as_it_went() {
        let question = Question { id: EventId::named("abc"), hash: "123".into() };
        assert_eq!(question.to_value().parse(), Ok(question));
        for bad in ["", " ", "abc", "abc ", " 123"] {
            assert!(bad.parse::<Question>().is_err(), "{bad:?}");
        }
    }
}
