//! The requests of the catalogue, made from sample values by the real renderer, and sent by the real client.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::adapters::HttpPartners;
use shared::adapters::machine::read_catalog;
use shared::arrival::event::Event;
use shared::arrival::key::Names;
use shared::arrival::signature::Secret;
use shared::base::time::Timestamp;
use shared::base::trace::{SpanId, Trace};
use shared::effects::credentials::{Credentials, Signing};
use shared::effects::request::{PartnerRequest, Partners as _, RequestParts};
use shared::flows::catalog::Shelf;
use shared::flows::{Action, File, Flow, Flows};
use shared::ledger::Row;

use super::capture::Capture;
use super::description::ApiOperation;
use super::wire::WireRequest;

/// The file with the sample values, in the project.
const SAMPLES: &str = "tests/partners/samples.yaml";

/// The secret of every integration in a snapshot. It opens nothing.
pub const SAMPLE_SECRET: &str = "sample-secret";

/// The moment of the samples.
const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

/// What a partner's calls are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartnerSamples {
    /// The variables of the integration.
    #[serde(default)]
    pub vars: BTreeMap<String, Value>,
    /// Header fields that an old description demands, and the partner does not.
    #[serde(default)]
    pub extra: BTreeMap<String, String>,
    /// What each call is given.
    pub calls: BTreeMap<String, Value>,
}

/// A request of the catalogue.
#[derive(Clone, Debug)]
pub struct SampleRequest {
    /// The request's name, which is its snapshot's: `twilio.send_message`, `twilio.send_message.lookup`.
    pub name: String,
    /// The partner.
    pub partner: String,
    /// The request, as it goes over the wire.
    pub request: WireRequest,
    /// The header fields for Prism alone.
    pub extra: BTreeMap<String, String>,
}

