//! The decisions of an operator: approve, reject, drop, resolve.

mod approval;
mod drop;
mod resolve;

pub(crate) use approval::{ApprovalArgs, ApproveOrReject, EXAMPLES as APPROVAL_EXAMPLES};
pub(crate) use drop::{DropArgs, EXAMPLES as DROP_EXAMPLES};
pub(crate) use resolve::{EXAMPLES as RESOLVE_EXAMPLES, ResolveArgs};

use anyhow::Result;
use serde::Deserialize;

use crate::cloud::CloudClient;
use crate::dead::{ParkedEvent, read_event};

/// Reads the events as they are now. An unknown id is an error: then nothing is decided at all.
async fn read_events(cloud: &CloudClient, ids: &[String]) -> Result<Vec<ParkedEvent>> {
    let mut lines = Vec::new();
    for id in ids {
        lines.push(ParkedEvent::deserialize(read_event(cloud, id).await?)?);
    }
    Ok(lines)
}
