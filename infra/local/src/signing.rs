//! Signing as a Standard Webhooks sender does.

use anyhow::{Context, Result};
use base64::prelude::*;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// A signing secret, as the sender and the receiver share it.
#[derive(Clone)]
pub struct Secret {
    text: String,
    key: Vec<u8>,
}

impl Secret {
    /// Read the `whsec_<base64>` form.
    pub fn parse(text: &str) -> Result<Self> {
        let encoded = text.trim().strip_prefix(PREFIX).context("a secret starts with whsec_")?;
        let key = BASE64_STANDARD.decode(encoded).context("a secret is base64 after whsec_")?;
        Ok(Self { text: text.trim().to_owned(), key })
    }

    /// The `whsec_<base64>` form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key in hexadecimal, as `openssl` takes it.
    pub fn hex(&self) -> String {
        self.key.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The three headers of a delivery: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    pub fn headers(&self, id: &str, timestamp: i64, body: &[u8]) -> [(&'static str, String); 3] {
        [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", self.sign(id, timestamp, body)),
        ]
    }

    /// The signature over `id.timestamp.body`.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes any key length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn it_signs_as_the_specification_does() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
