//! Wires the replay to AWS.

use std::path::Path;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use replay::{Access, Console, Figures, Replay, serve};
use serde_json::Value;
use shared::adapters::LazyPool;
use shared::adapters::aws::{
    CloudWatchHistory, DynamoContacts, DynamoDocument, DynamoLatest, DynamoLedger, DynamoLimits, DynamoPressure,
    DynamoWindows, SqsDeadLetters, SqsEvents, aws,
};
use shared::adapters::machine::{EmfMetrics, Environment, SystemChance, SystemClock, log_as_json, read_flows};
use shared::adapters::otlp::OtlpSpans;
use shared::limits::rates::Limiter;
use shared::operate::log::{LogScope, within};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut environment = Environment::default();
    log_as_json(environment.log_level("RUST_LOG"));
    let table = environment.text("LEDGER_TABLE");
    let queue = environment.text("EVENTS_QUEUE_URL");
    let limits = environment.text("LIMITS_TABLE");
    let contacts = environment.text("CONTACTS_TABLE");
    let namespace = environment.text("METRICS_NAMESPACE");
    let metrics = EmfMetrics::new(namespace.clone());
    let flows = environment.text("FLOWS_DIR");
    let dead_letters = environment.text("DEAD_LETTERS_QUEUE_URL");
    let access = environment.text("CONSOLE");
    let traces = environment.traces("replay");
    metrics.started(environment.check())?;
    let access: Access = metrics.started(access.parse())?;

    let aws = aws().await;
    let pool = LazyPool::default();
    let spans = traces.map(|traces| OtlpSpans::new(traces, &aws, pool.clone()));
    let events = SqsEvents::new(&aws, queue);
    let dead_letters = SqsDeadLetters::new(&aws, dead_letters);
    let ledger = DynamoLedger::new(&aws, &table);
    let replay = &Replay {
        windows: Box::new(DynamoWindows::new(&aws, &table)),
        lines: Box::new(ledger.clone()),
        records: Box::new(ledger),
        breakers: Box::new(DynamoPressure::new(&aws, &limits)),
        contacts: Box::new(DynamoContacts::new(&aws, contacts)),
        queue: Box::new(events.clone()),
        depths: Box::new(events),
        latest: Box::new(DynamoLatest::new(&aws, &limits)),
        boards: Box::new(DynamoDocument::new(&aws, &limits)),
        batches: Box::new(DynamoDocument::new(&aws, &limits)),
        ticks: Box::new(dead_letters.clone()),
        visibility: Box::new(dead_letters),
        limiter: Limiter::new(Box::new(DynamoLimits::new(&aws, &limits))),
        metrics: Box::new(metrics.clone()),
        figures: Figures::new(Box::new(CloudWatchHistory::new(&aws, namespace, pool))),
        spans: Box::new(spans.clone()),
        chance: Box::new(SystemChance),
        sleep: Box::new(SystemClock),
        flows: metrics.started(read_flows(Path::new(&flows)))?,
        clock: Box::new(SystemClock),
    };
    run(service_fn(async |request: LambdaEvent<Value>| {
        let LambdaEvent { payload, context } = request;
        let caller = context.identity.as_ref().map(|identity| identity.identity_id.as_str());
        let console = Console { replay, access, endpoint: &context.invoked_function_arn, caller };
        spans.iter().for_each(|spans| spans.send_gathered(&metrics));
        let scope = LogScope::of_invocation(&context.request_id, context.xray_trace_id.as_deref());
        Ok::<_, Error>(within(scope, serve(&console, payload)).await?)
    }))
    .await
}
