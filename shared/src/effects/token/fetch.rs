//! The request for a token, and what the token end-point answers.

use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::container_tokens::TokenAccount;
use super::crypto::TokenCrypto;
use super::jwt::{BadKey, assertion};
use crate::arrival::signature::Secret;
use crate::base::time::Timestamp;
use crate::effects::body::RequestBody;
use crate::effects::credentials::Credentials;
use crate::effects::outcome::NoAnswer;
use crate::effects::request::PartnerRequest;
use crate::flows::template::NOT_UNRESERVED;
use crate::flows::{ClientCredentials, ClientSecretPlace, PartnerAnswer, TokenGrant};

/// The step behind an integration's name, where all partners are reached at one end-point: the partner stub tells a
/// request for a token by it.
const TOKEN_STEP: &str = "/_token";

/// The life of a token whose answer does not say it, or says nonsense. A partner that ends it sooner answers 401.
const UNSAID_LIFE: Duration = Duration::from_secs(600);

/// The longest life that is believed: a token that was taken away is not used for longer, whatever its answer said.
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);

/// The longest token. It has to fit into a header.
const MAX_TOKEN: usize = 8 * 1024;

/// The errors of RFC 6749 that may be quoted: they say nothing of ours.
const KNOWN_ERRORS: [&str; 7] = [
    "access_denied",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
];

/// A token, as its end-point gave it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FetchedToken {
    pub(super) token: Secret,
    pub(super) life: Duration,
}

/// The reason why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchFailure {
    /// What happened, without a word of the answer.
    pub(super) why: String,
    /// Whether the end-point rejected our credentials, or what we asked for.
    pub(super) denied: bool,
    /// How long the end-point asked us to wait.
    pub(super) retry_after: Option<Duration>,
}

impl FetchFailure {
    fn failing(why: impl Into<String>) -> Self {
        FetchFailure { why: why.into(), denied: false, retry_after: None }
    }

