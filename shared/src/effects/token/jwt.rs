//! Assertions that we sign ourselves (RFC 7523), with RS256.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use super::crypto::{SigningKey, TokenCrypto};
use crate::arrival::signature::Secret;
use crate::base::time::Timestamp;
use crate::flows::JwtBearer;

/// How long an assertion is good. Salesforce takes a few minutes at most.
const GOOD_FOR: Duration = Duration::from_secs(120);

/// The reason why a text is no key to sign with. It quotes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadKey {
    #[error("the secret is no private key as PEM: it must begin with `-----BEGIN PRIVATE KEY-----`")]
    NoPem,
    #[error("the private key is encrypted: store it without a pass phrase, as a SecureString")]
    Encrypted,
    #[error("the private key is no RSA key of 2048 bits or more")]
    NoRsa,
}

/// The assertion of this grant, signed now.
pub(super) fn assertion(
    grant: &JwtBearer,
    pem: &Secret,
    crypto: &dyn TokenCrypto,
    now: Timestamp,
) -> Result<Secret, BadKey> {
    let key = read_key(pem)?;
    let content = format!("{}.{}", encode(&header(grant)), encode(&claims(grant, now)));
    let signature = crypto.sign_rs256(&key, content.as_bytes()).ok_or(BadKey::NoRsa)?;
    Ok(Secret::new(format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))))
}

fn header(grant: &JwtBearer) -> Value {
    let mut header = Map::from_iter([("alg".into(), json!("RS256")), ("typ".into(), json!("JWT"))]);
    header.extend(grant.key_id.iter().map(|id| ("kid".into(), json!(id))));
    Value::Object(header)
}

fn claims(grant: &JwtBearer, now: Timestamp) -> Value {
    let audience = grant.audience.as_ref().unwrap_or(&grant.token_url);
    let mut claims = Map::from_iter([
        ("iss".into(), json!(grant.issuer)),
        ("aud".into(), json!(audience)),
        ("iat".into(), json!(now.secs())),
        ("exp".into(), json!((now + GOOD_FOR).secs())),
    ]);
    claims.extend(grant.subject.iter().map(|subject| ("sub".into(), json!(subject))));
    claims.extend(grant.scope.iter().map(|scope| ("scope".into(), json!(scope))));
    Value::Object(claims)
}

fn encode(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

/// Reads a private key: PKCS#8 as most tools write it, or PKCS#1. A key that was copied out of a JSON file has `\n`
/// where its lines end.
fn read_key(pem: &Secret) -> Result<SigningKey, BadKey> {
    let text = pem.expose().replace("\\n", "\n");
    let (_, rest) = text.split_once("-----BEGIN ").ok_or(BadKey::NoPem)?;
    let (kind, rest) = rest.split_once("-----").ok_or(BadKey::NoPem)?;
    let (body, _) = rest.split_once("-----END ").ok_or(BadKey::NoPem)?;
    if kind.starts_with("ENCRYPTED") || body.contains("ENCRYPTED") {
        return Err(BadKey::Encrypted);
    }
    let body: String = body.split_whitespace().collect();
    let der = STANDARD.decode(body).map_err(|_| BadKey::NoPem)?;
    match kind {
        "PRIVATE KEY" => Ok(SigningKey::Pkcs8(der)),
        "RSA PRIVATE KEY" => Ok(SigningKey::Pkcs1(der)),
        _ => Err(BadKey::NoPem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::token::crypto::SealingKey;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    /// A pen that writes its key under everything.
    struct Pen;

    impl TokenCrypto for Pen {
        fn seal(&self, _: &SealingKey, _: &str, _: &Secret) -> Option<String> {
            None
        }

        fn open(&self, _: &SealingKey, _: &str, _: &str) -> Option<Secret> {
            None
        }

        fn sign_rs256(&self, key: &SigningKey, content: &[u8]) -> Option<Vec<u8>> {
            let (SigningKey::Pkcs8(der) | SigningKey::Pkcs1(der)) = key;
            Some([content, der].concat()).filter(|_| der == b"key")
        }
    }

    fn grant(more: &str) -> JwtBearer {
        let yaml = format!("{{token_url: 'https://a.example/t', issuer: me@example.com{more}}}");
        serde_saphyr::from_str(&yaml).expect("a grant")
    }

    fn pem(kind: &str, body: &str) -> String {
        format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
    }

    fn decode(part: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(part).expect("base64")
    }

    #[test]
    fn an_assertion_says_who_asks_and_is_signed() {
        let grant = grant(", subject: ada@example.com, scope: a b, key_id: k1");
        let key = STANDARD.encode("key");
        let lines = pem("PRIVATE KEY", &format!("{}\n{}", &key[..2], &key[2..]));
        for text in
            [lines.clone(), lines.replace('\n', "\\n"), lines.replace('\n', "\r\n"), pem("RSA PRIVATE KEY", &key)]
        {
            let assertion = assertion(&grant, &Secret::new(text), &Pen, NOW).expect("signed");
            let parts: Vec<&str> = assertion.expose().split('.').collect();
            let [header, claims, signature] = parts[..] else { panic!("{parts:?}") };
            let json = |part| serde_json::from_slice::<Value>(&decode(part)).expect("JSON");
            assert_eq!(json(header), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
            let expected = json!({
                "iss": "me@example.com", "sub": "ada@example.com", "scope": "a b",
                "aud": "https://a.example/t", "iat": NOW.secs(), "exp": NOW.secs() + 120,
            });
            assert_eq!(json(claims), expected);
            assert_eq!(decode(signature), format!("{header}.{claims}key").into_bytes());
        }
    }

    #[test]
    fn what_is_not_said_is_not_claimed() {
        let claims = claims(&grant(", audience: 'https://login.example'"), NOW);
        assert_eq!(claims["aud"], "https://login.example");
        assert!(claims.get("sub").is_none() && claims.get("scope").is_none());
    }

    #[test]
    fn what_is_no_key_is_told_without_quoting_it() {
        for (text, told) in [
            ("canary".to_owned(), BadKey::NoPem),
            (pem("CERTIFICATE", "AAAA"), BadKey::NoPem),
            (pem("PRIVATE KEY", "canary!"), BadKey::NoPem),
            (pem("ENCRYPTED PRIVATE KEY", "AAAA"), BadKey::Encrypted),
            (pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\n\nAAAA"), BadKey::Encrypted),
            (pem("PRIVATE KEY", "AAAA"), BadKey::NoRsa),
        ] {
            let error = assertion(&grant(""), &Secret::new(&*text), &Pen, NOW).expect_err(&text);
            assert_eq!(error, told, "{text}");
            assert!(!error.to_string().contains("canary"));
        }
    }
}
