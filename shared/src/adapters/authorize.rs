//! Our credentials on the wire: the last thing that is done to a request.
//!
//! Errors name no secret, and headers that hold one are marked as sensitive: neither hyper nor a log shows them.

use std::fmt::Display;

use http::{HeaderName, HeaderValue};
use percent_encoding::utf8_percent_encode;
use serde_json::{Map, Value};

use crate::arrival::signature::{Secret, standard_webhooks_signature};
use crate::effects::body::RequestBody;
use crate::effects::credentials::Credentials;
use crate::flows::template::NOT_UNRESERVED;

const FORM: &str = "application/x-www-form-urlencoded";

/// The URL, with the secret in its query if it belongs there.
pub(super) fn authorize_url(url: String, credentials: &Credentials) -> String {
    let Credentials::Query { name, value } = credentials else { return url };
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{}={}", encoded(name), encoded(value.expose()))
}

/// The body, with the secret among its fields if it belongs there.
pub(super) fn authorize_body(
    body: Option<RequestBody>,
    credentials: &Credentials,
) -> Result<Option<RequestBody>, &'static str> {
    let Credentials::Body { field, value } = credentials else { return Ok(body) };
    let mut body = body.unwrap_or_else(|| RequestBody::of_json(&Value::Object(Map::new())));
    if body.content_type.starts_with(FORM) {
        let joint = if body.bytes.is_empty() { "" } else { "&" };
        body.bytes.extend_from_slice(format!("{joint}{}={}", encoded(field), encoded(value.expose())).as_bytes());
        return Ok(Some(body));
    }
    let Some(Value::Object(mut fields)) = body.json() else {
        return Err("the body has no fields, and our secret belongs among them");
    };
    fields.insert(field.clone(), value.expose().into());
    Ok(Some(RequestBody { bytes: Value::Object(fields).to_string().into_bytes(), ..body }))
}

fn encoded(text: &str) -> impl Display {
    utf8_percent_encode(text, NOT_UNRESERVED)
}

/// The headers that authenticate us, for the bytes that are sent.
pub(super) fn authorize_headers(
    credentials: &Credentials,
    body: &[u8],
) -> Result<Vec<(HeaderName, HeaderValue)>, &'static str> {
    match credentials {
        Credentials::None | Credentials::Query { .. } | Credentials::Body { .. } => Ok(Vec::new()),
        Credentials::Header { name, value, .. } => Ok(vec![sensitive(name, value)?]),
        Credentials::Signed { key, id, at } => {
            let signature = standard_webhooks_signature(key, id, at.secs(), body)
                .ok_or("the secret is none of Standard Webhooks: it must be `whsec_` and base64")?;
            let at = at.secs().to_string();
            let fields = [("webhook-id", id.as_str()), ("webhook-timestamp", &at)];
            let fields = fields.into_iter().map(|(name, value)| plain(name, value));
            fields.chain([sensitive("webhook-signature", &Secret::new(signature))]).collect()
        }
    }
}

fn sensitive(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, mut value) = plain(name, value.expose())?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn plain(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "the header of our credentials has no good name")?;
    let value = HeaderValue::try_from(value).map_err(|_| "our credentials have a character that no header takes")?;
    Ok((name, value))
}
