//! What `flows plan` prints of calls of the catalogue: no value of the event, no secret, and what is not known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What each call of the catalogue is given for its snapshot.
#[derive(Deserialize)]
struct Samples {
    #[serde(default)]
    vars: Map<String, Value>,
    calls: BTreeMap<String, Value>,
    #[serde(default, rename = "extra")]
    _extra: Value,
}

fn samples() -> BTreeMap<String, Samples> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/partners/samples.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(file).expect("the samples")).expect("the samples")
}

/// The same tree, in which every text comes from the event, where it is a canary.
fn from_event(tree: &Value, canaries: &mut Map<String, Value>) -> Value {
    match tree {
        Value::String(text) => {
            let name = format!("c{}", canaries.len());
            canaries.insert(name.clone(), json!(format!("canary-{text}")));
            json!(format!("{{{{ event.v.{name} }}}}"))
        }
        Value::Array(items) => items.iter().map(|item| from_event(item, canaries)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), from_event(field, canaries))).collect()
        }
        plain => plain.clone(),
    }
}

/// A folder whose one flow makes every call of a partner, with secret variables in every place that they may have.
fn folder(test: &str, partner: &str, samples: &Samples) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("canaries-{test}-{partner}"));
    std::fs::create_dir_all(folder.join("flows")).expect("a folder");
    let mut canaries = Map::new();
    let effect = |(call, with): (&String, &Value)| {
        let with = from_event(with, &mut canaries);
        json!({"id": call, "call": format!("{partner}.{call}"), "needs": [], "with": with})
    };
    let effects: Vec<Value> = samples.calls.iter().map(effect).collect();
    let mut vars = samples.vars.clone();
    vars.insert("hook".into(), json!({"secret": true}));
    let known: Map<String, Value> = canaries.keys().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let flow = json!({
        "name": "sample", "version": 1, "on": {"source": "shop", "type": "sample"},
        "schema": {"type": "object", "required": ["id", "v"], "properties": {
            "type": {"type": "string"}, "id": {"type": "string"}, "v": {"type": "object", "properties": known},
        }},
        "key": {"version": 1, "fields": ["id"]}, "order_by": "id", "ttl": "24h", "effects": effects,
        "retry": {"strategy": "fixed", "base": "1s", "max_delay": "1s", "max_attempts": 2},
    });
    let hook = json!({"X-Hook": "{{ vars.hook }}"});
    let integrations =
        json!({partner: {"uses": partner, "vars": vars, "headers": hook, "query": {"hook": "{{ vars.hook }}"}}});
    let sources = json!({"shop": {"scheme": "github", "max_body": "64KiB", "rate": "50/s", "type_at": "type"}});
    let write = |name: &str, document: &Value| std::fs::write(folder.join(name), document.to_string()).expect("a file");
    write("sources.yaml", &sources);
    write("integrations.yaml", &integrations);
    write("flows/sample.yaml", &flow);
    write("event.json", &json!({"type": "sample", "id": "1", "v": canaries}));
    folder
}

fn plan(folder: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    command.current_dir(folder).args(["flows", "plan", "event.json", "--in", "."]).args(more);
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", folder.display());
    told
}

#[test]
fn a_plan_of_a_catalogue_call_shows_no_value_of_the_event() {
    let mut calls = 0;
    for (partner, samples) in samples() {
        let folder = folder("plan", &partner, &samples);
        for told in [plan(&folder, &["--masked"]), plan(&folder, &["--masked", "--json"])] {
            for call in samples.calls.keys() {
                assert!(told.contains(call.as_str()), "{partner}.{call} was planned: {told}");
            }
            assert!(told.contains("‹text, "), "values are masked: {told}");
            assert!(!told.contains("canary"), "{partner}: {told}");
        }
        calls += samples.calls.len();
    }
    assert_eq!(calls, 17);
}

#[test]
fn a_plan_says_what_is_not_known_of_a_partner() {
    let all = samples();
    let told = |partner: &str| plan(&folder("unknown", partner, &all[partner]), &[]);
    let klaviyo = told("klaviyo");
    assert!(klaviyo.contains("how long it knows our key is not known: 1h counts"), "{klaviyo}");
    assert!(told("sendgrid").contains("rate not known"));
    assert!(!told("stripe").contains("not known"));
}
