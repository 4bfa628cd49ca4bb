//! Our credentials on one request, as the partner asks for them.
//!
//! The adapter that sends a request puts them in last: a signature covers the bytes that are sent, and no other code
//! handles a URL, a header or a body with a secret in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::arrival::signature::Secret;
use crate::base::time::Timestamp;
use crate::flows::{Auth, BasicAuth, TokenGrant};

/// Our credentials on one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Credentials {
    /// The partner asks for none.
    None,
    /// A header with this value.
    Header {
        /// The header's name.
        name: String,
        /// The whole value, prefix included.
        value: Secret,
        /// The secret in it.
        secret: Secret,
    },
    /// A parameter of the query.
    Query {
        /// The parameter's name.
        name: String,
        /// The secret, not encoded yet.
        value: Secret,
    },
    /// A field of the body: of a JSON object, or of a form.
    Body {
        /// The field's name.
        field: String,
        /// The secret.
        value: Secret,
    },
    /// A signature of the body, as Standard Webhooks.
    Signed {
        /// The key to sign with, as `whsec_…`.
        key: Secret,
        /// The message's id.
        id: String,
        /// The moment of signing.
        at: Timestamp,
    },
}

/// What a signature is over, beside the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// The message's id: the same each time that the request is repeated.
    pub id: String,
    /// The moment of signing.
    pub at: Timestamp,
}

impl Credentials {
    /// The header `Authorization: Bearer <token>`.
    pub fn bearer(token: &Secret) -> Self {
        Self::header("Authorization", "Bearer ", token)
    }

    /// The header `Authorization: Basic …` for a user and a password.
    pub fn basic(user: &str, password: &Secret) -> Self {
        let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
        let value = Secret::new(format!("Basic {pair}"));
        Credentials::Header { name: "Authorization".into(), value, secret: password.clone() }
    }

    /// A fetched token, as its grant says.
    pub fn of_token(grant: TokenGrant<'_>, token: &Secret) -> Self {
        match grant.header() {
            Some(name) => Self::header(name, "", token),
            None => Self::bearer(token),
        }
    }

    /// The secret, as `auth` says. A secret that stands for a token is not shown to the partner's API at all.
    pub fn of_secret(auth: &Auth, secret: &Secret, signing: Signing) -> Self {
        match auth {
            Auth::None | Auth::Oauth2(_) | Auth::JwtBearer(_) => Credentials::None,
            Auth::Bearer => Self::bearer(secret),
            Auth::Basic(BasicAuth { user: Some(user) }) => Self::basic(user, secret),
            Auth::Basic(BasicAuth { user: None }) => {
                let value = Secret::new(format!("Basic {}", STANDARD.encode(secret.expose())));
                Credentials::Header { name: "Authorization".into(), value, secret: secret.clone() }
            }
            Auth::Header(header) => Self::header(&header.name, &header.prefix, secret),
            Auth::Query(query) => Credentials::Query { name: query.name.clone(), value: secret.clone() },
            Auth::Body(body) => Credentials::Body { field: body.field.clone(), value: secret.clone() },
            Auth::Signed => Credentials::Signed { key: secret.clone(), id: signing.id, at: signing.at },
        }
    }

    fn header(name: &str, prefix: &str, secret: &Secret) -> Self {
        let value = Secret::new(format!("{prefix}{}", secret.expose()));
        Credentials::Header { name: name.to_owned(), value, secret: secret.clone() }
    }

    /// Every text that the partner must not be quoted with: the secret, and what stands for it on the wire.
    pub fn secrets(&self) -> Vec<Secret> {
        match self {
            Credentials::None => Vec::new(),
            Credentials::Query { value, .. } | Credentials::Body { value, .. } => vec![value.clone()],
            Credentials::Signed { key, .. } => vec![key.clone()],
            Credentials::Header { value, secret, .. } => {
                let bare = value.expose().split_once(' ').map(|(_, bare)| Secret::new(bare));
                [value.clone(), secret.clone()].into_iter().chain(bare).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "s3cret";

    fn of(auth: &str) -> Credentials {
        let auth: Auth = serde_saphyr::from_str(auth).expect(auth);
        let signing = Signing { id: "evt/crm".into(), at: Timestamp::from_secs(7) };
        Credentials::of_secret(&auth, &Secret::new(SECRET), signing)
    }

    /// A header with this secret in it.
    fn header(name: &str, value: &str, secret: &str) -> Credentials {
        Credentials::Header { name: name.into(), value: Secret::new(value), secret: Secret::new(secret) }
    }

    #[test]
    fn each_kind_has_its_place() {
        assert_eq!(of("none"), Credentials::None);
        assert_eq!(of("bearer"), header("Authorization", "Bearer s3cret", SECRET));
        assert_eq!(of("{basic: {user: AC1}}"), header("Authorization", "Basic QUMxOnMzY3JldA==", SECRET));
        assert_eq!(of("basic"), header("Authorization", "Basic czNjcmV0", SECRET));
        assert_eq!(of("{header: {name: X-Key}}"), header("X-Key", SECRET, SECRET));
        assert_eq!(of("{header: {name: X-Key, prefix: 'Key '}}"), header("X-Key", "Key s3cret", SECRET));
        let value = || Secret::new(SECRET);
        assert_eq!(of("{query: {name: key}}"), Credentials::Query { name: "key".into(), value: value() });
        assert_eq!(of("{body: {field: key}}"), Credentials::Body { field: "key".into(), value: value() });
        let signed = Credentials::Signed { key: value(), id: "evt/crm".into(), at: Timestamp::from_secs(7) };
        assert_eq!(of("signed"), signed);
    }

    #[test]
    fn a_secret_that_stands_for_a_token_is_not_shown() {
        let oauth2 = "{oauth2: {token_url: 'https://a.example/t', client_id: me}}";
        assert_eq!(of(oauth2), Credentials::None);
        let auth: Auth = serde_saphyr::from_str(oauth2).expect("good");
        let grant = auth.token_grant().expect("a grant");
        assert_eq!(Credentials::of_token(grant, &Secret::new("t")), header("Authorization", "Bearer t", "t"));
    }

    #[test]
    fn whatever_stands_for_a_secret_is_known() {
        let texts = |auth| of(auth).secrets().iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>();
        assert_eq!(texts("none"), [""; 0]);
        assert_eq!(texts("{basic: {user: AC1}}"), ["Basic QUMxOnMzY3JldA==", SECRET, "QUMxOnMzY3JldA=="]);
        for auth in ["bearer", "{query: {name: x}}", "{body: {field: x}}", "signed", "{header: {name: X}}"] {
            assert!(texts(auth).contains(&SECRET.to_owned()), "{auth}");
        }
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        for auth in ["bearer", "basic", "{header: {name: X}}", "{query: {name: x}}", "{body: {field: x}}", "signed"] {
            let shown = format!("{:?}", of(auth));
            assert!(!shown.contains(SECRET) && !shown.contains("czNjcmV0"), "{shown}");
        }
    }
}
