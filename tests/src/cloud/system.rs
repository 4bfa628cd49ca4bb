//! The local cloud as a sender, a partner and an operator see it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use local::aws::{Endpoint, EndpointResponse as Raw};
use local::deploy;
use local::lambda::{InvocationOutcome, Lambda};
use local::processes::{self, Signal};
use local::queues;
use local::template::live;
use serde_json::{Value, json};
use shared::arrival::signature::{Secret, sign, standard_webhooks_signature};
use tokio::sync::{Mutex, MutexGuard};

use super::new_lead;
use crate::fixtures::by_ada;

/// The tests share one partner stub, so they take turns, also where one process runs them all.
static TURN: Mutex<()> = Mutex::const_new(());

/// Several times the longest wait that is built in: a redelivery after a crash.
const PATIENCE: Duration = Duration::from_secs(180);

/// Longer than any container believes what it read of the switches, and less than the fifteen seconds that are promised.
pub(super) const SWITCHED: Duration = Duration::from_secs(6);

/// How soon a message comes back where a test waits for that: later than a worker's lease has ended.
const RETURNS_AFTER: Duration = Duration::from_secs(deploy::TIMES[1] + 2);

/// Longer than a poll waits for messages.
const POLL: Duration = Duration::from_secs(6);

/// How often a sender sends what was not taken, and how often a test starts that a slow machine can spoil.
pub(super) const TRIES: usize = 5;

pub(crate) struct System {
    emulator: Endpoint,
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
    /// The system as if no test had been there before: no switch is on, nothing is on its way, and the partners are well
    /// and remember nothing.
    pub(crate) async fn take() -> Self {
        let turn = TURN.lock().await;
        let endpoint = Endpoint::of_environment().expect("make test names the emulator");
        let logs = std::env::temp_dir();
        let system = System {
            emulator: endpoint.clone(),
            gateway: Endpoint::at(variable("LEDGERLINE_URL")),
            partners: Endpoint::at(variable("LEDGERLINE_PARTNERS_URL")),
            lambda: Lambda::new(endpoint, logs),
            replay: live(&variable("LEDGERLINE_REPLAY_FUNCTION")),
            secret: Secret::new(variable("LEDGERLINE_SECRET")),
            _turn: turn,
        };
        // Whatever is still on its way is to end well, and is forgotten then.
        system.forget_partners().await;
        system.switch_off().await;
        system.drained().await;
        system.let_messages_return_after(Duration::from_secs(deploy::TIMES[2])).await;
        system.forget_partners().await;
        system
    }

    /// Turns off what a test that failed has left on.
    async fn switch_off(&self) {
        let status = eventually("a status", async || self.ask(&json!({"op": "status"})).await).await;
        let mut off = Vec::new();
        for (subject, of) in [("flow", "flows"), ("integration", "integrations")] {
            for (name, on) in status["board"][of].as_object().into_iter().flatten() {
                let turns = [
                    ("paused", json!({"op": "resume", subject: name})),
                    ("safe_mode", json!({"op": "safe_mode", subject: name, "for": "0s"})),
                    ("retry", json!({"op": "policy", subject: name, "retry": {}})),
                ];
                off.extend(turns.into_iter().filter(|(switch, _)| !on[switch].is_null()).map(|(_, turn)| turn));
            }
        }
        if off.is_empty() {
            return;
        }
        for turn in off {
            self.operate(by_ada(turn)).await;
        }
        tokio::time::sleep(SWITCHED).await;
    }

    /// Waits until nothing is on its way. A letter goes from one queue to the other and back, so the first is asked twice.
    async fn drained(&self) {
        let [events, letters] = queue_urls();
        eventually("the queues are empty", async || {
            let mut depths = Vec::new();
            for queue in [&events, &letters, &events] {
                depths.push(queues::depth(&self.emulator, queue).await.map_err(|error| json!(format!("{error:#}")))?);
            }
            if depths.iter().all(|depth| *depth == 0) { Ok(()) } else { Err(json!(depths)) }
        })
        .await;
    }

    /// Lets what a killed function held come back sooner than usual. A poll that is under way goes by what was so when it
    /// began.
    pub(crate) async fn let_messages_return_soon(&self) {
        self.let_messages_return_after(RETURNS_AFTER).await;
        tokio::time::sleep(POLL).await;
    }

