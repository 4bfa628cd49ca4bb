//! The event that AWS would make of a request (payload format 2.0).

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, USER_AGENT};
use axum::http::request::Parts;
use base64::prelude::*;
use serde_json::{Map, Value, json};

use super::routes::{Match, decode};

const API_ID: &str = "local";
const ACCOUNT: &str = "000000000000";

/// The event of a request. What the request does not have is left out, never null.
pub(super) fn make(parts: &Parts, route: &Match<'_>, body: &[u8]) -> Value {
    let mut event = Map::new();
    event.insert("version".into(), json!("2.0"));
    event.insert("routeKey".into(), json!(route.key));
    event.insert("rawPath".into(), json!(decode(parts.uri.path())));
    event.insert("rawQueryString".into(), json!(parts.uri.query().unwrap_or_default()));
    event.insert("headers".into(), json!(headers(&parts.headers)));
    event.insert("requestContext".into(), context(parts, route));
    insert_unless_empty(&mut event, "cookies", cookies(&parts.headers));
    insert_unless_empty(&mut event, "queryStringParameters", query(parts.uri.query()));
    insert_unless_empty(&mut event, "pathParameters", json!(route.parameters));
    insert_body(&mut event, &parts.headers, body);
    Value::Object(event)
}

fn insert_unless_empty(event: &mut Map<String, Value>, key: &str, value: Value) {
    let empty = match &value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    };
    if !empty {
        event.insert(key.to_owned(), value);
    }
}

/// The headers: lower-case names, repeated ones joined by commas, without the cookies.
fn headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::from([
        ("x-forwarded-for".to_owned(), "127.0.0.1".to_owned()),
        ("x-forwarded-proto".to_owned(), "http".to_owned()),
    ]);
    for name in headers.keys().filter(|name| *name != COOKIE) {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        joined.insert(name.as_str().to_owned(), values.join(","));
    }
    joined
}

fn cookies(headers: &HeaderMap) -> Value {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).map(str::trim).filter(|cookie| !cookie.is_empty()).collect()
}

/// The query parameters: decoded, and the values of a repeated name joined by commas.
fn query(query: Option<&str>) -> Value {
    let mut joined = BTreeMap::<String, String>::new();
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")));
        joined.entry(name).and_modify(|all| *all = format!("{all},{value}")).or_insert(value);
    }
    json!(joined)
}

fn context(parts: &Parts, route: &Match<'_>) -> Value {
    let now = jiff::Timestamp::now();
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    json!({
        "accountId": ACCOUNT,
        "apiId": API_ID,
        "domainName": header(HOST),
        "domainPrefix": API_ID,
        "http": {
            "method": parts.method.as_str(),
            "path": decode(parts.uri.path()),
            "protocol": "HTTP/1.1",
            "sourceIp": "127.0.0.1",
            "userAgent": header(USER_AGENT),
        },
        "requestId": request_id(),
        "routeKey": route.key,
        "stage": "$default",
        "time": now.strftime("%d/%b/%Y:%H:%M:%S %z").to_string(),
        "timeEpoch": now.as_millisecond(),
    })
}

fn request_id() -> String {
    let mut bytes = [0; 12];
    // It only tells requests apart for people: zeros will do where there is no randomness.
    let _ = getrandom::fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Inserts the body: as text for the types that AWS treats so, else as base64.
///
/// A text type whose bytes are not UTF-8 goes as base64 too. What AWS does there is not
/// documented; mangling the bytes would make every signature over them fail.
fn insert_body(event: &mut Map<String, Value>, headers: &HeaderMap, body: &[u8]) {
    let text = std::str::from_utf8(body).ok().filter(|_| is_text(headers));
    event.insert("isBase64Encoded".into(), json!(!body.is_empty() && text.is_none()));
    if !body.is_empty() {
        let body = text.map_or_else(|| BASE64_STANDARD.encode(body), str::to_owned);
        event.insert("body".into(), json!(body));
    }
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.starts_with("text/")
        || ["application/json", "application/xml", "application/javascript"].contains(&kind.as_str())
}

#[cfg(test)]
mod tests;
