//! The console of the local cloud: a page that shows the deployed dashboards' custom widgets.
//!
//! It follows CloudWatch's protocol, so that the widget is tried here as it is used there. The page is
//! ours and has a script; the widget's HTML has none, and could not run one: the content security policy
//! allows no script but the page's own, by a number that is new for each page.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::aws::{self, Endpoint};
use crate::control_token;
use crate::lambda::{InvocationOutcome, Lambda};

/// The console's routes, below `/console`. The page holds nothing, so that it needs no token: what it fetches does. It
/// has the token from the part of its address that browsers send to nobody.
pub fn router(endpoint: Endpoint, lambda: Lambda, control_token: String) -> Router {
    Router::new()
        .route("/console/dashboards/{name}", get(dashboard))
        .route("/console/call", post(call))
        .route_layer(middleware::from_fn_with_state(control_token, control_token::demand))
        .route("/console", get(page))
        .with_state(Arc::new(Console { endpoint, lambda }))
}

struct Console {
    endpoint: Endpoint,
    lambda: Lambda,
}

async fn page() -> Result<Response, Failure> {
    let nonce = nonce()?;
    let page = include_str!("page.html").replace("{nonce}", &nonce).replace("{script}", include_str!("page.js"));
    let page = page.replace("{region}", aws::REGION);
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

/// The name of the function in its ARN, and the alias where there is one.
fn function_of(arn: &str) -> Option<&str> {
    let (_, name) = arn.split_once(":function:")?;
    let legal =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    (name.split(':').count() <= 2 && name.split(':').all(legal)).then_some(name)
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

    #[test]
    fn a_function_is_named_by_its_arn_and_by_nothing_else() {
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:ledgerline-replay";
        assert_eq!(function_of(arn), Some("ledgerline-replay"));
        assert_eq!(function_of(&format!("{arn}:live")), Some("ledgerline-replay:live"));
        let bads = ["", "ledgerline-replay", "arn:aws:lambda:us-east-1:0:function:", "x:function:../../_ministack"];
        for bad in bads.into_iter().chain(["x:function:a:", "x:function:a:b:c", "x:function:a:b?Qualifier=c"]) {
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
