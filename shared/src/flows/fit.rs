//! Whether the time-outs of integrations fit into an invocation of the processor.
//!
//! An invocation begins no call that it could not wait for: the outcome would be unknown. So a time-out that is longer
//! than an invocation would never be called at all.

use std::time::Duration;

use super::parse::{File, Problem, Problems};
use super::{Flow, Flows, Invoke};
use crate::base::wrong::Wrong;

/// The part of an invocation that no call may use: its first reads and the claim, and the last writes.
pub const AROUND_A_CALL: Duration = Duration::from_secs(1);

/// The time-out of an integration that does not fit into an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the timeout of `{integration}` is {} s, and must be at most {} s: the processor has {} s for a batch \
     (ProcessorTimeout)", timeout.as_secs_f64(), most.as_secs_f64(), (*most + AROUND_A_CALL).as_secs_f64()
)]
pub struct OverlongTimeout<'f> {
    /// The integration.
    pub integration: &'f str,
    /// Its time-out.
    pub timeout: Duration,
    /// The longest time-out that fits.
    pub most: Duration,
}

impl Flows {
    /// The integrations whose time-outs do not fit into an invocation of this length.
    pub fn misfits(&self, invocation: Duration) -> impl Iterator<Item = OverlongTimeout<'_>> {
        let most = invocation.saturating_sub(AROUND_A_CALL);
        let longer = self.integrations().filter(move |(_, partner)| partner.timeout > most);
        longer.map(move |(integration, partner)| OverlongTimeout { integration, timeout: partner.timeout, most })
    }

    /// The first integration that a flow asks and whose time-out does not fit into an invocation of this length, if it has
    /// one.
    pub fn misfit_of(&self, flow: &Flow, invocation: Duration) -> Option<OverlongTimeout<'_>> {
        self.misfits(invocation).find(|misfit| flow.integrations().any(|asked| asked == misfit.integration))
    }

    /// Checks that every time-out, read from these files, fits into an invocation of this length.
    pub fn fit_into(&self, files: &[File], invocation: Duration) -> Result<(), Problems> {
        let locate = |misfit: OverlongTimeout<'_>| {
            let OverlongTimeout { integration, timeout, .. } = misfit;
            let says_so = |invoke: &Invoke| invoke.timeout == Some(timeout);
            self.locate_function(files, integration, "timeout", says_so, Wrong::at("", misfit.to_string()))
        };
        let problems: Vec<Problem> = self.misfits(invocation).map(locate).collect();
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }
}
