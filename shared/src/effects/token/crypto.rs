//! The cryptography of tokens, as a port: the core has no library for it.

use std::fmt;

use crate::arrival::signature::Secret;

/// Seals tokens, and signs assertions.
pub trait TokenCrypto: Send + Sync {
    /// Encrypts a text, so that only who has the key can read it, and only under this name. `None` says that the system
    /// has no random numbers.
    fn seal(&self, key: &SealingKey, name: &str, text: &Secret) -> Option<String>;

    /// The text that was sealed with this key under this name; nothing, if another was used, or a byte was changed.
    fn open(&self, key: &SealingKey, name: &str, sealed: &str) -> Option<Secret>;

    /// The signature RS256 of the content. `None` says that the key is no RSA key of 2048 bits or more.
    fn sign_rs256(&self, key: &SigningKey, content: &[u8]) -> Option<Vec<u8>>;
}

/// A key that seals.
pub struct SealingKey(pub [u8; 32]);

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// A private key that signs, as DER.
pub enum SigningKey {
    /// As most tools write it.
    Pkcs8(Vec<u8>),
    /// As older tools write an RSA key.
    Pkcs1(Vec<u8>),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}
