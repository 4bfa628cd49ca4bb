//! Requests that a page of another origin, or a name that was pointed at this machine, has sent: every server of a
//! local cloud rejects them.
//!
//! A browser sends them on behalf of any page that its user has open. It always tells the truth about `Host`, and about
//! `Origin` and `Sec-Fetch-Site` where it sends them. Programs, such as `curl` and the SDKs, send only a `Host`.

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The names of this machine that a server of a local cloud answers to.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A middleware that rejects foreign requests to the server on this port.
pub(crate) async fn reject(State(port): State<u16>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match check(&parts, port) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(sentence) => (StatusCode::FORBIDDEN, format!("{sentence}\n")).into_response(),
    }
}

/// Whether a request was meant for the server on this port, by whom it says that it comes from.
pub(crate) fn check(parts: &Parts, port: u16) -> Result<(), &'static str> {
    let ours = |authority: &str| {
        authority.rsplit_once(':').is_some_and(|(name, number)| NAMES.contains(&name) && number == port.to_string())
    };
    let host = only(&parts.headers, HOST.as_str()).ok_or(FOREIGN_HOST)?.ok_or(FOREIGN_HOST)?;
    // A request line may name a host, too, which goes before the header.
    let named = parts.uri.authority().is_none_or(|authority| authority.as_str() == host);
    if !ours(host) || !named {
        return Err(FOREIGN_HOST);
    }
    let origin = only(&parts.headers, ORIGIN.as_str()).ok_or(FOREIGN_PAGE)?;
    if origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Err(FOREIGN_PAGE);
    }
    match only(&parts.headers, "sec-fetch-site") {
        Some(None | Some("same-origin" | "none")) => Ok(()),
        _ => Err(FOREIGN_PAGE),
    }
}

const FOREIGN_HOST: &str = "The local cloud is for this machine only: use http://127.0.0.1, with its port.";
const FOREIGN_PAGE: &str = "The local cloud answers no page of another origin.";

/// The value of a header that may come once: nothing where it comes twice or is no text.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::builder().uri(uri), |request, (name, value)| request.header(*name, *value));
        request.body(axum::body::Body::empty()).expect("a request").into_parts().0
    }

    #[test]
    fn programs_and_our_own_page_are_answered() {
        for good in [
            parts("/", &[("host", "127.0.0.1:8787")]),
            parts("/", &[("host", "localhost:8787"), ("sec-fetch-site", "none")]),
            parts(
                "/",
                &[("host", "127.0.0.1:8787"), ("origin", "http://127.0.0.1:8787"), ("sec-fetch-site", "same-origin")],
            ),
            parts("http://127.0.0.1:8787/", &[("host", "127.0.0.1:8787")]),
        ] {
            assert_eq!(check(&good, 8787), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn nothing_else_is() {
        for bad in [
            parts("/", &[]),
            parts("/", &[("host", "127.0.0.1")]),
            parts("/", &[("host", "127.0.0.1:8788")]),
            parts("/", &[("host", "evil.example:8787")]),
            parts("/", &[("host", "127.0.0.1.evil.example:8787")]),
            parts("/", &[("host", "127.0.0.1:8787:evil")]),
            parts("/", &[("host", "evil:127.0.0.1:8787")]),
            parts("/", &[("host", "evil@127.0.0.1:8787")]),
            parts("/", &[("host", "0.0.0.0:8787")]),
            parts("/", &[("host", "127.0.0.1:8787"), ("host", "evil.example")]),
            parts("http://evil.example/", &[("host", "127.0.0.1:8787")]),
            parts("/", &[("host", "127.0.0.1:8787"), ("origin", "null")]),
            parts("/", &[("host", "127.0.0.1:8787"), ("origin", "http://evil.example")]),
            parts("/", &[("host", "127.0.0.1:8787"), ("origin", "http://127.0.0.1:3000")]),
            parts("/", &[("host", "127.0.0.1:8787"), ("origin", "http://localhost:8787")]),
            parts(
                "/",
                &[("host", "127.0.0.1:8787"), ("origin", "http://127.0.0.1:8787"), ("origin", "http://evil.example")],
            ),
            parts("/", &[("host", "127.0.0.1:8787"), ("sec-fetch-site", "cross-site")]),
            parts("/", &[("host", "127.0.0.1:8787"), ("sec-fetch-site", "same-site")]),
        ] {
            assert!(check(&bad, 8787).is_err(), "{bad:?}");
        }
    }
}
