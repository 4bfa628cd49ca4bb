//! Switches at run time: pause, resume, safe mode, retry policies. In force within seconds, with no deploy.

mod status;
mod turn;

pub(crate) use status::StatusArgs;
pub(crate) use turn::{PauseArgs, PolicyArgs, ResumeArgs, SafeModeArgs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline pause --integration crm --for 30m --reason 'the CRM is moving'
  ledgerline resume --integration crm --reason 'it has moved'
  ledgerline safe-mode --flow cart-recovery --for 2h --reason 'the codes are odd'
  ledgerline safe-mode --flow cart-recovery --off --reason 'the codes are right'
  ledgerline policy --flow lead-routing max_attempts=5 base=10s --reason 'the CRM is slow today'
  ledgerline policy --flow lead-routing --reason 'the CRM is well'       the flow's own again

Without a flow or an integration, everything is meant. `ledgerline status` lists what is on.";
