//! The life of a stack, beside another and after another: the real `sam deploy`, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use local::deploy::STACK;
use local::private_files;
use local::project::Project;
use serde_json::{Value, json};

use super::new_lead;
use super::other_stack::{OtherStack, Served, copy, hollow, told};
use super::side_by_side;
use super::system::{System, TRIES, eventually, until_taken};
use crate::fixtures::root;

/// What outlives a stack.
const KEPT: [&str; 4] = ["LedgerTable", "LimitsTable", "ContactsTable", "DeadLettersQueue"];

/// How many people the load is about, and how many senders post about each of them at once.
const PEOPLE: usize = 2;
const SENDERS: usize = 2;

/// The pause between two deliveries of a sender.
const PAUSE: Duration = Duration::from_millis(600);

/// How many invocations each of two versions gets before that counts as both being at work.
const EACH: usize = 3;

/// From a first deploy that fails to a stack that is made anew: every step finds what the one before it left.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_stack_is_made_updated_under_load_rolled_back_deleted_and_made_again() {
    let system = System::take().await;
    let other = OtherStack::new("staging").await;
    let template = other.staged("template.yaml");

    assert!(other.deploy(&broken_template(), "flows").await.is_err());
    let checked = other.script(&["check"]).await;
    assert!(checked.status.success(), "nothing is left that another try would meet: {}", told(&checked));
    other.deploy(&template, "flows").await.expect("the next try comes up, beside the main stack");
    other.put_secrets().await;
    let lead = sees_nothing_of_the_main_one(&system, &other).await;

    let served = other.serve().await;
    let stop = AtomicBool::new(false);
    let people: Vec<Value> = (0..PEOPLE).map(|_| new_lead("load")["data"]["email"].clone()).collect();
    let senders = people.iter().cycle().take(PEOPLE * SENDERS);
    let senders = senders.map(|person| load(&system, &other, &served, person, &stop));
    let (accepted, rolled_back_at) = tokio::join!(join_all(senders), async {
        update(&other).await;
        alternate(&other).await;
        let at = roll_back(&system, &other).await;
        stop.store(true, Ordering::Relaxed);
        at
    });
    every_event_was_done_once(&system, &other, &accepted.concat(), &rolled_back_at).await;
    deploy_again(&system, &other).await;
    drop(served);

    let kept = kept(&other).await;
    other.delete().await;
    let declined = other.script(&["check"]).await;
    assert!(!declined.status.success() && told(&declined).contains("make adopt STACK=staging"), "{}", told(&declined));
    assert!(KEPT.iter().all(|kept| told(&declined).contains(kept)), "{}", told(&declined));
    assert!(other.script(&["check", "--fresh"]).await.status.success(), "who wants to begin anew says so");

    let adopted = other.script(&["adopt", "--yes"]).await;
    assert!(adopted.status.success(), "{}", told(&adopted));
    assert!(other.script(&["check"]).await.status.success(), "the stack is there");
    assert_eq!(self::kept(&other).await, kept, "it is made of what was kept");
    other.deploy(&template, "flows").await.expect("the rest of the stack");
    assert_eq!(self::kept(&other).await, kept, "and nothing of it was replaced");
    assert_eq!(other.post(&system, &lead).await, (202, true), "what was done is not done again");
    let again = other.script(&["adopt", "--yes"]).await;
    assert!(!again.status.success() && told(&again).contains("already"), "{}", told(&again));
    other.delete().await;
}

/// The names of what outlives the stack.
async fn kept(other: &OtherStack) -> BTreeMap<&'static str, String> {
    let stack = other.describe().await;
    KEPT.map(|id| (id, stack.physical_id(id).expect("the stack has it").to_owned())).into()
}

/// A template whose last resource cannot be made: a FIFO queue whose name says that it is none.
fn broken_template() -> PathBuf {
    let template = hollow("broken");
    let text = std::fs::read_to_string(&template).expect("the staged template");
    let queue = "  BrokenQueue:\n    Type: AWS::SQS::Queue\n    DependsOn: [LedgerTable, LimitsTable, ContactsTable, \
                 DeadLettersQueue]\n    Properties: {FifoQueue: true, QueueName: broken}\n\nOutputs:\n";
    private_files::write(&template, text.replace("\nOutputs:\n", &format!("\n{queue}"))).expect("it is written");
    template
}

fn write(other: &OtherStack, name: &str, text: &str) -> PathBuf {
    let file = other.staged(name);
    private_files::write(&file, text).expect("it is written");
    file
}

