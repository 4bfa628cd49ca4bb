//! Where a line of an export goes: to which source, and as its sender posts it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use shared::flows::{Flows, Header, ProofPlace, Scheme, Source, Stamp};
use sim::stage::Posted;

use super::export::ExportLine;

/// Whose lines an export has, where the command says it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChosenRoute<'c> {
    /// The source that sent them.
    pub source: Option<&'c str>,
    /// The flow that takes them.
    pub flow: Option<&'c str>,
}

/// The source that sent a line. It is never guessed: a line at the wrong source would be rejected, or be another event.
pub(super) fn source_of<'f>(line: &ExportLine, flows: &'f Flows, chosen: ChosenRoute<'_>) -> Result<&'f str> {
    if let Some(flow) = chosen.flow.and_then(|name| flows.flow(name)) {
        return Ok(&flow.on.source);
    }
    let sources: BTreeSet<&str> = flows.all().map(|flow| flow.on.source.as_str()).collect();
    if let Some(name) = chosen.source {
        let known = sources.get(name).copied();
        return known.with_context(|| format!("no flow takes events from `{name}`: check the name after --source"));
    }
    let fits = |name: &&str| flows.source(name).is_some_and(|source| takes(line, name, source, flows));
    let fitting: Vec<&str> = sources.iter().copied().filter(fits).collect();
    match (sources.len(), &fitting[..]) {
        (1, _) => sources.first().copied().context("there are no flows"),
        (_, [one]) => Ok(one),
        (_, []) => bail!(
            "line {} names no type that a flow takes, and the flows have several sources ({}): say with --source which \
             of them sent the export",
            line.number,
            listed(&sources)
        ),
        _ => bail!(
            "line {} is of a type that flows take from several sources ({}): say with --source which of them sent the \
             export",
            line.number,
            fitting.join(", ")
        ),
    }
}

fn listed(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Whether a flow takes an event of the line from this source.
fn takes(line: &ExportLine, name: &str, source: &Source, flows: &Flows) -> bool {
    let mut events = line.events(source).into_iter();
    events.any(|event| source.type_of(&event).is_some_and(|kind| flows.route(name, kind).is_some()))
}

/// What the sender of a line posted.
pub(super) fn posted(line: &ExportLine, flows: &Flows, chosen: ChosenRoute<'_>) -> Result<Posted> {
    let name = source_of(line, flows, chosen)?;
    let source = flows.source(name).context("flows name sources that are there")?;
    let document = line.json.clone().map(|json| source.as_posted(json));
    let named = document.as_ref().is_some_and(|document| source.names_types(document));
    let event_type = if named { None } else { type_in_path(line, name, source, flows, chosen)? };
    let body = match document.filter(|document| Some(document) != line.json.as_ref()) {
        Some(document) => document.to_string().into_bytes(),
        None => line.body.clone(),
    };
    let ids = source.scheme.signature().map(|signature| &signature.id[..]).unwrap_or_default();
    let delivery_id = ids.iter().find_map(|name| line.header(&name.to_ascii_lowercase()));
    let delivery_id = delivery_id.unwrap_or_else(|| line.fingerprint());
    Ok(Posted {
        source: name.to_owned(),
        event_type,
        delivery_id,
        headers: headers(line, name, source, flows),
        body,
        batch: false,
    })
}

/// The type that the path names, where the body does not: only a sender that has its types in paths posts there.
fn type_in_path(
    line: &ExportLine,
    name: &str,
    source: &Source,
    flows: &Flows,
    chosen: ChosenRoute<'_>,
) -> Result<Option<String>> {
    if let Some(flow) = chosen.flow.and_then(|name| flows.flow(name)) {
        return Ok(Some(flow.on.event_type.clone()));
    }
    if source.type_at.is_some() {
        return Ok(None);
    }
    let types: BTreeSet<&str> =
        flows.all().filter(|flow| flow.on.source == name).map(|flow| flow.on.event_type.as_str()).collect();
    match (types.len(), types.first()) {
        (1, Some(one)) => Ok(Some((*one).to_owned())),
        _ => bail!(
            "line {} does not say of which type it is: `{name}` has its types in the path, and flows take {} from it. Say \
             which flow takes the export with --flow",
            line.number,
            listed(&types)
        ),
    }
}

/// The header fields of a line, without those that the sender makes anew with each signature.
fn headers(line: &ExportLine, name: &str, source: &Source, flows: &Flows) -> Vec<(String, String)> {
    let proof = proof_headers(&source.scheme);
    let mut headers: Vec<_> = line
        .headers
        .iter()
        .filter(|(name, _)| !proof.iter().any(|own| own.eq_ignore_ascii_case(name)))
        .cloned()
        .collect();
    let keyed = flows.all().any(|flow| flow.on.source == name && flow.key.header == Header::Required);
    if keyed && line.header("idempotency-key").is_none() {
        headers.push(("idempotency-key".into(), line.fingerprint()));
    }
    headers
}

fn proof_headers(scheme: &Scheme) -> Vec<&str> {
    let signature = match scheme {
        Scheme::Signature(signature) => signature,
        Scheme::Token(token) => return vec![&token.header],
        Scheme::None => return Vec::new(),
    };
    let stamp = signature.timestamp.iter().map(|Stamp { at, .. }| at);
    let places = stamp.chain([&signature.at]).filter_map(|place| match place {
        ProofPlace::Header(names) => Some(names),
        ProofPlace::Item(_) | ProofPlace::Field(_) => None,
    });
    places.chain([&signature.id]).flat_map(|names| names.iter()).map(AsRef::as_ref).collect()
}