    async fn let_messages_return_after(&self, time: Duration) {
        for queue in queue_urls() {
            queues::set_visibility(&self.emulator, &queue, time).await.expect("the emulator answers");
        }
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

    /// Posts an event as a sender does: what the intake cannot take now is sent again, signed anew.
    pub(crate) async fn post(&self, lead: &Value) -> SystemAnswer {
        until_taken(async || self.post_once(lead).await, |answer| answer.status).await
    }

    /// Posts an event, and leaves it at that.
    pub(crate) async fn post_once(&self, lead: &Value) -> SystemAnswer {
        let body = lead.to_string();
        self.send(&body, "application/json", &self.signature(&body, self.now())).await
    }

    /// A lead that nobody knew before: what was sent twice may be known by its first try. With the answer to it.
    pub(crate) async fn post_new(&self, name: &str) -> (Value, SystemAnswer) {
        for _ in 0..TRIES {
            let lead = new_lead(name);
            let answer = self.post_once(&lead).await;
            if answer.status < 500 {
                return (lead, answer);
            }
        }
        panic!("the intake took none of {TRIES} leads at once");
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

    /// Every call that the partner got for this event, in order.
    pub(crate) async fn calls_for(&self, id: &str) -> Vec<Value> {
        let mut calls = self.calls().await;
        calls.retain(|call| call["idempotency_key"] == format!("{id}/crm"));
        calls
    }

    /// Every call that this partner got, in order.
    pub(crate) async fn calls_of(&self, integration: &str) -> Vec<Value> {
        let path = format!("/_control/log?integration={integration}");
        let log = self.control("GET", &path, String::new()).await;
        log.body.as_array().expect("a list").clone()
    }

    /// A source sends this, signed in its own way, until it is taken.
    pub(crate) async fn send_from(
        &self,
        source: &str,
        event_type: Option<&str>,
        body: &str,
        content_type: &str,
        more: &[(&str, String)],
    ) -> SystemAnswer {
        let send = async || self.send_once(source, event_type, body, content_type, more).await;
        until_taken(send, |answer| answer.status).await
    }

    async fn send_once(
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
        self.ask_function(self.replay.clone(), operation).await
    }

    /// What any function answers, or how it failed.
    pub(crate) async fn ask_function(&self, function: String, event: &Value) -> Result<Value, Value> {
        match self.lambda.invoke(&function, event).await.expect("the emulator answers") {
            InvocationOutcome::Answered(answer) => Ok(answer),
            other => Err(json!(other)),
        }
    }

    pub(crate) async fn show(&self, id: &str) -> Value {
        let show = json!({"op": "show", "id": id});
        eventually("the event's page", async || self.ask(&show).await).await
    }

    /// The event's page, once it is in this state.
    pub(crate) async fn until(&self, id: &str, state: &str) -> Value {
        let show = json!({"op": "show", "id": id});
        eventually(&format!("{id} is {state}"), async || {
            let page = self.ask(&show).await?;
            if page["state"] == state { Ok(page) } else { Err(page) }
        })
        .await
    }

    /// The event's line in the list of the parked, once it is there.
    pub(crate) async fn until_parked(&self, id: &str) -> Value {
        eventually(&format!("{id} is parked"), async || {
            let list = self.ask(&json!({"op": "list", "limit": 100})).await?;
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

    pub(crate) async fn until_call_for(&self, id: &str) {
        eventually(&format!("the partner got a call for {id}"), async || {
            let calls = self.calls_for(id).await;
            if calls.is_empty() { Err(json!(id)) } else { Ok(()) }
        })
        .await
    }

    pub(crate) async fn until_calls(&self, count: usize) {
        eventually(&format!("the partner got {count} calls"), async || {
            let calls = self.calls().await;
            if calls.len() >= count { Ok(()) } else { Err(json!(calls)) }
        })
        .await
    }

    /// Kills every instance of a function of this cloud, as nothing in AWS would warn it. Says how many are gone.
    pub(crate) async fn kill(&self, function: &str) -> usize {
        let name = format!("ledgerline-{function}");
        let running = || processes::of_function(&name, &variable("AWS_ENDPOINT_URL")).expect("Linux");
        let pids = running();
        for pid in &pids {
            // One that ended by itself meanwhile is as dead.
            let _ = processes::send(Signal::Kill, *pid).await;
        }
        eventually("the killed are gone", async || {
            let left: Vec<u32> = running().into_iter().filter(|pid| pids.contains(pid)).collect();
            if left.is_empty() { Ok(()) } else { Err(json!(left)) }
        })
        .await;
        pids.len()
    }
}

/// The queue of the events, and that of the dead letters.
fn queue_urls() -> [String; 2] {
    ["LEDGERLINE_EVENTS_QUEUE_URL", "LEDGERLINE_DEAD_LETTERS_QUEUE_URL"].map(variable)
}

/// Sends until the intake does not fail, as often as a sender tries it.
pub(super) async fn until_taken<T>(send: impl AsyncFn() -> T, status: impl Fn(&T) -> u16) -> T {
    let mut answer = send().await;
    for _ in 1..TRIES {
        if status(&answer) < 500 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        answer = send().await;
    }
    answer
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
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(seen) if tokio::time::Instant::now() > deadline => panic!("waited in vain until {what}: {seen:#}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
