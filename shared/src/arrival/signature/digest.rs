//! An HMAC as it is written.

use std::fmt;

use ::hmac::{Hmac, KeyInit, Mac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::{Choice, ConstantTimeEq};

use crate::base::id::hex;
use crate::flows::{Algorithm, Encoding};

/// The algorithm and the encoding of a signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest {
    pub(super) algorithm: Algorithm,
    pub(super) encoding: Encoding,
}

impl Digest {
    /// The signature of `content` with `key`, as its sender writes it.
    ///
    /// Signatures are compared in this form. There is only one way to write each, so nothing that a
    /// stranger sent needs to be decoded.
    pub(super) fn written(self, key: &[u8], content: &[impl AsRef<[u8]>]) -> TrueSignature {
        let bytes = match self.algorithm {
            Algorithm::Sha1 => mac::<Hmac<Sha1>>(key, content),
            Algorithm::Sha256 => mac::<Hmac<Sha256>>(key, content),
            Algorithm::Sha512 => mac::<Hmac<Sha512>>(key, content),
        };
        TrueSignature(encode(&bytes, self.encoding))
    }
}

/// Bytes as a sender writes them.
pub(super) fn encode(bytes: &[u8], encoding: Encoding) -> String {
    match encoding {
        Encoding::Hex => hex(bytes),
        Encoding::Base64 => STANDARD.encode(bytes),
    }
}

/// A true signature, as it is written. It has no `==`: it is only compared in constant time.
pub(super) struct TrueSignature(String);

impl TrueSignature {
    /// Whether the offered signature is this one.
    pub(super) fn is(&self, offered: &str) -> Choice {
        self.0.as_bytes().ct_eq(offered.as_bytes())
    }
}

/// The signature as its sender writes it into a header.
impl fmt::Display for TrueSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], content: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    for piece in content {
        mac.update(piece.as_ref());
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202 and RFC 4231, test case 2 of each.
    #[test]
    fn computes_the_published_vectors() {
        let (key, data): (_, &[&[u8]]) = (b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        for (algorithm, expected) in [
            (Algorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Algorithm::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            (
                Algorithm::Sha512,
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
                 9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
            ),
        ] {
            assert_eq!(Digest { algorithm, encoding: Encoding::Hex }.written(key, data).to_string(), expected);
        }
        let base64 = Digest { algorithm: Algorithm::Sha1, encoding: Encoding::Base64 };
        assert_eq!(base64.written(key, data).to_string(), "7/zfauXrL6LSdBbV8YTfnCWafHk=");
    }
}
