//! Least privilege, measured: the calls that the functions made, against the roles that they were deployed with.
//!
//! The proxy in front of the emulator keeps each kind of call that a function sends. Afterwards every call must be allowed
//! by the function's role, and every permission of a role must have been used: except those of
//! `infra/local/permissions.yaml`, which no call to the emulator can show, each with its reason.

mod policy;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use axum::http::Method;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::aws::Endpoint;
use crate::project::Project;
use policy::{Permission, RolePermissions};
use wire::IamCall;

/// The calls that functions made, by the function.
#[derive(Debug, Default)]
pub(crate) struct CallRecord(Mutex<BTreeMap<String, BTreeSet<IamCall>>>);

impl CallRecord {
    /// Keeps what a function's request asks for.
    pub(crate) fn add(&self, function: &str, service: &str, parts: &Parts, body: &[u8]) {
        let calls = wire::calls(service, parts, body);
        if let Ok(mut record) = self.0.lock() {
            record.entry(function.to_owned()).or_default().extend(calls);
        }
    }

    fn of(&self, function: &str) -> BTreeSet<IamCall> {
        self.0.lock().ok().and_then(|record| record.get(function).cloned()).unwrap_or_default()
    }
}

/// Permissions that no call to the emulator shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unshown {
    functions: Vec<String>,
    actions: Vec<String>,
    /// A part of the resource's name, where not all are meant.
    #[serde(default)]
    on: String,
    /// The kind of items, where not all are meant.
    item: Option<String>,
    why: String,
}

impl Unshown {
    fn means(&self, function: &str, permission: &Permission) -> bool {
        let named = |names: &[String], name: &str| names.iter().any(|each| each == name);
        named(&self.functions, function)
            && named(&self.actions, &permission.action)
            && permission.resource.contains(&self.on)
            && (self.item.is_none() || self.item == permission.item)
    }
}

/// Checks the roles of these functions, each by the end of its name and its name, against what was recorded. Returns how
/// many permissions were used.
pub(crate) async fn check(
    project: &Project,
    endpoint: &Endpoint,
    functions: &BTreeMap<String, String>,
    record: &CallRecord,
) -> Result<usize> {
    let file = project.unshown_permissions();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let unshown: Vec<Unshown> =
        serde_saphyr::from_str(&text).with_context(|| format!("{} cannot be used", file.display()))?;
    let (mut found, mut used, mut meant) = (Vec::new(), 0, BTreeSet::new());
    for (short, name) in functions {
        let role = permissions_of(endpoint, name).await.with_context(|| format!("cannot read the role of {name}"))?;
        let judged = judge(short, &role, &record.of(name), &unshown);
        used += judged.used;
        found.extend(judged.found);
        meant.extend(judged.meant);
    }
    let stale = unshown.iter().enumerate().filter(|(at, _)| !meant.contains(at));
    found.extend(stale.map(|(_, entry)| {
        format!(
            "infra/local/permissions.yaml lists {} of {}, which no role has unused: take it out ({})",
            entry.actions.join(", "),
            entry.functions.join(", "),
            entry.why
        )
    }));
    ensure!(found.is_empty(), "the roles do not fit the calls that were made:\n  {}", found.join("\n  "));
    Ok(used)
}

/// What a function's role and its calls say of one another.
#[derive(Debug, Default)]
struct Judged {
    used: usize,
    found: Vec<String>,
    /// The places in the list of permissions that are not shown which were needed.
    meant: BTreeSet<usize>,
}

