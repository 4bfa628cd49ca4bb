//! The catalogue's requests, checked by Prism against the partners' own API descriptions: `make partners`.
//!
//! Each request is made from sample values by the real renderer, sent by the real client, and given to Prism, which must
//! accept it, and refuse it when it is broken in its credentials, a header, its content type or a field. Its snapshot then
//! holds the hash of what was accepted. The tests render each request again and compare: they need neither Prism nor the
//! descriptions, and a changed request fails them until it has been here again.

mod breakage;
mod capture;
mod description;
mod sample;
mod server;
mod wire;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use breakage::{Breakage, breakages};
pub use description::{ApiDescription, ApiOperation};
pub use sample::{PartnerSamples, SAMPLE_SECRET, SampleRequest, flows_of, requests, samples};
pub use server::{PrismServer, Verdict};
pub use wire::{Snapshot, WireRequest};

use crate::output::print;
use crate::project::Project;

/// The folder of the snapshots, in the project.
pub const SNAPSHOTS: &str = "tests/partners";

/// The file of a request's snapshot.
pub fn snapshot_file(root: &Path, name: &str) -> PathBuf {
    root.join(SNAPSHOTS).join(format!("{name}.http"))
}

/// Takes every request through Prism that a description in the folder is there for, and writes all snapshots.
pub async fn check(project: &Project, descriptions: &Path) -> Result<()> {
    server::check_folder(descriptions)?;
    server::install(project).await?;
    let descriptions = ApiDescription::all(descriptions)?;
    let requests = requests(project.root()).await?;
    let mut wrong = Vec::new();
    for description in &descriptions {
        let described: Vec<(&SampleRequest, ApiOperation)> =
            requests.iter().filter_map(|sample| Some((sample, description.operation(&sample.request)?))).collect();
        if described.is_empty() {
            wrong.push(format!("{}: no request of the catalogue asks for it", description.name()));
            continue;
        }
        let mut prism = PrismServer::start(project, description).await?;
        for (sample, operation) in described {
            wrong.extend(judge(&mut prism, sample, &operation).await?);
        }
    }
    if !wrong.is_empty() {
        bail!("no snapshot was written:\n  {}", wrong.join("\n  "));
    }
    write(project.root(), &requests, &descriptions)
}

/// What is wrong with one request: it is refused, or accepted although it is broken.
async fn judge(prism: &mut PrismServer, sample: &SampleRequest, operation: &ApiOperation) -> Result<Vec<String>> {
    let extra = |request: WireRequest| {
        sample.extra.iter().fold(request, |request, (name, value)| request.with_header(name, value))
    };
    let request = extra(sample.request.clone());
    let mut wrong = Vec::new();
    if let Verdict::Refused(why) = prism.judge(&request, operation).await? {
        wrong.push(format!("{} is refused: {why}", sample.name));
    }
    let mut told = Vec::new();
    for Breakage { what, request } in breakages(&request, operation) {
        match prism.judge(&request, operation).await? {
            Verdict::Refused(why) => told.push(format!("    {what}: {why}\n")),
            Verdict::Accepted => wrong.push(format!("{} is accepted although its {what} is broken", sample.name)),
        }
    }
    print(&format!("{} accepted, and refused when it is broken:\n{}", sample.name, told.concat()));
    Ok(wrong)
}

fn write(root: &Path, requests: &[SampleRequest], descriptions: &[ApiDescription]) -> Result<()> {
    for sample in requests {
        let described = descriptions.iter().find(|description| description.operation(&sample.request).is_some());
        let name = described.map(ApiDescription::name);
        let snapshot = Snapshot::new(&sample.request, name.as_deref());
        let file = snapshot_file(root, &sample.name);
        std::fs::write(&file, snapshot.file()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    print(&format!("{} snapshots are written below {SNAPSHOTS}.\n", requests.len()));
    Ok(())
}
