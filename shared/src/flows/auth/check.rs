//! Mistakes in how we authenticate, and the texts that read the integration's `vars`.

use serde_json::Value;

use super::super::headers;
use super::super::integration::is_authority;
use super::super::template::{Body, TemplateError, Values, render_encoded};
use super::super::vars::Vars;
use super::super::{Format, Method, Request};
use super::{Auth, BasicAuth, BodyAuth, ClientCredentials, HeaderAuth, JwtBearer, QueryAuth};
use crate::base::wrong::{Wrong, step};

impl Auth {
    /// The texts that may read `vars`, as templates, with their places below the integration.
    pub(in crate::flows) fn templates(&self) -> Vec<(&'static str, Body)> {
        self.clone().texts().into_iter().map(|(at, text)| (at, Body::of(text.as_str().into()))).collect()
    }

    /// Puts the integration's plain `vars` into their places. A text that cannot be rendered is a mistake.
    pub(in crate::flows) fn render(&mut self, vars: &Vars) -> Vec<Wrong> {
        let values = Values::of_vars(vars.plain());
        let mut wrong = Vec::new();
        for (at, text) in self.texts() {
            match render(at, text, &values) {
                Ok(rendered) => *text = rendered,
                Err(error) => wrong.push(Wrong::at(at, format!("this cannot be rendered: {error}"))),
            }
        }
        wrong
    }

    /// The texts that may read `vars`, with their places below the integration.
    fn texts(&mut self) -> Vec<(&'static str, &mut String)> {
        match self {
            Auth::None | Auth::Bearer | Auth::Signed | Auth::Header(_) | Auth::Query(_) | Auth::Body(_) => Vec::new(),
            Auth::Basic(BasicAuth { user }) => optional("/auth/basic/user", user).collect(),
            Auth::Oauth2(ClientCredentials { token_url, client_id, scope, audience, .. }) => {
                let needed = [("/auth/oauth2/token_url", token_url), ("/auth/oauth2/client_id", client_id)];
                let scope = optional("/auth/oauth2/scope", scope);
                needed.into_iter().chain(scope).chain(optional("/auth/oauth2/audience", audience)).collect()
            }
            Auth::JwtBearer(JwtBearer { token_url, issuer, subject, audience, scope, key_id, .. }) => {
                let needed = [("/auth/jwt_bearer/token_url", token_url), ("/auth/jwt_bearer/issuer", issuer)];
                let named = optional("/auth/jwt_bearer/subject", subject);
                let named = named.chain(optional("/auth/jwt_bearer/audience", audience));
                let named = named.chain(optional("/auth/jwt_bearer/scope", scope));
                needed.into_iter().chain(named).chain(optional("/auth/jwt_bearer/key_id", key_id)).collect()
            }
        }
    }

    /// What keeps a request from showing the secret, if something does. Its place is below the request.
    pub(in crate::flows) fn check_request(&self, request: &Request) -> Option<Wrong> {
        let set_by_auth = |at: &str, name: &str| {
            Wrong::at(format!("{at}{}", step(name)), format!("`{name}` is set by the integration's `auth`"))
        };
        let body = request.body.as_ref().map(Body::written);
        match self {
            Auth::Query(QueryAuth { name }) => request.query.contains(name).then(|| set_by_auth("/query", name)),
            Auth::Body(_) if request.method == Method::Get => {
                let what = "the integration's `auth` puts our secret into the body, and a GET has none";
                Some(Wrong::at("/method", what).hint("ask by POST"))
            }
            Auth::Body(_) if request.format() == Format::Text || body.is_some_and(Value::is_array) => {
                let what = "the integration's `auth` puts our secret among the body's fields, and this body has none";
                Some(Wrong::at("/body", what).hint("send a mapping, as JSON or as a form"))
            }
            Auth::Body(BodyAuth { field }) => {
                body.is_some_and(|body| body.get(field).is_some()).then(|| set_by_auth("/body", field))
            }
            _ => None,
        }
    }

