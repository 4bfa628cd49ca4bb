//! The processor's own binary at its start, before its first event.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The flows of the tests, with this time-out of their one partner.
fn flows(name: &str, timeout: &str) -> PathBuf {
    let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/flows");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(folder.join("flows")).expect("a folder");
    for file in ["sources.yaml", "integrations.yaml", "flows/lead-routing.yaml"] {
        let text = std::fs::read_to_string(good.join(file)).expect("a flow file");
        let text = text.replace("\n  timeout: 3s", &format!("\n  timeout: {timeout}"));
        std::fs::write(folder.join(file), text).expect("a copy");
    }
    folder
}

/// What the binary writes until it asks for its first event, on a stack with this time-out.
fn told_at_start(flows: &Path, processor_timeout: &str) -> String {
    let runtime = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut started = Command::new(env!("CARGO_BIN_EXE_processor"))
        .env_clear()
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", runtime.local_addr().expect("an address").to_string().as_str()),
            ("AWS_LAMBDA_FUNCTION_NAME", "processor"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "none"),
            ("AWS_SECRET_ACCESS_KEY", "none"),
            ("RUST_LOG", "info"),
            ("METRICS_NAMESPACE", "Ledgerline/start"),
            ("FLOWS_DIR", &flows.to_string_lossy()),
            ("LEDGER_TABLE", "ledger"),
            ("LIMITS_TABLE", "limits"),
            ("CONTACTS_TABLE", "contacts"),
            ("EVENTS_QUEUE_URL", "http://127.0.0.1:1/events.fifo"),
            ("DEAD_LETTERS_QUEUE_URL", "http://127.0.0.1:1/events-dlq.fifo"),
            ("SECRETS_PREFIX", "/start"),
            ("LEASE_SECONDS", "60"),
            ("PROCESSOR_TIMEOUT", processor_timeout),
            ("VISIBILITY_TIMEOUT", "180"),
            ("LOG_SAMPLE_RATE", "1"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    // It asks for an event: its start is over.
    let asked = runtime.accept().expect("it asks");
    started.kill().expect("it ends");
    started.wait().expect("it has ended");
    drop(asked);
    let mut told = String::new();
    started.stdout.take().expect("its output").read_to_string(&mut told).expect("a text");
    told
}

/// A stack whose ProcessorTimeout was lowered, or flows that nobody checked: one sentence and one count, and no more.
#[test]
fn a_time_out_that_never_fits_is_told_in_one_sentence_and_counted() {
    let told = told_at_start(&flows("start-misfit", "10m"), "30");
    let errors: Vec<&str> = told.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{told}");
    let sentence = "the timeout of `crm` is 600 s, and must be at most 29 s: the processor has 30 s for a batch";
    assert!(errors[0].contains(sentence) && errors[0].contains("parked as misconfigured"), "{told}");
    let counted: Vec<&str> = told.lines().filter(|line| line.contains("TimeoutTooLong")).collect();
    assert!(counted.len() == 1 && counted[0].contains(r#""Integration":"crm""#), "{told}");
}

#[test]
fn a_start_that_fits_tells_nothing() {
    let told = told_at_start(&flows("start-fits", "3s"), "30");
    assert!(!told.contains("ERROR") && !told.contains("TimeoutTooLong"), "{told}");
}
