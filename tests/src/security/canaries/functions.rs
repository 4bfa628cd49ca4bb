//! The same of functions of the team's own: what they are asked, answer and say when they fail.

use serde_json::json;
use shared::effects::invocation::InvokeFailure;
use shared::model::FunctionScript;

use super::{CanaryRun, EMAIL, RESULT, TOKEN, lead, turns};
use crate::memory::flows_with;

/// The flow of leads, whose one effect a function does.
fn invoking(yaml: String) -> String {
    let (head, rest) = yaml.split_once("effects:\n").expect("a flow has effects");
    let (_, tail) = rest.split_once("\nretry:").expect("a flow has a policy");
    let with = "with: {who: '{{ event.data.email }}', phone: '{{ event.data.phone }}'}";
    format!(
        "{head}effects:\n  - {{id: crm, invoke: team-score, timeout: 3s, result: {{crm_id: /id}}, {with}}}\nretry:{tail}"
    )
}

/// What the events of the run die of.
pub(super) const DEATHS: [&str; 2] = ["terminal", "unknown_outcome"];

#[tokio::test]
async fn no_personal_data_comes_out_of_what_functions_are_asked_and_answer() {
    let run = CanaryRun::of(flows_with(invoking));
    let said = format!("{EMAIL} Zqada +44 20 7946 0977 {TOKEN}");
    let answers = [
        FunctionScript::Answer(json!({"outcome": "done", "result": {"id": RESULT, EMAIL: said}})),
        FunctionScript::Answer(json!({"outcome": "failed", "code": said, "message": said})),
        FunctionScript::Answer(json!({"outcome": "retry", "message": said, "after": said})),
        FunctionScript::Answer(json!({"outcome": said, EMAIL: {TOKEN: said}})),
        FunctionScript::Answer(json!(said)),
        FunctionScript::Fail(InvokeFailure::Lost("the function raised an error".into())),
        FunctionScript::Hang,
        FunctionScript::Panic,
    ];
    for (n, answer) in (10..).zip(answers) {
        run.world.functions.script([answer.clone(), answer]);
        run.world.post(&lead(n)).await.expect("a good lead");
        turns(&run.world, 4).await;
    }
    let asked = format!("{:?}", run.world.functions.documents());
    assert!(asked.contains(EMAIL), "the function is told what its flow says");
    run.assert_clean().await;
    assert_eq!(run.deaths(), DEATHS.map(str::to_owned).into());
    assert_eq!(run.states(), ["dead", "succeeded"].map(str::to_owned).into());
}