impl SampleRequest {
    /// The header fields for Prism alone, as far as its description demands them.
    pub(super) fn extra_for(&self, operation: &ApiOperation) -> BTreeMap<String, String> {
        let demanded = |name: &&String| operation.headers.contains(name);
        self.extra.iter().filter(|(name, _)| demanded(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
    }
}

/// The samples of every partner.
pub fn samples(root: &Path) -> Result<BTreeMap<String, PartnerSamples>> {
    let file = root.join(SAMPLES);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not readable", file.display()))
}

/// Every request of the catalogue, lookups included, in the order of their names.
pub async fn requests(root: &Path) -> Result<Vec<SampleRequest>> {
    let mut found = Vec::new();
    for (partner, samples) in samples(root)? {
        let flows = flows_of(root, &partner, &samples)?;
        found.extend(of_partner(&flows, &partner, &samples).await?);
    }
    Ok(found)
}

/// A flow with an effect for each call of a partner.
pub fn flows_of(root: &Path, partner: &str, samples: &PartnerSamples) -> Result<Flows> {
    flows_trusting(root, partner, samples, None)
}

/// The same, where the effects say a guarantee of their own.
pub fn flows_trusting(root: &Path, partner: &str, samples: &PartnerSamples, guarantee: Option<&str>) -> Result<Flows> {
    let effect = |(call, with): (&String, &Value)| {
        let mut effect = json!({"id": call, "call": format!("{partner}.{call}"), "with": with, "needs": []});
        if let Some(guarantee) = guarantee {
            effect["guarantee"] = guarantee.into();
        }
        effect
    };
    let effects: Vec<Value> = samples.calls.iter().map(effect).collect();
    let flow = json!({
        "name": "sample", "version": 1, "on": {"source": "shop", "type": "sample"},
        "schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
        "key": {"version": 1, "fields": ["id"]}, "order_by": "id", "ttl": "24h", "effects": effects,
        "retry": {"strategy": "fixed", "base": "1s", "max_delay": "1s", "max_attempts": 2},
    });
    let sources = json!({"shop": {"scheme": "github", "max_body": "64KiB", "rate": "50/s", "type_at": "type"}});
    let integrations = json!({partner: {"uses": partner, "vars": samples.vars}});
    let file = |path: &str, document: &Value| File { path: path.into(), text: document.to_string() };
    let mut files = vec![
        file("sources.yaml", &sources),
        file("integrations.yaml", &integrations),
        file("flows/sample.yaml", &flow),
    ];
    let catalogue = read_catalog(&root.join("infra/flows")).context("the catalogue is not readable")?;
    files.extend(catalogue.into_iter().filter(|file| file.path == Shelf::Partners.path(partner)));
    Flows::parse(&files).map_err(|problems| anyhow::anyhow!("the samples of {partner} do not fit:\n{problems}"))
}

async fn of_partner(flows: &Flows, partner: &str, samples: &PartnerSamples) -> Result<Vec<SampleRequest>> {
    let flow = flows.flow("sample").context("the flow of the samples")?;
    let mut found = Vec::new();
    for effect in &flow.effects {
        let named = |name: String, request| SampleRequest {
            name,
            partner: partner.to_owned(),
            request,
            extra: samples.extra.clone(),
        };
        let name = format!("{partner}.{}", effect.id);
        for (ending, request) in requests_of(flows, flow, &effect.id, json!({"id": "sample"})).await? {
            found.push(named(format!("{name}{ending}"), request));
        }
    }
    Ok(found)
}

/// The request of an effect for an event as it goes over the wire, and that of its lookup, each with the ending of its
/// name.
pub async fn requests_of(
    flows: &Flows,
    flow: &Flow,
    id: &str,
    event: Value,
) -> Result<Vec<(&'static str, WireRequest)>> {
    let mut sent = Vec::new();
    for (ending, request) in rendered(flows, flow, id, event)? {
        sent.push((ending, on_the_wire(request).await?));
    }
    Ok(sent)
}

/// The request of an effect, and that of its lookup.
fn rendered(flows: &Flows, flow: &Flow, id: &str, event: Value) -> Result<Vec<(&'static str, PartnerRequest)>> {
    let event = Event::new(flow, flow.version, event, Names::default(), NOW, Trace::start(1, 2, 3));
    let event = event.map_err(|error| anyhow::anyhow!("the sample is no event: {error}"))?;
    let row = Row::admitted(&event, NOW);
    let effect = flow.effects.iter().find(|effect| effect.id == id).context("the effect of a call")?;
    let Action::Call(call) = &effect.action else { bail!("{id} calls no partner") };
    let integration = flows.integration(&call.integration).context("the integration of a call")?;
    let signing = Signing { id: "msg_sample".into(), at: NOW };
    let credentials = Credentials::of_secret(&integration.auth, &Secret::new(SAMPLE_SECRET), signing);
    let parts = || RequestParts {
        effect,
        call,
        integration,
        event: &event,
        row: &row,
        span: SpanId::new(1),
        credentials: credentials.clone(),
        secret_vars: BTreeMap::new(),
    };
    let told = |error| anyhow::anyhow!("{id} cannot be rendered: {error}");
    let mut requests = vec![("", parts().request().map_err(told)?)];
    if let Some(lookup) = &effect.lookup {
        requests.push((".lookup", parts().lookup(lookup).map_err(told)?));
    }
    Ok(requests)
}

/// The request as the client sends it. Its host is the one of the integration: the client sends it to us instead.
async fn on_the_wire(request: PartnerRequest) -> Result<WireRequest> {
    let (integration, base_url) = (request.integration.clone(), request.base_url.clone());
    let capture = Capture::start()?;
    let answer = HttpPartners::new(Some(capture.url.clone())).call(request).await;
    answer.map_err(|error| anyhow::anyhow!("the request was not sent: {error}"))?;
    let mut seen = capture.seen()?;
    let path = seen.url.strip_prefix(&format!("/{integration}")).context("a request below its integration")?;
    seen.url = format!("{}{path}", base_url.trim_end_matches('/'));
    Ok(seen)
}
