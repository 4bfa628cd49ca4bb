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
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::RSA_PKCS1_SHA256;

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

    #[test]
    fn a_client_may_send_its_secret_in_the_body() {
        let partner = partner("{oauth2: {token_url: 'https://a.example/t', client_id: me, send: body}}", "s cret");
        let ask = |id: &str, secret: &str| {
            let body = json!({"grant_type": "client_credentials", "client_id": id, "client_secret": secret});
            let call = IncomingCall { body, ..IncomingCall::default() };
            give_token(&partner, &call, &mut BTreeMap::new()).status
        };
        assert_eq!([ask("me", "s cret"), ask("me", "wrong"), ask("you", "s cret")], [200, 401, 401]);
        let pair = format!("Basic {}", BASE64_STANDARD.encode("me:s cret"));
        let in_header = IncomingCall {
            headers: [("authorization".to_owned(), pair)].into(),
            body: json!({"grant_type": "client_credentials"}),
            ..IncomingCall::default()
        };
        assert_eq!(give_token(&partner, &in_header, &mut BTreeMap::new()).status, 401, "it is not where it belongs");
    }

    /// A key, and its PEM.
    fn new_key() -> (KeyPair, String) {
        let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&key).expect("a key").as_ref().to_vec();
        (key, format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", BASE64_STANDARD.encode(der)))
    }

    /// An assertion with these claims, which this key signs.
    fn assertion(key: &KeyPair, claims: &Value) -> String {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "RS256", "typ": "JWT"})), part(claims));
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).expect("a signature");
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn an_assertion_is_taken_if_our_key_signed_it_for_this_end_point_and_it_is_not_over() {
        let (key, pem) = new_key();
        let partner = partner("{jwt_bearer: {token_url: 'https://a.example/t', issuer: me}}", &pem);
        let good = json!({"iss": "me", "aud": "https://a.example/t", "exp": now_seconds() + 60});
        let but = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            assertion(&key, &claims)
        };
        let status = |assertion: String| {
            let call = IncomingCall { body: json!({"assertion": assertion}), ..IncomingCall::default() };
            give_token(&partner, &call, &mut BTreeMap::new()).status
        };
        assert_eq!(status(assertion(&key, &good)), 200);
        assert_eq!(status(assertion(&new_key().0, &good)), 401, "another key signed it");
        assert_eq!(status(but("exp", json!(now_seconds() - 1))), 401, "it is over");
        assert_eq!(status(but("exp", Value::Null)), 401, "it has no end");
        assert_eq!(status(but("aud", json!("https://b.example/t"))), 401, "it is for somebody else");
        assert_eq!(status(but("iss", json!("you"))), 401, "it is somebody else's");
        let (content, signature) =
            assertion(&key, &good).rsplit_once('.').map(|(c, s)| (c.to_owned(), s.to_owned())).expect("parts");
        let claims = BASE64_URL_SAFE_NO_PAD.encode(good.to_string().replace("me", "we"));
        let head = content.split_once('.').expect("parts").0;
        assert_eq!(status(format!("{head}.{claims}.{signature}")), 401, "its claims were changed");
        for nothing in ["", "a", "a.b", "a.b.c"] {
            assert_eq!(status(nothing.into()), 401, "{nothing}");
        }
    }
}
