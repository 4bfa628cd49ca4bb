//! A human's word: approve, reject, drop, resolve.

mod answer;
mod drop;
mod resolve;

pub(crate) use answer::{Answer, EXAMPLES as ANSWER_EXAMPLES, Question};
pub(crate) use drop::{Drop, EXAMPLES as DROP_EXAMPLES};
pub(crate) use resolve::{EXAMPLES as RESOLVE_EXAMPLES, Resolve};

use anyhow::Result;
use serde::Deserialize;

use crate::cloud::Cloud;
use crate::dead::{Line, look_at};

/// The events as they are now. One that there is not ends it: nothing is decided half.
async fn look(cloud: &Cloud, ids: &[String]) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for id in ids {
        lines.push(Line::deserialize(look_at(cloud, id).await?)?);
    }
    Ok(lines)
}
