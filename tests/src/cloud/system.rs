//! The local cloud as a sender, a partner and an operator see it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use local::aws::{Endpoint, EndpointResponse as Raw};
use local::lambda::{InvocationOutcome, Lambda};
use local::processes::{self, Signal};
use local::template::live;
use serde_json::{Value, json};
use shared::arrival::signature::{Secret, sign, standard_webhooks_signature};
use tokio::sync::{Mutex, MutexGuard};

use super::new_lead;

/// The tests share one partner stub, so they take turns, also where one process runs them all.
static TURN: Mutex<()> = Mutex::const_new(());

/// Nothing here takes longer than a redelivery after a crash.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct System {
    gateway: Endpoint,
    partners: Endpoint,
    lambda: Lambda,
    replay: String,
    secret: Secret,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) struct SystemAnswer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    raw: Raw,
}

impl SystemAnswer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.raw.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn id(&self) -> String {
        self.body["id"].as_str().unwrap_or_else(|| panic!("not accepted: {}", self.body)).to_owned()
    }
}

type Headers = Vec<(&'static str, String)>;

impl System {
    /// The system, with a partner that is well and remembers nothing.
    pub(crate) async fn take() -> Self {
        let turn = TURN.lock().await;
        let endpoint = Endpoint::of_environment().expect("make test names the emulator");
        let logs = std::env::temp_dir();
        let system = System {
            gateway: Endpoint::at(variable("LEDGERLINE_URL")),
            partners: Endpoint::at(variable("LEDGERLINE_PARTNERS_URL")),
            lambda: Lambda::new(endpoint, logs),
            replay: live(&variable("LEDGERLINE_REPLAY_FUNCTION")),
            secret: Secret::new(variable("LEDGERLINE_SECRET")),
            _turn: turn,
        };
        system.forget_partners().await;
        system
    }

    /// Lets the partners be well, and forget everything.
    pub(crate) async fn forget_partners(&self) {
        self.control("DELETE", "/_control", String::new()).await;
    }

    pub(crate) fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        i64::try_from(since.as_secs()).expect("before the year 292,000,000,000")
    }

    /// What the demo source's headers are for this body at that time.
    pub(crate) fn signature(&self, body: &str, timestamp: i64) -> Headers {
        let id = "msg_test";
        let signature =
            standard_webhooks_signature(&self.secret, id, timestamp, body.as_bytes()).expect("a good secret");
        vec![("webhook-id", id.into()), ("webhook-timestamp", timestamp.to_string()), ("webhook-signature", signature)]
    }

    pub(crate) async fn post(&self, lead: &Value) -> SystemAnswer {
        let body = lead.to_string();
        self.send(&body, "application/json", &self.signature(&body, self.now())).await
    }

    pub(crate) async fn send(&self, body: &str, content_type: &str, headers: &Headers) -> SystemAnswer {
        let mut all = headers.clone();
        all.push(("content-type", content_type.to_owned()));
        self.post_to("/v1/events/web-forms", body, &all).await
    }

    /// JSON to any path.
    pub(crate) async fn send_to(&self, path: &str, body: &str, headers: &Headers) -> SystemAnswer {
        let mut all = headers.clone();
        all.push(("content-type", "application/json".to_owned()));
        self.post_to(path, body, &all).await
    }

    async fn post_to(&self, path: &str, body: &str, headers: &Headers) -> SystemAnswer {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        request(&self.gateway, "POST", path, &headers, body.to_owned()).await
    }

    /// Meta's question whether the address is ours, with this token: the signing secret's text, or another.
    pub(crate) async fn handshake(&self, token: Option<&str>) -> SystemAnswer {
        let own = variable("LEDGERLINE_SECRET");
        let token: String = form_urlencoded::byte_serialize(token.unwrap_or(&own).as_bytes()).collect();
        let path = format!("/v1/events/meta?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token={token}");
        request(&self.gateway, "GET", &path, &[], String::new()).await
    }

    /// What the intake says of an event to whoever has this token.
    pub(crate) async fn receipt(&self, id: &str, token: &str) -> SystemAnswer {
        let bearer = format!("Bearer {token}");
        let path = format!("/v1/receipts/{id}");
        request(&self.gateway, "GET", &path, &[("authorization", &bearer)], String::new()).await
    }

    pub(crate) async fn tell_partner(&self, behaviour: Value) {
        self.tell("crm", behaviour).await;
    }

    /// Tells the stub how to behave as this integration.
    pub(crate) async fn tell(&self, integration: &str, behaviour: Value) {
        let answer = self.control("PUT", &format!("/_control/{integration}"), behaviour.to_string()).await;
        assert!(answer.status < 300, "{}", answer.body);
    }

    async fn control(&self, method: &str, path: &str, body: String) -> SystemAnswer {
        let header = format!("Bearer {}", variable("LEDGERLINE_CONTROL_TOKEN"));
        request(&self.partners, method, path, &[("authorization", &header)], body).await
    }

    /// Every call that the partner got, in order.
    pub(crate) async fn calls(&self) -> Vec<Value> {
        self.calls_of("crm").await
    }

    /// Every call that this partner got, in order.
    pub(crate) async fn calls_of(&self, integration: &str) -> Vec<Value> {
        let path = format!("/_control/log?integration={integration}");
        let log = self.control("GET", &path, String::new()).await;
        log.body.as_array().expect("a list").clone()
    }

    /// A source sends this, signed in its own way.
    pub(crate) async fn send_from(
        &self,
        source: &str,
        event_type: Option<&str>,
        body: &str,
        content_type: &str,
        more: &[(&str, String)],
    ) -> SystemAnswer {
        let flows = crate::fixtures::flows();
        let scheme = &flows.source(source).expect("a source").scheme;
        let signed = sign(scheme, &self.secret, "msg_test", self.now(), body.as_bytes()).expect("a good secret");
        let signed = signed.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let more = more.iter().map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = signed.chain(more).chain([("content-type", content_type)]).collect();
        let path = event_type.map_or_else(String::new, |event_type| format!("/{event_type}"));
        request(&self.gateway, "POST", &format!("/v1/events/{source}{path}"), &headers, body.to_owned()).await
    }

    pub(crate) async fn operate(&self, operation: Value) -> Value {
        self.ask(&operation).await.unwrap_or_else(|failed| panic!("{operation}: {failed}"))
    }

    /// The same, where the function may have been killed a moment ago: the emulator may not know yet.
    pub(crate) async fn ask(&self, operation: &Value) -> Result<Value, Value> {
        match self.lambda.invoke(&self.replay, operation).await.expect("the emulator answers") {
            InvocationOutcome::Answered(answer) => Ok(answer),
            other => Err(json!(other)),
        }
    }

    /// Invokes any function, and gives its answer.
    pub(crate) async fn invoke(&self, function: String, event: &Value) -> Value {
        match self.lambda.invoke(&function, event).await.expect("the emulator answers") {
            InvocationOutcome::Answered(answer) => answer,
            other => panic!("{function}: {}", json!(other)),
        }
    }

    pub(crate) async fn show(&self, id: &str) -> Value {
        self.operate(json!({"op": "show", "id": id})).await
    }

    /// The event's page, once it is in this state.
    pub(crate) async fn until(&self, id: &str, state: &str) -> Value {
        self.until_within(id, state, PATIENCE).await
    }

    /// The same, where something takes longer by its own declaration.
    pub(crate) async fn until_within(&self, id: &str, state: &str, patience: Duration) -> Value {
        eventually_within(patience, &format!("{id} is {state}"), async || {
            let page = self.show(id).await;
            if page["state"] == state { Ok(page) } else { Err(page) }
        })
        .await
    }

    /// The event's line in the list of the parked, once it is there.
    pub(crate) async fn until_parked(&self, id: &str) -> Value {
        eventually(&format!("{id} is parked"), async || {
            let list = self.operate(json!({"op": "list", "limit": 100})).await;
            let line = list["parked"].as_array().and_then(|lines| lines.iter().find(|line| line["id"] == id));
            line.cloned().ok_or(list)
        })
        .await
    }

    /// Leads that are parked because the partner answered with this status. It is well again afterwards.
    pub(crate) async fn dead_leads(&self, status: u16, count: usize) -> Vec<String> {
        self.tell_partner(json!({"mode": "status", "status": status})).await;
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.post(&new_lead("dead")).await.id());
        }
        for id in &ids {
            self.until_parked(id).await;
        }
        self.tell_partner(json!({"mode": "ok"})).await;
        ids
    }

    pub(crate) async fn until_calls(&self, count: usize) {
        eventually(&format!("the partner got {count} calls"), async || {
            let calls = self.calls().await;
            if calls.len() >= count { Ok(()) } else { Err(json!(calls)) }
        })
        .await
    }

    /// Kills every instance of a function of this cloud, as nothing in AWS would warn it. Says how many.
    pub(crate) async fn kill(&self, function: &str) -> usize {
        let name = format!("ledgerline-{function}");
        let pids = processes::of_function(&name, &variable("AWS_ENDPOINT_URL")).expect("Linux");
        for pid in &pids {
            // One that ended by itself meanwhile is as dead.
            let _ = processes::send(Signal::Kill, *pid).await;
        }
        pids.len()
    }
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this by `make test`"))
}

async fn request(
    endpoint: &Endpoint,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> SystemAnswer {
    let method = method.parse().expect("a method");
    let raw = endpoint.send("", method, path, headers, body).await.expect("the local cloud answers");
    let body = raw.json().unwrap_or_default();
    SystemAnswer { status: raw.status.as_u16(), body, raw }
}

/// Asks until there is an answer, or says what the last one was.
pub(super) async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Result<T, Value>) -> T {
    eventually_within(PATIENCE, what, ask).await
}

async fn eventually_within<T>(patience: Duration, what: &str, ask: impl AsyncFn() -> Result<T, Value>) -> T {
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(seen) if tokio::time::Instant::now() > deadline => panic!("waited in vain until {what}: {seen:#}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
