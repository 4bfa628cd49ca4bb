//! What the deploy made: the stack's outputs, and the names that its resources got.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::aws::Endpoint;

/// A deployed stack.
#[derive(Clone, Debug)]
pub struct Stack {
    outputs: BTreeMap<String, String>,
    resources: BTreeMap<String, String>,
}

impl Stack {
    /// Ask the emulator's CloudFormation.
    pub async fn describe(endpoint: &Endpoint, name: &str) -> Result<Self> {
        let stacks = ask(endpoint, "DescribeStacks", name).await?;
        let resources = ask(endpoint, "DescribeStackResources", name).await?;
        Ok(Self {
            outputs: pairs(&stacks, "OutputKey", "OutputValue"),
            resources: pairs(&resources, "LogicalResourceId", "PhysicalResourceId"),
        })
    }

    /// One output's value.
    pub fn output(&self, key: &str) -> Result<&str> {
        let value = self.outputs.get(key);
        value.map(String::as_str).with_context(|| format!("the template has no output {key}"))
    }

    /// The name that a resource of the template got.
    pub fn physical_id(&self, logical_id: &str) -> Result<&str> {
        let id = self.resources.get(logical_id);
        id.map(String::as_str).with_context(|| format!("the stack has no resource {logical_id}"))
    }
}

async fn ask(endpoint: &Endpoint, action: &str, stack: &str) -> Result<String> {
    let form = format!("Action={action}&Version=2010-05-15&StackName={stack}");
    endpoint.query("cloudformation", &form).await
}

/// Collect each member's key and value.
///
/// CloudFormation answers in flat XML whose member elements carry exactly one of each, in either
/// order; that is all of XML that is needed here.
fn pairs(xml: &str, key: &str, value: &str) -> BTreeMap<String, String> {
    let members = xml.split("<member>").skip(1);
    members.filter_map(|member| Some((element(member, key)?, element(member, value)?))).collect()
}

fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_give_pairs_in_either_order() {
        let xml = "<Outputs><member><OutputKey>Url</OutputKey><OutputValue>a&amp;b</OutputValue></member>\
                   <member><OutputValue>t</OutputValue><Description/><OutputKey>Table</OutputKey></member></Outputs>";
        let found = pairs(xml, "OutputKey", "OutputValue");
        assert_eq!(found["Url"], "a&b");
        assert_eq!(found["Table"], "t");
    }
}