    /// The delay of the next fetch, after so many that failed.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        let doubled = Duration::from_secs(1 << failures.saturating_sub(1).min(10)).min(LONGEST_DELAY);
        let least = if self.denied { LONGEST_DELAY } else { doubled };
        least.max(self.retry_after.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// The longest delay between two fetches that we choose.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The longest delay between two fetches that the end-point can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The request for a token.
pub(super) fn request(
    account: &TokenAccount<'_>,
    crypto: &dyn TokenCrypto,
    now: Timestamp,
) -> Result<PartnerRequest, BadKey> {
    let (base_url, path) = split(account.grant.token_url());
    let (credentials, fields) = match account.grant {
        TokenGrant::ClientCredentials(grant) => client_credentials(grant, account.secret),
        TokenGrant::JwtBearer(grant) => {
            let assertion = assertion(grant, account.secret, crypto, now)?;
            let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
            let assertion = assertion.expose().to_owned();
            (Credentials::None, vec![("grant_type", kind), ("assertion", assertion)])
        }
    };
    Ok(PartnerRequest {
        method: "POST",
        integration: format!("{}{TOKEN_STEP}", account.integration),
        base_url: base_url.to_owned(),
        path: path.to_owned(),
        headers: vec![("Accept".into(), "application/json".into())],
        credentials,
        body: Some(form(&fields)),
        timeout: account.timeout,
    })
}

/// The fields of a request by client credentials (RFC 6749, section 4.4), and its header.
fn client_credentials(grant: &ClientCredentials, secret: &Secret) -> (Credentials, Vec<(&'static str, String)>) {
    let mut fields = vec![("grant_type", "client_credentials".to_owned())];
    fields.extend(grant.scope.iter().map(|scope| ("scope", scope.clone())));
    fields.extend(grant.audience.iter().map(|audience| ("audience", audience.clone())));
    match grant.send {
        ClientSecretPlace::Header => {
            // Both are encoded first (section 2.3.1): an id may hold a colon.
            let secret = Secret::new(encoded(secret.expose()));
            (Credentials::basic(&encoded(&grant.client_id), &secret), fields)
        }
        ClientSecretPlace::Body => {
            fields.push(("client_id", grant.client_id.clone()));
            fields.push(("client_secret", secret.expose().to_owned()));
            (Credentials::None, fields)
        }
    }
}

fn form(fields: &[(&'static str, String)]) -> RequestBody {
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    RequestBody { content_type: "application/x-www-form-urlencoded".into(), bytes: pairs.join("&").into_bytes() }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_UNRESERVED).to_string()
}

/// The URL's host with its scheme, and its path with its query.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let path = url[host..].find(['/', '?']).map_or(url.len(), |path| host + path);
    let (base_url, path) = url.split_at(path);
    (base_url, if path.is_empty() { "/" } else { path })
}

/// Reads what the token end-point answered.
pub(super) fn read(answer: Result<PartnerAnswer, NoAnswer>, now: Timestamp) -> Result<FetchedToken, FetchFailure> {
    let answer = answer.map_err(|error| FetchFailure::failing(error.to_string()))?;
    let failed = |told: String, denied| FetchFailure { why: told, denied, retry_after: answer.retry_after(now) };
    let error = answer.body.as_ref().and_then(|body| body["error"].as_str());
    let known = error.and_then(|error| KNOWN_ERRORS.into_iter().find(|known| *known == error));
    let status = answer.status;
    match status {
        200..=299 if error.is_none() => token(answer.body.as_ref(), status).map_err(|why| failed(why, false)),
        200..=299 | 400..=499 => {
            let passing = matches!(status, 200..=299 if known.is_none()) || matches!(status, 408 | 425 | 429);
            let quoted = known.map(|known| format!(" ({known})")).unwrap_or_default();
            Err(failed(format!("it answered {status}{quoted}"), !passing))
        }
        _ => Err(failed(format!("it answered {status}"), false)),
    }
}

fn token(body: Option<&Value>, status: u16) -> Result<FetchedToken, String> {
    let body = body.ok_or_else(|| format!("it answered {status} without JSON"))?;
    let token = body["access_token"].as_str().unwrap_or_default();
    if token.is_empty() || token.len() > MAX_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("it answered {status} without a token"));
    }
    let kind = body["token_type"].as_str();
    if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(format!("it answered {status} with a token of another type than Bearer"));
    }
    Ok(FetchedToken { token: Secret::new(token), life: life(&body["expires_in"]) })
}

