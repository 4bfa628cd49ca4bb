//! Wires the intake to AWS.

use std::path::Path;

use aws_lambda_events::apigw::ApiGatewayV2httpRequest;
use intake::{Intake, handle};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::adapters::LazyPool;
use shared::adapters::aws::{DynamoLedger, DynamoLimits, DynamoWindows, SqsEvents, SsmSecrets, aws};
use shared::adapters::machine::{EmfMetrics, Environment, SystemChance, SystemClock, log_as_json, read_flows};
use shared::adapters::otlp::OtlpSpans;
use shared::arrival::secrets::CachedSecrets;
use shared::base::machine::Chance as _;
use shared::flows::contract::Contracts;
use shared::limits::rates::Limiter;
use shared::operate::log::{LogScope, within};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut environment = Environment::default();
    log_as_json(environment.log_level("RUST_LOG"));
    let namespace = environment.text("METRICS_NAMESPACE");
    let metrics = EmfMetrics::new(namespace);
    let flows = environment.text("FLOWS_DIR");
    let table = environment.text("LEDGER_TABLE");
    let limits = environment.text("LIMITS_TABLE");
    let queue = environment.text("EVENTS_QUEUE_URL");
    let prefix = environment.text("SECRETS_PREFIX");
    let public_url = environment.optional("PUBLIC_URL");
    let sampling = environment.log_sampling("LOG_SAMPLE_RATE");
    let traces = environment.traces("intake");
    metrics.started(environment.check())?;

    let aws = aws().await;
    let spans = traces.map(|traces| OtlpSpans::new(traces, &aws, LazyPool::default()));
    let secrets = CachedSecrets::new(SsmSecrets::new(&aws, prefix), SystemClock).reading_early(SystemChance.unit());
    let flows = metrics.started(read_flows(Path::new(&flows)))?;
    let ledger = DynamoLedger::new(&aws, table.clone());
    let intake = &Intake {
        contracts: Contracts::of(&flows),
        flows,
        ledger: Box::new(ledger.clone()),
        windows: Box::new(DynamoWindows::new(&aws, table)),
        rows: Box::new(ledger),
        queue: Box::new(SqsEvents::new(&aws, queue)),
        limiter: Limiter::new(Box::new(DynamoLimits::new(&aws, limits))),
        secrets: Box::new(secrets),
        public_url,
        metrics: Box::new(metrics.clone()),
        spans: Box::new(spans.clone()),
        sampling,
        clock: Box::new(SystemClock),
        chance: Box::new(SystemChance),
    };
    run(service_fn(async |request: LambdaEvent<ApiGatewayV2httpRequest>| {
        spans.iter().for_each(|spans| spans.send_gathered(&metrics));
        let context = request.context;
        let scope = LogScope::of_invocation(&context.request_id, context.xray_trace_id.as_deref());
        Ok::<_, Error>(within(scope, handle(intake, request.payload)).await)
    }))
    .await
}
