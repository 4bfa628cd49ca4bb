//! What checkov finds in the template: nothing but what `infra/checkov.yaml` explains.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::project::Project;
use crate::tools::Tools;

/// Findings that are meant, with the reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainedFinding {
    check: String,
    resources: BTreeSet<String>,
    why: String,
}

#[derive(Debug, Deserialize)]
struct CheckovReport {
    results: CheckovResults,
    summary: CheckovSummary,
}

#[derive(Debug, Deserialize)]
struct CheckovResults {
    failed_checks: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct CheckovSummary {
    passed: usize,
    parsing_errors: usize,
}

#[derive(Debug, Deserialize)]
struct Finding {
    check_id: String,
    check_name: String,
    resource: String,
}

impl Finding {
    /// The resource's id in the template, without its type.
    fn logical_id(&self) -> &str {
        self.resource.rsplit('.').next().unwrap_or_default()
    }
}

/// Runs checkov over the template. Returns how many of its findings are explained.
pub(crate) async fn check(project: &Project, tools: &Tools) -> Result<usize> {
    let mut checkov = tools.command("python3");
    checkov.args(["-m", "checkov.main", "--framework", "cloudformation", "--skip-download", "--compact", "--quiet"]);
    checkov.args(["--output", "json", "--soft-fail", "--file"]).arg(project.template());
    // Both would ask a network.
    checkov.env("BC_SKIP_MAPPING", "TRUE").env("CHECKOV_RENDER_MODULES", "False");
    let output = checkov.kill_on_drop(true).output().await.context("cannot run checkov")?;
    let report: CheckovReport = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("checkov gave no report:\n{}", String::from_utf8_lossy(&output.stderr)))?;
    let file = project.explained_findings();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let explained: Vec<ExplainedFinding> =
        serde_saphyr::from_str(&text).with_context(|| format!("{} cannot be used", file.display()))?;
    judge(&report, &explained)
}

fn judge(report: &CheckovReport, explained: &[ExplainedFinding]) -> Result<usize> {
    let CheckovSummary { passed, parsing_errors } = report.summary;
    ensure!(parsing_errors == 0 && passed > 0, "checkov could not read infra/template.yaml");
    let found: BTreeSet<(&str, &str)> =
        report.results.failed_checks.iter().map(|finding| (finding.check_id.as_str(), finding.logical_id())).collect();
    let meant: BTreeSet<(&str, &str)> = explained
        .iter()
        .flat_map(|entry| entry.resources.iter().map(|resource| (entry.check.as_str(), resource.as_str())))
        .collect();
    let mut told = Vec::new();
    for finding in &report.results.failed_checks {
        if !meant.contains(&(finding.check_id.as_str(), finding.logical_id())) {
            told.push(format!("{} of {}: {}", finding.check_id, finding.logical_id(), finding.check_name));
        }
    }
    for (check, resource) in meant.difference(&found) {
        told.push(format!("{check} of {resource} is no finding any more: take it out of infra/checkov.yaml"));
    }
    let unexplained = explained.iter().filter(|entry| entry.why.trim().is_empty());
    told.extend(unexplained.map(|entry| format!("{} is listed without a reason", entry.check)));
    ensure!(
        told.is_empty(),
        "checkov finds in infra/template.yaml:\n  {}\nMend it, or explain it in infra/checkov.yaml",
        told.join("\n  ")
    );
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(found: &[(&str, &str)], parsing_errors: usize) -> CheckovReport {
        let checks: Vec<String> = found
            .iter()
            .map(|(check, resource)| {
                format!(r#"{{"check_id": "{check}", "check_name": "n", "resource": "AWS::SQS::Queue.{resource}"}}"#)
            })
            .collect();
        let text = format!(
            r#"{{"results": {{"failed_checks": [{}]}}, "summary": {{"passed": 7, "parsing_errors": {parsing_errors}}}}}"#,
            checks.join(",")
        );
        serde_json::from_str(&text).expect("a report")
    }

    fn explained(why: &str) -> Vec<ExplainedFinding> {
        let resources = ["Queue".to_owned()].into();
        vec![ExplainedFinding { check: "CKV_1".into(), resources, why: why.into() }]
    }

    #[test]
    fn a_finding_is_explained_for_its_resource_or_it_is_told() {
        assert_eq!(judge(&report(&[("CKV_1", "Queue")], 0), &explained("why")).ok(), Some(1));
        for (wrong, found, why) in [
            ("CKV_1 of Other: n", &[("CKV_1", "Queue"), ("CKV_1", "Other")][..], "why"),
            ("CKV_2 of Queue: n", &[("CKV_1", "Queue"), ("CKV_2", "Queue")], "why"),
            ("CKV_1 of Queue is no finding any more", &[], "why"),
            ("CKV_1 is listed without a reason", &[("CKV_1", "Queue")], " "),
        ] {
            let told = judge(&report(found, 0), &explained(why)).expect_err(wrong).to_string();
            assert!(told.contains(wrong), "{told}");
        }
        assert!(judge(&report(&[("CKV_1", "Queue")], 1), &explained("why")).is_err(), "not read");
    }
}
