//! Tokens in their seal: who has not the secret that they were fetched for cannot read them.
//!
//! The intake and the replay function may write to the table that holds the tokens, and a write can return what it
//! replaces. Neither may read the partners' secrets. So a token is encrypted under a key that is made of its partner's
//! secret, which the processor reads anyway: it costs no call, and no service more.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::crypto::{SealingKey, TokenCrypto};
use crate::arrival::signature::Secret;
use crate::flows::{ClientCredentials, JwtBearer, TokenGrant};

/// The form of what is stored. Another form has other keys, so that two versions of the code do not meet in one item.
const FORM: &[u8] = b"ledgerline/token/1";

/// What a partner's secret gives: the key of the shared item, and the key that seals.
pub(super) struct SealKeys<'c> {
    /// The key of the shared item.
    pub(super) item: String,
    sealing: SealingKey,
    crypto: &'c dyn TokenCrypto,
}

impl<'c> SealKeys<'c> {
    /// The keys for a partner's tokens. They differ for each secret, and for all that a token is asked for by.
    pub(super) fn of(
        integration: &str,
        grant: TokenGrant<'_>,
        secret: &Secret,
        crypto: &'c dyn TokenCrypto,
    ) -> SealKeys<'c> {
        let key = mac(FORM, &[secret.expose().as_bytes()]);
        let account = account(integration, grant);
        let name = expand(&key, &[b"name", &account]);
        let name: String = name[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let sealing = SealingKey(expand(&key, &[b"seal", &account]));
        SealKeys { item: format!("token/{integration}/{name}"), sealing, crypto }
    }

    /// The token, encrypted. It can be opened in its own item only.
    pub(super) fn seal(&self, token: &Secret) -> Option<String> {
        self.crypto.seal(&self.sealing, &self.item, token)
    }

    /// The token inside, if it was sealed under these keys.
    pub(super) fn open(&self, sealed: &str) -> Option<Secret> {
        self.crypto.open(&self.sealing, &self.item, sealed)
    }
}

/// All that a token is asked for by, but for the secret. Each part has its length before it: `ab`, `c` is not `a`, `bc`.
fn account(integration: &str, grant: TokenGrant<'_>) -> Vec<u8> {
    let parts: Vec<&str> = match grant {
        TokenGrant::ClientCredentials(ClientCredentials { token_url, client_id, scope, audience, .. }) => {
            vec!["client", token_url, client_id, text(scope), text(audience)]
        }
        TokenGrant::JwtBearer(JwtBearer { token_url, issuer, subject, audience, scope, .. }) => {
            vec!["jwt", token_url, issuer, text(subject), text(audience), text(scope)]
        }
    };
    let parts = [integration].into_iter().chain(parts);
    parts.flat_map(|part| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat()).collect()
}

fn text(optional: &Option<String>) -> &str {
    optional.as_deref().unwrap_or_default()
}

/// HKDF's second step (RFC 5869), for as many bytes as one hash has. Its first is [`mac`] under a salt.
fn expand(key: &[u8; 32], info: &[&[u8]]) -> [u8; 32] {
    mac(key, &[info, &[&[1]]].concat())
}

fn mac(key: &[u8], content: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    content.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::token::crypto::SigningKey;
    use crate::flows::Auth;

    /// A seal that shows its key.
    struct Glass;

    impl TokenCrypto for Glass {
        fn seal(&self, key: &SealingKey, name: &str, text: &Secret) -> Option<String> {
            Some(format!("{:?}|{name}|{}", key.0, text.expose()))
        }

        fn open(&self, key: &SealingKey, name: &str, sealed: &str) -> Option<Secret> {
            sealed.strip_prefix(&format!("{:?}|{name}|", key.0)).map(Secret::new)
        }

        fn sign_rs256(&self, _: &SigningKey, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
    }

    fn keys(integration: &str, scope: &str, secret: &str) -> SealKeys<'static> {
        let auth = format!("{{oauth2: {{token_url: 'https://a.example/t', client_id: me, scope: {scope}}}}}");
        let auth: Auth = serde_saphyr::from_str(&auth).expect("good");
        SealKeys::of(integration, auth.token_grant().expect("a grant"), &Secret::new(secret), &Glass)
    }

    #[test]
    fn another_secret_scope_or_integration_has_another_item_and_another_key() {
        let sealed = keys("crm", "a", "one").seal(&Secret::new("token")).expect("sealed");
        assert_eq!(keys("crm", "a", "one").open(&sealed), Some(Secret::new("token")));
        for other in [keys("crm", "a", "two"), keys("crm", "b", "one"), keys("erp", "a", "one")] {
            assert_eq!(other.open(&sealed), None);
            assert_ne!(other.item, keys("crm", "a", "one").item);
            assert_ne!(other.sealing.0, keys("crm", "a", "one").sealing.0);
        }
    }

    /// Nobody who reads the key of an item learns the secret from it, or the key that seals.
    #[test]
    fn an_items_key_names_the_integration_and_sixteen_digits() {
        let item = keys("crm", "a", "one").item;
        let digits = item.strip_prefix("token/crm/").expect("the integration");
        assert!(digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{item}");
    }

    /// RFC 5869, test case 1: the first 32 of its 42 bytes are one hash.
    #[test]
    fn derives_as_published() {
        let (salt, info): (Vec<u8>, Vec<u8>) = ((0..=0x0c).collect(), (0xf0..=0xf9).collect());
        let derived = expand(&mac(&salt, &[&[0x0b; 22]]), &[&info]);
        let hex: String = derived.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    }
}
