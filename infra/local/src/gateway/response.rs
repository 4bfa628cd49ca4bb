//! The HTTP response that AWS would make of a function's answer (payload format 2.0).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use base64::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The response to a function's answer. Without a `statusCode` the answer itself is the body, with status 200.
pub(super) fn make(payload: Value) -> Response<Body> {
    let response = if payload.get("statusCode").is_some() {
        serde_json::from_value(payload)
            .context("the answer has a statusCode, and not the structured form")
            .and_then(structured)
    } else {
        Ok(plain(payload))
    };
    // A malformed answer is the function's error, and AWS shows none of it.
    response.unwrap_or_else(|_| error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"))
}

/// API Gateway's own answer, where there is none of a function.
pub(super) fn error(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = plain(json!({"message": message}));
    *response.status_mut() = status;
    response
}

/// The structured form of an answer. One with a `statusCode` must have this shape.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Structured {
    status_code: u16,
    #[serde(default)]
    headers: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    cookies: Option<Vec<String>>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

fn plain(payload: Value) -> Response<Body> {
    let body = match payload {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn structured(answer: Structured) -> Result<Response<Body>> {
    let mut response = Response::new(body(&answer)?.into());
    *response.status_mut() = StatusCode::from_u16(answer.status_code)?;
    let headers = response.headers_mut();
    for cookie in answer.cookies.unwrap_or_default() {
        headers.append(SET_COOKIE, cookie.parse()?);
    }
    for (name, value) in answer.headers.unwrap_or_default() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        headers.append(HeaderName::from_bytes(name.as_bytes())?, value.parse()?);
    }
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/plain;charset=utf-8"));
    Ok(response)
}

fn body(answer: &Structured) -> Result<Vec<u8>> {
    let body = answer.body.as_deref().unwrap_or_default();
    if answer.is_base64_encoded {
        return BASE64_STANDARD.decode(body).context("the body is not base64");
    }
    Ok(body.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seen(payload: Value) -> (u16, String) {
        let response = make(payload);
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1024).await.expect("a body");
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn the_structured_form_is_followed() {
        assert_eq!(seen(json!({"statusCode": 202, "body": "ok"})).await, (202, "ok".into()));
        let encoded = json!({"statusCode": 200, "body": "b2s=", "isBase64Encoded": true});
        assert_eq!(seen(encoded).await, (200, "ok".into()));
    }

    #[tokio::test]
    async fn anything_else_is_the_body_itself() {
        assert_eq!(seen(json!({"a": 1})).await, (200, r#"{"a":1}"#.into()));
        assert_eq!(seen(json!("hello")).await, (200, "hello".into()));
    }

    #[tokio::test]
    async fn a_malformed_answer_is_a_500_that_tells_nothing() {
        let expected = (500, r#"{"message":"Internal Server Error"}"#.to_owned());
        assert_eq!(seen(json!({"statusCode": "x"})).await, expected);
        assert_eq!(seen(json!({"statusCode": 200, "body": "%", "isBase64Encoded": true})).await, expected);
    }

    #[test]
    fn headers_and_cookies_are_set() {
        let response = make(json!({
            "statusCode": 200,
            "headers": {"Content-Type": "application/problem+json", "X-Count": 3},
            "cookies": ["a=1", "b=2"],
        }));
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()["x-count"], "3");
        assert_eq!(response.headers().get_all(SET_COOKIE).iter().count(), 2);
    }
}
