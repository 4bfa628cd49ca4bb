//! The demo's secrets for partners, each in the form that its integration's `auth` wants.

use std::path::Path;

use anyhow::{Context, Result};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::prelude::*;
use shared::flows::{Auth, BasicAuth};

use crate::secrets::keep;

/// The file in the state folder that keeps the private key of all integrations that sign assertions.
const KEY: &str = "integrations.pem";

/// The user of integrations whose secret is `user:password`.
const USER: &str = "demo";

/// The secret of an integration that authenticates us in this way, made of the token that all share.
pub(crate) fn secret_for(auth: &Auth, token: &str, state: &Path) -> Result<String> {
    Ok(match auth {
        Auth::JwtBearer(_) => keep(&state.join(KEY), new_key)?,
        Auth::Basic(BasicAuth { user: None }) => format!("{USER}:{token}"),
        Auth::Signed => format!("whsec_{}", BASE64_STANDARD.encode(token)),
        _ => token.to_owned(),
    })
}

/// A new RSA key, as PEM.
fn new_key() -> Result<String> {
    let key = KeyPair::generate(KeySize::Rsa2048).ok();
    let der = key.and_then(|key| AsDer::<Pkcs8V1Der<'_>>::as_der(&key).ok());
    let der = der.context("the local cloud cannot start: no private key could be made for its integrations")?;
    let body = BASE64_STANDARD.encode(der.as_ref());
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(auth: &str, state: &Path) -> String {
        secret_for(&serde_saphyr::from_str(auth).expect(auth), "token_abc", state).expect("a secret")
    }

    #[test]
    fn each_kind_has_a_secret_of_its_form() {
        let state = std::env::temp_dir().join(format!("ledgerline-partner-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&state).expect("a folder");
        for plain in ["bearer", "{basic: {user: AC1}}", "{query: {name: key}}", "{header: {name: X-Key}}"] {
            assert_eq!(secret(plain, &state), "token_abc");
        }
        assert_eq!(secret("basic", &state), "demo:token_abc");
        assert_eq!(secret("signed", &state), format!("whsec_{}", BASE64_STANDARD.encode("token_abc")));
        let jwt = "{jwt_bearer: {token_url: 'https://a.example/t', issuer: me}}";
        let (key, again) = (secret(jwt, &state), secret(jwt, &state));
        std::fs::remove_dir_all(&state).expect("the folder");
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----\n") && key == again, "it is made once");
    }
}
