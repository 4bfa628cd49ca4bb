//! The demo source's signing secret.

use anyhow::{Context, Result};
use base64::prelude::*;

const PREFIX: &str = "whsec_";

/// A signing secret, as the sender and the receiver share it.
#[derive(Clone)]
pub struct DemoSigningSecret {
    text: String,
    key: Vec<u8>,
}

impl DemoSigningSecret {
    /// Reads the `whsec_<base64>` form.
    pub fn parse(text: &str) -> Result<Self> {
        let encoded = text
            .trim()
            .strip_prefix(PREFIX)
            .context("the signing secret does not start with whsec_: delete its file, and start the cloud again")?;
        let key = BASE64_STANDARD
            .decode(encoded)
            .context("the signing secret is not base64 after whsec_: delete its file, and start the cloud again")?;
        Ok(Self { text: text.trim().to_owned(), key })
    }

    /// The `whsec_<base64>` form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key.
    pub fn bytes(&self) -> &[u8] {
        &self.key
    }

    /// The key in hexadecimal, as `openssl` takes it.
    pub fn hex(&self) -> String {
        self.key.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Debug for DemoSigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DemoSigningSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_as_openssl_takes_it() {
        let secret = DemoSigningSecret::parse("whsec_AAECAw==\n").expect("a secret");
        assert_eq!((secret.text(), secret.hex().as_str()), ("whsec_AAECAw==", "00010203"));
        assert!(DemoSigningSecret::parse("AAECAw==").is_err());
    }
}
