//! Signed webhooks, as senders post them.

use anyhow::{Context, Result};
use axum::http::Method;
use serde_json::Value;
use shared::arrival::signature::{Secret, SignedRequest, Unsigned, sign_request};
use shared::base::time::Timestamp;

use crate::aws::{Endpoint, EndpointResponse};
use crate::event_route::EventRoute;

/// A request that proves itself, and the content type of its body.
pub(crate) struct SignedWebhook {
    pub(crate) content_type: &'static str,
    pub(crate) request: SignedRequest,
}

/// An event as its source sends it to this URL, signed now, under the sender's own id of the message.
pub(crate) fn signed(url: &str, secret: &Secret, route: &EventRoute, id: &str, event: &Value) -> Result<SignedWebhook> {
    let (content_type, body) = route.write(event);
    let (at, url) = (Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()), format!("{url}{}", route.path));
    let request = sign_request(&route.scheme, secret, Unsigned { id, at, url: &url, body: body.as_bytes() });
    let request = request.context("nothing was sent: the sender's secret cannot sign this event")?;
    Ok(SignedWebhook { content_type, request })
}

/// Posts an event, signed now in its source's way.
pub(crate) async fn post_signed(
    gateway: &Endpoint,
    secret: &Secret,
    route: &EventRoute,
    message_id: &str,
    event: &Value,
) -> Result<EndpointResponse> {
    let SignedWebhook { content_type, request } = signed(gateway.url(), secret, route, message_id, event)?;
    let signature = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers: Vec<(&str, &str)> = [("content-type", content_type)].into_iter().chain(signature).collect();
    let path = request.url.strip_prefix(gateway.url()).unwrap_or(&route.path).to_owned();
    gateway.send("", Method::POST, &path, &headers, request.body).await
}