fn judge(function: &str, role: &RolePermissions, calls: &BTreeSet<IamCall>, unshown: &[Unshown]) -> Judged {
    let mut judged = Judged::default();
    let mut used = BTreeSet::new();
    for call in calls {
        let allowing = role.allowing(call);
        if allowing.is_empty() {
            let item = call.item.as_deref().map(|item| format!(" for {item}")).unwrap_or_default();
            let (action, resource) = (&call.action, &call.resource);
            judged.found.push(format!("missing: {function} calls {action} on {resource}{item}, and may not"));
        }
        used.extend(allowing);
    }
    for permission in role.allowed.iter().filter(|permission| !used.contains(permission)) {
        match unshown.iter().position(|entry| entry.means(function, permission)) {
            Some(at) => drop(judged.meant.insert(at)),
            None => {
                let item = permission.item.as_deref().map(|item| format!(" for {item}")).unwrap_or_default();
                let (action, resource) = (&permission.action, &permission.resource);
                judged.found.push(format!("unused: {function} may call {action} on {resource}{item}, and never did"));
            }
        }
    }
    judged.used = used.len();
    judged
}

/// The policies of a function's role, as they were deployed.
async fn permissions_of(endpoint: &Endpoint, function: &str) -> Result<RolePermissions> {
    let path = format!("/2015-03-31/functions/{function}/configuration");
    let answer =
        endpoint.send("lambda", Method::GET, &path, &[], "").await?.expect_success("GetFunctionConfiguration")?;
    let role = answer.json()?["Role"].as_str().and_then(|arn| arn.rsplit('/').next()).map(str::to_owned);
    let role = role.context("the function has no role")?;
    let listed = ask(endpoint, "ListRolePolicies", &role, "").await?;
    let mut permissions = RolePermissions::default();
    for name in elements(&listed, "member") {
        let policy = ask(endpoint, "GetRolePolicy", &role, &format!("&PolicyName={name}")).await?;
        let [document] = elements(&policy, "PolicyDocument")[..] else {
            anyhow::bail!("the policy {name} has no text")
        };
        let document = percent_decode_str(document).decode_utf8().context("the policy is no text")?;
        permissions.add(&serde_json::from_str(&document).context("the policy is no JSON")?)?;
    }
    ensure!(!permissions.allowed.is_empty(), "the role {role} allows nothing");
    Ok(permissions)
}

async fn ask(endpoint: &Endpoint, action: &str, role: &str, more: &str) -> Result<String> {
    endpoint.query("iam", &format!("Action={action}&Version=2010-05-08&RoleName={role}{more}")).await
}

/// The texts of the elements of this name in flat XML.
fn elements<'x>(xml: &'x str, name: &str) -> Vec<&'x str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(actions: &[&str]) -> RolePermissions {
        let mut role = RolePermissions::default();
        let statement = json!({"Effect": "Allow", "Action": actions, "Resource": "arn:t"});
        role.add(&json!({"Statement": [statement]})).expect("it is understood");
        role
    }

    fn called(action: &str) -> BTreeSet<IamCall> {
        [IamCall { action: action.into(), resource: "arn:t".into(), item: None }].into()
    }

    #[test]
    fn a_missing_and_an_unused_permission_are_found() {
        let judged = judge("intake", &role(&["a:Read", "a:Write"]), &called("a:Delete"), &[]);
        let found = judged.found.join("\n");
        assert!(found.contains("missing: intake calls a:Delete on arn:t, and may not"), "{found}");
        assert!(found.contains("unused: intake may call a:Write on arn:t, and never did"), "{found}");
        assert_eq!((judged.found.len(), judged.used), (3, 0));
    }

    #[test]
    fn what_the_emulator_cannot_show_is_explained_for_its_function_alone() {
        let entry = |on: &str| Unshown {
            functions: vec!["intake".into()],
            actions: vec!["a:Write".into()],
            on: on.into(),
            item: None,
            why: "why".into(),
        };
        let judge =
            |function: &str, on: &str| judge(function, &role(&["a:Read", "a:Write"]), &called("a:Read"), &[entry(on)]);
        assert!(judge("intake", "").found.is_empty() && judge("intake", "").meant.contains(&0));
        assert_eq!(judge("intake", "arn:u").found.len(), 1, "another resource");
        assert_eq!(judge("replay", "").found.len(), 1, "another function");
        assert_eq!(elements("<m><member>a</member><member>b</member></m>", "member"), ["a", "b"]);
    }
}
