//! The functions of `infra/template.yaml`, and their routes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// The alias by which everything runs the functions.
pub const ALIAS: &str = "live";

const FUNCTION: &str = "AWS::Serverless::Function";
const HTTP_API: &str = "HttpApi";

/// One function of the template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFunction {
    /// The id of the function in the template.
    pub logical_id: String,
    /// The cargo binary that it runs.
    pub binary: String,
    /// The folder of the function, relative to the template.
    pub code: PathBuf,
    /// The routes of the HTTP API that go to it.
    pub routes: Vec<Route>,
}

/// One method and path of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The HTTP method in capitals, or `ANY`.
    pub method: String,
    /// The path, with its parameters in braces.
    pub path: String,
}

/// A function's name with the alias by which everything runs it.
pub fn live(function: &str) -> String {
    format!("{function}:{ALIAS}")
}

/// Reads the functions of a template.
pub fn functions(template: &Path) -> Result<Vec<TemplateFunction>> {
    let text = std::fs::read_to_string(template)
        .with_context(|| format!("cannot read the template {}", template.display()))?;
    parse(&text).with_context(|| format!("the template {} cannot be used: `make lint` checks it", template.display()))
}

fn parse(text: &str) -> Result<Vec<TemplateFunction>> {
    let template: Template = serde_saphyr::from_str(text)?;
    let resources = template.resources.into_iter();
    let functions = resources.filter(|(_, resource)| resource.kind == FUNCTION);
    functions.map(|(id, resource)| function(id, resource)).collect()
}

fn function(logical_id: String, resource: Resource) -> Result<TemplateFunction> {
    let binary = resource.metadata.and_then(|metadata| metadata.build?.binary);
    let properties = resource.properties.unwrap_or_default();
    Ok(TemplateFunction {
        binary: binary.with_context(|| format!("the function {logical_id} has no Metadata.BuildProperties.Binary"))?,
        code: properties.code.with_context(|| format!("the function {logical_id} has no CodeUri"))?,
        routes: properties.events.into_values().filter_map(route).collect(),
        logical_id,
    })
}

fn route(event: Event) -> Option<Route> {
    let properties = event.properties?;
    (event.kind == HTTP_API).then_some(Route { method: properties.method?.to_uppercase(), path: properties.path? })
}

#[derive(Deserialize)]
struct Template {
    #[serde(rename = "Resources")]
    resources: BTreeMap<String, Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "Metadata")]
    metadata: Option<Metadata>,
    #[serde(rename = "Properties")]
    properties: Option<Properties>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "BuildProperties")]
    build: Option<BuildProperties>,
}

#[derive(Deserialize)]
struct BuildProperties {
    #[serde(rename = "Binary")]
    binary: Option<String>,
}

#[derive(Default, Deserialize)]
struct Properties {
    #[serde(rename = "CodeUri")]
    code: Option<PathBuf>,
    #[serde(rename = "Events", default)]
    events: BTreeMap<String, Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "Properties")]
    properties: Option<EventProperties>,
}

#[derive(Deserialize)]
struct EventProperties {
    #[serde(rename = "Method")]
    method: Option<String>,
    #[serde(rename = "Path")]
    path: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloudformation_tags_and_other_resources_do_not_disturb() {
        let functions = parse(
            r#"
            Resources:
              Queue:
                Type: AWS::SQS::Queue
                Properties:
                  QueueName: !Sub "${AWS::StackName}.fifo"
                  RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn}
              Intake:
                Type: AWS::Serverless::Function
                Metadata: {BuildMethod: rust-cargolambda, BuildProperties: {Binary: intake}}
                Properties:
                  FunctionName: !Sub ${AWS::StackName}-intake
                  CodeUri: ../functions/intake
                  Timeout: !Ref Seconds
                  Events:
                    Post: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: post, Path: "/v1/{source}"}}
                    Queue: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn}}
            "#,
        );
        let expected = TemplateFunction {
            logical_id: "Intake".into(),
            binary: "intake".into(),
            code: "../functions/intake".into(),
            routes: vec![Route { method: "POST".into(), path: "/v1/{source}".into() }],
        };
        assert_eq!(functions.expect("it parses"), [expected]);
    }

    #[test]
    fn the_real_template_has_a_front_door() {
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml");
        let functions = functions(&template).expect("it parses");
        assert!(functions.iter().any(|function| !function.routes.is_empty()));
    }
}
