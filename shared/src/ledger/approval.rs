//! A human's approval of an event's plan, before its effects are done.
//!
//! The question carries the hash of the plan, and so does the answer: a plan that has changed since is asked
//! about anew. The ledger records the question before Slack gets it, so that it is posted once.

use serde_json::json;

use super::{Ask, Closed, Declined, Lease, Noop, Row, SignOff, State};
use crate::base::retention::SettledRetention;
use crate::base::time::Timestamp;

impl Lease {
    /// Whether a human has approved the plan with this hash.
    pub fn is_approved(&self, hash: &str) -> bool {
        self.row.ask.as_ref().is_some_and(|ask| ask.hash == hash && ask.approved_by.is_some())
    }

    /// Whether the plan with this hash was asked about before, by a worker that did not get to the end.
    pub fn is_asked(&self, hash: &str) -> bool {
        self.row.ask.as_ref().is_some_and(|ask| ask.hash == hash)
    }

    /// Records that a human is about to be asked about the plan with this hash.
    pub fn ask(&mut self, hash: &str, until: Timestamp, now: Timestamp) {
        self.row.step += 1;
        self.row.ask = Some(Ask { hash: hash.to_owned(), until, approved_by: None });
        self.row.note(now, "approval asked for");
    }

    /// Takes back a question that was written down and not posted: it is asked anew.
    pub fn withdraw_question(&mut self, now: Timestamp) {
        self.row.step += 1;
        self.row.ask = None;
        self.row.note(now, "the question was withdrawn: the payload was not kept");
    }

    /// Closes the lease: the event awaits the answer, in the list of parked events.
    #[must_use]
    pub fn await_approval(mut self, posted: &str, now: Timestamp) -> Closed {
        self.row.list(now);
        self.close(State::AwaitingApproval, format!("awaiting approval: {posted}"), now)
    }
}

impl Row {
    /// The row after an approval of the plan with this hash: on its way through the queue again.
    ///
    /// The row stays in the index of parked events until a worker claims it: a crash between this write and
    /// the send leaves it where an operator sees it.
    pub fn approved(mut self, hash: &str, sign_off: SignOff<'_>, now: Timestamp) -> Result<Self, Declined> {
        let ask = self.open_ask(hash, now)?;
        ask.approved_by = Some(sign_off.by.to_owned());
        self.requeue(now);
        // The human saw all that is done, what is new among it.
        self.with_new = true;
        self.note(now, format!("approved by {sign_off}"));
        Ok(self)
    }

    /// The row after a human rejected the plan. The ledger remembers it for so long from here.
    pub fn rejected(
        mut self,
        hash: &str,
        sign_off: SignOff<'_>,
        retention: impl Into<SettledRetention>,
        now: Timestamp,
    ) -> Result<Self, Declined> {
        self.open_ask(hash, now)?;
        // The sender sees these facts. The history says who rejected the plan.
        self.end_as_noop(json!({"rejected": true}), retention.into(), now);
        self.note(now, format!("rejected by {sign_off}"));
        Ok(self)
    }

    /// Whether the row's question has expired without an answer.
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        self.state == State::AwaitingApproval && self.ask.as_ref().is_some_and(|ask| ask.until <= now)
    }

    /// The row after its question expired without an answer.
    pub fn lapsed(mut self, retention: impl Into<SettledRetention>, now: Timestamp) -> Result<Self, Declined> {
        if !self.has_lapsed(now) {
            return Err(Declined(format!("{} has no question that has lapsed: nothing was changed", self.id)));
        }
        self.end_as_noop(json!({"expired": true}), retention.into(), now);
        self.note(now, "noop: the approval expired without an answer");
        Ok(self)
    }

    fn open_ask(&mut self, hash: &str, now: Timestamp) -> Result<&mut Ask, Declined> {
        let (id, state) = (self.id.clone(), self.state);
        let ask = self.ask.as_mut().filter(|_| state == State::AwaitingApproval);
        let ask =
            ask.ok_or_else(|| Declined(format!("{id} is {}: there is nothing to approve or reject", state.as_str())))?;
        if ask.until <= now {
            return Err(Declined(format!("the question about {id} has expired: an answer has no effect any more")));
        }
        if ask.hash != hash {
            return Err(Declined(format!(
                "the plan for {id} is not what you saw: nothing was decided; look again, then answer"
            )));
        }
        Ok(ask)
    }

    fn end_as_noop(&mut self, facts: serde_json::Value, retention: SettledRetention, now: Timestamp) {
        self.state = State::Noop;
        self.noop = Some(Noop { guard: "approval".into(), facts });
        self.retain(retention, now);
        self.unlist();
        self.next_epoch();
    }
}
