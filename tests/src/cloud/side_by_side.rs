//! Two stacks in one account: what each is called, and what it looks at.

use std::collections::BTreeSet;

use axum::http::Method;
use local::aws::{Endpoint, REGION};
use local::deploy::STACK;
use local::stack::Stack;
use serde_json::{Value, json};

use super::other_stack::OtherStack;

/// What holds the events of a stack.
const OWN: [&str; 5] = ["EventsQueue", "DeadLettersQueue", "LedgerTable", "LimitsTable", "ContactsTable"];

/// The variables that a local cloud sets by its own folders and addresses.
const OF_THIS_MACHINE: [&str; 3] = ["FLOWS_DIR", "PARTNER_ENDPOINT_URL", "PUBLIC_URL"];

/// No queue, table, metric or dashboard of one stack is the other's, nor does one name the other.
pub(super) async fn name_nothing_of_each_other(other: &OtherStack) {
    let endpoint = Endpoint::of_environment().expect("make test names the emulator");
    let (one, two) = (read(&endpoint, STACK).await, read(&endpoint, other.name).await);
    assert!(one.own.is_disjoint(&two.own), "{:?} {:?}", one.own, two.own);
    for (stack, other) in [(&one, &two), (&two, &one)] {
        let namespace = format!("Ledgerline/{}", stack.name);
        assert!(stack.texts.iter().filter(|text| text.contains(&namespace)).count() >= 6, "{:?}", stack.texts);
        for foreign in other.own.iter().chain([&format!("Ledgerline/{}\"", other.name)]) {
            let told = stack.texts.iter().find(|text| text.contains(foreign));
            assert_eq!(told, None, "{} names {foreign}", stack.name);
        }
    }
}

struct Seen {
    name: &'static str,
    own: BTreeSet<String>,
    /// The variables of its functions, and its dashboards.
    texts: Vec<String>,
}

async fn read(endpoint: &Endpoint, name: &'static str) -> Seen {
    let stack = Stack::describe(endpoint, name).await.expect("it is deployed");
    let own = OWN.map(|id| stack.physical_id(id).expect("the stack has it").to_owned()).into();
    let mut texts = Vec::new();
    for function in ["intake", "processor", "replay", "console"] {
        texts.push(variables(endpoint, &format!("{name}-{function}")).await);
    }
    for dashboard in ["view", "operate"] {
        let asked = json!({"DashboardName": format!("{name}-{REGION}-{dashboard}")});
        let action = "GraniteServiceVersion20100801.GetDashboard";
        let answer = endpoint.act("monitoring", action, asked).await.expect("CloudWatch answers");
        texts.push(answer["DashboardBody"].as_str().expect("a dashboard").to_owned());
    }
    Seen { name, own, texts }
}

async fn variables(endpoint: &Endpoint, function: &str) -> String {
    let path = format!("/2015-03-31/functions/{function}/configuration");
    let answer = endpoint.send("lambda", Method::GET, &path, &[], String::new()).await.expect("the emulator answers");
    let mut configuration: Value = answer.expect_success("the function").expect("it is there").json().expect("JSON");
    let variables = configuration["Environment"]["Variables"].as_object_mut().expect("variables");
    variables.retain(|name, _| !OF_THIS_MACHINE.contains(&name.as_str()));
    configuration["Environment"]["Variables"].to_string()
}
