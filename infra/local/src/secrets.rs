//! The demo's secrets: made once, kept in the state folder, put into the emulator's parameter store.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use base64::prelude::*;
use serde_json::json;
use shared::arrival::signature::{Secret, new_secret, receivers_secret};
use shared::flows::{Flows, Scheme};

use crate::aws::Endpoint;
use crate::demo_signing_secret::DemoSigningSecret;
use crate::deploy::STACK;
use crate::partner_secrets::secret_for;

/// The file in the state folder that keeps the key of all sources.
const SOURCES: &str = "sources.secret";

/// The secrets of the demo source: a key to sign with, and a token to read its receipts with.
#[derive(Clone)]
pub struct DemoSecrets {
    /// The key that it signs with.
    pub signing: DemoSigningSecret,
    /// The token: `web-forms.<secret>`.
    pub receipts: String,
}

impl std::fmt::Debug for DemoSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DemoSecrets(…)")
    }
}

/// Puts the secrets of all sources and integrations in place; returns those of the demo source.
///
/// They stay the same from start to start, so that a `curl` from an earlier screen still works. All
/// sources sign with one key here, each in its own way.
pub async fn put(endpoint: &Endpoint, state: &Path, flows: &Flows) -> Result<DemoSecrets> {
    let signing = keep(&state.join(SOURCES), || random_text("whsec_"))?;
    let receipts = keep(&state.join("receipts.secret"), || random_text("web-forms."))?;
    let token = of_integrations(state)?;
    for (name, source) in flows.sources() {
        let secret = senders_secret(&source.scheme, &signing)?;
        let kept = receivers_secret(&source.scheme, &secret)
            .context("the local cloud cannot start: a key has no public one")?;
        put_parameter(endpoint, &format!("sources/{name}/current"), kept.expose()).await?;
        if source.handshake.as_ref().is_some_and(|handshake| handshake.token.is_some()) {
            put_parameter(endpoint, &format!("handshakes/{name}/current"), &signing).await?;
        }
    }
    // A function is invoked by IAM: it has no secret.
    for (name, integration) in flows.integrations().filter(|(_, integration)| integration.function.is_none()) {
        let secret = secret_for(&integration.auth, &token, state)?;
        put_parameter(endpoint, &format!("integrations/{name}/current"), &secret).await?;
        for var in integration.vars.secrets() {
            put_parameter(endpoint, &format!("integrations/{name}/vars/{var}/current"), &token).await?;
        }
    }
    put_parameter(endpoint, "receipts/web-forms/current", &receipts).await?;
    Ok(DemoSecrets { signing: DemoSigningSecret::parse(&signing)?, receipts })
}

/// The secret of a sender of this scheme, made of the one that all sources share: of a scheme with keys, the private one.
pub fn senders_secret(scheme: &Scheme, shared: &str) -> Result<Secret> {
    let key = DemoSigningSecret::parse(shared)?.bytes().try_into().ok();
    let key = key.context("the signing secret is not 32 bytes: delete its file, and start the cloud again")?;
    Ok(new_secret(scheme, &key))
}

/// The token that all integrations get, which the partner stub asks for.
pub fn of_integrations(state: &Path) -> Result<String> {
    keep(&state.join("integrations.secret"), || random_text("token_"))
}

/// The key that the sources of a local cloud sign with, from its state folder.
pub fn of_sources(state: &Path) -> Result<DemoSigningSecret> {
    let file = state.join(SOURCES);
    let text = std::fs::read_to_string(&file);
    DemoSigningSecret::parse(&text.with_context(|| {
        format!(
            "nothing was sent: cannot read the signing secret in {}. Start the cloud again with `make run`",
            file.display()
        )
    })?)
}

/// Puts a secret below the prefix that the functions read, which is the stack's name.
async fn put_parameter(endpoint: &Endpoint, path: &str, value: &str) -> Result<()> {
    let input = json!({"Name": format!("/{STACK}/{path}"), "Value": value, "Type": "SecureString", "Overwrite": true});
    endpoint.act("ssm", "AmazonSSM.PutParameter", input).await?;
    Ok(())
}

fn random_text(prefix: &str) -> Result<String> {
    Ok(format!("{prefix}{}", BASE64_STANDARD.encode(random()?)))
}

/// The value in the file, or a new one, which the file keeps from now on.
pub(crate) fn keep(file: &Path, make: impl FnOnce() -> Result<String>) -> Result<String> {
    if let Ok(kept) = std::fs::read_to_string(file) {
        return Ok(kept);
    }
    let made = make()?;
    // Created with its mode: written first and closed off later, others could read it between.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    match created {
        Ok(mut new) => new.write_all(made.as_bytes()).map(|()| made),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => std::fs::read_to_string(file),
        Err(error) => Err(error),
    }
    .with_context(|| format!("the local cloud cannot start: cannot keep a secret in {}", file.display()))
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .context("the local cloud cannot start: the system gives no random numbers for its secrets")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_for_its_owner_only() {
        let file = std::env::temp_dir().join(format!("ledgerline-secret-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);

        let first = keep(&file, || random_text("whsec_")).expect("a new secret");
        let second = keep(&file, || random_text("whsec_")).expect("the same secret");
        let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
        std::fs::remove_file(&file).expect("the file");

        assert_eq!(first, second);
        assert!(DemoSigningSecret::parse(&first).is_ok());
        assert_eq!(mode & 0o777, 0o600);
    }
}