    /// The mistakes, with their places below the integration. `key` is the header of our idempotency key.
    pub(in crate::flows) fn check(&self, key: &str) -> Vec<Wrong> {
        let header = |at, name: &Option<String>| name.as_deref().and_then(|name| check_header(at, name, key));
        match self {
            Auth::None | Auth::Bearer | Auth::Signed | Auth::Basic(BasicAuth { user: None }) => Vec::new(),
            Auth::Basic(BasicAuth { user: Some(user) }) => check_user(user).into_iter().collect(),
            Auth::Header(HeaderAuth { name, prefix }) => {
                let prefix = (!is_header_text(prefix)).then(|| {
                    Wrong::at("/auth/header/prefix", "a header takes visible characters and spaces, and no line break")
                });
                check_header("/auth/header/name", name, key).into_iter().chain(prefix).collect()
            }
            Auth::Query(QueryAuth { name }) => check_name("/auth/query/name", name).into_iter().collect(),
            Auth::Body(BodyAuth { field }) => check_name("/auth/body/field", field).into_iter().collect(),
            Auth::Oauth2(ClientCredentials { token_url, client_id, header: shown, .. }) => {
                let url = check_token_url("/auth/oauth2/token_url", token_url).into_iter();
                let needed = check_name("/auth/oauth2/client_id", client_id);
                url.chain(needed).chain(header("/auth/oauth2/header", shown)).collect()
            }
            Auth::JwtBearer(JwtBearer { token_url, issuer, header: shown, .. }) => {
                let url = check_token_url("/auth/jwt_bearer/token_url", token_url).into_iter();
                let needed = check_name("/auth/jwt_bearer/issuer", issuer);
                url.chain(needed).chain(header("/auth/jwt_bearer/header", shown)).collect()
            }
        }
    }
}

/// A text with its `vars` in their places. Those of a URL are encoded, as in a path.
fn render(at: &str, text: &str, values: &Values) -> Result<String, TemplateError> {
    if at.ends_with("token_url") { render_encoded(text, values) } else { Body::of(text.into()).text_from(values) }
}

fn optional<'t>(
    at: &'static str,
    text: &'t mut Option<String>,
) -> impl Iterator<Item = (&'static str, &'t mut String)> {
    text.as_mut().map(|text| (at, text)).into_iter()
}

fn check_user(user: &str) -> Option<Wrong> {
    let at = "/auth/basic/user";
    if user.contains(':') {
        let hint = "leave `user` out, and make the secret `user:password`, if the colon belongs to both";
        return Some(Wrong::at(at, "a user's name of HTTP Basic has no colon: it ends there").hint(hint));
    }
    check_name(at, user)
}

fn check_name(at: &'static str, name: &str) -> Option<Wrong> {
    let good = !name.trim().is_empty() && !name.contains(char::is_control);
    (!good).then(|| Wrong::at(at, "here must be a text of visible characters"))
}

fn check_header(at: &'static str, name: &str, key: &str) -> Option<Wrong> {
    let taken = [(key, "idempotency_header")];
    headers::declined(name, &taken).map(|what| Wrong::at(at, format!("the header `{name}` {what}")))
}

