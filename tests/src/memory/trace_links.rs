//! The console's link to a trace: only where the trace can be.

use replay::{Access, Console, serve};
use serde_json::json;
use shared::operate::log::{LogScope, within};
use shared::operate::span::Spans;

use super::http::HttpRequest;
use super::world::World;
use crate::fixtures::{NOW, lead};
use crate::traces::{exporter_to_cloudwatch, exporter_to_collector};

const SENDER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The page of an event that came with this trace, or in this one of Lambda's, where the console's function has these spans.
async fn page(spans: Box<dyn Spans>, region: &str, sender: Option<&str>, lambda: Option<&str>) -> String {
    let mut world = World::new();
    world.replay.spans = spans;
    let lead = lead().to_string();
    let mut request = HttpRequest::of(&world, lead.as_bytes());
    if let Some(sender) = sender {
        request = request.with("traceparent", sender);
    }
    let answer = within(LogScope::of_invocation("r-1", lambda), request.send(&world)).await;
    let endpoint = format!("arn:aws:lambda:{region}:000000000000:function:ledgerline-replay");
    let console = Console { replay: &world.replay, access: Access::Read, endpoint: &endpoint, caller: None };
    let call = json!({"page": "event", "id": answer.body["id"], "widgetContext": {"forms": {"all": {}}}});
    let page = serve(&console, call).await.expect("a page").as_str().expect("HTML").to_owned();
    let command = format!("<code>ledgerline trace {}</code>", answer.body["id"].as_str().expect("an id"));
    assert_eq!(page.contains("#xray:traces/1-"), !page.contains(&command), "a link or the command: {page}");
    page
}

fn nowhere() -> Box<dyn Spans> {
    Box::new(None::<shared::model::ModelSpans>)
}

/// Lambda's header, with an id that X-Ray has just given out.
fn lambda(sampled: u8) -> String {
    format!("Root=1-{:08x}-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled={sampled}", NOW.secs() - 2)
}

#[tokio::test]
async fn a_trace_is_linked_where_it_can_be_seen_and_nowhere_else() {
    let linked = |page: String| page.contains("#xray:traces/1-");
    let (sampled, unsampled) = (lambda(1), lambda(0));
    assert!(!linked(page(nowhere(), "eu-central-1", Some(SENDER), None).await), "X-Ray has no sender's trace");
    assert!(linked(page(nowhere(), "eu-central-1", None, Some(&sampled)).await), "X-Ray has Lambda's");
    assert!(!linked(page(nowhere(), "eu-central-1", None, Some(&unsampled)).await), "unless it was not recorded");
    let collector = || Box::new(exporter_to_collector());
    assert!(!linked(page(collector(), "eu-central-1", Some(SENDER), None).await), "it is at the collector");
    assert!(!linked(page(collector(), "eu-central-1", None, Some(&sampled)).await));
    let unsampled = SENDER.replace("-01", "-00");
    assert!(linked(page(Box::new(exporter_to_cloudwatch(1.0)), "eu-central-1", Some(SENDER), None).await));
    assert!(!linked(page(Box::new(exporter_to_cloudwatch(1.0)), "eu-central-1", Some(&unsampled), None).await));
    assert!(!linked(page(Box::new(exporter_to_cloudwatch(0.0)), "eu-central-1", Some(SENDER), None).await));
}

#[tokio::test]
async fn chinas_links_go_to_chinas_console() {
    let page = page(Box::new(exporter_to_cloudwatch(1.0)), "cn-north-1", Some(SENDER), None).await;
    let trace = "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1#xray:traces/1-4bf92f35-77b34da6a3ce929d0e0e4736";
    let logs = "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1#logsV2:logs-insights";
    assert!(page.contains(trace) && page.contains(logs) && !page.contains("amazon.com"), "{page}");
}
