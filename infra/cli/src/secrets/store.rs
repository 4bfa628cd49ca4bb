//! The stack's parameters in SSM, by their names alone.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SecretOwner;
use crate::cloud::CloudClient;

/// A stored secret, without its value.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredSecret {
    /// Whose it is, as the verbs name it.
    pub(super) owner: String,
    /// Its own name. The last by name counts for partners.
    pub(super) name: String,
    /// When it was written, in seconds since 1970.
    pub(super) written_at: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    #[serde(default)]
    parameters: Vec<Parameter>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    name: String,
    #[serde(default)]
    last_modified_date: f64,
}

/// All secrets of the stack, in the order of their names.
pub(super) async fn all(cloud: &CloudClient) -> Result<Vec<StoredSecret>> {
    let (mut secrets, mut token) = (Vec::new(), None);
    let path = format!("/{}", cloud.stack());
    loop {
        let mut input = json!({"Path": path, "Recursive": true, "WithDecryption": false});
        if let Some(token) = token {
            input["NextToken"] = Value::String(token);
        }
        let page: Page = serde_json::from_value(cloud.read_parameters("GetParametersByPath", input).await?)?;
        secrets.extend(page.parameters.iter().filter_map(|parameter| stored(&path, parameter)));
        token = page.next_token;
        if token.is_none() {
            secrets.sort();
            return Ok(secrets);
        }
    }
}

fn stored(path: &str, parameter: &Parameter) -> Option<StoredSecret> {
    let (owner, name) = parameter.name.strip_prefix(path)?.trim_start_matches('/').rsplit_once('/')?;
    #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
    let written_at = parameter.last_modified_date as i64;
    Some(StoredSecret { owner: owner.into(), name: name.into(), written_at })
}

/// The names of one owner's secrets, the last one last.
pub(super) async fn names_of(cloud: &CloudClient, owner: &SecretOwner) -> Result<Vec<String>> {
    let owner = owner.to_string();
    let secrets = all(cloud).await?.into_iter().filter(|secret| secret.owner == owner);
    Ok(secrets.map(|secret| secret.name).collect())
}

/// Writes a secret under a name that is not taken.
pub(super) async fn put(
    cloud: &CloudClient,
    owner: &SecretOwner,
    name: &str,
    secret: &str,
    key: Option<&str>,
) -> Result<()> {
    let mut input = json!({"Name": full_name(cloud, owner, name), "Value": secret, "Type": "SecureString"});
    if let Some(key) = key {
        input["KeyId"] = json!(key);
    }
    cloud.change_parameters("PutParameter", input, "secrets list").await
}

/// Deletes one secret.
pub(super) async fn delete(cloud: &CloudClient, owner: &SecretOwner, name: &str) -> Result<()> {
    let input = json!({"Name": full_name(cloud, owner, name)});
    cloud.change_parameters("DeleteParameter", input, "secrets list").await
}

fn full_name(cloud: &CloudClient, owner: &SecretOwner, name: &str) -> String {
    format!("/{}/{owner}/{name}", cloud.stack())
}
