//! The names of attributes and of their values.

pub use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, FAAS_COLDSTART, FAAS_INVOCATION_ID, FAAS_INVOKED_NAME, FAAS_INVOKED_PROVIDER, FAAS_TRIGGER,
    HTTP_REQUEST_METHOD, HTTP_RESPONSE_STATUS_CODE, HTTP_ROUTE, MESSAGING_BATCH_MESSAGE_COUNT,
    MESSAGING_DESTINATION_NAME, MESSAGING_MESSAGE_ID, MESSAGING_OPERATION_NAME, MESSAGING_OPERATION_TYPE,
    MESSAGING_SYSTEM, SERVER_ADDRESS, SERVER_PORT, URL_SCHEME,
};
pub use opentelemetry_semantic_conventions::resource::{
    CLOUD_PLATFORM, CLOUD_PROVIDER, CLOUD_REGION, FAAS_NAME, FAAS_VERSION, SERVICE_NAME, SERVICE_NAMESPACE,
    SERVICE_VERSION,
};

use super::AttributeValue;

/// The value of [`MESSAGING_SYSTEM`] for SQS.
pub const SQS: &str = "aws_sqs";

/// What every span of an operation on the queue has. The exporter adds the queue's name: it knows it, and the core does
/// not.
pub fn messaging((name, kind): (&'static str, &'static str)) -> [(&'static str, AttributeValue); 3] {
    [(MESSAGING_SYSTEM, SQS.into()), (MESSAGING_OPERATION_NAME, name.into()), (MESSAGING_OPERATION_TYPE, kind.into())]
}

/// What every span of a request to a partner has: the method, the server and its port, and the status, if one came back.
///
/// Deliberately absent: `url.full` and `url.path`, which the conventions want. Paths and queries of partners have ids and
/// addresses of people in them.
pub fn request_to(
    base_url: &str,
    method: &'static str,
    status: Option<u16>,
) -> impl Iterator<Item = (&'static str, AttributeValue)> {
    let server = server(base_url).into_iter();
    let server = server
        .flat_map(|(host, port)| [(SERVER_ADDRESS, host.to_owned().into()), (SERVER_PORT, u64::from(port).into())]);
    let status = status.map(|status| (HTTP_RESPONSE_STATUS_CODE, u64::from(status).into()));
    [(HTTP_REQUEST_METHOD, method.into())].into_iter().chain(server.collect::<Vec<_>>()).chain(status)
}

/// The host of a URL and its port. Secrets have no place in either.
fn server(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => (host, port.parse().ok()),
        _ => (authority, None),
    };
    Some((host, port.unwrap_or(if scheme == "http" { 80 } else { 443 })))
}

/// The method of a request as spans tell it: what is none of HTTP's has one name, whatever a stranger wrote.
pub fn method_name(method: &str) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| *known == method).unwrap_or("_OTHER")
}

/// The event's id.
pub const EVENT: &str = "ledgerline.event.id";
/// The event's flow.
pub const FLOW: &str = "ledgerline.flow";
/// The source that sent the event.
pub const SOURCE: &str = "ledgerline.source";
/// The number of the replay, or of the approval.
pub const REPLAY: &str = "ledgerline.replay";
/// The number of the wake.
pub const WAKE: &str = "ledgerline.wake";
/// The number of the claim: the row's epoch.
pub const CLAIM: &str = "ledgerline.claim";
/// The effect's id.
pub const EFFECT: &str = "ledgerline.effect";
/// The number of the attempt since the event was accepted or last replayed.
pub const ATTEMPT: &str = "ledgerline.attempt";
/// The partner, or the function, that is called.
pub const INTEGRATION: &str = "ledgerline.integration";
/// The enrichment that a partner was asked for.
pub const ENRICHMENT: &str = "ledgerline.enrichment";
/// The guard that was asked.
pub const GUARD: &str = "ledgerline.guard";
/// How it ended: `done`, `failed`, `unknown`, or the end of the event.
pub const END: &str = "ledgerline.end";
/// What it came to, in words of our own.
pub const SAID: &str = "ledgerline.said";
/// What the event waited for.
pub const WAITED_FOR: &str = "ledgerline.waited_for";
/// Whether it may have begun later: the ledger does not say when.
pub const BEGAN_LATER: &str = "ledgerline.began_later";
/// How many lines of the event's history are missing behind this span.
pub const MISSING_LINES: &str = "ledgerline.history.missing_lines";
/// Whether the span was rebuilt from the ledger, because the worker that it is of was lost or the trace forgotten.
pub const REBUILT: &str = "ledgerline.rebuilt";
/// What every business id begins with. The flow names it.
pub const BUSINESS_ID: &str = "ledgerline.id.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_its_host_and_its_port() {
        for (url, expected) in [
            ("https://api.example.com/v1?x=1", Some(("api.example.com", 443))),
            ("https://api.example.com:8443", Some(("api.example.com", 8443))),
            ("http://127.0.0.1/", Some(("127.0.0.1", 80))),
            ("http://[::1]:4318/", Some(("[::1]", 4318))),
            ("http://[::1]/", Some(("[::1]", 80))),
            ("api.example.com", None),
        ] {
            assert_eq!(server(url), expected, "{url}");
        }
    }

    #[test]
    fn what_a_stranger_writes_is_no_method() {
        assert_eq!(["GET", "BREW", "get"].map(method_name), ["GET", "_OTHER", "_OTHER"]);
    }
}
