//! What the local cloud needs to know of `infra/template.yaml`: its functions and their routes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

const FUNCTION: &str = "AWS::Serverless::Function";
const HTTP_API: &str = "HttpApi";

/// One function of the template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFunction {
    /// Its name inside the template.
    pub logical_id: String,
    /// The cargo binary that it runs.
    pub binary: String,
    /// Its folder, relative to the template.
    pub code: PathBuf,
    /// What the HTTP API sends to it.
    pub routes: Vec<Route>,
}

/// One method and path of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// In capitals, or `ANY`.
    pub method: String,
    /// With its parameters in braces.
    pub path: String,
}

/// Read the functions of a template.
pub fn functions(template: &Path) -> Result<Vec<TemplateFunction>> {
    let text = std::fs::read_to_string(template).with_context(|| format!("cannot read {}", template.display()))?;
    parse(&text).with_context(|| format!("cannot make sense of {}", template.display()))
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
        binary: binary.with_context(|| format!("{logical_id} has no Metadata.BuildProperties.Binary"))?,
        code: properties.code.with_context(|| format!("{logical_id} has no CodeUri"))?,
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
