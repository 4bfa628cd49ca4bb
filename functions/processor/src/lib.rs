//! The processor function: it runs each event's effects, every one through the ledger.
//!
//! # Layout
//!
//! The modules stand in the order in which a message meets them, and each knows only those below it. A reader
//! goes down, and comes up once, with the message's fate.
//!
//! - [`batch`]: the entry: groups side by side, the messages of a group in order; a panic stays with its message.
//! - [`message`]: one message: whether it is an event, and whether the invocation has time for it.
//! - [`claim`]: one conditional write gives the event to this worker, or says why not.
//! - [`run`]: the loop: the lease's next step, until something ends the run.
//! - [`line`]: whether another event of the entity waits, and goes first.
//! - [`prepare`], [`intend`], [`call`], [`look_up`]: the stages, each a function over the [`Run`](work::Run).
//! - [`retry`]: what follows a failed call: the event waits for its partner, or the effect is tried again or given up.
//! - [`ends`]: how a run ends: success, retry, deferral, a guard's block, a question to a human, a dead letter.
//! - [`figures`]: what is counted when an event ends.
//! - [`leave`]: leaving the queue, to wait in the ledger.
//! - [`action`]: what one effect does: a call, an invocation, an upsert, a decision.
//! - [`function`]: one invocation of a function of the team's own.
//! - [`partner`]: one request to a partner: a token that is rejected, and the time that is left.
//! - [`let_go`]: a call that becomes slow: it goes on within its partner's share of the batches, or is let go.
//! - [`permits`]: leave to call a partner: the gate, a token, and giving a permit back.
//! - [`credentials`]: what authenticates us: a secret, or a token that was fetched for it.
//! - [`pause`]: what an operator has paused, and for how long that holds an event back.
//! - [`hindrance`]: what holds an event back, and whether it waits for it on the queue.
//! - [`safe_mode`]: safe mode, turned on by an open breaker.
//! - [`times`]: whether the times that the deployment sets fit one another, told at the start.
//! - [`report`]: the one line that a message leaves in the log.
//! - [`call_spans`]: the spans of requests: calls, questions, tokens.
//! - [`spans`]: the spans of the work on a message, for whoever looks at traces.
//! - [`work`]: the ports, the event and its run, which all of these are given.
//! - [`ended`]: how the work on a message ended.

mod batch;
mod message;
mod claim;
mod run;
mod line;
mod prepare;
mod intend;
mod call;
mod retry;
mod look_up;
mod ends;
mod figures;
mod leave;
mod action;
mod function;
mod partner;
mod let_go;
mod permits;
mod credentials;
mod pause;
mod hindrance;
mod safe_mode;
mod times;
mod report;
mod call_spans;
mod spans;
mod work;
mod ended;

pub use batch::{handle, process_batch};
pub use ends::most_receives;
pub use message::process;
pub use times::tell_wrong_times;
pub use work::{MessageFate, Processor, ToldOnce, tell_misfits};
