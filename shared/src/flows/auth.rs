//! How we authenticate to a partner, as `integrations.yaml` writes it.
//!
//! A short form is a word (`none`, `bearer`, `basic`, `signed`), a long one a mapping with the kind as its only name. No
//! secret stands here: the file says how a secret is shown, and the secret itself is a SecureString.
//!
//! Deliberately absent: refresh tokens that rotate. A worker that stops between the fetch of the next one and its storing
//! would lose it, and a human would have to sign in again.

mod check;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::text_or_map::text_or_map;
use crate::base::suggest::suggest;

/// The way in which we authenticate to a partner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Auth {
    /// No authentication.
    #[default]
    None,
    /// The header `Authorization: Bearer <secret>`.
    Bearer,
    /// HTTP Basic.
    Basic(BasicAuth),
    /// The secret in a header of its own, such as `X-Shopify-Access-Token`.
    Header(HeaderAuth),
    /// The secret as a parameter of the query.
    Query(QueryAuth),
    /// The secret as a field of the body.
    Body(BodyAuth),
    /// The request signed as Standard Webhooks.
    Signed,
    /// A token of OAuth 2.0, by client credentials.
    Oauth2(ClientCredentials),
    /// A token of OAuth 2.0, for an assertion that we sign (RFC 7523).
    JwtBearer(JwtBearer),
}

/// HTTP Basic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct BasicAuth {
    /// The user's name; the secret is the password. Without it, the secret is `user:password`.
    pub user: Option<String>,
}

/// The secret in a header of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct HeaderAuth {
    /// The header's name.
    pub name: String,
    /// The text before the secret, with its space: `"Klaviyo-API-Key "`.
    #[serde(default)]
    pub prefix: String,
}

/// The secret as a parameter of the query.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct QueryAuth {
    /// The parameter's name.
    pub name: String,
}

/// The secret as a field of the body.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct BodyAuth {
    /// The field's name, at the top of the JSON object or of the form.
    pub field: String,
}

/// A token of OAuth 2.0, by client credentials (RFC 6749, section 4.4). The secret is the client's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct ClientCredentials {
    /// The URL that gives tokens.
    pub token_url: String,
    /// The client's id.
    pub client_id: String,
    /// The scopes that are asked for, with spaces between.
    pub scope: Option<String>,
    /// The API that the token is for, where the partner asks for it.
    pub audience: Option<String>,
    /// Where the token end-point takes the client's id and secret.
    #[serde(default)]
    pub send: ClientSecretPlace,
    /// The header that takes the token, if it is not `Authorization: Bearer <token>`.
    pub header: Option<String>,
    #[cfg_attr(feature = "schema", schemars(skip), serde(skip_serializing))]
    #[serde(default)]
    refresh_token: Option<Declined>,
}

/// Where a token end-point takes the client's id and secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum ClientSecretPlace {
    /// In the header `Authorization: Basic …`.
    #[default]
    Header,
    /// In the body, as `client_id` and `client_secret`.
    Body,
}

/// A token of OAuth 2.0 for an assertion that we sign with RS256 (RFC 7523). The secret is the private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct JwtBearer {
    /// The URL that gives tokens.
    pub token_url: String,
    /// The claim `iss`: the client's id, or the service account's address.
    pub issuer: String,
    /// The claim `sub`: the user in whose name we act.
    pub subject: Option<String>,
    /// The claim `aud`; without it, the token URL.
    pub audience: Option<String>,
    /// The claim `scope`: the scopes that are asked for, with spaces between.
    pub scope: Option<String>,
    /// The header's `kid`: which of the account's keys signs.
    pub key_id: Option<String>,
    /// The header that takes the token, if it is not `Authorization: Bearer <token>`.
    pub header: Option<String>,
    #[cfg_attr(feature = "schema", schemars(skip), serde(skip_serializing))]
    #[serde(default)]
    refresh_token: Option<Declined>,
}

