//! Wires the intake to AWS.

use std::path::Path;

use aws_lambda_events::apigw::ApiGatewayV2httpRequest;
use intake::{Intake, handle};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::adapters::{
    DynamoLedger, Environment, SqsEvents, SsmSecrets, SystemChance, SystemClock, aws, log_as_json, read_flows,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    log_as_json();
    let mut environment = Environment::default();
    let flows = environment.text("FLOWS_DIR");
    let table = environment.text("LEDGER_TABLE");
    let queue = environment.text("EVENTS_QUEUE_URL");
    let prefix = environment.text("SECRETS_PREFIX");
    environment.check()?;

    let aws = aws().await;
    let intake = &Intake::new(
        read_flows(Path::new(&flows))?,
        Box::new(DynamoLedger::new(&aws, table)),
        Box::new(SqsEvents::new(&aws, queue)),
        Box::new(SsmSecrets::new(&aws, prefix)),
        Box::new(SystemClock),
        Box::new(SystemChance),
    );
    run(service_fn(async |request: LambdaEvent<ApiGatewayV2httpRequest>| {
        Ok::<_, Error>(handle(intake, request.payload).await)
    }))
    .await
}
