//! The cryptography of tokens, by the library that TLS uses already.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::arrival::signature::Secret;
use crate::effects::token::{SealingKey, SigningKey, TokenCrypto};

/// AES-256-GCM and RS256 of AWS-LC.
#[derive(Clone, Copy, Debug)]
pub struct AwsLcCrypto;

impl TokenCrypto for AwsLcCrypto {
    fn seal(&self, key: &SealingKey, name: &str, text: &Secret) -> Option<String> {
        let mut sealed = text.expose().as_bytes().to_vec();
        let nonce = aes(key)?.seal_in_place_append_tag(Aad::from(name.as_bytes()), &mut sealed).ok()?;
        Some(STANDARD.encode([nonce.as_ref().as_slice(), &sealed].concat()))
    }

    fn open(&self, key: &SealingKey, name: &str, sealed: &str) -> Option<Secret> {
        let mut bytes = STANDARD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = aes(key)?.open_in_place(nonce, Aad::from(name.as_bytes()), sealed).ok()?;
        String::from_utf8(text.to_vec()).ok().map(Secret::new)
    }

    fn sign_rs256(&self, key: &SigningKey, content: &[u8]) -> Option<Vec<u8>> {
        let key = match key {
            SigningKey::Pkcs8(der) => KeyPair::from_pkcs8(der),
            SigningKey::Pkcs1(der) => KeyPair::from_der(der),
        };
        let key = key.ok()?;
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content, &mut signature).ok()?;
        Some(signature)
    }
}

fn aes(key: &SealingKey) -> Option<RandomizedNonceKey> {
    RandomizedNonceKey::new(&AES_256_GCM, &key.0).ok()
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_signature_is_one_of_the_keys() {
        let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&key).expect("a key").as_ref().to_vec();
        let signature = AwsLcCrypto.sign_rs256(&SigningKey::Pkcs8(der.clone()), b"content").expect("signed");
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
        public.verify(b"content", &signature).expect("the signature is good");
        assert!(public.verify(b"another", &signature).is_err());
        assert_eq!(AwsLcCrypto.sign_rs256(&SigningKey::Pkcs1(der), b"content"), None, "it is of the other form");
    }
}
