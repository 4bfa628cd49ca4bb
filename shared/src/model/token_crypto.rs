//! The cryptography of tokens, without its strength: nobody who looks on purpose is kept out.
//!
//! What it cannot do that the world can: seal the same text in two ways, or find no random numbers.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::arrival::signature::Secret;
use crate::base::id::hex;
use crate::effects::token::{SealingKey, SigningKey, TokenCrypto};

/// A seal that hides a text from a glance, and a signature that any key makes.
#[derive(Clone, Copy, Debug)]
pub struct ModelCrypto;

impl TokenCrypto for ModelCrypto {
    fn seal(&self, key: &SealingKey, name: &str, text: &Secret) -> Option<String> {
        let hidden = hex(text.expose().as_bytes());
        Some(format!("{}{hidden}", hex(&mac(&key.0, &[name.as_bytes(), hidden.as_bytes()]))))
    }

    fn open(&self, key: &SealingKey, name: &str, sealed: &str) -> Option<Secret> {
        let (tag, hidden) = sealed.split_at_checked(64)?;
        let good = tag == hex(&mac(&key.0, &[name.as_bytes(), hidden.as_bytes()]));
        let digits = |at: usize| u8::from_str_radix(hidden.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..hidden.len()).step_by(2).map(digits).collect();
        String::from_utf8(bytes.filter(|_| good)?).ok().map(Secret::new)
    }

    fn sign_rs256(&self, key: &SigningKey, content: &[u8]) -> Option<Vec<u8>> {
        let (SigningKey::Pkcs8(der) | SigningKey::Pkcs1(der)) = key;
        Some(mac(der, &[content])).filter(|_| !der.is_empty())
    }
}

fn mac(key: &[u8], content: &[&[u8]]) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    content.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().to_vec()
}
