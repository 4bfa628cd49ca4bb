//! The switches: pause, resume, safe mode, retry policies, levels of the log. They are in force within seconds, without a deploy.

mod status;
mod turn;

pub(crate) use status::StatusArgs;
pub(crate) use turn::{LogLevelArgs, PauseArgs, PolicyArgs, ResumeArgs, SafeModeArgs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline pause --integration crm --for 30m --reason 'the CRM is moving'
  ledgerline resume --integration crm --reason 'it has moved'
  ledgerline safe-mode --flow cart-recovery --for 2h --reason 'the codes are odd'
  ledgerline safe-mode --flow cart-recovery --off --reason 'the codes are right'
  ledgerline policy --flow lead-routing max_attempts=5 base=10s --reason 'the CRM is slow today'
  ledgerline policy --flow lead-routing --reason 'the CRM is well'       restores the policy in the flow's file
  ledgerline log-level --flow lead-routing --for 30m debug --reason 'where do they wait?'

Without --flow or --integration, the switch is for everything. `ledgerline status` lists the switches that are on.";
