//! Signatures by ECDSA over P-256 with SHA-256, by the library that TLS uses already.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Secret;
use super::digest::encode;
use crate::flows::Encoding;

/// Whether the offered signature is one of this content by the key in a secret.
pub(super) fn is_by(secret: &Secret, content: &[impl AsRef<[u8]>], offered: &str, encoding: Encoding) -> bool {
    let verified = || {
        let (key, signature) = (der(secret)?, decode(offered, encoding)?);
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(&joined(content), &signature).ok()
    };
    verified().is_some()
}

/// A signature of this content by a private key, which tools and tests have.
pub(super) fn sign(secret: &Secret, content: &[impl AsRef<[u8]>], encoding: Encoding) -> Option<String> {
    let signature = private(secret)?.sign(&SystemRandom::new(), &joined(content)).ok()?;
    Some(encode(signature.as_ref(), encoding))
}

/// The public key of a private one, as the provider shows it: a SubjectPublicKeyInfo in Base64.
pub(super) fn public(secret: &Secret) -> Option<Secret> {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    let key = private(secret)?;
    let der = AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key()).ok()?;
    Some(Secret::new(STANDARD.encode(der.as_ref())))
}

fn private(secret: &Secret) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, &der(secret)?).ok()
}

/// The private key whose number these bytes are, in the form that [`sign`] takes.
pub(super) fn private_key(number: &[u8; 32]) -> Secret {
    // ECPrivateKey of RFC 5915: version 1, the number, and the name of the curve.
    let head: &[u8] = &[0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    let curve: &[u8] = &[0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    Secret::new(STANDARD.encode([head, number, curve].concat()))
}

/// The bytes of a key in Base64, with or without the lines around it in a PEM file.
fn der(secret: &Secret) -> Option<Vec<u8>> {
    let pem = |line: &&str| !line.starts_with("-----");
    let lines = secret.expose().lines().map(str::trim).filter(pem);
    STANDARD.decode(lines.collect::<String>()).ok().filter(|key| !key.is_empty())
}

fn decode(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Base64 => STANDARD.decode(text).ok(),
        Encoding::Hex => {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
            let pairs = text.as_bytes().chunks(2).map(std::str::from_utf8);
            let byte = |pair: Result<&str, _>| u8::from_str_radix(pair.ok().filter(|pair| pair.len() == 2)?, 16).ok();
            digits.then(|| pairs.map(byte).collect()).flatten()
        }
    }
}

fn joined(content: &[impl AsRef<[u8]>]) -> Vec<u8> {
    content.iter().flat_map(AsRef::as_ref).copied().collect()
}
