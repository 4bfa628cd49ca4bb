//! Deliveries as their sources sign them, through the gateway, and the answers to them.

use std::collections::BTreeMap;

use aws_lambda_events::apigw::ApiGatewayV2httpRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use intake::Intake;
use serde_json::{Value, json};
use shared::arrival::signature::{Secret, Unsigned, sign_request};
use shared::base::time::Timestamp;
use shared::flows::{BodyFormat, Flows};

use crate::senders::senders_secret;

/// What a sender posts, before it is signed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Posted {
    /// The source.
    pub source: String,
    /// The type that the path names, where the body does not.
    pub event_type: Option<String>,
    /// The id that the sender signs with a delivery, where its scheme has one.
    pub delivery_id: String,
    /// Header fields beside those of the signature.
    pub headers: Vec<(String, String)>,
    /// The body as the event's JSON: the source says how it is packed.
    pub body: Vec<u8>,
    /// Whether it is a batch.
    pub batch: bool,
}

/// A request at the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpDelivery {
    /// The method.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// The header fields.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The domain by which the gateway of a stage is called.
const DOMAIN: &str = "hooks.example.com";

/// How a sender signs, and whom it calls.
#[derive(Clone, Copy)]
pub struct SenderSigning<'s> {
    /// When it signs.
    pub at: Timestamp,
    /// Its secret: of a scheme with public keys, the private one.
    pub secret: &'s Secret,
    /// The part of the URL before our paths.
    pub base: &'s str,
}

const FORM: &str = "application/x-www-form-urlencoded";

/// The form with the fields of a JSON object.
fn fields(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = body.as_object()?.iter().map(|(name, value)| (name.as_str(), text(value)));
    Some(form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish())
}

/// The answer to a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryAnswer {
    /// The status.
    pub status: u16,
    /// The header fields, under lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Value,
}

impl DeliveryAnswer {
    /// What the gateway says when no function answers it.
    pub(crate) fn unavailable() -> Self {
        DeliveryAnswer { status: 503, headers: BTreeMap::new(), body: json!({"message": "Service Unavailable"}) }
    }

    /// The last word of the problem's type, where it is one.
    pub fn problem(&self) -> Option<&str> {
        self.body["type"].as_str()?.strip_prefix("urn:ledgerline:problem:")
    }

    /// The ids of the events that were accepted.
    pub fn accepted(&self) -> Vec<&str> {
        let listed = self.body["results"].as_array().into_iter().flatten();
        fn of(one: &Value) -> impl Iterator<Item = &Value> {
            one["flows"].as_object().into_iter().flat_map(|flows| flows.values())
        }
        let each = listed.chain([&self.body]).flat_map(|one| of(one).chain([one]));
        each.filter_map(|one| one["id"].as_str()).collect()
    }
}

impl HttpDelivery {
    /// What is posted, signed at this moment as its source signs, with the secret of the stage. Nothing, if there is no such
    /// source, or the source's scheme has no place for its proof in such a body.
    pub fn signed(flows: &Flows, posted: &Posted, signed_at: Timestamp) -> Option<Self> {
        let secret = senders_secret(&flows.source(&posted.source)?.scheme);
        let signing = SenderSigning { at: signed_at, secret: &secret, base: &format!("https://{DOMAIN}") };
        Self::signed_with(flows, posted, signing)
    }

    /// The same, signed by another sender.
    pub fn signed_with(flows: &Flows, posted: &Posted, signing: SenderSigning<'_>) -> Option<Self> {
        let source = flows.source(&posted.source)?;
        let (content_type, body) = match (&source.form, source.format) {
            (Some(field), _) => {
                let value: String = form_urlencoded::byte_serialize(&posted.body).collect();
                (FORM, format!("{field}={value}").into_bytes())
            }
            (None, BodyFormat::Form) => (FORM, fields(&posted.body)?.into_bytes()),
            (None, BodyFormat::Json) => ("application/json", posted.body.clone()),
        };
        let mut headers: Vec<(String, String)> = vec![("content-type".into(), content_type.into())];
        let place = match (&posted.event_type, posted.batch) {
            (_, true) => "/batch".to_owned(),
            (Some(event_type), false) => format!("/{event_type}"),
            (None, false) => String::new(),
        };
        let path = format!("/v1/events/{}{place}", posted.source);
        let url = format!("{}{path}", signing.base);
        let unsigned = Unsigned { id: &posted.delivery_id, at: signing.at, url: &url, body: &body };
        let signed = sign_request(&source.scheme, signing.secret, unsigned)?;
        let query = signed.url.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
        headers.extend(signed.headers);
        for (name, value) in &posted.headers {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            headers.push((name.clone(), value.clone()));
        }
        Some(HttpDelivery { method: "POST".into(), path, query, headers, body: signed.body })
    }

    /// The request as the gateway hands it to the function.
    fn event(&self) -> ApiGatewayV2httpRequest {
        let HttpDelivery { method, path, query, headers, body } = self;
        let mut segments = path.trim_start_matches("/v1/events/").splitn(2, '/');
        let (source, event_type) = (segments.next().unwrap_or_default(), segments.next());
        let (route, parameters) = match event_type {
            None => ("{source}", json!({"source": source})),
            Some("batch") => ("{source}/batch", json!({"source": source})),
            Some(event_type) => ("{source}/{type+}", json!({"source": source, "type": event_type})),
        };
        let headers: BTreeMap<String, &str> =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        let request = json!({
            "version": "2.0",
            "routeKey": format!("{method} /v1/events/{route}"),
            "rawPath": path,
            "rawQueryString": query,
            "headers": headers,
            "pathParameters": parameters,
            "requestContext": {
                "domainName": DOMAIN,
                "routeKey": format!("{method} /v1/events/{route}"),
                "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
                "stage": "$default",
                "timeEpoch": 0
            },
            "body": STANDARD.encode(body),
            "isBase64Encoded": true
        });
        serde_json::from_value(request).expect("a request of the gateway")
    }
}

/// Has the intake answer a request.
pub(crate) async fn answer(intake: &Intake, delivery: HttpDelivery) -> DeliveryAnswer {
    let response = intake::handle(intake, delivery.event()).await;
    let text = |value: &aws_lambda_events::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let headers = response.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = match response.body {
        Some(aws_lambda_events::encodings::Body::Text(text)) => {
            serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
        }
        _ => Value::Null,
    };
    DeliveryAnswer { status: u16::try_from(response.status_code).unwrap_or_default(), headers, body }
}
