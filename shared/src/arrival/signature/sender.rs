//! Signatures as senders make them. For tools and tests.

use super::{Secret, github, hmac, shopify, slack, standard_webhooks, stripe, whole};
use crate::flows::{Hmac, Scheme};

/// A header's name and its value.
type Field = (String, String);

/// The headers that a sender with `secret` sets for this body. The id is for schemes that sign one.
///
/// `None` says that the text is no secret in this scheme.
pub fn sign(scheme: &Scheme, secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<Vec<Field>> {
    match scheme {
        Scheme::StandardWebhooks => sign_standard_webhooks(secret, id, timestamp, body),
        Scheme::Stripe => sign_stripe(secret, timestamp, body),
        Scheme::Github => sign_hmac(&github::HMAC, secret, timestamp, body),
        Scheme::Shopify => sign_hmac(&shopify::HMAC, secret, timestamp, body),
        Scheme::Slack => sign_hmac(&slack::HMAC, secret, timestamp, body),
        Scheme::Hmac(hmac) => sign_hmac(hmac, secret, timestamp, body),
        Scheme::None => Some(Vec::new()),
    }
}

/// The header `webhook-signature` that a sender with `secret` would set.
pub fn standard_webhooks_signature(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let timestamp = timestamp.to_string();
    let content = standard_webhooks::content(id, &timestamp, body);
    let signature = standard_webhooks::DIGEST.written(&standard_webhooks::key(secret)?, &content);
    Some(format!("v1,{signature}"))
}

fn sign_standard_webhooks(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<Vec<Field>> {
    let signature = standard_webhooks_signature(secret, id, timestamp, body)?;
    let timestamp = field("webhook-timestamp", timestamp.to_string());
    Some(vec![field("webhook-id", id), timestamp, field("webhook-signature", signature)])
}

fn sign_stripe(secret: &Secret, timestamp: i64, body: &[u8]) -> Option<Vec<Field>> {
    let timestamp = timestamp.to_string();
    let signature = stripe::DIGEST.written(&whole(secret)?, &stripe::content(&timestamp, body));
    Some(vec![field(stripe::HEADER, format!("t={timestamp},v1={signature}"))])
}

fn sign_hmac(hmac: &Hmac, secret: &Secret, timestamp: i64, body: &[u8]) -> Option<Vec<Field>> {
    let timestamp = timestamp.to_string();
    let signature = hmac::digest(hmac).written(&whole(secret)?, &hmac::content(hmac, &timestamp, body));
    let mut fields = vec![field(&hmac.header, format!("{}{signature}", hmac.prefix))];
    fields.extend(hmac.timestamp.as_ref().map(|stamp| field(&stamp.header, timestamp)));
    Some(fields)
}

fn field(name: &str, value: impl Into<String>) -> Field {
    (name.to_owned(), value.into())
}
