//! Which source and type an event is for, among the flows of a local cloud.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use shared::adapters::machine::read_flows;
use shared::flows::{BodyFormat, Flow, Flows, Scheme, Source};

/// The source and the type of the event that `make send` posts unless it is told another.
const DEMO: (&str, &str) = ("web-forms", "lead.created");

/// Where an event is posted, and how it is written and signed.
#[derive(Debug, PartialEq)]
pub(crate) struct EventRoute {
    /// The path of the API.
    pub(crate) path: String,
    /// The scheme of its source.
    pub(crate) scheme: Scheme,
    /// How its source writes events.
    pub(crate) written: Written,
}

/// How a source writes an event into a body.
#[derive(Debug, PartialEq)]
pub(crate) enum Written {
    /// As JSON.
    Json,
    /// As JSON, with this list around it.
    InList,
    /// As a form with its fields.
    Form,
    /// As JSON in this field of a form.
    InField(String),
}

impl EventRoute {
    /// The route of the demo's source, which chaos has, too.
    pub(crate) fn demo() -> Self {
        let path = format!("/v1/events/{}", DEMO.0);
        EventRoute { path, scheme: Scheme::standard_webhooks(), written: Written::Json }
    }

    /// The route to this source, with the event's type in the path where the body does not name it.
    fn to(name: &str, source: &Source, in_path: Option<&str>) -> Self {
        let in_path = in_path.map(|event_type| format!("/{event_type}")).unwrap_or_default();
        let whole = source.split.as_ref().is_some_and(|split| split.text().starts_with("[*]"));
        let written = match (&source.form, source.format) {
            (Some(field), _) => Written::InField(field.clone()),
            (None, BodyFormat::Form) => Written::Form,
            (None, BodyFormat::Json) if whole => Written::InList,
            (None, BodyFormat::Json) => Written::Json,
        };
        EventRoute { path: format!("/v1/events/{name}{in_path}"), scheme: source.scheme.clone(), written }
    }

    /// The content type and the body of an event.
    pub(crate) fn write(&self, event: &Value) -> (&'static str, String) {
        const FORM: &str = "application/x-www-form-urlencoded";
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let form = |fields: &mut dyn Iterator<Item = (String, String)>| {
            fields.map(|(name, value)| format!("{}={}", encode(&name), encode(&value))).collect::<Vec<_>>().join("&")
        };
        match &self.written {
            Written::Json => ("application/json", event.to_string()),
            Written::InList if event.is_array() => ("application/json", event.to_string()),
            Written::InList => ("application/json", Value::Array(vec![event.clone()]).to_string()),
            Written::InField(field) => (FORM, form(&mut [(field.clone(), event.to_string())].into_iter())),
            Written::Form => {
                let fields = event.as_object().into_iter().flatten();
                (FORM, form(&mut fields.map(|(name, value)| (name.clone(), text(value)))))
            }
        }
    }
}

