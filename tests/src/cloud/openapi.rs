//! The API's document: it says what the template routes, and what the running intake does.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use local::private_files;
use serde_json::Value;

use super::system::{System, variable};
use crate::fixtures::root;

#[test]
fn the_document_and_the_template_have_the_same_routes() {
    let text = std::fs::read_to_string(root().join("infra/openapi.yaml")).expect("the document is there");
    let document: Value = serde_saphyr::from_str(&text).expect("the document is YAML");
    let paths = document["paths"].as_object().expect("paths").iter();
    let documented: BTreeSet<(String, String)> = paths
        .flat_map(|(path, item)| item.as_object().expect("a path item").keys().map(move |method| (method, path)))
        .filter(|(method, _)| *method != "parameters")
        .map(|(method, path)| (method.to_uppercase(), path.clone()))
        .collect();
    let functions = local::template::functions(&root().join("infra/template.yaml")).expect("the template is good");
    let routed = functions.into_iter().flat_map(|function| function.routes);
    assert_eq!(documented, routed.map(|route| (route.method, route.path)).collect());
}

/// A fuzzer sends what the document allows and what it does not, and checks every answer against it.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn the_intake_does_what_the_document_says() {
    let _turn = System::take().await;
    let python = variable("LEDGERLINE_PYTHON");
    // Of this run alone: the fuzzer begins with the examples that it finds.
    let folder = std::env::temp_dir().join(format!("ledgerline-openapi-{}", std::process::id()));
    private_files::create_folder(&folder).expect("a folder");
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
                  response_headers_conformance,response_schema_conformance";
    let fuzzed = Command::new(Path::new(&python).with_file_name("st"))
        .arg("run")
        .arg(root().join("infra/openapi.yaml"))
        .args(["--url", &variable("LEDGERLINE_URL"), "--checks", checks])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "25", "--seed", "7"])
        .args(["--suppress-health-check", "all", "--warnings", "off", "--no-color"])
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", root().join("tests/schemathesis"))
        .env("HYPOTHESIS_STORAGE_DIRECTORY", folder.join("hypothesis"))
        .current_dir(&folder)
        .output()
        .expect("schemathesis is installed");
    std::fs::remove_dir_all(&folder).expect("it is there");
    let report = String::from_utf8_lossy(&fuzzed.stdout);
    assert!(fuzzed.status.success(), "{report}{}", String::from_utf8_lossy(&fuzzed.stderr));
    assert!(report.contains("8 selected") || report.contains("Selected: 8"), "every operation was tried: {report}");
}
