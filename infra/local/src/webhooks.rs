//! Signed webhooks, as senders post them.

use anyhow::{Context, Result};
use axum::http::Method;
use shared::arrival::signature::{Secret, sign};

use crate::aws::{Endpoint, EndpointResponse};
use crate::event_route::EventRoute;

/// Posts a body, signed now in its source's way, under the sender's own id of the message.
pub(crate) async fn post_signed(
    gateway: &Endpoint,
    secret: &Secret,
    route: &EventRoute,
    message_id: &str,
    body: String,
) -> Result<EndpointResponse> {
    let now = jiff::Timestamp::now().as_second();
    let signature = sign(&route.scheme, secret, message_id, now, body.as_bytes());
    let signature = signature.context("nothing was sent: the sender's secret cannot sign")?;
    let signature = signature.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers: Vec<(&str, &str)> = [("content-type", "application/json")].into_iter().chain(signature).collect();
    gateway.send("", Method::POST, &route.path, &headers, body).await
}
