//! What an attacker tries, and what an auditor asks. `infra/SECURITY.md` says who and why.

mod canaries;
mod credentials;
mod dependencies;
mod deployer;
mod echoes;
mod effects;
mod floods;
mod functions;
mod lines;
pub(crate) mod mirror;
mod printed;
mod roles;
mod secrets;
mod signatures;
mod threats;

use crate::fixtures::sources;
