//! The deployed stack: its outputs, and the names of its resources.

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
    /// Reads the stack from the emulator's CloudFormation.
    pub async fn describe(endpoint: &Endpoint, name: &str) -> Result<Self> {
        let stacks = ask(endpoint, "DescribeStacks", name).await?;
        let resources = ask(endpoint, "DescribeStackResources", name).await?;
        Ok(Self {
            outputs: pairs(&stacks, "OutputKey", "OutputValue"),
            resources: pairs(&resources, "LogicalResourceId", "PhysicalResourceId"),
        })
    }

    /// The value of an output.
    pub fn output(&self, key: &str) -> Result<&str> {
        let value = self.outputs.get(key);
        value.map(String::as_str).with_context(|| {
            format!("the deployed stack has no output {key}: check the Outputs of infra/template.yaml")
        })
    }

    /// The name of a resource, by its id in the template.
    pub fn physical_id(&self, logical_id: &str) -> Result<&str> {
        let id = self.resources.get(logical_id);
        id.map(String::as_str)
            .with_context(|| format!("the deployed stack has no resource {logical_id}: check infra/template.yaml"))
    }
}

async fn ask(endpoint: &Endpoint, action: &str, stack: &str) -> Result<String> {
    let form = format!("Action={action}&Version=2010-05-15&StackName={stack}");
    endpoint.query("cloudformation", &form).await
}

/// The key and the value of each member.
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
