//! Deliveries as senders sign them. For tools and tests.

use std::borrow::Cow;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::offer::{Signed, SignedFields, reads_fields};
use super::{Secret, ecdsa, keys, token};
use crate::base::id::hex;
use crate::base::time::Timestamp;
use crate::flows::{Field, Proof, ProofPlace, Scheme, Signature, Stamp, TimeUnit};

use super::digest::Digest;

/// A request that a sender is about to sign.
#[derive(Clone, Copy)]
pub struct Unsigned<'r> {
    /// The sender's id of the delivery, for schemes that sign one.
    pub id: &'r str,
    /// The time of signing.
    pub at: Timestamp,
    /// The URL that is called, for schemes that sign it. The method is POST.
    pub url: &'r str,
    /// The body.
    pub body: &'r [u8],
}

/// A request as its sender sends it. A scheme may put its proof into headers, into the URL and into the body.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// The header fields that prove it.
    pub headers: Vec<(String, String)>,
    /// The URL.
    pub url: String,
    /// The body.
    pub body: Vec<u8>,
}

crate::base::masked::prints_only!(Unsigned<'_> as "Unsigned", at);
crate::base::masked::prints_only!(SignedRequest as "SignedRequest");

/// The request as a sender with this secret sends it. Of a scheme with public keys, it is the private one.
///
/// `None` says that the text is no secret in this scheme, or the body is none that it can sign.
pub fn sign_request(scheme: &Scheme, secret: &Secret, request: Unsigned<'_>) -> Option<SignedRequest> {
    let plain = |headers| SignedRequest { headers, url: request.url.to_owned(), body: request.body.to_vec() };
    match scheme {
        Scheme::None => Some(plain(Vec::new())),
        Scheme::Token(token) => {
            let value = format!("{}{}", token.prefix, token::written(token, secret)?);
            Some(plain(vec![field(&token.header, value)]))
        }
        Scheme::Signature(signature) => signed(signature, secret, request),
    }
}

/// The header fields that a sender with `secret` sets for this body, in a scheme that signs no URL. The id is for schemes
/// that sign one; the time is in Unix seconds.
pub fn sign(scheme: &Scheme, secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<Vec<(String, String)>> {
    let request = Unsigned { id, at: Timestamp::from_secs(timestamp), url: "", body };
    sign_request(scheme, secret, request).map(|signed| signed.headers)
}

/// The header `webhook-signature` that a sender with `secret` would set.
pub fn standard_webhooks_signature(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let scheme = Scheme::standard_webhooks();
    let signature = |(name, value)| (name == "webhook-signature").then_some(value);
    sign(&scheme, secret, id, timestamp, body)?.into_iter().find_map(signature)
}

/// The secret that a receiver keeps for a sender with this one: the same, or its public key.
pub fn receivers_secret(scheme: &Scheme, secret: &Secret) -> Option<Secret> {
    match scheme.signature().is_some_and(Signature::has_public_key) {
        true => ecdsa::public(secret),
        false => Some(secret.clone()),
    }
}

/// A secret for a sender of this scheme, made of 32 bytes that nobody else knows.
pub fn new_secret(scheme: &Scheme, random: &[u8; 32]) -> Secret {
    let text = format!("whsec_{}", super::digest::encode(random, crate::flows::Encoding::Base64));
    match scheme {
        Scheme::Signature(signature) if signature.has_public_key() => ecdsa::private_key(random),
        Scheme::Token(token) if token.base64 => Secret::new(format!("sender:{text}")),
        Scheme::Signature(_) | Scheme::Token(_) | Scheme::None => Secret::new(text),
    }
}

fn signed(signature: &Signature, secret: &Secret, request: Unsigned<'_>) -> Option<SignedRequest> {
    let time = signature.timestamp.as_ref().map(|stamp| written_time(stamp.unit, request.at)).unwrap_or_default();
    let url = with_hash(signature, request);
    let (body, fields) = match reads_fields(signature) {
        true => with_fields(signature, request, &time)?,
        false => (request.body.to_vec(), Value::Null),
    };
    let signed = Signed {
        id: request.id.into(),
        timestamp: Cow::Borrowed(&time),
        method: "POST".into(),
        url: Cow::Borrowed(&url),
        body: &body,
        fields: SignedFields(fields),
    };
    let content = signed.content(signature)?;
    let written = match signature.proof {
        Proof::Hmac(algorithm) => {
            let key = keys(signature, std::slice::from_ref(secret)).pop()?;
            Digest { algorithm, encoding: signature.encoding }.written(&key, &content).to_string()
        }
        Proof::EcdsaP256 => ecdsa::sign(secret, &content, signature.encoding)?,
    };
    let headers = headers(signature, request.id, &time, &written);
    let body = match &signature.at {
        ProofPlace::Field(at) => {
            let mut fields = signed.fields.0.clone();
            at.set(&mut fields, json!(written))?;
            fields.to_string().into_bytes()
        }
        ProofPlace::Header(_) | ProofPlace::Item(_) => body.clone(),
    };
    Some(SignedRequest { headers, url, body })
}

fn headers(signature: &Signature, id: &str, time: &str, written: &str) -> Vec<(String, String)> {
    let first = |names: &[Cow<'static, str>], value: String| names.first().map(|name| field(name, value));
    let stamp = signature.timestamp.as_ref().map(|stamp| &stamp.at);
    let mut value = format!("{}{written}", signature.prefix);
    if let (Some(ProofPlace::Item(prefix)), Some(separator)) = (stamp, &signature.separator) {
        value = format!("{prefix}{time}{separator}{value}");
    }
    let mut fields: Vec<_> = first(&signature.id, id.to_owned()).into_iter().collect();
    if let Some(ProofPlace::Header(names)) = stamp {
        fields.extend(first(names, time.to_owned()));
    }
    if let ProofPlace::Header(names) = &signature.at {
        fields.extend(first(names, value));
    }
    fields
}

/// The URL, with the body's hash where the scheme signs that.
fn with_hash(signature: &Signature, request: Unsigned<'_>) -> String {
    let Some(name) = &signature.body_hash else { return request.url.to_owned() };
    let mark = if request.url.contains('?') { '&' } else { '?' };
    format!("{}{mark}{name}={}", request.url, hex(&Sha256::digest(request.body)))
}

/// The body with the time, and with the id in each field that is signed and missing.
fn with_fields(signature: &Signature, request: Unsigned<'_>, time: &str) -> Option<(Vec<u8>, Value)> {
    let mut body: Value = serde_json::from_slice(request.body).ok()?;
    if let Some(Stamp { at: ProofPlace::Field(field), .. }) = &signature.timestamp {
        field.set(&mut body, json!(time))?;
    }
    for field in signed_fields(signature) {
        if field.of(&body).is_none() {
            field.set(&mut body, json!(request.id))?;
        }
    }
    Some((body.to_string().into_bytes(), body))
}

fn signed_fields(signature: &Signature) -> impl Iterator<Item = &Field> {
    signature.signed.0.iter().filter_map(|piece| match piece {
        crate::flows::Piece::Field(field) => Some(field),
        _ => None,
    })
}

fn written_time(unit: TimeUnit, at: Timestamp) -> String {
    match unit {
        TimeUnit::Seconds => at.secs().to_string(),
        TimeUnit::Milliseconds => at.millis().to_string(),
        TimeUnit::Rfc3339 => at.to_string(),
    }
}

fn field(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}
