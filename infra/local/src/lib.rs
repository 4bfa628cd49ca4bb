//! The local cloud: what `make run` starts, and what the end-to-end tests talk to.
//!
//! An emulator answers for AWS, and the real `sam deploy` puts the real `infra/template.yaml` into
//! it: there is no second description of the system here. Two pieces of the emulator are not
//! faithful enough for our protocol, and only those are replaced: the HTTP API ([`gateway`]) and
//! the event source mappings of FIFO queues ([`poller`]).
//!
//! The modules stand in the groups in which a start meets them: what every step uses, what is
//! deployed, the deploy, what serves. [`cloud`] ties them together.
//!
//! Deliberately absent: containers, calls that leave the machine once the tools are installed, and
//! state that outlives the process, other than the demo's secrets.

pub mod command;
pub mod listen_ports;
pub mod output;
pub mod private_files;
pub mod processes;
pub mod project;
pub mod run_credentials;
pub mod seeded_random;
mod state_folder;
pub mod step_progress;

pub mod binaries;
mod built;
mod checkov;
pub mod browser;
pub mod flows_copy;
pub mod node;
pub mod stage;
pub mod template;
pub mod tools;

pub mod aws;
pub mod sigv4;
pub mod deploy;
pub mod demo_signing_secret;
pub mod emulator;
mod emulator_proxy;
pub mod secrets;
mod partner_secrets;
pub mod stack;
pub mod team_functions;

mod aliases;
mod control_token;
mod foreign_requests;
pub mod console;
pub mod gateway;
pub mod journal;
pub mod lambda;
mod metrics;
mod permissions;
pub mod partners;
pub mod poller;
pub mod queues;
mod webhooks;

pub mod chaos;
pub mod collector;
pub mod cli;
pub mod cloud;
mod event_route;
mod example;
pub mod new_event;
pub mod signed_request;
pub mod night;
pub mod prism;
pub mod reload;
mod test_clouds;
pub mod screen;
pub mod verbs;
