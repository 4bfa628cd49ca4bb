//! The schemas that editors use: up to date, fit for the shipped files, and of use.

use std::path::{Path, PathBuf};

use ledgerline::flows::schemas::texts;
use serde_json::{Value, json};
use shared::effects::invocation::{INVOCATION_FORMAT, InvocationDocument, Purpose};

fn flows() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows")
}

fn broken(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken").join(case)
}

/// Why a file does not match the schema of its kind.
fn violations(path: &Path) -> Vec<String> {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let kind = match name.as_str() {
        "sources.yaml" => "sources.json",
        "integrations.yaml" => "integrations.json",
        _ if path.parent().is_some_and(|folder| folder.ends_with("tests")) => "scenarios.json",
        _ => "flow.json",
    };
    let (_, schema) = texts().find(|(name, _)| *name == kind).expect("a schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: Value = serde_saphyr::from_str(&text).expect("YAML");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    validator.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn shipped() -> Vec<PathBuf> {
    let own = std::fs::read_dir(flows().join("flows")).expect("the flows").map(|file| file.expect("a file").path());
    let tests =
        std::fs::read_dir(flows().join("tests")).expect("the scenarios").map(|file| file.expect("a file").path());
    own.chain(tests).chain(["sources.yaml", "integrations.yaml"].map(|name| flows().join(name))).collect()
}

#[test]
fn the_schemas_are_up_to_date() {
    for (name, text) in texts() {
        let kept = std::fs::read_to_string(flows().join("schema").join(name)).unwrap_or_default();
        assert!(kept == text, "{name} is out of date: `make schemas` writes it anew");
    }
}

#[test]
fn the_shipped_files_match_and_say_by_which_schema() {
    for path in shipped() {
        assert_eq!(violations(&path), Vec::<String>::new(), "{}", path.display());
        let text = std::fs::read_to_string(&path).expect("a text");
        let schema = text.lines().next().and_then(|line| line.strip_prefix("# yaml-language-server: $schema="));
        let schema = path.parent().expect("a folder").join(schema.expect("it names its schema"));
        assert!(schema.is_file(), "{}", schema.display());
    }
    assert_eq!(violations(&broken("_good/flows/leads.yaml")), Vec::<String>::new());
}

/// An editor shows these while they are typed; what needs other files is left to the check.
#[test]
fn broken_files_do_not_match() {
    for case in [
        "field-typo/flows/leads.yaml",
        "field-typo-at-top/flows/leads.yaml",
        "field-missing/flows/leads.yaml",
        "type-text-for-list/flows/leads.yaml",
        "type-text-for-number/flows/leads.yaml",
        "duration-in-words/flows/leads.yaml",
        "duration-bare-number/flows/leads.yaml",
        "jitter-unknown/flows/leads.yaml",
        "guarantee-unknown/flows/leads.yaml",
        "method-unknown/flows/leads.yaml",
        "key-normaliser-unknown/flows/leads.yaml",
        "key-bucket-without-every/flows/leads.yaml",
        "key-window-without-within/flows/leads.yaml",
        "key-window-in-words/flows/leads.yaml",
        "integration-field-typo/integrations.yaml",
        "scheme-unknown/sources.yaml",
        "size-unknown-unit/sources.yaml",
    ] {
        assert!(!violations(&broken(case)).is_empty(), "{case} matches");
    }
}

/// What a function gets and answers, by the schemas that its author reads.
#[test]
fn the_documents_of_functions_match_their_schemas() {
    let validator = |name: &str| {
        let (_, schema) = texts().find(|(known, _)| *known == name).expect("a schema");
        jsonschema::draft202012::new(&serde_json::from_str(&schema).expect("JSON")).expect("a schema")
    };
    let document = InvocationDocument {
        format: INVOCATION_FORMAT,
        operation: Purpose::Ask,
        id: "64d0f134".into(),
        event_type: "voucher.asked",
        flow: "voucher",
        effect: "voucher",
        received_at: "2026-11-16T09:00:00Z".into(),
        event: &json!({"data": {}}),
        effects: json!({}),
        enrich: json!({}),
        with: json!({"percent": 10}),
        key: "64d0f134/voucher".into(),
        attempt: 1,
        epoch: 7,
        deadline: 1_794_819_600_000,
        trace: [("traceparent".to_owned(), "00-1-2-01".to_owned())].into(),
    };
    let document: Value = serde_json::from_str(&document.to_json()).expect("JSON");
    assert!(validator("invocation.json").is_valid(&document), "{document}");
    for (answer, valid) in [
        (json!({"outcome": "done"}), true),
        (json!({"outcome": "retry", "retry_after": 1.5, "message": "busy"}), true),
        (json!({"outcome": "found", "result": {"code": "A1"}, "from_the_future": 1}), true),
        (json!({"outcome": "ok"}), false),
        (json!({"result": {}}), false),
        (json!({"outcome": "done", "result": [1]}), false),
        (json!(null), false),
    ] {
        assert_eq!(validator("invocation-answer.json").is_valid(&answer), valid, "{answer}");
    }
}