/// How a token is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenGrant<'a> {
    /// By client credentials.
    ClientCredentials(&'a ClientCredentials),
    /// For a signed assertion.
    JwtBearer(&'a JwtBearer),
}

impl<'a> TokenGrant<'a> {
    /// The URL that gives tokens.
    pub fn token_url(&self) -> &'a str {
        match self {
            TokenGrant::ClientCredentials(grant) => &grant.token_url,
            TokenGrant::JwtBearer(grant) => &grant.token_url,
        }
    }

    /// The header that takes the token, if it is not `Authorization`.
    pub fn header(&self) -> Option<&'a str> {
        match self {
            TokenGrant::ClientCredentials(grant) => grant.header.as_deref(),
            TokenGrant::JwtBearer(grant) => grant.header.as_deref(),
        }
    }
}

impl Auth {
    /// How the partner's token is asked for, if the secret itself is not shown to the partner's API.
    pub fn token_grant(&self) -> Option<TokenGrant<'_>> {
        match self {
            Auth::Oauth2(grant) => Some(TokenGrant::ClientCredentials(grant)),
            Auth::JwtBearer(grant) => Some(TokenGrant::JwtBearer(grant)),
            _ => None,
        }
    }

    /// The headers that authentication sets. A flow may not.
    pub fn headers(&self) -> Vec<&str> {
        match self {
            Auth::None | Auth::Query(_) | Auth::Body(_) => Vec::new(),
            Auth::Bearer | Auth::Basic(_) => vec!["authorization"],
            Auth::Header(HeaderAuth { name, .. }) => vec![name],
            Auth::Signed => vec!["webhook-id", "webhook-timestamp", "webhook-signature"],
            Auth::Oauth2(ClientCredentials { header, .. }) | Auth::JwtBearer(JwtBearer { header, .. }) => {
                vec![header.as_deref().unwrap_or("authorization")]
            }
        }
    }

    /// How we authenticate, in words for people. It names no secret.
    pub fn in_words(&self) -> String {
        let token = |kind: &str, url: &str, header: &Option<String>| {
            let shown = header.as_ref().map_or_else(|| "a bearer token".into(), |name| format!("a token in `{name}`"));
            format!("{shown}, fetched from {url} ({kind})")
        };
        match self {
            Auth::None => "nothing".into(),
            Auth::Bearer => "the secret as a bearer token".into(),
            Auth::Basic(BasicAuth { user: Some(user) }) => {
                format!("HTTP Basic, as `{user}` with the secret as password")
            }
            Auth::Basic(BasicAuth { user: None }) => "HTTP Basic, with the secret as `user:password`".into(),
            Auth::Header(HeaderAuth { name, prefix }) => format!("the header `{name}: {prefix}<secret>`"),
            Auth::Query(QueryAuth { name }) => format!("the query's parameter `{name}`, which is the secret"),
            Auth::Body(BodyAuth { field }) => format!("the body's field `{field}`, which is the secret"),
            Auth::Signed => "a signature of the body, as Standard Webhooks".into(),
            Auth::Oauth2(grant) => token("client credentials", &grant.token_url, &grant.header),
            Auth::JwtBearer(grant) => token("signed assertion", &grant.token_url, &grant.header),
        }
    }
}

/// The long form: a mapping with the kind as its only name.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenAuth {
    /// HTTP Basic.
    Basic(BasicAuth),
    /// The secret in a header of its own.
    Header(HeaderAuth),
    /// The secret as a parameter of the query.
    Query(QueryAuth),
    /// The secret as a field of the body.
    Body(BodyAuth),
    /// The request signed as Standard Webhooks.
    Signed(WithoutFields),
    /// A token of OAuth 2.0, by client credentials.
    Oauth2(ClientCredentials),
    /// A token of OAuth 2.0, for an assertion that we sign.
    JwtBearer(JwtBearer),
}

/// A mapping that has nothing in it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WithoutFields {}

impl From<WrittenAuth> for Auth {
    fn from(written: WrittenAuth) -> Self {
        match written {
            WrittenAuth::Basic(basic) => Auth::Basic(basic),
            WrittenAuth::Header(header) => Auth::Header(header),
            WrittenAuth::Query(query) => Auth::Query(query),
            WrittenAuth::Body(body) => Auth::Body(body),
            WrittenAuth::Signed(WithoutFields {}) => Auth::Signed,
            WrittenAuth::Oauth2(grant) => Auth::Oauth2(grant),
            WrittenAuth::JwtBearer(grant) => Auth::JwtBearer(grant),
        }
    }
}

/// The words of the short form.
const WORDS: [&str; 4] = ["none", "bearer", "basic", "signed"];

