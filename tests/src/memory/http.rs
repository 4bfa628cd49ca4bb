//! Requests as API Gateway hands them over.

use aws_lambda_events::apigw::ApiGatewayV2httpRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::arrival::delivery::Delivery;
use shared::base::machine::Clock;

use super::world::{World, signed_bytes};

pub(crate) const EVENT: &str = "POST /v1/events/{source}";
pub(crate) const TYPED: &str = "POST /v1/events/{source}/{type+}";
pub(crate) const BATCH: &str = "POST /v1/events/{source}/batch";
pub(crate) const HANDSHAKE: &str = "GET /v1/events/{source}";
pub(crate) const TYPED_HANDSHAKE: &str = "GET /v1/events/{source}/{type+}";
pub(crate) const HEAD: &str = "HEAD /v1/events/{source}";
pub(crate) const TYPED_HEAD: &str = "HEAD /v1/events/{source}/{type+}";
pub(crate) const RECEIPT: &str = "GET /v1/receipts/{id}";

/// A request in the making: genuine until a test spoils it.
#[derive(Clone)]
pub(crate) struct HttpRequest {
    pub(crate) route: &'static str,
    pub(crate) path: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    pub(crate) base64: bool,
    /// The path and the query, as the sender called them.
    pub(crate) called: (String, String),
}

/// What came back.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: i64,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl HttpAnswer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The last word of the problem's type.
    pub(crate) fn problem(&self) -> &str {
        self.body["type"].as_str().and_then(|urn| urn.strip_prefix("urn:ledgerline:problem:")).unwrap_or("(none)")
    }
}

impl HttpRequest {
    /// A genuine request with this body, signed now.
    pub(crate) fn of(world: &World, body: &[u8]) -> Self {
        Self::at(body, world.clock.now().secs())
    }

    /// A genuine request with this body, signed then.
    pub(crate) fn at(body: &[u8], timestamp: i64) -> Self {
        let names = ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"];
        let Delivery { headers, .. } = signed_bytes(body, timestamp);
        let header = |name: &&str| ((*name).to_owned(), headers.get(name).unwrap_or_default().to_owned());
        HttpRequest {
            route: EVENT,
            path: vec![("source", "web-forms".into())],
            headers: names.iter().map(header).collect(),
            body: String::from_utf8_lossy(body).into_owned().into(),
            base64: false,
            called: ("/v1/events/web-forms".into(), String::new()),
        }
    }

    /// With one header changed.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without one header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self
    }

    /// At another route, with one more parameter of the path.
    pub(crate) fn to(mut self, route: &'static str, name: &'static str, value: &str) -> Self {
        self.route = route;
        self.path.retain(|(key, _)| *key != name);
        self.path.push((name, value.to_owned()));
        self
    }

    /// With the body in base64, as API Gateway does for most content types.
    pub(crate) fn in_base64(mut self, body: &[u8]) -> Self {
        self.body = STANDARD.encode(body).into();
        self.base64 = true;
        self
    }

    /// Called at this path, with this query.
    pub(crate) fn called(mut self, path: &str, query: &str) -> Self {
        self.called = (path.to_owned(), query.to_owned());
        self
    }

    /// The answer as API Gateway gets it.
    pub(crate) async fn raw(self, world: &World) -> Value {
        let response = intake::handle(&world.intake, self.event()).await;
        serde_json::to_value(response).expect("an answer is JSON")
    }

    pub(crate) async fn send(self, world: &World) -> HttpAnswer {
        let response = self.raw(world).await;
        let headers = response["headers"].as_object().expect("headers").iter();
        HttpAnswer {
            status: response["statusCode"].as_i64().expect("a status"),
            headers: headers.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect(),
            body: serde_json::from_str(response["body"].as_str().expect("a body")).expect("a JSON body"),
        }
    }

    fn event(self) -> ApiGatewayV2httpRequest {
        serde_json::from_value(self.json()).expect("a payload 2.0 event")
    }

    /// As it stands on the wire between API Gateway and the function.
    pub(crate) fn json(self) -> Value {
        let text =
            std::fs::read_to_string(crate::fixtures::root().join("events/http/request.json")).expect("a fixture");
        let mut event: Value = serde_json::from_str(&text).expect("the fixture is JSON");
        event["routeKey"] = json!(self.route);
        event["requestContext"]["routeKey"] = json!(self.route);
        event["requestContext"]["http"]["method"] = json!(self.route.split(' ').next());
        event["pathParameters"] = self.path.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect();
        event["headers"] = self.headers.into_iter().map(|(k, v)| (k, Value::from(v))).collect();
        event["body"] = self.body;
        event["isBase64Encoded"] = json!(self.base64);
        event["rawPath"] = json!(self.called.0);
        event["rawQueryString"] = json!(self.called.1);
        event
    }
}
