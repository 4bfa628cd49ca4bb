//! Stacks beside one another, and one after another: the real `sam deploy`, more than once.

use std::path::{Path, PathBuf};
use std::process::Output;

use local::aws::{self, Endpoint};
use local::deploy::{Deployment, STACK, Schedule, deploy};
use local::lambda::{InvocationOutcome, Lambda};
use local::project::Project;
use local::tools::{RUN, Tools, set_up};
use serde_json::{Value, json};
use shared::arrival::signature::{Secret, standard_webhooks_signature};

use super::new_lead;
use super::system::System;
use crate::fixtures::root;

/// The secret of the other stack's source. The main one's is another.
const SECRET: &str = "whsec_b3RoZXIgc3RhY2sncyBzZWNyZXQgb3RoZXIgc3RhY2s=";

/// What outlives a stack.
const KEPT: [&str; 4] = ["LedgerTable", "LimitsTable", "ContactsTable", "DeadLettersQueue"];

/// A stack beside the one that the other tests use.
struct OtherStack {
    name: &'static str,
    endpoint: Endpoint,
    tools: Tools,
    state: PathBuf,
}

impl OtherStack {
    async fn new(name: &'static str) -> Self {
        let endpoint = Endpoint::of_environment().expect("make test names the emulator");
        let tools = set_up(&Project::at(&root()), RUN).await.expect("the tools are installed");
        let state = std::env::var("LEDGERLINE_STATE").expect("make test names the state").into();
        OtherStack { name, endpoint, tools, state }
    }

    fn template(&self) -> PathBuf {
        self.state.join("stage/infra/template.yaml")
    }

    async fn deploy(&self, template: &Path) -> Result<(), String> {
        let flows = &self.state.join("stage/infra/flows");
        // Nobody is there: what a partner would be asked for stays with the stack.
        let partners_url = "http://127.0.0.1:9";
        let deployment = Deployment { stack: self.name, template, flows, partners_url, schedule: Schedule::Off };
        deploy(&self.tools, &self.endpoint, &deployment, &self.state.join(format!("{}.log", self.name)))
            .await
            .map_err(|error| format!("{error:#}"))
    }

    async fn stack_script(&self, arguments: &[&str]) -> Output {
        let mut script = self.tools.command("python3");
        aws::environment(&mut script, &self.endpoint);
        script.env("AWS_DEFAULT_REGION", aws::REGION);
        script.arg(Project::at(&root()).stack_script()).arg(arguments[0]).args(["--stack", self.name]);
        script.args(&arguments[1..]).output().await.expect("the script runs")
    }

    async fn query(&self, action: &str) -> String {
        let form = format!("Action={action}&Version=2010-05-15&StackName={}", self.name);
        self.endpoint.query("cloudformation", &form).await.unwrap_or_else(|error| error.to_string())
    }

    async fn delete(&self) {
        self.query("DeleteStack").await;
        while self.query("DescribeStacks").await.contains("_IN_PROGRESS") {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    async fn put_secret(&self) {
        let name = format!("/{}/sources/web-forms/current", self.name);
        let input = json!({"Name": name, "Value": SECRET, "Type": "SecureString", "Overwrite": true});
        self.endpoint.act("ssm", "AmazonSSM.PutParameter", input).await.expect("it is put");
    }

    /// Posts a lead to the stack's own intake. Returns the status, and whether it was known.
    async fn post(&self, system: &System, lead: &Value) -> (u64, bool) {
        let body = lead.to_string();
        let now = system.now();
        let signed = standard_webhooks_signature(&Secret::new(SECRET), "msg_test", now, body.as_bytes());
        self.invoke_intake(&body, now, &signed.expect("a good secret")).await
    }

    async fn invoke_intake(&self, body: &str, now: i64, signature: &str) -> (u64, bool) {
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
        let lambda = Lambda::new(self.endpoint.clone(), std::env::temp_dir());
        let outcome = lambda.invoke(&format!("{}-intake", self.name), &request).await.expect("it is invoked");
        let InvocationOutcome::Answered(answer) = outcome else { panic!("not answered: {outcome:?}") };
        let known = answer["headers"]["idempotent-replayed"] == "true";
        (answer["statusCode"].as_u64().expect("a status"), known)
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_stack_sees_nothing_of_another_and_one_that_is_made_anew_adopts_its_ledger() {
    let system = System::take().await;
    let other = OtherStack::new("staging").await;
    other.deploy(&other.template()).await.expect("a second stack in one account");
    other.put_secret().await;
    let lead = new_lead("stacks");

    let body = lead.to_string();
    let now = system.now();
    let signed_for_main = system.signature(&body, now).remove(2).1;
    assert_eq!(other.invoke_intake(&body, now, &signed_for_main).await.0, 401, "it has no secret of {STACK}");
    assert_eq!(other.post(&system, &lead).await, (202, false));
    let main = system.post(&lead).await;
    assert_eq!((main.status, main.header("idempotent-replayed")), (202, None), "the other's event is not known here");

    other.delete().await;
    let declined = other.stack_script(&["check"]).await;
    assert!(!declined.status.success() && told(&declined).contains("make adopt STACK=staging"), "{}", told(&declined));
    assert!(KEPT.iter().all(|kept| told(&declined).contains(kept)), "{}", told(&declined));
    assert!(other.stack_script(&["check", "--fresh"]).await.status.success(), "who wants to begin anew says so");

    let adopted = other.stack_script(&["adopt", "--yes"]).await;
    assert!(adopted.status.success(), "{}", told(&adopted));
    assert!(other.stack_script(&["check"]).await.status.success(), "the stack is there");
    other.deploy(&other.template()).await.expect("the rest of the stack");
    assert_eq!(other.post(&system, &lead).await, (202, true), "what was done is not done again");
    let again = other.stack_script(&["adopt", "--yes"]).await;
    assert!(!again.status.success() && told(&again).contains("already"), "{}", told(&again));
    other.delete().await;
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_first_deploy_that_fails_can_be_repeated() {
    let _system = System::take().await;
    let other = OtherStack::new("broken").await;
    let broken = other.template().with_file_name("broken.yaml");
    let text = std::fs::read_to_string(other.template()).expect("the staged template");
    // A FIFO queue whose name says that it is none, after everything else.
    let queue = "  BrokenQueue:\n    Type: AWS::SQS::Queue\n    DependsOn: [LedgerTable, LimitsTable, ContactsTable, \
                 DeadLettersQueue]\n    Properties: {FifoQueue: true, QueueName: broken}\n\nOutputs:\n";
    std::fs::write(&broken, text.replace("\nOutputs:\n", &format!("\n{queue}"))).expect("it is written");

    assert!(other.deploy(&broken).await.is_err());
    let checked = other.stack_script(&["check"]).await;
    assert!(checked.status.success(), "nothing is left that another try would meet: {}", told(&checked));
    other.deploy(&other.template()).await.expect("the next try comes up");
    other.delete().await;
}
