//! The catalogue's requests, checked by Prism against the partners' own API descriptions: `make partners`.
//!
//! Each request is made from sample values by the real renderer, sent by the real client, and given to Prism, which must
//! accept it, and refuse it when it is broken in its credentials, a header, its content type or a field. Its snapshot then
//! holds the hash of what was accepted, and what was said of each breakage. The tests render each request again and compare: they need neither Prism nor the
//! descriptions, and a changed request fails them until it has been here again.

mod breakage;
mod capture;
mod description;
mod sample;
mod server;
mod snapshot;
mod wire;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use breakage::{BROKEN_IN, Breakage, breakages};
pub use description::{ApiDescription, ApiOperation};
pub use sample::{
    PartnerSamples, SAMPLE_SECRET, SampleRequest, flows_of, flows_trusting, requests, requests_of, samples,
};
pub use server::{PrismServer, Verdict};
pub use snapshot::{NOT_DEMANDED, REFUSED, Seal, Snapshot};
pub use wire::WireRequest;

use crate::output::print;
use crate::project::Project;

/// The folder of the snapshots, in the project.
pub const SNAPSHOTS: &str = "tests/partners";

/// The file of a request's snapshot.
pub fn snapshot_file(root: &Path, name: &str) -> PathBuf {
    root.join(SNAPSHOTS).join(format!("{name}.http"))
}

/// Takes every request through Prism that a description in the folder is there for, and writes the snapshots of these,
/// and of those that no description was ever there for. Where the description is not in the folder, the snapshot stays.
pub async fn check(project: &Project, descriptions: &Path) -> Result<()> {
    server::check_folder(descriptions)?;
    server::install(project).await?;
    let descriptions = ApiDescription::all(descriptions)?;
    let requests = requests(project.root()).await?;
    let (mut wrong, mut snapshots) = (Vec::new(), BTreeMap::new());
    for description in &descriptions {
        let described: Vec<(&SampleRequest, ApiOperation)> =
            requests.iter().filter_map(|sample| Some((sample, description.operation(&sample.request)?))).collect();
        if described.is_empty() {
            wrong.push(format!("{}: no request of the catalogue asks for it", description.name()));
            continue;
        }
        let mut prism = PrismServer::start(project, description).await?;
        for (sample, operation) in described {
            match judge(&mut prism, sample, &operation).await? {
                Ok(broken) => {
                    let extra = sample.extra_for(&operation);
                    let snapshot = Snapshot::judged(&sample.request, description.name(), extra, broken);
                    snapshots.insert(sample.name.as_str(), snapshot);
                }
                Err(why) => wrong.extend(why),
            }
        }
    }
    for sample in requests.iter().filter(|sample| !snapshots.contains_key(sample.name.as_str())).collect::<Vec<_>>() {
        match undescribed(project.root(), sample) {
            Ok(snapshot) => drop(snapshots.insert(&sample.name, snapshot)),
            Err(why) => wrong.push(why),
        }
    }
    if !wrong.is_empty() {
        bail!("no snapshot was written:\n  {}", wrong.join("\n  "));
    }
    write(project.root(), &snapshots)
}

/// The snapshot of a request that no description in the folder is there for. One that Prism accepted by another stays.
fn undescribed(root: &Path, sample: &SampleRequest) -> Result<Snapshot, String> {
    let file = std::fs::read_to_string(snapshot_file(root, &sample.name)).unwrap_or_default();
    let known = Snapshot::parse(&file).filter(|snapshot| snapshot.accepted.is_some());
    let Some(known) = known else { return Ok(Snapshot::documented(&sample.request)) };
    match known.text == sample.request.text() {
        true => Ok(known),
        false => Err(format!(
            "{} has changed, and its description is not in the folder: {}",
            sample.name,
            known.accepted.map(|seal| seal.description).unwrap_or_default()
        )),
    }
}

/// What Prism says of one request, broken in each way; or what is wrong: it is refused, or accepted although it is broken.
async fn judge(
    prism: &mut PrismServer,
    sample: &SampleRequest,
    operation: &ApiOperation,
) -> Result<Result<[String; 4], Vec<String>>> {
    let extra = |request: WireRequest| {
        let extra = sample.extra_for(operation);
        extra.iter().fold(request, |request, (name, value)| request.with_header(name, value))
    };
    let mut wrong = Vec::new();
    if let Verdict::Refused(why) = prism.judge(&extra(sample.request.clone()), operation).await? {
        wrong.push(format!("{} is refused: {why}", sample.name));
    }
    let mut told = [const { String::new() }; 4];
    let broken = breakages(&sample.request, operation).with_context(|| sample.name.clone())?;
    for ((what, breakage), told) in BROKEN_IN.iter().zip(broken).zip(&mut told) {
        *told = match breakage {
            Breakage::NotDemanded(why) => format!("{NOT_DEMANDED}{why}"),
            Breakage::Broken(request) => match prism.judge(&extra(request), operation).await? {
                Verdict::Refused(why) => format!("{REFUSED}{why}"),
                Verdict::Accepted => {
                    wrong.push(format!("{} is accepted although its {what} is broken", sample.name));
                    continue;
                }
            },
        };
    }
    let lines: String = BROKEN_IN.iter().zip(&told).map(|(what, told)| format!("    {what} {told}\n")).collect();
    print(&format!("{} accepted, and broken in its\n{lines}", sample.name));
    Ok(if wrong.is_empty() { Ok(told) } else { Err(wrong) })
}

fn write(root: &Path, snapshots: &BTreeMap<&str, Snapshot>) -> Result<()> {
    for (name, snapshot) in snapshots {
        let file = snapshot_file(root, name);
        std::fs::write(&file, snapshot.file()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let accepted = snapshots.values().filter(|snapshot| snapshot.accepted.is_some()).count();
    print(&format!("{} snapshots are written below {SNAPSHOTS}; Prism accepted {accepted}.\n", snapshots.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a snapshot that Prism accepted, and the sample of its request.
    fn accepted(root: &Path) -> (Snapshot, SampleRequest) {
        let request = WireRequest {
            method: "POST".into(),
            url: "https://a.example/x".into(),
            headers: Vec::new(),
            body: "{}".into(),
        };
        let told = BROKEN_IN.map(|what| format!("{REFUSED}no {what}"));
        let snapshot = Snapshot::judged(&request, "a.json".into(), BTreeMap::new(), told);
        std::fs::create_dir_all(root.join(SNAPSHOTS)).expect("a folder");
        std::fs::write(snapshot_file(root, "a.call"), snapshot.file()).expect("a file");
        (snapshot, SampleRequest { name: "a.call".into(), partner: "a".into(), request, extra: BTreeMap::new() })
    }

    #[test]
    fn a_folder_without_a_description_takes_no_verdict_back() {
        let root = std::env::temp_dir().join(format!("ledgerline-prism-{}", std::process::id()));
        let (snapshot, sample) = accepted(&root);
        let kept = undescribed(&root, &sample);
        let mut changed = sample.clone();
        changed.request.body = "{\"a\":1}".into();
        let declined = undescribed(&root, &changed);
        let other = SampleRequest { name: "a.other".into(), ..sample.clone() };
        let new = undescribed(&root, &other);
        std::fs::remove_dir_all(&root).expect("the folder");
        assert_eq!(kept, Ok(snapshot));
        assert!(declined.is_err_and(|why| why.contains("a.json")), "it has to be taken through Prism again");
        assert_eq!(new, Ok(Snapshot::documented(&sample.request)));
    }
}
