//! What integrations.yaml promises of a partner beyond what the catalogue knows of it.

use serde_json::Value;
use shared::base::wrong::step;
use shared::flows::catalog::Shelf;
use shared::flows::{File, Guarantee, Problem};

use super::findings::word;
use crate::args::parse_duration;
use crate::flows::prove::rank;

/// The promises that a partner of the catalogue is not known to keep.
pub(super) fn of_integrations(files: &[File]) -> Vec<Problem> {
    let Some(file) = files.iter().find(|file| file.path == Shelf::Partners.user()) else { return Vec::new() };
    let written: Value = serde_saphyr::from_str(&file.text).unwrap_or_default();
    let mut found = Vec::new();
    for (name, integration) in written.as_object().into_iter().flatten() {
        let Some(uses) = integration["uses"].as_str() else { continue };
        let path = Shelf::Partners.path(uses);
        let known = files.iter().find(|file| file.path == path);
        let known: Value = known.and_then(|file| serde_saphyr::from_str(&file.text).ok()).unwrap_or_default();
        let promises = window(uses, integration, &known).into_iter().chain(calls(uses, integration, &known));
        found.extend(promises.map(|(at, what)| Problem::at(file, &format!("{}{at}", step(name)), &what)));
    }
    found
}

/// A key that is believed to be known for longer than the partner says that it knows it. Where the catalogue does not know,
/// the author may.
fn window(uses: &str, integration: &Value, known: &Value) -> Option<(String, String)> {
    let (own, theirs) = (integration["key_window"].as_str()?, known["key_window"].as_str()?);
    let longer = parse_duration(own).ok()? > parse_duration(theirs).ok()?;
    let what = format!(
        "`{uses}` is known to remember a key for {theirs}, and not for {own}: a call that is repeated later could happen \
         twice"
    );
    longer.then(|| ("/key_window".to_owned(), what))
}

fn calls(uses: &str, integration: &Value, known: &Value) -> Vec<(String, String)> {
    let stronger = integration["calls"].as_object().into_iter().flatten().filter_map(|(call, own)| {
        let (own, theirs) = (guarantee(&own["guarantee"])?, guarantee(&known["calls"][call]["guarantee"])?);
        let lies = matches!(own, Guarantee::Native | Guarantee::Idempotent) && rank(theirs) < rank(own);
        let what = format!(
            "`{}` is more than is known of `{uses}.{call}`, whose guarantee is `{}`: a lost call could happen twice",
            word(own),
            word(theirs)
        );
        lies.then(|| (format!("/calls{}/guarantee", step(call)), what))
    });
    stronger.collect()
}

fn guarantee(written: &Value) -> Option<Guarantee> {
    serde_json::from_value(written.clone()).ok()
}
