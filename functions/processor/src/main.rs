//! Wires the processor to AWS.

use std::path::Path;

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use processor::{Processor, handle, tell_misfits, tell_wrong_times};
use shared::adapters::aws::{
    DynamoBudgets, DynamoCaps, DynamoContacts, DynamoDocument, DynamoLatest, DynamoLedger, DynamoLimits,
    DynamoPressure, DynamoTokens, LambdaFunctions, SqsDeadLetters, SqsEvents, SsmSecrets, aws,
};
use shared::adapters::machine::{EmfMetrics, Environment, SystemChance, SystemClock, log_as_json, read_flows};
use shared::adapters::otlp::OtlpSpans;
use shared::adapters::{AwsLcCrypto, HttpPartners, LazyPool, MaxMindPlaces};
use shared::arrival::secrets::CachedSecrets;
use shared::base::machine::Chance as _;
use shared::base::time::Timestamp;
use shared::effects::enrichment::Findings;
use shared::effects::token::Tokens;
use shared::limits::pressure::Gate;
use shared::operate::log::{LogScope, within};
use shared::operate::switchboard::Switchboard;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut environment = Environment::default();
    log_as_json(environment.log_level("RUST_LOG"));
    let namespace = environment.text("METRICS_NAMESPACE");
    let metrics = EmfMetrics::new(namespace);
    let flows = environment.text("FLOWS_DIR");
    let table = environment.text("LEDGER_TABLE");
    let limits = environment.text("LIMITS_TABLE");
    let contacts = environment.text("CONTACTS_TABLE");
    let queue = environment.text("EVENTS_QUEUE_URL");
    let dead_letters = environment.text("DEAD_LETTERS_QUEUE_URL");
    let prefix = environment.text("SECRETS_PREFIX");
    let lease = environment.seconds("LEASE_SECONDS");
    let timeout = environment.seconds("PROCESSOR_TIMEOUT");
    let visibility = environment.seconds("VISIBILITY_TIMEOUT");
    let places = environment.optional("GEOIP_DATABASE");
    let endpoint = environment.optional("PARTNER_ENDPOINT_URL");
    let sampling = environment.log_sampling("LOG_SAMPLE_RATE");
    let traces = environment.traces("processor");
    metrics.started(environment.check())?;

    let aws = aws().await;
    let pool = LazyPool::default();
    let spans = traces.map(|traces| OtlpSpans::new(traces, &aws, pool.clone()));
    let secrets = CachedSecrets::new(SsmSecrets::new(&aws, prefix), SystemClock).reading_early(SystemChance.unit());
    let ledger = DynamoLedger::new(&aws, table);
    let events = SqsEvents::new(&aws, queue);
    let board = DynamoDocument::new(&aws, &limits);
    let pressure = DynamoPressure::new(&aws, &limits);
    let gate = Gate::new(
        Box::new(DynamoLimits::new(&aws, &limits)),
        Box::new(pressure.clone()),
        Box::new(pressure),
        Box::new(SystemChance),
    );
    let processor = &Processor {
        switchboard: Switchboard::new(Box::new(board.clone())),
        boards: Box::new(board),
        caps: Box::new(DynamoCaps::new(ledger.clone(), &limits)),
        records: Box::new(ledger.clone()),
        lines: Box::new(ledger.clone()),
        queue: Box::new(events.clone()),
        told: Default::default(),
        found: Findings::default(),
        places: metrics
            .started(places.map(|path| MaxMindPlaces::open(&path)).transpose())?
            .map(|places| Box::new(places) as _),
        contacts: Box::new(DynamoContacts::new(&aws, contacts)),
        latest: Box::new(DynamoLatest::new(&aws, &limits)),
        tokens: Tokens::new(Box::new(DynamoTokens::new(&aws, &limits)), Box::new(AwsLcCrypto)),
        metrics: Box::new(metrics.clone()),
        spans: Box::new(spans.clone()),
        sampling,
        budgets: Box::new(DynamoBudgets::new(&aws, limits)),
        gate,
        flows: metrics.started(read_flows(Path::new(&flows)))?,
        lease,
        timeout,
        ledger: Box::new(ledger),
        visibility: Box::new(events),
        dead_letters: Box::new(SqsDeadLetters::new(&aws, dead_letters)),
        secrets: Box::new(secrets),
        partners: Box::new(HttpPartners::over(pool.clone(), endpoint)),
        functions: Box::new(LambdaFunctions::new(&aws, pool)),
        sleep: Box::new(SystemClock),
        clock: Box::new(SystemClock),
        chance: Box::new(SystemChance),
    };
    tell_wrong_times(processor, visibility);
    tell_misfits(processor);
    run(service_fn(async |batch: LambdaEvent<SqsEvent>| {
        let deadline = Timestamp::from_millis(batch.context.deadline.try_into().unwrap_or(i64::MAX));
        spans.iter().for_each(|spans| spans.send_gathered(&metrics));
        let scope = LogScope::of_invocation(&batch.context.request_id, batch.context.xray_trace_id.as_deref());
        Ok::<_, Error>(within(scope, handle(processor, batch.payload, deadline)).await)
    }))
    .await
}