/// Neither names, queues, metrics nor dashboards, neither secrets nor events of one are known to the other. Returns the lead that both have.
async fn sees_nothing_of_the_main_one(system: &System, other: &OtherStack) -> Value {
    side_by_side::name_nothing_of_each_other(other).await;
    let body = new_lead("stacks").to_string();
    let refused = async || {
        let now = system.now();
        let signed_for_main = system.signature(&body, now).remove(2).1;
        other.invoke_intake(&body, now, &signed_for_main).await.0
    };
    assert_eq!(until_taken(refused, |status| *status).await, 401, "it has no secret of {STACK}");
    for _ in 0..TRIES {
        let lead = other.post_new(system, "stacks").await;
        let main = system.post_once(&lead).await;
        if main.status < 500 {
            let known = main.header("idempotent-replayed");
            assert_eq!((main.status, known), (202, None), "the other's event is not known here");
            return lead;
        }
    }
    panic!("the intake took none of {TRIES} leads at once");
}

/// Posts leads of one person until it is told to stop, each of them accepted. Returns their ids, in order.
async fn load(system: &System, other: &OtherStack, served: &Served, person: &Value, stop: &AtomicBool) -> Vec<String> {
    let mut accepted = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut lead = new_lead("load");
        lead["data"]["email"] = person.clone();
        let (status, answer) = other.deliver(served, system, &lead).await;
        assert_eq!(status, 202, "delivery {}: {answer}", accepted.len());
        accepted.push(answer["id"].as_str().expect("an id").to_owned());
        tokio::time::sleep(PAUSE).await;
    }
    accepted
}

