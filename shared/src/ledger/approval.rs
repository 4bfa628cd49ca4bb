//! What a human is asked before it is done.
//!
//! The question is bound to the hash of what would be done, and so is the answer: what changed since is
//! asked anew. The question is written down before it is posted, so that it is posted once.

use std::time::Duration;

use serde_json::json;

use super::{Ask, Closed, Declined, Lease, Noop, Row, SignOff, State};
use crate::base::time::Timestamp;

impl Lease {
    /// Whether a human has approved exactly this.
    pub fn is_approved(&self, hash: &str) -> bool {
        self.row.ask.as_ref().is_some_and(|ask| ask.hash == hash && ask.approved_by.is_some())
    }

    /// Whether exactly this was asked before, by a worker that did not get to the end.
    pub fn is_asked(&self, hash: &str) -> bool {
        self.row.ask.as_ref().is_some_and(|ask| ask.hash == hash)
    }

    /// A human is about to be asked.
    pub fn ask(&mut self, hash: &str, until: Timestamp, now: Timestamp) {
        self.row.step += 1;
        self.row.ask = Some(Ask { hash: hash.to_owned(), until, approved_by: None });
        self.row.note(now, "approval asked for");
    }

    /// The event waits for the answer, where operators see it.
    #[must_use]
    pub fn await_approval(mut self, posted: &str, now: Timestamp) -> Closed {
        self.row.list(now);
        self.close(State::AwaitingApproval, format!("awaiting approval: {posted}"), now)
    }
}

impl Row {
    /// The row, on its way through the queue with a human's approval of what has this hash.
    ///
    /// It stays in the index of parked events until a worker claims it: a crash between this write and
    /// the send leaves it where an operator sees it.
    pub fn approved(mut self, hash: &str, sign_off: SignOff<'_>, now: Timestamp) -> Result<Self, Declined> {
        let ask = self.open_ask(hash, now)?;
        ask.approved_by = Some(sign_off.by.to_owned());
        self.requeue(now);
        self.note(now, format!("approved by {sign_off}"));
        Ok(self)
    }

    /// The row, after a human said no. The key is remembered for `ttl` from here.
    pub fn rejected(
        mut self,
        hash: &str,
        sign_off: SignOff<'_>,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Self, Declined> {
        self.open_ask(hash, now)?;
        // Its sender sees these facts. Who said no is in the history.
        self.end_as_noop(json!({"rejected": true}), ttl, now);
        self.note(now, format!("rejected by {sign_off}"));
        Ok(self)
    }

    /// Whether a question stands that nobody answered in time.
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        self.state == State::AwaitingApproval && self.ask.as_ref().is_some_and(|ask| ask.until <= now)
    }

    /// The row, after nobody answered in time.
    pub fn lapsed(mut self, ttl: Duration, now: Timestamp) -> Result<Self, Declined> {
        if !self.has_lapsed(now) {
            return Err(Declined(format!("there is no question about {} that has lapsed", self.id)));
        }
        self.end_as_noop(json!({"expired": true}), ttl, now);
        self.note(now, "noop: nobody answered in time");
        Ok(self)
    }

    fn open_ask(&mut self, hash: &str, now: Timestamp) -> Result<&mut Ask, Declined> {
        let (id, state) = (self.id.clone(), self.state);
        let ask = self.ask.as_mut().filter(|_| state == State::AwaitingApproval);
        let ask = ask.ok_or_else(|| Declined(format!("{id} is {}: there is nothing to approve", state.as_str())))?;
        if ask.until <= now {
            return Err(Declined(format!("the question about {id} has expired")));
        }
        if ask.hash != hash {
            return Err(Declined(format!("what would be done for {id} is not what you saw: look again")));
        }
        Ok(ask)
    }

    fn end_as_noop(&mut self, facts: serde_json::Value, ttl: Duration, now: Timestamp) {
        self.state = State::Noop;
        self.noop = Some(Noop { guard: "approval".into(), facts });
        self.expires_at = (now + ttl).secs();
        self.unlist();
        self.next_epoch();
    }
}
