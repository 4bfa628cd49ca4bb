//! Scenarios: what is given of a flow's world, and what is expected of the flow. `flows test` plays and compares them.
//!
//! # Layout
//!
//! - [`written`]: a scenario file, as its author writes it.
//! - [`folder`]: the files beside the flows, and the events that they name.
//! - [`mistakes`]: what a look at the flow shows of a file, without a play.
//! - [`script`]: the partners' part: what they answer, in order.
//! - [`play`]: a scenario on the simulation's stage, and what was seen.
//! - [`compare`]: what was seen against what is expected.
//! - [`coverage`]: which parts of a flow the scenarios touch.
//! - [`observed`]: what was seen, written as an expectation.

pub mod compare;
pub mod coverage;
pub mod folder;
pub mod mistakes;
pub mod observed;
pub mod play;
pub mod script;
pub mod written;
