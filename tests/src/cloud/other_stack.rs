//! A stack beside the one that the other tests use: deployed by the real `sam deploy`, and served by a gateway and a poller
//! of its own while a test drives it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use axum::Router;
use axum::http::Method;
use local::aws::{self, Endpoint};
use local::deploy::{Deployment, STACK, Schedule, deploy};
use local::gateway::{self, Routes};
use local::journal::Journal;
use local::lambda::{InvocationOutcome, Lambda};
use local::listen_ports;
use local::poller::Poller;
use local::private_files;
use local::project::Project;
use local::stack::Stack;
use local::template::{functions, live};
use local::tools::{RUN, Tools, set_up};
use serde_json::{Value, json};
use shared::arrival::signature::{Secret, standard_webhooks_signature};
use tokio::task::JoinHandle;

use super::new_lead;
use super::system::{System, TRIES, eventually, until_taken, variable};
use crate::fixtures::root;

/// The secret of the other stack's source. The main one's is another.
const SECRET: &str = "whsec_b3RoZXIgc3RhY2sncyBzZWNyZXQgb3RoZXIgc3RhY2s=";

pub(super) struct OtherStack {
    pub(super) name: &'static str,
    endpoint: Endpoint,
    tools: Tools,
    state: PathBuf,
}

/// Dropping it ends its gateway and its poller.
pub(super) struct Served {
    _poller: Poller,
    gateway: JoinHandle<()>,
    api: Endpoint,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.gateway.abort();
    }
}

impl OtherStack {
    pub(super) async fn new(name: &'static str) -> Self {
        let endpoint = Endpoint::of_environment().expect("make test names the emulator");
        let tools = set_up(&Project::at(&root()), RUN).await.expect("the tools are installed");
        OtherStack { name, endpoint, tools, state: variable("LEDGERLINE_STATE").into() }
    }

    /// A file or a folder beside the staged template: the template's relative paths hold there.
    pub(super) fn staged(&self, name: &str) -> PathBuf {
        self.state.join("stage/infra").join(name)
    }

    pub(super) async fn deploy(&self, template: &Path, flows: &str) -> Result<(), String> {
        let partners_url = &variable("LEDGERLINE_CALLS_URL");
        let flows = &self.staged(flows);
        let (public_url, schedule) = (None, Schedule::Off);
        // Other than the shared stack, it exports no spans.
        let (stack, traces) = (self.name, None);
        let deployment = Deployment { stack, template, flows, partners_url, public_url, schedule, traces };
        deploy(&self.tools, &self.endpoint, &deployment, &self.state.join(format!("{}.log", self.name)))
            .await
            .map_err(|error| format!("{error:#}"))
    }

    /// What `make deploy`, `make adopt` and `make rollback` run.
    pub(super) async fn script(&self, arguments: &[&str]) -> Output {
        let mut script = self.tools.command("python3");
        aws::environment(&mut script, &self.endpoint);
        script.arg(Project::at(&root()).stack_script()).arg(arguments[0]).args(["--stack", self.name]);
        script.args(&arguments[1..]).output().await.expect("the script runs")
    }

    async fn query(&self, action: &str) -> String {
        let form = format!("Action={action}&Version=2010-05-15&StackName={}", self.name);
        self.endpoint.query("cloudformation", &form).await.unwrap_or_else(|error| error.to_string())
    }

