//! What crosses the crates' borders, in one test binary.
//!
//! - [`memory`]: the three functions over the models, on a virtual clock.
//! - [`alarms`]: each alarm of the template fires, and does not fire, by its own definition.
//! - [`contract`]: one suite for the ports, on the models and on the emulator alike.
//! - [`cloud`]: end to end through the local cloud, with the real binaries and the real template.
//! - [`collected`]: what a real collector says that it got.
//! - [`dashboards`]: both dashboards are as they are made, and draw what is counted.
//! - [`formats`]: what every version stored and sent, which each later one reads.
//! - [`fuzz`]: real payloads, spoiled at random, against what must hold whatever is sent.
//! - [`limits`]: a fleet of containers under one limit, on a virtual clock.
//! - [`pages`]: long lists in DynamoDB, read page by page.
//! - [`pressure`]: a fleet of containers before one partner, and what that costs.
//! - [`metrics`]: the names of metrics: where they are counted, told and asked for.
//! - [`project`]: what holds of the project's own files: layout, names, documents.
//! - [`samples`]: the samples of functions, in their own languages.
//! - [`scripts`]: the scripts of `make deploy`, tested in Python.
//! - [`security`]: what an attacker tries, and what an auditor asks.
//! - [`sim`]: the crate `sim` over our flows: many seeds, every fault at every call, and mutants.
//! - [`signatures`]: our signatures against the providers' own libraries.
//! - [`template`]: the numbers that the template's pieces must agree on.
//! - [`traces`]: the export of spans, to a real collector and to none.
//!
//! Tests that need the local cloud are ignored by a plain `cargo test`; `make test` brings it up and
//! runs them.
#![cfg(test)]

mod alarms;
mod cloud;
mod collected;
mod contract;
mod dashboards;
mod fixtures;
mod formats;
mod fuzz;
mod limits;
mod memory;
mod metrics;
mod pages;
mod partners;
mod pressure;
mod project;
mod samples;
mod scripts;
mod security;
mod signatures;
mod sim;
mod template;
mod traces;