/// A part of a form, with everything escaped that is not plain.
fn encode(text: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

/// Whether the demo's own event is for these flows.
pub(crate) fn takes_demo_event(flows: &Flows) -> bool {
    flows.route(DEMO.0, DEMO.1).is_some()
}

/// The flows of a folder, for a verb that needs them.
pub(crate) fn flows_in(folder: &Path) -> Result<Flows> {
    read_flows(folder).with_context(|| format!("nothing was sent: the flows in {} are not good", folder.display()))
}

/// Each source with a type that a flow takes from it, in words.
pub(crate) fn taken(flows: &Flows) -> Vec<String> {
    flows.all().map(|flow| format!("{} from {}", flow.on.event_type, flow.on.source)).collect()
}

/// The route of an event: by its own type, where a source says in which field that is, or as it is told.
pub(crate) fn of_event(
    flows: &Flows,
    body: &Value,
    source: Option<&str>,
    event_type: Option<&str>,
) -> Result<EventRoute> {
    let named = |flow: &&shared::flows::Flow| {
        let at = flows.source(&flow.on.source).and_then(|source| source.type_of(body));
        let fits = event_type.or(at) == Some(flow.on.event_type.as_str());
        fits && source.is_none_or(|source| source == flow.on.source)
    };
    let mut found: Vec<_> = flows.all().filter(named).map(|flow| &flow.on).collect();
    // Several flows may take one event.
    found.dedup_by(|one, other| (&one.source, &one.event_type) == (&other.source, &other.event_type));
    let [on] = found.as_slice() else {
        let what =
            if found.is_empty() { "no flow takes this event" } else { "flows of several sources take this event" };
        bail!(
            "nothing was sent: {what}. Name its source and its type with --source and --type. The flows take: {}",
            taken(flows).join(", ")
        );
    };
    let from = flows.source(&on.source).context("nothing was sent: the flow's source is not there")?;
    let named = from.type_of(body).is_some();
    Ok(EventRoute::to(&on.source, from, event_type.or((!named).then_some(on.event_type.as_str()))))
}

/// The route of an event of this flow.
pub(crate) fn of_flow(flows: &Flows, flow: &Flow, body: &Value) -> Result<EventRoute> {
    let from = flows.source(&flow.on.source).context("nothing was signed: the flow's source is not there")?;
    let named = from.type_of(body).is_some();
    Ok(EventRoute::to(&flow.on.source, from, (!named).then_some(&flow.on.event_type)))
}

/// The first sample of a flows folder that one of its flows takes, in `samples/`.
pub(crate) fn sample_in(folder: &Path, flows: &Flows) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join("samples")).ok()?.flatten().map(|file| file.path()).collect();
    files.sort();
    files.into_iter().find(|file| {
        let body = std::fs::read(file).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        body.is_some_and(|body| of_event(flows, &body, None, None).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::flows::File;

    use super::*;

    const FLOW: &str =
        "version: 1\nschema: {required: [id], properties: {id: {}, type: {}}}\nkey: {version: 1, fields: [id]}
order_by: id\nttl: 24h\neffects: [{id: a, integration: crm, request: {method: POST, path: /a}}]
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}\n";

    /// A shop that names its types in the body, and a source that does not.
    fn flows() -> Flows {
        let file = |path: &str, text: String| File { path: path.into(), text };
        let sources = "shop: {scheme: stripe, max_body: 64KiB, rate: 9/s, type_at: type}
hooks: {scheme: github, max_body: 64KiB, rate: 9/s, type_at: kind}\n";
        let files = [
            file("sources.yaml", sources.into()),
            file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 2s}".into()),
            file("flows/paid.yaml", format!("name: paid\non: {{source: shop, type: order.paid}}\n{FLOW}")),
            file("flows/push.yaml", format!("name: push\non: {{source: hooks, type: push}}\n{FLOW}")),
        ];
        Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn an_event_goes_to_the_source_that_its_type_is_of() {
        let (flows, body) = (flows(), json!({"id": "1", "type": "order.paid"}));
        assert!(!takes_demo_event(&flows));
        let route = of_event(&flows, &body, None, None).expect("a route");
        let scheme = |name| flows.source(name).expect("a source").scheme.clone();
        assert_eq!(
            route,
            EventRoute { path: "/v1/events/shop".into(), scheme: scheme("shop"), written: Written::Json }
        );
        let named = of_event(&flows, &json!({"id": "1"}), Some("hooks"), Some("push")).expect("a route");
        assert_eq!((named.path.as_str(), &named.scheme), ("/v1/events/hooks/push", &scheme("hooks")));
    }

    #[test]
    fn an_event_is_written_as_its_source_writes_it() {
        let event = json!({"a": "x y", "n": 1});
        let written = |written| EventRoute { written, ..EventRoute::demo() }.write(&event);
        assert_eq!(written(Written::Json), ("application/json", r#"{"a":"x y","n":1}"#.into()));
        assert_eq!(written(Written::InList).1, r#"[{"a":"x y","n":1}]"#);
        assert_eq!(written(Written::Form), ("application/x-www-form-urlencoded", "a=x%20y&n=1".into()));
        assert!(written(Written::InField("payload".into())).1.starts_with("payload=%7B%22a%22%3A"));
    }

    #[test]
    fn what_no_flow_takes_is_told_with_what_the_flows_take() {
        for (body, source) in [(json!({"id": "1"}), None), (json!({"type": "order.paid"}), Some("hooks"))] {
            let error = of_event(&flows(), &body, source, None).expect_err("nobody takes it").to_string();
            assert!(error.contains("order.paid from shop, push from hooks"), "{error}");
        }
    }
}
