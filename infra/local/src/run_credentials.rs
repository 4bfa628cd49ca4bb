//! Credentials that are made for one run of a local cloud and are valid nowhere else.

use std::fmt::{self, Debug, Formatter};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The keys of one run: what signs requests to the emulator, and what opens the controls of the partner stub and the
/// console.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCredentials {
    /// The `AWS_ACCESS_KEY_ID`.
    pub access_key_id: String,
    /// The `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: String,
    /// The bearer token of the partner stub's controls and of the console.
    pub control_token: String,
}

impl RunCredentials {
    /// New credentials.
    pub fn make() -> Result<Self> {
        Ok(Self {
            access_key_id: format!("LOCAL{}", random::<8>()?.to_uppercase()),
            secret_access_key: random::<32>()?,
            control_token: random::<16>()?,
        })
    }

    /// The credentials in the variables that [`crate::cloud::LocalCloud::environment`] sets.
    pub fn of_environment() -> Result<Self> {
        let variable =
            |name| std::env::var(name).with_context(|| format!("{name} is not set: run this by `make test`"));
        Ok(Self {
            access_key_id: variable("AWS_ACCESS_KEY_ID")?,
            secret_access_key: variable("AWS_SECRET_ACCESS_KEY")?,
            control_token: variable("LEDGERLINE_CONTROL_TOKEN")?,
        })
    }

    /// The header that opens the controls.
    pub fn control_header(&self) -> String {
        format!("Bearer {}", self.control_token)
    }
}

impl Debug for RunCredentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "RunCredentials({}, …)", self.access_key_id)
    }
}

/// So many random bytes, in hexadecimal.
pub(crate) fn random<const N: usize>() -> Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .context("the local cloud cannot start: the system gives no random numbers for its credentials")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
