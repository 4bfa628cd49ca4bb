//! The token end-points of integrations that take tokens: they check who asks, and give a token that ends.

use std::collections::BTreeMap;

use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::prelude::*;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use shared::flows::{ClientCredentials, ClientSecretPlace, JwtBearer, TokenGrant};

use super::call::IncomingCall;
use super::form::FormAnswer;
use super::integration::StubIntegration;
use crate::journal::now_seconds;

/// The step behind an integration's name that leads to its token end-point.
pub(super) const TOKEN_STEP: &str = "_token";

/// The life of a token, in seconds.
const LIFE: i64 = 3600;

/// Answers a request for a token, and adds the token to those that the integration takes.
pub(super) fn give_token(
    partner: &StubIntegration,
    call: &IncomingCall,
    tokens: &mut BTreeMap<String, i64>,
) -> FormAnswer {
    let is_known = match partner.auth.token_grant() {
        Some(TokenGrant::ClientCredentials(grant)) => is_client(grant, &partner.secret, call),
        Some(TokenGrant::JwtBearer(grant)) => is_asserted(grant, &partner.secret, call).is_some(),
        None => false,
    };
    if !is_known {
        let body =
            json!({"error": "invalid_client", "error_description": "the partner stub does not know these credentials"});
        return FormAnswer { status: 401, headers: Vec::new(), body };
    }
    let token = format!("local-token-{}-{}", tokens.len() + 1, now_seconds());
    tokens.insert(token.clone(), now_seconds() + LIFE);
    let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": LIFE});
    FormAnswer { status: 200, headers: Vec::new(), body }
}

/// Whether a request has the client's id and secret (RFC 6749, section 2.3.1).
fn is_client(grant: &ClientCredentials, secret: &str, call: &IncomingCall) -> bool {
    let asked = call.body["grant_type"] == "client_credentials";
    asked
        && match grant.send {
            ClientSecretPlace::Header => {
                basic_pair(call).is_some_and(|pair| pair == (grant.client_id.clone(), secret.to_owned()))
            }
            ClientSecretPlace::Body => {
                call.body["client_id"] == grant.client_id.as_str() && call.body["client_secret"] == secret
            }
        }
}

fn basic_pair(call: &IncomingCall) -> Option<(String, String)> {
    let encoded = call.headers.get("authorization")?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(user), decoded(password)))
}

/// The claims of an assertion that the integration's key signed, and that is for this end-point and not over
/// (RFC 7523).
fn is_asserted(grant: &JwtBearer, pem: &str, call: &IncomingCall) -> Option<Value> {
    let assertion = call.body["assertion"].as_str()?;
    let (signed, signature) = assertion.rsplit_once('.')?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
    let der: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let key = KeyPair::from_pkcs8(&BASE64_STANDARD.decode(der).ok()?).ok()?;
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key());
    public.verify(signed.as_bytes(), &signature).ok()?;
    let claims = signed.split_once('.')?.1;
    let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let audience = grant.audience.as_deref().unwrap_or(&grant.token_url);
    let is_ours = claims["iss"] == grant.issuer.as_str() && claims["aud"] == audience;
    (is_ours && claims["exp"].as_i64()? > now_seconds()).then_some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partner(auth: &str, secret: &str) -> StubIntegration {
        let auth = serde_saphyr::from_str(auth).expect(auth);
        StubIntegration { auth, secret: secret.to_owned(), ..StubIntegration::default() }
    }

    #[test]
    fn a_client_gets_a_token_that_the_api_takes() {
        let partner = partner("{oauth2: {token_url: 'https://a.example/t', client_id: 'me:1'}}", "s cret");
        let mut tokens = BTreeMap::new();
        let ask = |pair: &str| IncomingCall {
            headers: [("authorization".to_owned(), format!("Basic {}", BASE64_STANDARD.encode(pair)))].into(),
            body: json!({"grant_type": "client_credentials"}),
            ..IncomingCall::default()
        };
        assert_eq!(give_token(&partner, &ask("me%3A1:wrong"), &mut tokens).status, 401);
        assert!(tokens.is_empty());
        let given = give_token(&partner, &ask("me%3A1:s%20cret"), &mut tokens);
        let token = given.body["access_token"].as_str().expect("a token");
        let api = |token: &str| IncomingCall {
            headers: [("authorization".to_owned(), format!("Bearer {token}"))].into(),
            ..IncomingCall::default()
        };
        assert!(partner.takes(&api(token), &tokens));
        assert!(!partner.takes(&api("local-token-9"), &tokens));
        tokens.insert(token.to_owned(), 0);
        assert!(!partner.takes(&api(token), &tokens), "it is over");
    }
}