fn is_header_text(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

fn check_token_url(at: &'static str, url: &str) -> Option<Wrong> {
    let Some(rest) = url.strip_prefix("https://") else {
        return Some(Wrong::at(at, "token_url must start with https://: the secret goes there"));
    };
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !is_authority(host) {
        return Some(Wrong::at(
            at,
            "token_url must name a host of letters, digits, - and ., and nothing else before its path",
        ));
    }
    let visible = path.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if !visible || path.contains('#') {
        return Some(Wrong::at(at, "token_url has a character that a URL does not take: encode it"));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::Var;
    use super::*;

    fn auth(yaml: &str) -> Auth {
        serde_saphyr::from_str(yaml).expect(yaml)
    }

    fn places(yaml: &str) -> Vec<String> {
        auth(yaml).check("Idempotency-Key").into_iter().map(|wrong| wrong.at).collect()
    }

    #[test]
    fn good_ones_are_let_through() {
        for good in [
            "none",
            "signed",
            "{basic: {user: AC0123}}",
            "{header: {name: X-Shopify-Access-Token}}",
            "{header: {name: Authorization, prefix: 'Klaviyo-API-Key '}}",
            "{query: {name: key}}",
            "{body: {field: key}}",
            "{oauth2: {token_url: 'https://login.example.com:8443/t?grant=x', client_id: me}}",
            "{jwt_bearer: {token_url: 'https://oauth2.googleapis.com/token', issuer: me@p.iam.gserviceaccount.com}}",
        ] {
            assert_eq!(places(good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn a_mistake_is_told_at_its_place() {
        for (bad, at) in [
            ("{basic: {user: 'a:b'}}", "/auth/basic/user"),
            ("{basic: {user: ''}}", "/auth/basic/user"),
            ("{header: {name: 'X Key'}}", "/auth/header/name"),
            ("{header: {name: Host}}", "/auth/header/name"),
            ("{header: {name: Proxy-Authorization}}", "/auth/header/name"),
            ("{header: {name: idempotency-key}}", "/auth/header/name"),
            ("{header: {name: X-Key, prefix: \"a\\r\\nb\"}}", "/auth/header/prefix"),
            ("{query: {name: ''}}", "/auth/query/name"),
            ("{oauth2: {token_url: 'http://a.example/t', client_id: me}}", "/auth/oauth2/token_url"),
            ("{oauth2: {token_url: 'https://me:pw@a.example/t', client_id: me}}", "/auth/oauth2/token_url"),
            ("{oauth2: {token_url: 'https:///t', client_id: me}}", "/auth/oauth2/token_url"),
            ("{oauth2: {token_url: 'https://a.example/t#x', client_id: me}}", "/auth/oauth2/token_url"),
            ("{oauth2: {token_url: 'https://a.example/t', client_id: ''}}", "/auth/oauth2/client_id"),
            ("{oauth2: {token_url: 'https://a.example/t', client_id: me, header: TE}}", "/auth/oauth2/header"),
            ("{jwt_bearer: {token_url: 'https://a.example/ t', issuer: me}}", "/auth/jwt_bearer/token_url"),
        ] {
            assert_eq!(places(bad), [at], "{bad}");
        }
    }

    #[test]
    fn a_request_leaves_the_secrets_place_alone() {
        let place = |auth: &str, request: &str| {
            let request: Request = serde_saphyr::from_str(request).expect(request);
            self::auth(auth).check_request(&request).map(|wrong| wrong.at)
        };
        let (query, body) = ("{query: {name: key}}", "{body: {field: key}}");
        for (auth, request, at) in [
            (query, "{method: POST, path: /, query: {key: x}}", Some("/query/key")),
            (query, "{method: POST, path: /, query: {other: x}, body: {key: x}}", None),
            (body, "{method: POST, path: /, body: {key: x}}", Some("/body/key")),
            (body, "{method: POST, path: /, body: [x]}", Some("/body")),
            (body, "{method: POST, path: /, body: x, format: text}", Some("/body")),
            (body, "{method: POST, path: /, body: {to: x}, format: form}", None),
            (body, "{method: POST, path: /}", None),
            ("bearer", "{method: POST, path: /, body: [x], query: {key: x}}", None),
        ] {
            assert_eq!(place(auth, request).as_deref(), at, "{auth} {request}");
        }
    }

    #[test]
    fn every_text_that_may_read_vars_does() {
        let read = "\"{{ vars.v }}\"";
        let mut auth = auth(&format!(
            "{{jwt_bearer: {{token_url: \"https://{{{{ vars.v }}}}.example/{{{{ vars.w }}}}\", issuer: {read}, \
             subject: {read}, audience: {read}, scope: {read}, key_id: {read}, header: X-V}}}}"
        ));
        assert_eq!(auth.templates().len(), 6);
        let vars = [("v", json!("eu")), ("w", json!("a/b"))];
        let vars = Vars::from_iter(vars.map(|(name, value)| (name.to_owned(), Var::Plain(value))));
        assert_eq!(auth.render(&vars), []);
        let Auth::JwtBearer(grant) = &auth else { panic!("{auth:?}") };
        assert_eq!(grant.token_url, "https://eu.example/a%2Fb");
        let texts = [&grant.subject, &grant.audience, &grant.scope, &grant.key_id];
        assert!(grant.issuer == "eu" && texts.iter().all(|text| text.as_deref() == Some("eu")), "{grant:?}");
        assert_eq!(auth.headers(), ["X-V"], "names are as they are written");
    }

    #[test]
    fn a_text_that_cannot_be_rendered_is_a_mistake() {
        let wrong = auth("{basic: {user: \"{{ vars.nobody }}\"}}").render(&Vars::default());
        assert_eq!(wrong.iter().map(|wrong| wrong.at.as_str()).collect::<Vec<_>>(), ["/auth/basic/user"]);
    }
}
