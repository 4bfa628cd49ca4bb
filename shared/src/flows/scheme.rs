//! Schemes: how a source proves that a delivery is its own.

mod named;

use std::borrow::Cow;

use serde::Deserialize;

use super::signature::{ProofPlace, Signature, WrittenSignature, header_name};

/// The scheme by which a source proves itself.
///
/// Everything that signs is one scheme with its parameters: what is signed, by which algorithm, how the signature is written,
/// and where it stands. The words of files, such as `stripe`, name sets of parameters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "WrittenScheme"))]
#[serde(try_from = "WrittenScheme")]
pub enum Scheme {
    /// A signature of the delivery.
    Signature(Cow<'static, Signature>),
    /// A secret that each delivery carries. It proves who knows the secret, and nothing of what is sent.
    Token(CarriedToken),
    /// No proof, so that anybody may send as this source. For local development: [`Flows::deployable`] rejects it.
    ///
    /// [`Flows::deployable`]: super::Flows::deployable
    None,
}

/// A secret that stands in a header of each delivery.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct CarriedToken {
    /// The header with the secret.
    #[serde(deserialize_with = "header_name")]
    pub header: Cow<'static, str>,
    /// The text before the secret, such as `Bearer `.
    #[serde(default)]
    pub prefix: Cow<'static, str>,
    /// Whether the secret is written in Base64, as HTTP Basic writes `user:password`.
    #[serde(default)]
    pub base64: bool,
}

/// A scheme as files write it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
enum WrittenScheme {
    /// Standard Webhooks: <https://www.standardwebhooks.com>
    StandardWebhooks,
    /// Stripe's scheme: `Stripe-Signature: t=…,v1=…`
    Stripe,
    /// GitHub's scheme: `X-Hub-Signature-256: sha256=…`
    Github,
    /// Shopify's scheme: `X-Shopify-Hmac-Sha256: …`
    Shopify,
    /// Slack's scheme: `X-Slack-Signature: v0=…`
    Slack,
    /// An HMAC in the sender's own way.
    Hmac(Box<WrittenSignature>),
    /// A signature by ECDSA over P-256, in the sender's own way. The secret is its public key.
    Ecdsa(Box<WrittenSignature>),
    /// A bearer token: `Authorization: Bearer …`. It signs nothing.
    Bearer,
    /// HTTP Basic, whose secret is `user:password`. It signs nothing.
    Basic,
    /// A secret in a header. It signs nothing.
    Token(CarriedToken),
    /// No proof at all.
    None,
}

impl TryFrom<WrittenScheme> for Scheme {
    type Error = String;

    fn try_from(written: WrittenScheme) -> Result<Self, String> {
        let named = |signature| Ok(Scheme::Signature(Cow::Borrowed(signature)));
        let in_authorization = |prefix, base64| {
            let (header, prefix) = (Cow::Borrowed("Authorization"), Cow::Borrowed(prefix));
            Ok(Scheme::Token(CarriedToken { header, prefix, base64 }))
        };
        match written {
            WrittenScheme::StandardWebhooks => named(&named::STANDARD_WEBHOOKS),
            WrittenScheme::Stripe => named(&named::STRIPE),
            WrittenScheme::Github => named(&named::GITHUB),
            WrittenScheme::Shopify => named(&named::SHOPIFY),
            WrittenScheme::Slack => named(&named::SLACK),
            WrittenScheme::Hmac(written) => Ok(Scheme::Signature(Cow::Owned(written.hmac()?))),
            WrittenScheme::Ecdsa(written) => Ok(Scheme::Signature(Cow::Owned(written.ecdsa()?))),
            WrittenScheme::Bearer => in_authorization("Bearer ", false),
            WrittenScheme::Basic => in_authorization("Basic ", true),
            WrittenScheme::Token(token) => Ok(Scheme::Token(token)),
            WrittenScheme::None => Ok(Scheme::None),
        }
    }
}

impl Scheme {
    /// Standard Webhooks: <https://www.standardwebhooks.com>
    pub fn standard_webhooks() -> Self {
        Scheme::Signature(Cow::Borrowed(&named::STANDARD_WEBHOOKS))
    }

    /// The signature, in a scheme that has one.
    pub fn signature(&self) -> Option<&Signature> {
        match self {
            Scheme::Signature(signature) => Some(signature),
            Scheme::Token(_) | Scheme::None => None,
        }
    }

    /// Whether the scheme signs a header: the one with the delivery's id, under any of its names.
    pub(super) fn signs_header(&self, name: &str) -> bool {
        let ids = self.signature().map_or(&[][..], |signature| &signature.id);
        ids.iter().any(|id| id.eq_ignore_ascii_case(name))
    }

    /// Whether the scheme signs the time of signing.
    pub fn signs_time(&self) -> bool {
        self.signature().is_some_and(|signature| signature.timestamp.is_some())
    }

    /// Whether the scheme signs what the body says.
    pub fn signs_body(&self) -> bool {
        self.signature().is_some_and(Signature::signs_body)
    }

    /// Whether the body must be read before the sender is verified: the signature stands in it.
    pub fn reads_body(&self) -> bool {
        self.signature().is_some_and(|signature| matches!(signature.at, ProofPlace::Field(_)))
    }
}

#[cfg(feature = "schema")]
impl serde::Serialize for Scheme {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde_json::json;
        let written = match self {
            Scheme::Signature(signature) => match named::word(signature) {
                Some(word) => json!(word),
                None => signature.written(),
            },
            Scheme::Token(token) => json!({ "token": token }),
            Scheme::None => json!("none"),
        };
        written.serialize(serializer)
    }
}