impl TryFrom<String> for Auth {
    type Error = String;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        let missing = |fields: &str| Err(format!("`{word}` says too little: write `{{{word}: {{{fields}}}}}`"));
        match word.as_str() {
            "none" => Ok(Auth::None),
            "bearer" => Ok(Auth::Bearer),
            "basic" => Ok(Auth::Basic(BasicAuth::default())),
            "signed" => Ok(Auth::Signed),
            "header" => missing("name: X-Api-Key"),
            "query" => missing("name: key"),
            "body" => missing("field: key"),
            "oauth2" => missing("token_url: \"https://…\", client_id: …"),
            "jwt_bearer" => missing("token_url: \"https://…\", issuer: …"),
            _ => Err(format!("`{word}` is no way to authenticate: {}", suggest(&word, WORDS.into_iter().chain(KINDS)))),
        }
    }
}

/// The names of the long form.
const KINDS: [&str; 5] = ["header", "query", "body", "oauth2", "jwt_bearer"];

impl<'de> Deserialize<'de> for Auth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "`none`, `bearer`, `basic`, `signed`, or a mapping as `{header: {name: X-Api-Key}}`";
        text_or_map::<_, Auth, WrittenAuth, _>(deserializer, forms)
    }
}

/// The value of a field that is declined with a sentence. There is none.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Declined {}

impl<'de> Deserialize<'de> for Declined {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(
            "refresh tokens that rotate are not used: a worker that stops between the fetch of the next one and its \
             storing would lose it. Use client credentials (`oauth2`) or a signed assertion (`jwt_bearer`)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<Auth, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.without_snippet().to_string())
    }

    #[test]
    fn words_and_mappings_are_read() {
        assert_eq!(read("none"), Ok(Auth::None));
        assert_eq!(read("bearer"), Ok(Auth::Bearer));
        assert_eq!(read("basic"), Ok(Auth::Basic(BasicAuth { user: None })));
        assert_eq!(read("{basic: {user: AC1}}"), Ok(Auth::Basic(BasicAuth { user: Some("AC1".into()) })));
        for signed in ["signed", "{signed: {}}"] {
            assert_eq!(read(signed), Ok(Auth::Signed), "{signed}");
        }
        let header = HeaderAuth { name: "Authorization".into(), prefix: "Klaviyo-API-Key ".into() };
        assert_eq!(read("{header: {name: Authorization, prefix: \"Klaviyo-API-Key \"}}"), Ok(Auth::Header(header)));
        assert_eq!(read("{query: {name: key}}"), Ok(Auth::Query(QueryAuth { name: "key".into() })));
        assert_eq!(read("{body: {field: key}}"), Ok(Auth::Body(BodyAuth { field: "key".into() })));
    }

    #[test]
    fn tokens_have_a_place_where_they_are_asked_for() {
        let oauth2 = read("{oauth2: {token_url: \"https://a.example/t\", client_id: me, send: body, scope: a b}}");
        let Ok(auth @ Auth::Oauth2(grant)) = &oauth2 else { panic!("{oauth2:?}") };
        assert_eq!((grant.send, grant.scope.as_deref()), (ClientSecretPlace::Body, Some("a b")));
        assert_eq!(auth.token_grant().map(|grant| grant.token_url()), Some("https://a.example/t"));
        let jwt = read("{jwt_bearer: {token_url: \"https://a.example/t\", issuer: me, key_id: k1}}");
        assert!(matches!(&jwt, Ok(Auth::JwtBearer(JwtBearer { key_id: Some(_), subject: None, .. }))), "{jwt:?}");
        assert_eq!(Auth::Bearer.token_grant(), None);
    }

    #[test]
    fn what_is_not_known_is_told() {
        for (yaml, told) in [
            ("baerer", "did you mean `bearer`"),
            ("header", "{header: {name: X-Api-Key}}"),
            ("{oauth2: {client_id: me}}", "token_url"),
            ("{header: {nam: x}}", "nam"),
            ("{basic: {}, query: {name: key}}", ""),
            ("{oauth2: {token_url: t, client_id: me, refresh_token: x}}", "refresh tokens that rotate are not used"),
            ("[bearer]", "`none`, `bearer`"),
        ] {
            let error = read(yaml).expect_err(yaml);
            assert!(error.contains(told), "{yaml}: {error}");
        }
    }
}
