//! What an attacker tries, and what an auditor asks. `infra/SECURITY.md` says who and why.

mod dependencies;
mod echoes;
mod effects;
mod floods;
mod roles;
mod secrets;
mod signatures;
mod threats;

use crate::fixtures::sources;
