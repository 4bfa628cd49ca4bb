//! Wires the replay to AWS.

use std::path::Path;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use replay::{Replay, handle};
use serde_json::Value;
use shared::adapters::{DynamoBoard, DynamoLedger, Environment, SqsEvents, SystemClock, aws, log_as_json, read_flows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    log_as_json();
    let mut environment = Environment::default();
    let table = environment.text("LEDGER_TABLE");
    let queue = environment.text("EVENTS_QUEUE_URL");
    let limits = environment.text("LIMITS_TABLE");
    let flows = environment.text("FLOWS_DIR");
    environment.check()?;

    let aws = aws().await;
    let replay = &Replay {
        records: Box::new(DynamoLedger::new(&aws, table)),
        queue: Box::new(SqsEvents::new(&aws, queue)),
        boards: Box::new(DynamoBoard::new(&aws, limits)),
        flows: read_flows(Path::new(&flows))?,
        clock: Box::new(SystemClock),
    };
    run(service_fn(async |request: LambdaEvent<Value>| Ok::<_, Error>(handle(replay, request.payload).await))).await
}