    pub(super) async fn delete(&self) {
        self.query("DeleteStack").await;
        while self.query("DescribeStacks").await.contains("_IN_PROGRESS") {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    pub(super) async fn describe(&self) -> Stack {
        Stack::describe(&self.endpoint, self.name).await.expect("it is deployed")
    }

    /// The version that runs a function.
    pub(super) async fn live(&self, function: &str) -> String {
        let path = format!("/2015-03-31/functions/{}-{function}/aliases/live", self.name);
        let answer = self.endpoint.send("lambda", Method::GET, &path, &[], String::new()).await;
        let alias = answer.expect("the emulator answers").expect_success("the alias").expect("it is there").json();
        alias.expect("JSON")["FunctionVersion"].as_str().expect("a version").to_owned()
    }

    /// Its source signs with a secret of its own, and its partners take the same tokens as the main one's.
    pub(super) async fn put_secrets(&self) {
        self.put_secret("sources/web-forms/current", SECRET).await;
        for partner in ["crm", "analytics"] {
            let path = format!("integrations/{partner}/current");
            let asked = json!({"Name": format!("/{STACK}/{path}"), "WithDecryption": true});
            let found = self.endpoint.act("ssm", "AmazonSSM.GetParameter", asked).await.expect("the main one has it");
            self.put_secret(&path, found["Parameter"]["Value"].as_str().expect("a secret")).await;
        }
    }

    async fn put_secret(&self, path: &str, value: &str) {
        let name = format!("/{}/{path}", self.name);
        let input = json!({"Name": name, "Value": value, "Type": "SecureString", "Overwrite": true});
        self.endpoint.act("ssm", "AmazonSSM.PutParameter", input).await.expect("it is put");
    }

    /// Starts its gateway, and the poller of its queues.
    pub(super) async fn serve(&self) -> Served {
        let stack = self.describe().await;
        let lambda = Lambda::new(self.endpoint.clone(), std::env::temp_dir());
        let journal = |part| Journal::create(&self.journal(part)).expect("a journal");
        let poller = Poller::start(&self.endpoint, &lambda, None, journal("poller")).await.expect("its mappings");
        let functions = functions(&Project::at(&root()).template()).expect("a template");
        let routes = Routes::new(&functions, &stack).expect("its routes");
        let listener = listen_ports::listen(0, "gateway", "").expect("a port");
        let api = Endpoint::new(listen_ports::port_of(&listener).expect("a port"));
        let gateway = gateway::serve(listener, routes, lambda, Router::new(), journal("gateway")).expect("a gateway");
        Served { _poller: poller, gateway, api }
    }

    fn journal(&self, part: &str) -> PathBuf {
        self.state.join(format!("{}-{part}.jsonl", self.name))
    }

    /// How often each version ran, as the gateway or the poller tells it.
    pub(super) fn versions(&self, part: &str, function: Option<&str>) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(self.journal(part)).expect("a journal");
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = function.map(|function| live(&format!("{}-{function}", self.name)));
        let mut versions = BTreeMap::new();
        for line in lines.filter(|line| own.as_deref().is_none_or(|own| line["function"] == own)) {
            *versions.entry(line["version"].as_str().unwrap_or("none").to_owned()).or_default() += 1;
        }
        versions
    }

    /// Lets half of the invocations go to another version, as CodeDeploy does it for a while.
    pub(super) async fn shift(&self, function: &str, version: &str, additional: &str) {
        let path = format!("/2015-03-31/functions/{}-{function}/aliases/live", self.name);
        let shifted = json!({
            "FunctionVersion": version, "RoutingConfig": {"AdditionalVersionWeights": {additional: 0.5}},
        });
        let headers = [("content-type", "application/json")];
        let answer = self.endpoint.send("lambda", Method::PUT, &path, &headers, shifted.to_string()).await;
        answer.expect("the emulator answers").expect_success("the shift").expect("it is shifted");
    }

    /// Posts a lead through the stack's gateway until it is taken. Returns the status and the answer.
    pub(super) async fn deliver(&self, served: &Served, system: &System, lead: &Value) -> (u16, Value) {
        until_taken(async || self.deliver_once(served, system, lead).await, |(status, _)| *status).await
    }

    async fn deliver_once(&self, served: &Served, system: &System, lead: &Value) -> (u16, Value) {
        let body = lead.to_string();
        let now = system.now();
        let (timestamp, signature) = (now.to_string(), signature(&body, now));
        let headers = [
            ("content-type", "application/json"),
            ("webhook-id", "msg_test"),
            ("webhook-timestamp", &timestamp),
            ("webhook-signature", &signature),
        ];
        let answer =
            served.api.send("", Method::POST, "/v1/events/web-forms", &headers, body).await.expect("an answer");
        (answer.status.as_u16(), answer.json().unwrap_or_default())
    }

    /// What the stack's own replay function answers.
    pub(super) async fn operate(&self, operation: &Value) -> Value {
        eventually("its answer", async || self.invoke("replay", operation).await).await
    }

    /// Posts a lead to the stack's own intake until it is taken. Returns the status, and whether it was known.
    pub(super) async fn post(&self, system: &System, lead: &Value) -> (u16, bool) {
        until_taken(async || self.post_once(system, lead).await, |(status, _)| *status).await
    }

    /// A lead that nobody knew before, accepted at the first try: what was sent twice may be known by that.
    pub(super) async fn post_new(&self, system: &System, name: &str) -> Value {
        for _ in 0..TRIES {
            let lead = new_lead(name);
            let answer = self.post_once(system, &lead).await;
            if answer.0 < 500 {
                assert_eq!(answer, (202, false));
                return lead;
            }
        }
        panic!("the intake took none of {TRIES} leads at once");
    }

    async fn post_once(&self, system: &System, lead: &Value) -> (u16, bool) {
        let (body, now) = (lead.to_string(), system.now());
        self.invoke_intake(&body, now, &signature(&body, now)).await
    }

    /// The status, which is 500 where the function failed, and whether the event was known.
    pub(super) async fn invoke_intake(&self, body: &str, now: i64, signature: &str) -> (u16, bool) {
        let text = std::fs::read_to_string(root().join("events/http/request.json")).expect("a request");
        let mut request: Value = serde_json::from_str(&text).expect("JSON");
        request["routeKey"] = json!("POST /v1/events/{source}");
        request["pathParameters"] = json!({"source": "web-forms"});
        request["headers"] = json!({
            "content-type": "application/json", "webhook-id": "msg_test",
            "webhook-timestamp": now.to_string(), "webhook-signature": signature,
        });
        request["body"] = json!(body);
        request["isBase64Encoded"] = json!(false);
        let Ok(answer) = self.invoke("intake", &request).await else { return (500, false) };
        let status = answer["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status");
        (status, answer["headers"]["idempotent-replayed"] == "true")
    }

    async fn invoke(&self, function: &str, event: &Value) -> Result<Value, Value> {
        let lambda = Lambda::new(self.endpoint.clone(), std::env::temp_dir());
        match lambda.invoke(&live(&format!("{}-{function}", self.name)), event).await.expect("it is invoked") {
            InvocationOutcome::Answered(answer) => Ok(answer),
            other => Err(json!(other)),
        }
    }

    /// What SAM and the emulator make of a file of the project (`tests/template.py`).
    pub(super) async fn ask(&self, verb: &str, file: PathBuf, cases: &Value) -> Value {
        let mut script = self.tools.command("python3");
        aws::environment(&mut script, &self.endpoint);
        let output =
            script.arg(root().join("tests/template.py")).arg(verb).arg(file).arg(cases.to_string()).output().await;
        let output = output.expect("the script runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)))
    }
}

/// A zip file of nothing.
const EMPTY: [u8; 22] = *b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The package of this cloud with functions of nothing, which are deployed sooner, for stacks that run none. Returns its
/// template.
pub(super) fn hollow(name: &str) -> PathBuf {
    let state = PathBuf::from(variable("LEDGERLINE_STATE"));
    let (staged, hollow) = (state.join("stage/infra"), state.join(format!("stage-{name}/infra")));
    copy(&staged.join("flows"), &hollow.join("flows"));
    for function in functions(&Project::at(&root()).template()).expect("a template") {
        let zip = hollow.join(function.code);
        private_files::create_folder(zip.parent().expect("a folder")).expect("a folder");
        private_files::write(&zip, EMPTY).expect("a zip file");
    }
    let template = hollow.join("template.yaml");
    private_files::copy(&staged.join("template.yaml"), &template).expect("the staged template");
    template
}

/// Copies a folder, with all that is below it.
pub(super) fn copy(from: &Path, to: &Path) {
    private_files::create_folder(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            private_files::copy(&entry.path(), &target).expect("a copy");
        }
    }
}

fn signature(body: &str, now: i64) -> String {
    let signed = standard_webhooks_signature(&Secret::new(SECRET), "msg_test", now, body.as_bytes());
    signed.expect("a good secret")
}

/// What a script said to a person who is told of a failure.
pub(super) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
