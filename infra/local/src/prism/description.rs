//! Partners' API descriptions: OpenAPI 3 and Swagger 2, as far as it takes to know what a request can be broken in.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::wire::WireRequest;

/// An API description.
#[derive(Clone, Debug)]
pub struct ApiDescription {
    /// The description's file.
    pub file: PathBuf,
    document: Value,
    /// Where the API is: `https://api.example.com/v3`.
    server: String,
}

/// An operation of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiOperation {
    /// The path and query at which Prism serves the operation.
    pub target: String,
    /// The header fields that it demands, under lower-case names.
    pub headers: Vec<String>,
    /// The fields at the top of the body that it demands.
    pub fields: Vec<String>,
}

impl ApiDescription {
    /// The descriptions in a folder, by the names of their files.
    pub fn all(folder: &Path) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("cannot read the folder with the descriptions, {}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
        files.sort_unstable();
        files.iter().map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(file, serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))?)
    }

    fn parse(file: &Path, document: Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let swagger = || Some(format!("https://{}{}", text(&document["host"])?, text(&document["basePath"])?));
        let server = document.pointer("/servers/0/url").and_then(text).or_else(swagger);
        let server = server.with_context(|| format!("{} names no server", file.display()))?;
        Ok(Self { file: file.to_owned(), document, server: server.trim_end_matches('/').to_owned() })
    }

    /// The description as Prism can check by it. Beside a `$ref`, OpenAPI 3.0 ignores `nullable`; Prism's validator gives
    /// up on the whole schema then, and accepts every body without a word.
    pub fn for_prism(&self) -> Value {
        let mut document = self.document.clone();
        drop_nullable_without_type(&mut document);
        document
    }

    /// The name of the description's file.
    pub fn name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The operation that a request asks for, if the description has it.
    pub fn operation(&self, request: &WireRequest) -> Option<ApiOperation> {
        let target = request.url.strip_prefix(&self.server)?;
        let path = target.split('?').next().unwrap_or_default();
        let (_, item) = self.document["paths"].as_object()?.iter().find(|(template, _)| fits(template, path))?;
        let operation = item.get(request.method.to_lowercase())?;
        let demanded = |wanted: &str| {
            let named = self.parameters(item, operation).filter(|parameter| parameter["in"] == wanted);
            let named = named.filter(|parameter| parameter["required"] == true);
            named.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let headers = demanded("header").iter().map(|name| name.to_lowercase()).collect();
        let mut fields = demanded("formData");
        fields.extend(self.body_schemas(item, operation).flat_map(|schema| self.required(schema)));
        Some(ApiOperation { target: target.to_owned(), headers, fields })
    }

    fn parameters<'d>(&'d self, item: &'d Value, operation: &'d Value) -> impl Iterator<Item = &'d Value> {
        let both = [&item["parameters"], &operation["parameters"]];
        both.into_iter().filter_map(Value::as_array).flatten().map(|parameter| self.resolved(parameter))
    }

    fn body_schemas<'d>(&'d self, item: &'d Value, operation: &'d Value) -> impl Iterator<Item = &'d Value> {
        let contents = self.resolved(&operation["requestBody"])["content"].as_object();
        let contents = contents.into_iter().flat_map(|contents| contents.values()).map(|content| &content["schema"]);
        let body = self.parameters(item, operation).filter(|parameter| parameter["in"] == "body");
        contents.chain(body.map(|parameter| &parameter["schema"]))
    }

    /// The fields that a schema demands, those of its parts included.
    fn required(&self, schema: &Value) -> Vec<String> {
        let schema = self.resolved(schema);
        let own = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let parts = schema["allOf"].as_array().into_iter().flatten().flat_map(|part| self.required(part));
        own.chain(parts).collect()
    }

    fn resolved<'d>(&'d self, value: &'d Value) -> &'d Value {
        let pointer = value["$ref"].as_str().and_then(|pointer| pointer.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }
}

fn drop_nullable_without_type(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if !fields.contains_key("type") && fields.get("nullable").is_some_and(Value::is_boolean) {
                fields.remove("nullable");
            }
            fields.values_mut().for_each(drop_nullable_without_type);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nullable_without_type),
        _ => (),
    }
}

/// Whether a path fits a template, in which `{name}` stands for one step.
fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let is_same = |(wanted, found): (&&str, &&str)| wanted == found || (wanted.starts_with('{') && !found.is_empty());
    template.len() == path.len() && template.iter().zip(&path).all(is_same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(method: &str, url: &str) -> WireRequest {
        WireRequest { method: method.into(), url: url.into(), headers: Vec::new(), body: String::new() }
    }

    fn read(document: Value) -> ApiDescription {
        ApiDescription::parse(Path::new("a.json"), document).expect("a description")
    }

    #[test]
    fn an_operation_is_found_by_its_path_and_says_what_it_demands() {
        let schema = json!({"allOf": [{"$ref": "#/components/schemas/Key"}, {"required": ["message"]}]});
        let description = read(json!({
            "servers": [{"url": "https://api.example.com/1.4/"}],
            "paths": {"/lists/{id}/send": {
                "parameters": [{"name": "Revision", "in": "header", "required": true}],
                "post": {"requestBody": {"content": {"application/json": {"schema": schema}}}},
            }},
            "components": {"schemas": {"Key": {"required": ["key"]}}},
        }));
        let found = description.operation(&request("POST", "https://api.example.com/1.4/lists/7/send?a=b"));
        let (headers, fields) = (vec!["revision".to_owned()], vec!["key".to_owned(), "message".to_owned()]);
        assert_eq!(found, Some(ApiOperation { target: "/lists/7/send?a=b".into(), headers, fields }));
        for (method, url) in [
            ("GET", "https://api.example.com/1.4/lists/7/send"),
            ("POST", "https://api.example.com/1.4/lists/7"),
            ("POST", "https://api.example.org/1.4/lists/7/send"),
        ] {
            assert_eq!(description.operation(&request(method, url)), None, "{method} {url}");
        }
    }

    #[test]
    fn what_keeps_prism_from_checking_is_left_out() {
        let schema = json!({"a": {"$ref": "#/x", "nullable": true}, "b": {"type": "string", "nullable": true}});
        let document = json!({"servers": [{"url": "https://a.example"}], "paths": {}, "components": schema});
        let kept = json!({"a": {"$ref": "#/x"}, "b": {"type": "string", "nullable": true}});
        assert_eq!(read(document).for_prism()["components"], kept);
    }

    #[test]
    fn forms_of_swagger_2_are_read() {
        let parameters =
            json!([{"name": "channel", "in": "formData", "required": true}, {"name": "text", "in": "formData"}]);
        let description = read(json!({
            "swagger": "2.0", "host": "slack.com", "basePath": "/api", "paths": {"/chat.post": {"post": {"parameters": parameters}}},
        }));
        let found = description.operation(&request("POST", "https://slack.com/api/chat.post")).expect("an operation");
        assert_eq!((found.target.as_str(), found.fields), ("/chat.post", vec!["channel".to_owned()]));
    }
}
