//! Signed webhooks, as the demo source sends them.

use anyhow::{Context, Result};
use axum::http::Method;
use shared::arrival::signature::{Secret, standard_webhooks_signature};

use crate::aws::{Endpoint, EndpointResponse};

/// The path that the demo source posts to.
pub(crate) const PATH: &str = "/v1/events/web-forms";

/// Posts a body, signed now, under the sender's own id of the message.
pub(crate) async fn post_signed(
    gateway: &Endpoint,
    secret: &Secret,
    message_id: &str,
    body: String,
) -> Result<EndpointResponse> {
    let now = jiff::Timestamp::now().as_second();
    let signature = standard_webhooks_signature(secret, message_id, now, body.as_bytes());
    let signature = signature.context("nothing was sent: the sender's secret cannot sign")?;
    let now = now.to_string();
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", message_id),
        ("webhook-timestamp", &now),
        ("webhook-signature", &signature),
    ];
    gateway.send("", Method::POST, PATH, &headers, body).await
}
