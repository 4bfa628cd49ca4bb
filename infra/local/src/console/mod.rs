//! The console of the local cloud: a page that shows the deployed dashboards' custom widgets.
//!
//! It follows CloudWatch's protocol, so that the widget is tried here as it is used there. The page is
//! ours and has a script; the widget's HTML has none, and could not run one: the content security policy
//! allows no script but the page's own, by a number that is new for each page.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, HOST};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::aws::Endpoint;
use crate::lambda::{InvocationOutcome, Lambda};

/// The console's routes, below `/console`.
pub fn router(endpoint: Endpoint, lambda: Lambda) -> Router {
    Router::new()
        .route("/console", get(page))
        .route("/console/dashboards/{name}", get(dashboard))
        .route("/console/call", post(call))
        .layer(middleware::from_fn(from_our_page_only))
        .with_state(Arc::new(Console { endpoint, lambda }))
}

struct Console {
    endpoint: Endpoint,
    lambda: Lambda,
}

async fn page() -> Result<Response, Failure> {
    let nonce = nonce()?;
    let page = include_str!("page.html").replace("{nonce}", &nonce).replace("{script}", include_str!("page.js"));
    Ok(([(CONTENT_SECURITY_POLICY, policy(&nonce))], Html(page)).into_response())
}

/// The content security policy: nothing is loaded, framed or sent anywhere else. Styles may be inline, as in
/// CloudWatch's own page.
fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; connect-src 'self'; \
         form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
}

fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .context("the console cannot be shown: the system gives no random numbers for its policy")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A dashboard as it was deployed.
async fn dashboard(State(console): State<Arc<Console>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    let target = "GraniteServiceVersion20100801.GetDashboard";
    let answer = console.endpoint.act("monitoring", target, json!({"DashboardName": name})).await?;
    let body = answer["DashboardBody"]
        .as_str()
        .with_context(|| format!("the dashboard {name} is not deployed, or has no body"))?;
    Ok(Json(
        serde_json::from_str(body)
            .with_context(|| format!("the dashboard {name} is not JSON: check it in infra/template.yaml"))?,
    ))
}

#[derive(Deserialize)]
struct WidgetCall {
    endpoint: String,
    event: Value,
}

async fn call(State(console): State<Arc<Console>>, Json(call): Json<WidgetCall>) -> Result<Json<Value>, Failure> {
    let function = function_of(&call.endpoint)
        .context("nothing was invoked: the widget's endpoint is not the ARN of a function")?;
    match console.lambda.invoke(function, &call.event).await? {
        InvocationOutcome::Answered(answer) => Ok(Json(answer)),
        InvocationOutcome::Throttled => {
            Err(anyhow!("the emulator throttles {function}: nothing was changed. Try again").into())
        }
        InvocationOutcome::Failed(error) => {
            Err(anyhow!("the function {function} failed, and may have done part of its work: {error}").into())
        }
    }
}

/// The name of the function in its ARN.
fn function_of(arn: &str) -> Option<&str> {
    let (_, name) = arn.split_once(":function:")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (!name.is_empty() && name.chars().all(legal)).then_some(name)
}

/// Answers requests of our own page only. Any page in the operator's browser can send requests to this port: another
/// site's has a `Sec-Fetch-Site` that says so, or, where its name was pointed at this machine, another host.
async fn from_our_page_only(request: Request, next: Next) -> Response {
    match check_origin(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => (StatusCode::FORBIDDEN, error.to_string()).into_response(),
    }
}

fn check_origin(headers: &HeaderMap) -> Result<()> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = header(HOST.as_str()).and_then(|host| host.split(':').next());
    if !matches!(host, Some("127.0.0.1" | "localhost")) {
        bail!("the console is for this machine only: open it at http://127.0.0.1, with its port");
    }
    if !matches!(header("sec-fetch-site"), None | Some("same-origin" | "none")) {
        bail!("the console answers its own page only: open /console in a tab of its own");
    }
    Ok(())
}

/// An error, as a sentence for the person at the page.
struct Failure(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (StatusCode::BAD_GATEWAY, format!("{:#}", self.0)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        pairs.collect()
    }

    #[test]
    fn only_our_own_page_is_answered() {
        for good in [
            headers(&[("host", "127.0.0.1:8787")]),
            headers(&[("host", "localhost:8787"), ("sec-fetch-site", "same-origin")]),
            headers(&[("host", "127.0.0.1"), ("sec-fetch-site", "none")]),
        ] {
            assert!(check_origin(&good).is_ok(), "{good:?}");
        }
        for bad in [
            headers(&[]),
            headers(&[("host", "evil.example:8787")]),
            headers(&[("host", "127.0.0.1.evil.example")]),
            headers(&[("host", "127.0.0.1:8787"), ("sec-fetch-site", "cross-site")]),
            headers(&[("host", "127.0.0.1:8787"), ("sec-fetch-site", "same-site")]),
        ] {
            assert!(check_origin(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_function_is_named_by_its_arn_and_by_nothing_else() {
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:ledgerline-replay";
        assert_eq!(function_of(arn), Some("ledgerline-replay"));
        for bad in ["", "ledgerline-replay", "arn:aws:lambda:us-east-1:0:function:", "x:function:../../_ministack"] {
            assert_eq!(function_of(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn each_page_has_its_own_number_for_its_script() {
        let pages = [page().await, page().await].map(|page| page.unwrap_or_else(|failure| panic!("{:#}", failure.0)));
        let [one, other] = pages.map(|page| page.headers()[CONTENT_SECURITY_POLICY].clone());
        assert_ne!(one, other);
        let policy = one.to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{policy}");
        assert!(!policy.contains("script-src 'unsafe"), "{policy}");
    }
}