/// The life of a token, from a number of seconds or its text.
fn life(expires_in: &Value) -> Duration {
    let secs = expires_in.as_f64().or_else(|| expires_in.as_str()?.trim().parse().ok());
    let life = secs.filter(|secs| *secs >= 1.0).and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    life.unwrap_or(UNSAID_LIFE).min(MAX_LIFE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::effects::token::crypto::{SealingKey, SigningKey};
    use crate::flows::Auth;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    /// Client credentials need none.
    struct NoCrypto;

    impl TokenCrypto for NoCrypto {
        fn seal(&self, _: &SealingKey, _: &str, _: &Secret) -> Option<String> {
            None
        }

        fn open(&self, _: &SealingKey, _: &str, _: &str) -> Option<Secret> {
            None
        }

        fn sign_rs256(&self, _: &SigningKey, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
    }

    fn asked(oauth2: &str) -> PartnerRequest {
        let auth: Auth = serde_saphyr::from_str(&format!("{{oauth2: {oauth2}}}")).expect("good");
        let secret = Secret::new("p:ss word");
        let grant = auth.token_grant().expect("a grant");
        let timeout = Duration::from_secs(3);
        let account = TokenAccount { integration: "crm", grant, secret: &secret, timeout };
        request(&account, &NoCrypto, NOW).expect("a request")
    }

    #[test]
    fn the_secret_goes_where_the_end_point_takes_it() {
        let in_header = asked("{token_url: 'https://a.example/oauth/token', client_id: 'a:b', scope: x y}");
        assert_eq!((in_header.base_url.as_str(), in_header.path.as_str()), ("https://a.example", "/oauth/token"));
        assert_eq!(in_header.credentials, Credentials::basic("a%3Ab", &Secret::new("p%3Ass%20word")));
        assert_eq!(text(&in_header), "grant_type=client_credentials&scope=x%20y");
        let in_body = asked("{token_url: 'https://a.example?x=1', client_id: me, send: body, audience: api}");
        assert_eq!((in_body.base_url.as_str(), in_body.path.as_str()), ("https://a.example", "?x=1"));
        assert_eq!(in_body.credentials, Credentials::None);
        let sent = "grant_type=client_credentials&audience=api&client_id=me&client_secret=p%3Ass%20word";
        assert_eq!(text(&in_body), sent);
    }

    fn text(request: &PartnerRequest) -> String {
        request.body.as_ref().map(|body| body.text().into_owned()).unwrap_or_default()
    }

    #[test]
    fn locally_it_is_asked_for_below_the_integration() {
        assert_eq!(asked("{token_url: 'https://a.example/t', client_id: me}").integration, "crm/_token");
    }

    fn answered(status: u16, body: Option<Value>) -> Result<FetchedToken, FetchFailure> {
        read(Ok(PartnerAnswer { status, body, ..PartnerAnswer::default() }), NOW)
    }

    #[test]
    fn a_token_lives_as_long_as_it_says_within_reason() {
        for (expires_in, secs) in [
            (json!(3600), 3600),
            (json!("1800"), 1800),
            (json!(59.5), 59),
            (json!(null), 600),
            (json!(0), 600),
            (json!(-1), 600),
            (json!("soon"), 600),
            (json!([1]), 600),
            (json!(1e300), 600),
            (json!(31_536_000), 86_400),
        ] {
            let body = json!({"access_token": "t", "token_type": "bearer", "expires_in": expires_in});
            let fetched = answered(200, Some(body)).expect("a token");
            assert_eq!(fetched.life.as_secs(), secs, "{expires_in}");
        }
        assert_eq!(answered(200, Some(json!({"access_token": "t"}))).map(|fetched| fetched.life), Ok(UNSAID_LIFE));
    }

    #[test]
    fn whatever_is_no_token_is_a_failure_that_quotes_nothing() {
        let long = "x".repeat(MAX_TOKEN + 1);
        for (status, body, denied) in [
            (200, None, false),
            (200, Some(json!([])), false),
            (200, Some(json!("canary")), false),
            (200, Some(json!({"access_token": ""})), false),
            (200, Some(json!({"access_token": 7})), false),
            (200, Some(json!({"access_token": "a\r\nX-Canary: 1"})), false),
            (200, Some(json!({"access_token": long})), false),
            (200, Some(json!({"access_token": "canary", "token_type": "mac"})), false),
            (200, Some(json!({"error": "canary"})), false),
            (200, Some(json!({"error": "invalid_client", "error_description": "canary"})), true),
            (302, None, false),
            (400, Some(json!({"error": "invalid_grant"})), true),
            (400, Some(json!({"error": "canary"})), true),
            (401, None, true),
            (404, None, true),
            (408, None, false),
            (429, None, false),
            (500, Some(json!({"error": "invalid_client"})), false),
            (503, None, false),
        ] {
            let failure = answered(status, body.clone()).expect_err("no token");
            assert_eq!(failure.denied, denied, "{status} {body:?}");
            assert!(!failure.why.contains("canary") && failure.why.contains(&status.to_string()), "{}", failure.why);
        }
        let quoted = answered(400, Some(json!({"error": "invalid_scope"}))).expect_err("no token");
        assert_eq!(quoted.why, "it answered 400 (invalid_scope)");
        assert!(!read(Err(NoAnswer::Lost("timed out".into())), NOW).expect_err("no answer").denied);
    }
}
