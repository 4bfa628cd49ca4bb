//! The ledger: one row for each event, with what was accepted, what was intended and what was done.
//!
//! ```text
//!            admit            claim            succeed
//!  (nothing) ─────▶ queued ─────────▶ running ─────────▶ succeeded
//!                   ▲   ▲             │ ▲ │ │  block
//!                   │   │       retry │ │ │ └──────────▶ noop ◀──────┐
//!                   │   │             ▼ │ │ ask                      │ reject, lapse
//!                   │   │        retrying │ └───▶ awaiting_approval ─┤
//!                   │   └──── approve ────┼──────────────┘           │ drop
//!                   │                bury ▼                          ▼
//!                   └──────── replay ── dead ───────── drop ─────▶ dropped
//! ```
//!
//! A running event that cannot go on for long becomes `waiting`. A wake makes it `queued` again, under the next wake
//! number and at its old age; an operator may drop it.
//!
//! An event that broke its flow's schema is born `dead`, where the flow parks such events. Its replay admits the event
//! that it stands for under another id, and makes a `noop` of this row.
//!
//! The transitions are pure functions in this room; an adapter only writes their result, under one named
//! condition each. Every claim and every replay raises the row's `epoch`, and every write names the
//! epoch that it believes in: a worker that outlived its lease finds another epoch and can change
//! nothing. Within an epoch each write raises `step`, so that a write which the network delivers
//! late cannot undo a later one.

mod row;
mod call_error;
mod dead_reason;
pub(crate) mod json_text;
mod stored_form;

mod lease;
mod next_step;
mod spared;

mod approval;
mod parked;
mod waiting;
mod list_pages;
mod renamed;

mod unquoted;

pub mod timeline;

pub mod batch;
pub mod plan;

pub mod queue;
mod store;

pub use call_error::{CallError, Clue};
pub use dead_reason::{Death, Reason};
pub use lease::{Claim, Closed, Lease, NotClaimed};
pub use list_pages::{ListOrder, ShardPage, read_list};
pub use next_step::{Next, WORKER_LOST};
pub use parked::{Declined, SHARDS, SignOff, missing};
pub use row::{Ask, Doubt, Entry, LostAttempt, Moment, Noop, Progress, Row, State};
pub use spared::pause_after;
pub use store::{Admission, Admissions, Claims, Lines, Records, Rows};
pub use unquoted::unquoted;
pub use waiting::{InLine, Line, Listed, PassedOver, RESEND_AFTER, Wait, WaitsFor};
