//! What a real collector says that it got, read from what it prints.

use std::collections::BTreeMap;
use std::path::Path;

/// A span, as the collector prints it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectedSpan {
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) trace: String,
    pub(crate) parent: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Trace and span of each link.
    pub(crate) links: Vec<(String, String)>,
}

impl CollectedSpan {
    pub(crate) fn service(&self) -> &str {
        self.resource.get("service.name").map_or("", String::as_str)
    }

    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// The spans that it has printed into a file so far. Of the last, not all may be there yet.
pub(crate) fn collected(printed: &Path) -> Vec<CollectedSpan> {
    spans(&std::fs::read_to_string(printed).unwrap_or_default())
}

fn spans(printed: &str) -> Vec<CollectedSpan> {
    let (mut spans, mut resource): (Vec<CollectedSpan>, BTreeMap<String, String>) = Default::default();
    let mut is_resource = false;
    for line in printed.lines().map(str::trim) {
        if line.starts_with("ResourceSpans #") {
            (is_resource, resource) = (true, BTreeMap::new());
        } else if line.starts_with("Span #") {
            is_resource = false;
            spans.push(CollectedSpan { resource: resource.clone(), ..CollectedSpan::default() });
        } else if is_resource {
            resource.extend(attribute(line).map(|(name, value)| (name.to_owned(), value.to_owned())));
        } else if let Some(span) = spans.last_mut() {
            read(span, line);
        }
    }
    spans
}

fn read(span: &mut CollectedSpan, line: &str) {
    let told = line.split_once(':').map(|(name, value)| (name.trim(), value.trim().to_owned()));
    match told {
        Some(("-> Trace ID", trace)) => span.links.push((trace, String::new())),
        Some(("-> ID", id)) => span.links.iter_mut().last().into_iter().for_each(|link| link.1.clone_from(&id)),
        Some(("Trace ID", trace)) => span.trace = trace,
        Some(("Parent ID", parent)) => span.parent = parent,
        Some(("ID", id)) => span.id = id,
        Some(("Name", name)) => span.name = name,
        Some(("Kind", kind)) => span.kind = kind,
        _ => {
            if let Some((name, value)) = attribute(line) {
                span.attributes.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

/// `-> name: Str(value)`
fn attribute(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("-> ")?.split_once(": ")?;
    let (_, value) = value.split_once('(')?;
    Some((name, value.strip_suffix(')')?))
}

#[test]
fn what_the_collector_prints_is_understood() {
    let printed = "ResourceSpans #0\nResource SchemaURL: \nResource attributes:\n     -> service.name: Str(processor)\n\
        ScopeSpans #0\nInstrumentationScope x \nSpan #0\n    Trace ID       : 4bf9\n    Parent ID      : 00f0\n    \
        ID             : 0abc\n    Name           : process events\n    Kind           : SPAN_KIND_CONSUMER\n\
        Start time: 1\nAttributes:\n     -> a.b: Str(c: (d))\n     -> n: Int(7)\nLinks:\nSpanLink #0\n     \
        -> Trace ID: 4bf8\n     -> ID: 0abd\n     -> TraceState: \n";
    let [span] = &spans(printed)[..] else { panic!("one span") };
    assert_eq!([span.service(), &span.trace, &span.parent, &span.id], ["processor", "4bf9", "00f0", "0abc"]);
    assert_eq!([&*span.name, &span.kind], ["process events", "SPAN_KIND_CONSUMER"]);
    assert_eq!([span.attribute("a.b"), span.attribute("n"), span.attribute("x")], ["c: (d)", "7", ""]);
    assert_eq!(span.links, [("4bf8".to_owned(), "0abd".to_owned())]);
}