/// Deploys other flows: a lead's company is `two`, whatever its sender says.
async fn update(other: &OtherStack) {
    let unknown = other.script(&["rollback", "--yes"]).await;
    assert!(!unknown.status.success() && told(&unknown).contains("not known what ran"), "{}", told(&unknown));
    keep(other).await;
    copy(&other.staged("flows"), &other.staged("flows-two"));
    let flow = std::fs::read_to_string(other.staged("flows/flows/lead-routing.yaml")).expect("a flow");
    let company = r#"company: "{{ event.data.company | default(none) }}""#;
    assert!(flow.contains(company));
    write(other, "flows-two/flows/lead-routing.yaml", &flow.replace(company, r#"company: "two""#));
    let text = std::fs::read_to_string(other.staged("template.yaml")).expect("the staged template");
    let two = write(other, "two.yaml", &text.replace("ContentUri: flows/", "ContentUri: flows-two/"));
    for wrong in [["LeaseSeconds=4", "VisibilityTimeout=30"], ["IntakeReserve=5", "IntakeProvisioned=6"]] {
        let declined = other.script(&["pin", "--template", two.to_str().expect("text"), wrong[0], wrong[1]]).await;
        assert!(!declined.status.success() && told(&declined).contains("nothing was changed"), "{}", told(&declined));
    }
    let pinned = other.script(&["pin", "--template", two.to_str().expect("text"), "LogLevel=debug"]).await;
    assert!(pinned.status.success(), "{}", told(&pinned));
    other.deploy(&two, "flows-two").await.expect("the second version");
    // A deploy that begins, and is not gone through with, forgets nothing.
    keep(other).await;
    keep(other).await;
}

async fn keep(other: &OtherStack) {
    let kept = other.script(&["keep"]).await;
    assert!(kept.status.success(), "{}", told(&kept));
}

/// Lets two versions take turns, at the door and on the queue, on the events of one person.
async fn alternate(other: &OtherStack) {
    let parts = [("gateway", None, "intake"), ("poller", Some("processor"), "processor")];
    let before = parts.map(|(part, function, _)| other.versions(part, function));
    for (_, _, function) in parts {
        other.shift(function, "2", "1").await;
    }
    for ((part, function, _), before) in parts.into_iter().zip(before) {
        eventually(&format!("both versions are at work behind the {part}"), async || {
            let now = other.versions(part, function);
            let more = |version| now.get(version).copied().unwrap_or(0) - before.get(version).copied().unwrap_or(0);
            if more("1") >= EACH && more("2") >= EACH { Ok(()) } else { Err(json!([before, now])) }
        })
        .await;
    }
}

/// Rolls back. Returns whom an event is about that was accepted after it.
async fn roll_back(system: &System, other: &OtherStack) -> Value {
    let back = other.script(&["rollback", "--yes"]).await;
    assert!(back.status.success(), "{}", told(&back));
    let shown = String::from_utf8_lossy(&back.stdout).into_owned();
    for function in ["intake", "processor", "replay", "console"] {
        let line = shown.lines().find(|line| line.contains(&format!("staging-{function} ")));
        assert!(line.is_some_and(|line| line.ends_with("2 → 1")), "{shown}");
    }
    let again = other.script(&["rollback", "--yes"]).await;
    assert!(!again.status.success() && told(&again).contains("rolled back already"), "{}", told(&again));
    // Longer than an alias is believed: what is accepted now is worked on by the first version alone.
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.post_new(system, "back").await["data"]["email"].clone()
}

/// Deploys the second version again: the roll back was by hand, and CloudFormation does not know of it.
async fn deploy_again(system: &System, other: &OtherStack) {
    let text = std::fs::read_to_string(other.staged("template.yaml")).expect("the staged template");
    let again = write(other, "again.yaml", &text.replace("ContentUri: flows/", "ContentUri: flows-two/"));
    let pinned = other.script(&["pin", "--template", again.to_str().expect("text"), "LogLevel=debug"]).await;
    assert!(pinned.status.success(), "{}", told(&pinned));
    assert_eq!(other.live("intake").await, "1");
    other.deploy(&again, "flows-two").await.expect("what was rolled back comes up again");
    for function in ["intake", "processor", "replay", "console"] {
        assert_eq!(other.live(function).await, "3", "{function}");
    }
    // Longer than an alias is believed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lead = other.post_new(system, "again").await;
    eventually("the second version works again", async || {
        let calls = system.calls().await;
        let done = calls.iter().find(|call| call["body"]["email"] == lead["data"]["email"]);
        done.filter(|call| call["body"]["company"] == "two").map(drop).ok_or(json!(calls.len()))
    })
    .await;
}

/// Nothing that was accepted is lost, and each is one call. The stub does nothing for a key that it knows, so that what it
/// applied shows no duplicate: the calls do. A second one is that of an event whose call an update cut, which the ledger
/// knows, and is listed.
async fn every_event_was_done_once(system: &System, other: &OtherStack, accepted: &[String], last: &Value) {
    let keys: BTreeSet<String> = accepted.iter().map(|id| format!("{id}/crm")).collect();
    assert_eq!(keys.len(), accepted.len(), "every lead is an event of its own");
    let calls = eventually("every event reaches the partner", async || {
        let calls = system.calls().await;
        let done: BTreeSet<_> = calls.iter().filter_map(|call| call["idempotency_key"].as_str()).collect();
        let missing: Vec<_> = keys.iter().filter(|key| !done.contains(key.as_str())).collect();
        let is_last_done = calls.iter().any(|call| call["body"]["email"] == *last);
        if missing.is_empty() && is_last_done { Ok(calls) } else { Err(json!([missing.len(), is_last_done])) }
    })
    .await;
    let mut cut = Vec::new();
    for id in accepted {
        let key = format!("{id}/crm");
        let asked: Vec<&Value> = calls.iter().filter(|call| call["idempotency_key"] == key).collect();
        let (count, applied) = (asked.len(), asked.iter().filter(|call| call["applied"] == true).count());
        assert_eq!(applied, 1, "{id}: {asked:?}");
        if count != 1 {
            let page = other.operate(&json!({"op": "show", "id": id})).await;
            assert_eq!((count, &page["effects"]["crm"]["attempts"]), (2, &json!(2)), "{id}: {page:#}");
            cut.push(id);
        }
    }
    println!("an update cut the first call of {} of {} events: {cut:?}", cut.len(), accepted.len());
    let by_two = |call: &Value| call["body"]["company"] == "two";
    let own: Vec<&Value> =
        calls.iter().filter(|call| call["idempotency_key"].as_str().is_some_and(|key| keys.contains(key))).collect();
    assert!(own.iter().any(|call| by_two(call)) && own.iter().any(|call| !by_two(call)), "both flows were at work");
    let last = calls.iter().find(|call| call["body"]["email"] == *last).expect("it is done");
    assert!(!by_two(last), "the flows went back with the code: {last}");
}

/// SAM publishes by what is written in the template, so `make deploy` writes the parameters there; and CloudFormation
/// declines what cannot work together.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn versions_follow_code_flows_and_parameters_and_rules_decline_what_cannot_work() {
    let other = OtherStack::new("asked").await;
    let project = Project::at(&root());
    let published = other.ask("versions", project.template(), &json!([])).await;
    let all = json!(["ConsoleViewerFunction", "IntakeFunction", "ProcessorFunction", "ReplayFunction"]);
    let expected = json!({"nothing": [], "flows": all, "parameters": all, "processor": ["ProcessorFunction"]});
    assert_eq!(published, expected);

    let domain = json!({"DomainName": "hooks.example.com", "CertificateArn": "arn:aws:acm:x:1:certificate/1"});
    let with = |more: Value| {
        let mut values = domain.clone();
        values.as_object_mut().expect("values").extend(more.as_object().expect("values").clone());
        values
    };
    let truststore = "s3://bucket/truststore.pem";
    let cases = [
        (json!({}), None),
        (domain.clone(), None),
        (with(json!({"DefaultEndpoint": "DISABLED", "TruststoreUri": truststore})), None),
        (json!({"SubnetIds": "subnet-1,subnet-2", "SecurityGroupIds": "sg-1"}), None),
        (json!({"DomainName": "hooks.example.com"}), Some("DomainHasACertificate")),
        (json!({"TruststoreUri": truststore}), Some("MutualTlsCannotBeBypassed")),
        (with(json!({"TruststoreUri": truststore})), Some("MutualTlsCannotBeBypassed")),
        (with(json!({"OwnershipCertificateArn": "arn:aws:acm:x:1:certificate/2"})), Some("OwnershipIsForMutualTls")),
        (json!({"DefaultEndpoint": "DISABLED"}), Some("SendersHaveAnEndpoint")),
        (json!({"SubnetIds": "subnet-1"}), Some("VpcIsWhole")),
        (json!({"SecurityGroupIds": "sg-1"}), Some("VpcIsWhole")),
        (json!({"GeoipLayerArn": "arn:aws:lambda:x:1:layer:places:1"}), Some("PlacesHaveADatabase")),
    ];
    let values = Value::from_iter(cases.iter().map(|(values, _)| values.clone()));
    let said = other.ask("declined", project.template(), &values).await;
    for ((values, rule), said) in cases.iter().zip(said.as_array().expect("a list")) {
        match rule {
            None => assert!(said.is_null(), "{values}: {said}"),
            Some(rule) => assert!(said.as_str().is_some_and(|said| said.contains(rule)), "{values}: {said}"),
        }
    }
}

/// What is live, what was when the last deploy began, and what was before: whatever became of a deploy, a roll back goes to
/// what ran before the last one that came about, and never two back.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_roll_back_goes_one_deploy_back() {
    let functions = |intake: Value, processor: Value| json!({"a-intake": intake, "a-processor": processor});
    let both = |standing: Value| functions(standing.clone(), standing);
    let steps = |live: &str, to: &str| json!([["a-intake", live, to], ["a-processor", live, to]]);
    let cases = [
        (both(json!(["3", "2", "1"])), json!([]), steps("3", "2")),
        // A deploy began after that, and did not come about.
        (both(json!(["3", "3", "2"])), json!([]), steps("3", "2")),
        // The last deploy changed one function only.
        (functions(json!(["1", "1", ""]), json!(["2", "1", ""])), json!([]), json!([["a-processor", "2", "1"]])),
        (both(json!(["2", "2", "1"])), json!([["a-intake", "2"], ["a-processor", "2"]]), json!("rolled back already")),
        // It was interrupted after the first function.
        (
            functions(json!(["2", "2", "1"]), json!(["3", "2", "1"])),
            json!([["a-intake", "2"]]),
            json!([["a-processor", "3", "2"]]),
        ),
        (both(json!(["1", null, null])), json!([]), json!("not known what ran")),
        (both(json!(["1", "1", ""])), json!([]), json!("not known what ran")),
    ];
    let asked = Value::from_iter(cases.iter().map(|(standing, moved, _)| json!([standing, moved])));
    let other = OtherStack::new("asked").await;
    let said = other.ask("back", Project::at(&root()).stack_script(), &asked).await;
    for ((standing, _, expected), said) in cases.iter().zip(said.as_array().expect("a list")) {
        match expected.as_str() {
            Some(why) => assert!(said.as_str().is_some_and(|said| said.contains(why)), "{standing}: {said}"),
            None => assert_eq!(said, expected, "{standing}"),
        }
    }
}
