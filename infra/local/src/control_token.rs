//! The token that opens the controls of the partner stub and the console, for whoever may read this run's files.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

/// A middleware that answers only those who have the token.
pub(crate) async fn demand(State(token): State<String>, request: Request, next: Next) -> Response {
    let offered = request.headers().get(AUTHORIZATION).and_then(|header| header.as_bytes().strip_prefix(b"Bearer "));
    if offered.is_some_and(|offered| offered.ct_eq(token.as_bytes()).into()) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], SENTENCE).into_response()
}

const SENTENCE: &str = "Nothing was done: this needs the token of this run. With curl, add \
    `-H @.local/run/control.header`; for the console, open the address that `make run` printed.\n";
