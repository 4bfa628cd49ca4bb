//! A role's policies, taken apart into single permissions.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::wire::IamCall;

/// The one condition that is understood: the partition keys of the items.
const LEADING_KEYS: &str = "dynamodb:LeadingKeys";

/// One action on one resource, and on one kind of items where a condition says so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    pub(crate) action: String,
    pub(crate) resource: String,
    pub(crate) item: Option<String>,
}

/// What a role may do, and what it may not whatever else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct RolePermissions {
    pub(crate) allowed: Vec<Permission>,
    denied: Vec<Permission>,
}

impl RolePermissions {
    /// Adds the statements of a policy. One that is not understood is an error: it would be judged wrongly.
    pub(crate) fn add(&mut self, policy: &Value) -> Result<()> {
        let statements = list(&policy["Statement"]);
        for statement in statements {
            let to = match statement["Effect"].as_str() {
                Some("Allow") => &mut self.allowed,
                Some("Deny") => &mut self.denied,
                _ => bail!("a statement has no effect: {statement}"),
            };
            to.extend(permissions(statement).with_context(|| format!("a statement is not understood: {statement}"))?);
        }
        Ok(())
    }

    /// The permissions that allow a call. None: the call would be denied.
    pub(crate) fn allowing(&self, call: &IamCall) -> Vec<&Permission> {
        if self.denied.iter().any(|denied| denied.covers(call)) {
            return Vec::new();
        }
        self.allowed.iter().filter(|allowed| allowed.covers(call)).collect()
    }
}

impl Permission {
    fn covers(&self, call: &IamCall) -> bool {
        let item = match (&self.item, &call.item) {
            (Some(pattern), Some(item)) => fits(pattern, item),
            // `ForAllValues` is true where there is no value.
            _ => true,
        };
        item && fits(&self.action, &call.action) && fits(&self.resource, &call.resource)
    }
}

fn permissions(statement: &Value) -> Result<Vec<Permission>> {
    let (actions, resources) = (texts(&statement["Action"])?, texts(&statement["Resource"])?);
    let items = items(&statement["Condition"])?;
    let items: Vec<Option<String>> = if items.is_empty() { vec![None] } else { items.into_iter().map(Some).collect() };
    let mut all = Vec::new();
    for action in &actions {
        for resource in &resources {
            let one = |item: &Option<String>| Permission {
                action: action.clone(),
                resource: resource.clone(),
                item: item.clone(),
            };
            all.extend(items.iter().map(one));
        }
    }
    Ok(all)
}

fn items(condition: &Value) -> Result<Vec<String>> {
    let mut items = Vec::new();
    for (operator, keys) in condition.as_object().into_iter().flatten() {
        for (key, values) in keys.as_object().into_iter().flatten() {
            let known = ["ForAllValues:StringLike", "ForAllValues:StringEquals"].contains(&operator.as_str());
            if !known || key != LEADING_KEYS {
                bail!("its condition {operator} on {key} cannot be judged here");
            }
            items.extend(texts(values)?);
        }
    }
    Ok(items)
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |many| many.iter().collect())
}

fn texts(value: &Value) -> Result<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("it has no text where IAM wants one");
    list(value).into_iter().map(text).collect()
}

/// Whether a text fits a pattern of IAM's, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| text.strip_prefix(start)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(action: &str, resource: &str, item: Option<&str>) -> IamCall {
        IamCall { action: action.into(), resource: resource.into(), item: item.map(str::to_owned) }
    }

    fn role(statements: Value) -> RolePermissions {
        let mut role = RolePermissions::default();
        role.add(&json!({"Statement": statements})).expect("it is understood");
        role
    }

    #[test]
    fn a_call_is_allowed_by_its_action_its_resource_and_its_item() {
        let role = role(json!([{
            "Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem"], "Resource": "arn:t",
            "Condition": {"ForAllValues:StringLike": {LEADING_KEYS: ["replay/*", "switchboard"]}},
        }]));
        assert_eq!(role.allowed.len(), 4, "each action on each kind of items");
        let allows = |call| !role.allowing(&call).is_empty();
        assert!(allows(call("dynamodb:GetItem", "arn:t", Some("replay/…"))));
        assert!(allows(call("dynamodb:UpdateItem", "arn:t", Some("switchboard"))));
        assert!(allows(call("dynamodb:UpdateItem", "arn:t", None)), "as ForAllValues says");
        assert!(!allows(call("dynamodb:UpdateItem", "arn:t", Some("latest/…"))), "another item");
        assert!(!allows(call("dynamodb:PutItem", "arn:t", Some("replay/…"))), "another action");
        assert!(!allows(call("dynamodb:GetItem", "arn:t/index/parked", Some("replay/…"))), "another resource");
    }

    #[test]
    fn a_denial_outweighs() {
        let role = role(json!([
            {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": ["arn:f:*"]},
            {"Effect": "Deny", "Action": "lambda:InvokeFunction", "Resource": ["arn:f:own-*"]},
        ]));
        assert!(role.allowing(&call("lambda:InvokeFunction", "arn:f:own-replay", None)).is_empty());
        assert_eq!(role.allowing(&call("lambda:InvokeFunction", "arn:f:team", None)).len(), 1);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for statement in [
            json!({"Effect": "Allow", "Action": "a:B", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}),
            json!({"Effect": "Allow", "NotAction": "a:B", "Resource": "*"}),
            json!({"Action": "a:B", "Resource": "*"}),
        ] {
            assert!(RolePermissions::default().add(&json!({"Statement": [statement]})).is_err(), "{statement}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text) in [("a", "a"), ("*", ""), ("a*", "abc"), ("*c", "abc"), ("a*c*e", "abcde"), ("a/*", "a/")]
        {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*", "b"), ("*c", "cb"), ("a*c*e", "ace-"), ("a/*", "a"), ("", "a")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
