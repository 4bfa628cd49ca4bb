//! The contract of the tokens' cryptography. It needs no emulator.

use shared::adapters::AwsLcCrypto;
use shared::arrival::signature::Secret;
use shared::effects::token::{SealingKey, TokenCrypto};
use shared::model::ModelCrypto;

fn each(check: impl Fn(&dyn TokenCrypto)) {
    check(&AwsLcCrypto);
    check(&ModelCrypto);
}

const KEY: SealingKey = SealingKey([7; 32]);
const NAME: &str = "token/crm/00";

#[test]
fn what_is_sealed_is_opened_with_the_same_key_under_the_same_name() {
    each(|crypto| {
        for text in ["", "canary-token", "ümläut \u{1f510}"] {
            let sealed = crypto.seal(&KEY, NAME, &Secret::new(text)).expect("sealed");
            assert!(text.is_empty() || !sealed.contains(text));
            assert_eq!(crypto.open(&KEY, NAME, &sealed), Some(Secret::new(text)));
            assert_eq!(crypto.open(&SealingKey([8; 32]), NAME, &sealed), None);
            assert_eq!(crypto.open(&KEY, "token/crm/01", &sealed), None);
        }
    });
}

#[test]
fn what_was_changed_is_not_opened() {
    each(|crypto| {
        let sealed = crypto.seal(&KEY, NAME, &Secret::new("token")).expect("sealed");
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(crypto.open(&KEY, NAME, &changed), None, "{place}");
        }
        for bad in ["", "AAAA", "not sealed", &sealed[..sealed.len() / 2]] {
            assert_eq!(crypto.open(&KEY, NAME, bad), None, "{bad}");
        }
    });
}

#[test]
fn a_real_seal_is_another_each_time() {
    let seal = || AwsLcCrypto.seal(&KEY, NAME, &Secret::new("token"));
    assert_ne!(seal(), seal(), "a nonce is used once");
}
