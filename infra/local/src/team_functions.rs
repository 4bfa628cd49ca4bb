//! The team's own functions in the local cloud: those of a SAM template that the flows invoke.
//!
//! They are put into the emulator by Lambda's own API, beside the stack: a second `sam deploy` would take ten seconds.
//! A function that the template does not have is none of ours: somebody may deploy it into the emulator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::http::Method;
use base64::prelude::*;
use serde::Deserialize;
use serde_json::json;
use shared::flows::Flows;

use crate::aws::Endpoint;
use crate::command::run_shown;
use crate::node::NodeTools;
use crate::output::error_text;
use crate::project::Project;
use crate::tools::Tools;

/// The names of functions that the processor of a local cloud may invoke: it would be told of no other, either.
pub const PATTERN: &str = "ledgerline-team-*";

/// The script that packs a folder's files.
const ZIP: &str = r"
import os, sys, zipfile
os.umask(0o077)
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as archive:
    for name in sorted(os.listdir(sys.argv[2])):
        path = os.path.join(sys.argv[2], name)
        if os.path.isfile(path):
            archive.write(path, name)
";

/// One function of the team's template.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TeamFunction {
    function_name: String,
    code_uri: PathBuf,
    handler: String,
    runtime: String,
    timeout: Option<u32>,
    #[serde(default)]
    environment: Environment,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Environment {
    #[serde(default)]
    variables: BTreeMap<String, String>,
}

/// Deploys the functions that the flows invoke. One that cannot be deployed is told, and is missing: so is a node on
/// machines that have none.
pub async fn deploy(
    project: &Project,
    flows: &Flows,
    tools: &Tools,
    endpoint: &Endpoint,
    partners_url: &str,
    state: &Path,
) -> Result<()> {
    let invoked = |name: &str| flows.functions().any(|(_, function)| function.name() == name);
    for function in read(&project.team_functions())?.iter().filter(|function| invoked(&function.function_name)) {
        if let Err(error) = deploy_one(project, function, tools, endpoint, partners_url, state).await {
            let told = "was not deployed, and the events that invoke it are tried until their attempts are spent";
            eprintln!("The function {} {told}: {}", function.function_name, error_text(&error));
        }
    }
    Ok(())
}

async fn deploy_one(
    project: &Project,
    function: &TeamFunction,
    tools: &Tools,
    endpoint: &Endpoint,
    partners_url: &str,
    state: &Path,
) -> Result<()> {
    let code = code_of(project, function, state).await?;
    let zip = state.join("tmp").join(format!("{}.zip", function.function_name));
    run_shown(tools.command("python3").args(["-c", ZIP]).args([&zip, &code])).await?;
    create(endpoint, function, &zip, partners_url).await
}

/// The folder with the code as Lambda runs it. What is below the `dist` of a TypeScript project is compiled first.
async fn code_of(project: &Project, function: &TeamFunction, state: &Path) -> Result<PathBuf> {
    let template = project.team_functions();
    let code = template.parent().unwrap_or(&template).join(&function.code_uri);
    let dist = code.ancestors().find(|above| above.ends_with("dist"));
    let source = dist.and_then(Path::parent).filter(|source| source.join("tsconfig.json").is_file());
    let (Some(dist), Some(source)) = (dist, source) else { return Ok(code) };
    let built = state.join("tmp").join(format!("{}-dist", function.function_name));
    NodeTools::set_up(project).await?.compile(source, &built).await?;
    Ok(built.join(code.strip_prefix(dist).unwrap_or(Path::new(""))))
}

async fn create(endpoint: &Endpoint, function: &TeamFunction, zip: &Path, partners_url: &str) -> Result<()> {
    let TeamFunction { function_name, handler, runtime, timeout, environment, .. } = function;
    let code = std::fs::read(zip).with_context(|| format!("the function {function_name} was not packed"))?;
    let variables = environment.variables.keys().map(|name| (name.clone(), value_of(name, partners_url)));
    let input = json!({
        "FunctionName": function_name, "Handler": handler, "Runtime": runtime, "Timeout": timeout.unwrap_or(3),
        "Role": "arn:aws:iam::000000000000:role/team", "Code": {"ZipFile": BASE64_STANDARD.encode(code)},
        "Environment": {"Variables": variables.collect::<BTreeMap<_, _>>()},
    });
    let headers = [("content-type", "application/json")];
    let made = endpoint.send("lambda", Method::POST, "/2015-03-31/functions", &headers, input.to_string()).await?;
    made.expect_success(&format!("the creation of {function_name}")).map(drop)
}

/// The partners that the team's functions call by themselves: the stub stands for them, too.
pub fn partners(project: &Project) -> Result<Vec<String>> {
    let functions = read(&project.team_functions())?;
    Ok(functions
        .iter()
        .flat_map(|function| function.environment.variables.keys())
        .filter_map(|name| partner(name))
        .collect())
}

/// The value of a variable in the local cloud: `CRM_URL` is the URL of the partner stub as `crm`. Others are empty.
fn value_of(name: &str, partners_url: &str) -> String {
    partner(name).map(|partner| format!("{partners_url}/{partner}")).unwrap_or_default()
}

/// The partner whose URL a variable holds.
fn partner(variable: &str) -> Option<String> {
    variable.strip_suffix("_URL").map(|name| name.to_lowercase().replace('_', "-"))
}

/// Reads the functions of a template, with what its `Globals` say of all of them.
fn read(template: &Path) -> Result<Vec<TeamFunction>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Template {
        #[serde(default)]
        globals: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
        resources: BTreeMap<String, Resource>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Resource {
        r#type: String,
        #[serde(default)]
        properties: serde_json::Map<String, serde_json::Value>,
    }
    let text = std::fs::read_to_string(template)
        .with_context(|| format!("cannot read the functions' template {}", template.display()))?;
    let read: Template = serde_saphyr::from_str(&text)
        .with_context(|| format!("the functions' template {} cannot be used", template.display()))?;
    let globals = read.globals.get("Function").cloned().unwrap_or_default();
    let functions = read.resources.into_values().filter(|resource| resource.r#type == "AWS::Serverless::Function");
    let functions = functions.map(|function| {
        let mut properties = globals.clone();
        properties.extend(function.properties);
        serde_json::from_value(properties.into()).with_context(|| format!("a function of {}", template.display()))
    });
    functions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_can_be_deployed_here_and_fit_the_pattern() {
        let project = Project::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        let functions = read(&project.team_functions()).expect("a template");
        assert_eq!(functions.len(), 2);
        for function in functions {
            assert!(function.function_name.starts_with(PATTERN.trim_end_matches('*')), "{function:?}");
            assert_eq!(function.timeout, Some(5));
            assert!(function.environment.variables.contains_key("VOUCHERS_URL"), "{function:?}");
        }
    }

    #[test]
    fn a_url_is_the_stubs_and_nothing_else_is_known() {
        assert_eq!(value_of("VOUCHERS_URL", "http://127.0.0.1:1/x"), "http://127.0.0.1:1/x/vouchers");
        assert_eq!(value_of("GIFT_CARDS_URL", "http://127.0.0.1:1/x"), "http://127.0.0.1:1/x/gift-cards");
        assert_eq!(value_of("TOKEN", "http://127.0.0.1:1/x"), "");
    }
}
