//! The operator's verbs against a function that does as it is told: what is asked of it, how often, and what
//! the command says when it does not answer.

mod function_stub;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use function_stub::{FunctionStub, StubReply};
use opentelemetry_proto::tonic::trace::v1::TracesData;
use serde_json::{Value, json};
use shared::base::visible::is_invisible;

fn command(endpoint: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "LEDGERLINE_STACK"] {
        command.env_remove(name);
    }
    command
        // As it is started where it is on PATH: suggestions repeat that name.
        .arg0("ledgerline")
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("USER", "ada")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn ledgerline(function: &FunctionStub, arguments: &[&str]) -> Output {
    command(&function.url, arguments).output().expect("it runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn line(id: &str) -> Value {
    json!({"id": id, "flow": "leads", "state": "dead", "version": "3.4", "parked_at": "2026-11-16T10:00:00.000Z",
           "reason": "terminal", "effect": "crm", "error": "answered 422", "attempts": 1})
}

fn list(lines: &[Value]) -> StubReply {
    StubReply::Answer(json!({"parked": lines, "matching": lines.len(), "more": false}))
}

/// Senders and partners write what they like. A program that reads the JSON gets the same text.
#[test]
fn what_others_wrote_acts_on_no_terminal_and_stays_json() {
    let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}b";
    let function = FunctionStub::start(move |_, _| {
        let mut parked = line("aa");
        parked["error"] = json!(hostile);
        list(&[parked])
    });
    for arguments in [&["dead", "list", "--json"][..], &["dead", "list"]] {
        let listed = ledgerline(&function, arguments);
        assert_eq!(code(&listed), 0, "{}", words(&listed));
        assert!(!words(&listed).chars().any(|c| c != '\n' && is_invisible(c)), "{:?}", words(&listed));
    }
    let listed = ledgerline(&function, &["dead", "list", "--json"]);
    let answer: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(answer["parked"][0]["error"], hostile);
}

#[test]
fn an_operation_goes_to_the_stack_s_function_and_is_signed() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(json!({"version": 1, "board": {}})));
    let paused = ledgerline(
        &function,
        &[
            "pause",
            "--flow",
            "leads",
            "--for",
            "30m",
            "--reason",
            "it moves",
            "--stack",
            "prod",
            "--region",
            "eu-west-1",
        ],
    );
    assert_eq!(code(&paused), 0, "{}", words(&paused));
    let request = &function.requests()[0];
    assert_eq!(request.path, "/2015-03-31/functions/prod-replay/invocations?Qualifier=live");
    assert!(request.head.contains("/eu-west-1/lambda/aws4_request"), "{}", request.head);
    let by = request.body["by"].as_str().expect("somebody").to_owned();
    assert!(by.starts_with("ada@"), "AWS does not say who, so this machine does: {by}");
    let expected =
        json!({"op": "pause", "flow": "leads", "integration": null, "for": "30m", "by": by, "reason": "it moves"});
    assert_eq!(request.body, expected);
}

/// Somebody who says which account it is does not mean the one that the shell happens to have.
#[test]
fn a_profile_that_is_named_goes_before_the_environment() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(json!({"version": 0, "board": {}, "batches": []})));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profiles");
    std::fs::write(&file, "[profile prod]\naws_access_key_id = OTHER\naws_secret_access_key = other\n")
        .expect("it is written");
    let status = |profile: &str| {
        let mut status = command(&function.url, &["status", "--profile", profile]);
        status.env("AWS_CONFIG_FILE", &file).output().expect("it runs")
    };
    assert_eq!(code(&status("prod")), 0);
    assert!(function.requests()[0].head.contains("Credential=OTHER/"), "{}", function.requests()[0].head);
    let none = status("prdo");
    assert_eq!((code(&none), function.requests().len()), (5, 1), "{}", words(&none));
    assert!(words(&none).contains("prdo"), "{}", words(&none));
}

#[test]
fn a_word_on_an_unknown_names_the_version_that_was_seen() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(line("aa")));
    let happened =
        ["resolve", "aa", "crm", "--happened", r#"{"crm_id": "c-1"}"#, "--reason", "saw it", "--by", "ada", "--yes"];
    assert_eq!(code(&ledgerline(&function, &happened)), 0);
    let absent =
        ["resolve", "aa", "crm", "--did-not-happen", "--seen", "9.9", "--reason", "not there", "--by", "ada", "--yes"];
    assert_eq!(code(&ledgerline(&function, &absent)), 0);
    let asked: Vec<Value> = function.requests().into_iter().map(|request| request.body).collect();
    let word = |verdict: Value, version: &str, reason: &str| {
        json!({"op": "resolve", "id": "aa", "effect": "crm", "verdict": verdict, "version": version,
               "by": "ada", "reason": reason})
    };
    assert_eq!(
        asked,
        [
            json!({"op": "show", "id": "aa"}),
            word(json!({"happened": {"crm_id": "c-1"}}), "3.4", "saw it"),
            json!({"op": "show", "id": "aa"}),
            word(json!("did_not_happen"), "9.9", "not there"),
        ]
    );
}

#[test]
fn a_look_is_repeated_when_its_answer_is_lost() {
    let function = FunctionStub::start(|_, before| if before < 2 { StubReply::Nothing } else { list(&[line("aa")]) });
    let listed = ledgerline(&function, &["dead", "list"]);
    assert_eq!((code(&listed), function.requests().len()), (0, 3), "{}", words(&listed));
}

#[test]
fn a_batch_whose_answer_is_lost_is_not_begun_twice() {
    let function = FunctionStub::start(|request, _| match request["op"].as_str() {
        Some("list") => list(&[line("aa")]),
        _ => StubReply::Nothing,
    });
    let lost = ledgerline(&function, &["replay", "--flow", "leads", "--reason", "it is back", "--by", "ada", "--yes"]);
    assert_eq!(code(&lost), 5);
    assert!(words(&lost).contains("look at `ledgerline status` before you try again"), "{}", words(&lost));
    let begun = function.requests().into_iter().filter(|request| request.body["op"] == "batch").count();
    assert_eq!(begun, 1);
}

/// A newer function may answer in another way.
#[test]
fn a_batch_whose_answer_cannot_be_read_may_have_been_started() {
    let function = FunctionStub::start(|request, _| match request["op"].as_str() {
        Some("list") => list(&[line("aa")]),
        _ => StubReply::Answer(json!({"id": "b-1", "begun": true})),
    });
    let begun = ledgerline(&function, &["replay", "--flow", "leads", "--reason", "it is back", "--by", "ada", "--yes"]);
    assert_eq!(code(&begun), 5, "{}", words(&begun));
    assert!(words(&begun).contains("may have been started"), "{}", words(&begun));
}

fn unavailable() -> Value {
    json!({"error": "the queue is unavailable: it is down; nothing is lost", "unavailable": true})
}

#[test]
fn a_look_is_repeated_when_the_function_was_not_answered_itself() {
    let function = FunctionStub::start(|_, before| match before {
        0 => StubReply::Answer(unavailable()),
        _ => list(&[line("aa")]),
    });
    let listed = ledgerline(&function, &["dead", "list"]);
    assert_eq!((code(&listed), function.requests().len()), (0, 2), "{}", words(&listed));
}

/// The row may have been written before the queue failed: that is no refusal.
#[test]
fn a_change_that_the_function_could_not_finish_may_have_been_made() {
    let function = FunctionStub::start(|request, _| match request["op"].as_str() {
        Some("show") => StubReply::Answer(line("aa")),
        Some("apply") => {
            let mut lost = unavailable();
            lost["id"] = json!("bb");
            StubReply::Answer(json!({"applied": [{"id": "aa", "state": "queued", "replay": 1}, lost]}))
        }
        _ => StubReply::Answer(unavailable()),
    });
    let word = ["--reason", "it is back", "--by", "ada"];
    for (change, told) in [
        (&["replay", "aa"][..], "It may have been done: look at `ledgerline dead show aa` before you try again"),
        (&["stop", "b-1"], "It may have been done: look at `ledgerline status` before you try again"),
        (&["apply", "aa=1", "bb=2"], "no answer for bb: the queue is unavailable"),
    ] {
        let before = function.requests().len();
        let output = ledgerline(&function, &[change, &word].concat());
        assert_eq!(code(&output), 5, "{change:?}: {}", words(&output));
        assert!(words(&output).contains(told), "{change:?}: {}", words(&output));
        let changes = function.requests().into_iter().skip(before).filter(|request| request.body["op"] != "show");
        assert_eq!(changes.count(), 1, "{change:?} is not tried again");
    }
}

/// The list looks through the newest alone, and a batch through all.
#[test]
fn a_batch_is_begun_for_what_the_list_does_not_reach() {
    for (more, begun) in [(false, 0), (true, 1)] {
        let batch = json!({"id": "b-1", "filter": {}, "max": 20, "per_minute": 5, "by": "ada", "why": "w",
                           "started_at": 1, "replayed": 0, "progress": "running"});
        let function = FunctionStub::start(move |request, _| match request["op"].as_str() {
            Some("list") => StubReply::Answer(json!({"parked": [], "matching": 0, "more": more})),
            _ => StubReply::Answer(batch.clone()),
        });
        let replay = ["replay", "--flow", "leads", "--reason", "it is back", "--by", "ada", "--yes", "--detach"];
        let output = ledgerline(&function, &replay);
        assert_eq!(code(&output), 0, "{}", words(&output));
        assert_eq!(words(&output).contains("None of the 5,000 newest"), more, "{}", words(&output));
        assert_eq!(words(&output).contains("No batch was started"), !more, "{}", words(&output));
        assert_eq!(function.requests().iter().filter(|request| request.body["op"] == "batch").count(), begun);
    }
}

#[test]
fn a_change_that_was_throttled_is_tried_again() {
    let function = FunctionStub::start(|_, before| match before {
        0 => StubReply::Status(429, json!({"Message": "Rate Exceeded."})),
        _ => StubReply::Answer(json!({"id": "b-1", "progress": "stopped"})),
    });
    let stopped = ledgerline(&function, &["stop", "b-1", "--reason", "enough", "--by", "ada"]);
    assert_eq!((code(&stopped), function.requests().len()), (0, 2), "{}", words(&stopped));
}

#[test]
fn whoever_may_not_or_is_elsewhere_is_told_what_to_look_at() {
    for (status, said, hint) in [(403, "not authorized", "lambda:InvokeFunction"), (404, "no function", "--stack")] {
        let function = FunctionStub::start(move |_, _| StubReply::Status(status, json!({"Message": said})));
        let barred = ledgerline(&function, &["dead", "list"]);
        assert_eq!((code(&barred), function.requests().len()), (5, 1), "{}", words(&barred));
        assert!(words(&barred).contains(said) && words(&barred).contains(hint), "{}", words(&barred));
    }
}

#[test]
fn what_is_out_of_reach_ends_soon_with_a_code_of_its_own() {
    let begun = Instant::now();
    // Nobody listens where a listener was.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|door| door.local_addr()).expect("a free port");
    let unreached = command(&format!("http://{gone}"), &["dead", "list"]).output().expect("it runs");
    assert_eq!(code(&unreached), 5, "{}", words(&unreached));
    assert!(words(&unreached).contains(&gone.to_string()) && words(&unreached).contains("AWS_ENDPOINT_URL"));
    assert!(begun.elapsed() < Duration::from_secs(120));
}

#[test]
fn without_a_local_cloud_it_says_how_to_get_one() {
    // Below the project, the cloud of `make run` would be found.
    let none = command("http://127.0.0.1:9", &["status", "--local"]).current_dir("/").output().expect("it runs");
    assert_eq!(code(&none), 5, "{}", words(&none));
    assert!(words(&none).contains("make run"), "{}", words(&none));
    let both = command("http://127.0.0.1:9", &["status", "--local", "--profile", "prod"]).output().expect("it runs");
    assert_eq!(code(&both), 2);
}

#[test]
fn the_local_cloud_is_found_from_below() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(json!({"version": 0, "board": {}, "batches": []})));
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a-project");
    std::fs::create_dir_all(project.join(".local/run")).expect("a folder");
    std::fs::create_dir_all(project.join("infra/flows")).expect("a folder");
    let address = json!({"pid": 1, "endpoint": function.url, "functions": {"replay": "here-replay"},
        "credentials": {"access_key_id": "LOCAL1", "secret_access_key": "made for this run"}});
    std::fs::write(project.join(".local/run/cloud.json"), address.to_string()).expect("its address");
    let mut status = command("http://127.0.0.1:9", &["status", "--local"]);
    let status = status.current_dir(project.join("infra/flows")).output().expect("it runs");
    assert_eq!(code(&status), 0, "{}", words(&status));
    assert_eq!(function.requests()[0].path, "/2015-03-31/functions/here-replay/invocations?Qualifier=live");
}

/// CloudWatch's answer to a count has no body.
#[test]
fn a_deploy_is_counted_in_the_namespace_of_its_stack() {
    let cloudwatch = FunctionStub::start(|_, _| StubReply::Answer(Value::Null));
    let deploying = ledgerline(&cloudwatch, &["deploying", "--stack", "shop"]);
    assert_eq!(code(&deploying), 0, "{}", words(&deploying));
    assert!(words(&deploying).contains("15 minutes"), "{}", words(&deploying));
    let request = cloudwatch.requests().pop().expect("a request");
    let datum = json!({"MetricName": "Deploying", "Value": 1, "Unit": "Count"});
    assert_eq!(request.body, json!({"Namespace": "Ledgerline/shop", "MetricData": [datum]}));
    assert!(request.head.contains("GraniteServiceVersion20100801.PutMetricData"), "{}", request.head);
}

/// A deploy goes on without, but is told.
#[test]
fn a_deploy_that_is_not_counted_is_told() {
    let cloudwatch = FunctionStub::start(|_, _| StubReply::Status(403, json!({"Message": "no"})));
    let deploying = ledgerline(&cloudwatch, &["deploying"]);
    assert_eq!((code(&deploying), words(&deploying).contains("cloudwatch:PutMetricData")), (5, true));
}

#[test]
fn nothing_is_done_by_halves_or_by_accident() {
    let function = FunctionStub::start(|request, _| match request["id"].as_str() {
        Some("aa") => StubReply::Answer(line("aa")),
        _ => StubReply::Answer(json!({"error": "there is no event zz"})),
    });
    for (arguments, expected) in [
        (&["replay", "--reason", "it is back"][..], 2),
        (&["replay", "aa", "--flow", "leads", "--reason", "it is back"], 2),
        (&["replay", "aa", "bb", "--seen", "1.1", "--reason", "it is back"], 2),
        (&["replay", "aa", "--reason", " "], 2),
        (&["drop", "aa", "--reason", "it is odd", "--yes"], 2),
        (&["drop", "aa", "--sign-off", "ada", "--reason", "it is odd"], 2),
        (&["drop", "aa", "zz", "--sign-off", "ada", "--reason", "it is odd", "--yes"], 4),
        (&["resolve", "aa", "crm", "--reason", "saw it"], 2),
        (&["resolve", "aa", "crm", "--did-not-happen", "--reason", "saw it"], 2),
        (&["safe-mode", "--reason", "odd"], 2),
        (&["latency", "--window", "90s"], 2),
    ] {
        let output = ledgerline(&function, arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", words(&output));
    }
    let changes = function.requests().into_iter().filter(|request| request.body["op"] != "show").count();
    assert_eq!(changes, 0, "only looked");
}

/// A result may be a discount code, and quote people's data.
#[test]
fn a_result_is_masked_unless_it_is_asked_for() {
    let function = FunctionStub::start(|_, _| {
        let mut page = line("aa");
        page["effects"] = json!({"crm": {"state": "done", "attempts": 1, "result": {"code": "SAVE-40-ADA"}}});
        StubReply::Answer(page)
    });
    let masked = words(&ledgerline(&function, &["dead", "show", "aa", "--json"]));
    assert!(masked.contains("code") && !masked.contains("SAVE-40"), "{masked}");
    let asked_for = words(&ledgerline(&function, &["dead", "show", "aa", "--json", "--results"]));
    assert!(asked_for.contains("SAVE-40-ADA"), "{asked_for}");
}

#[test]
fn a_refusal_is_json_where_json_was_asked_for() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(json!({"error": "there is no event zz"})));
    let refused = ledgerline(&function, &["dead", "show", "zz", "--json"]);
    let answer: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!((code(&refused), answer), (4, json!({"error": "there is no event zz"})));
}

#[test]
fn a_reader_that_goes_is_no_error() {
    let lines: Vec<Value> = (0..100).map(|n| line(&format!("{n}-{}", "x".repeat(2000)))).collect();
    let function = FunctionStub::start(move |_, _| list(&lines));
    let mut tail = command(&function.url, &["dead", "tail", "--json", "--limit", "100"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut first = String::new();
    BufReader::new(tail.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    let mut errors = String::new();
    tail.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
    assert_eq!((tail.wait().expect("it ends").code(), errors.as_str()), (Some(0), ""));
    assert!(serde_json::from_str::<Value>(&first).is_ok());
}

/// Until ctrl-c, which ends it as if it had come to an end.
#[test]
fn a_follower_prints_what_is_new_until_it_is_told_to_end() {
    let at = |id: &str, second: u32| {
        let mut line = line(id);
        line["parked_at"] = json!(format!("2026-11-16T10:00:{second:02}.000Z"));
        line
    };
    let function = FunctionStub::start(move |_, before| match before {
        0 => list(&[at("one", 1)]),
        1 => list(&[at("two", 2), at("one", 1)]),
        _ => list(&[at("three", 3), at("two", 2), at("one", 1)]),
    });
    let mut tail = command(&function.url, &["dead", "tail", "--follow"]);
    let mut tail = tail.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut out = BufReader::new(tail.stdout.take().expect("a pipe"));
    for id in ["one", "two", "three"] {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert!(line.ends_with(&format!("{id}\n")), "{id}: {line}");
    }
    let interrupted = Command::new("kill").args(["-INT", &tail.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    assert_eq!(tail.wait().expect("it ends").code(), Some(0));
}

/// Ctrl-c ends the following: the batch goes on, and the operator is told how to end it.
#[test]
fn a_batch_goes_on_when_its_follower_is_told_to_end() {
    let batch = json!({"id": "b-1", "filter": {}, "max": 20, "per_minute": 5, "by": "ada", "why": "w", "started_at": 1,
                       "replayed": 0, "progress": "running"});
    let function = FunctionStub::start(move |request, _| match request["op"].as_str() {
        Some("list") => list(&[line("aa")]),
        Some("batch") => StubReply::Answer(batch.clone()),
        _ => StubReply::Answer(json!({"version": 0, "board": {}, "batches": [batch]})),
    });
    let replay = ["replay", "--all", "--reason", "it is back", "--by", "ada", "--yes"];
    let child = command(&function.url, &replay).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    while !function.requests().iter().any(|request| request.body["op"] == "status") {
        std::thread::sleep(Duration::from_millis(50));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(code(&ended), 0, "{}", words(&ended));
    assert!(words(&ended).contains("ledgerline stop b-1 --reason"), "{}", words(&ended));
    assert_eq!(function.requests().iter().filter(|request| request.body["op"] == "stop").count(), 0);
}

/// A file of contacts, one a line.
fn contacts_file(name: &str, emails: usize) -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let rows = (0..emails).map(|n| format!("c{n}@example.com,true\n")).collect::<String>();
    std::fs::write(&file, format!("email,consent_email\n{rows}not-a-row\n")).expect("it is written");
    file.to_string_lossy().into_owned()
}

/// Every row is created, but that of the first contact is rejected.
fn imported(request: &Value) -> StubReply {
    let outcome = |row: &Value| match row["email"] == "c0@example.com" {
        true => json!({"line": row["line"], "outcome": "rejected", "why": "a test"}),
        false => json!({"line": row["line"], "outcome": "created"}),
    };
    StubReply::Answer(
        json!({"rows": request["rows"].as_array().expect("rows").iter().map(outcome).collect::<Vec<_>>()}),
    )
}

#[test]
fn an_import_goes_in_bounded_requests_and_reports_each_rejected_line() {
    let file = contacts_file("import.csv", 250);
    let function = FunctionStub::start(|request, _| imported(request));
    let import = ["contacts", "import", &file, "--tenant", "acme", "--reason", "the old CRM", "--json"];
    let at = ["--at", "2026-11-01T00:00:00Z"];

    let unasked = ledgerline(&function, &[&import[..], &at].concat());
    assert_eq!((code(&unasked), words(&unasked).contains("--yes")), (2, true), "{}", words(&unasked));
    assert_eq!(function.requests().len(), 0);

    let done = ledgerline(&function, &[&import[..], &at, &["--yes"]].concat());
    assert_eq!(code(&done), 6, "{}", words(&done));
    let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
    assert_eq!((&report["counts"]["created"], &report["counts"]["rejected"]), (&json!(249), &json!(2)), "{report}");
    assert_eq!((&report["rejected"][0]["line"], &report["rejected"][1]["line"]), (&json!(2), &json!(252)), "{report}");
    let requests = function.requests();
    let mut rows: Vec<usize> =
        requests.iter().map(|request| request.body["rows"].as_array().map_or(0, Vec::len)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [50, 100, 100]);
    let first =
        requests.iter().flat_map(|request| request.body["rows"].as_array()).flatten().find(|row| row["line"] == 2);
    let expected = json!({"line": 2, "tenant": "acme", "email": "c0@example.com", "at": "2026-11-01T00:00:00Z",
                          "fields": {"consent_email": true}});
    assert_eq!(first, Some(&expected));
}

#[test]
fn an_import_without_a_moment_sends_nothing() {
    let file = contacts_file("no-moment.csv", 2);
    let function = FunctionStub::start(|request, _| imported(request));
    let arguments = ["contacts", "import", &file, "--tenant", "acme", "--reason", "the old CRM", "--yes"];
    let rejected = ledgerline(&function, &arguments);
    assert_eq!((code(&rejected), function.requests().len()), (4, 0), "{}", words(&rejected));
    assert!(words(&rejected).contains("--at"), "{}", words(&rejected));
}

/// The same rows again change nothing, so that a lost answer is asked for again.
#[test]
fn a_lost_answer_to_an_import_is_asked_for_again() {
    let file = contacts_file("lost.csv", 2);
    let function =
        FunctionStub::start(|request, before| if before == 0 { StubReply::Nothing } else { imported(request) });
    let at = "2026-11-01T00:00:00Z";
    let arguments =
        ["contacts", "import", &file, "--tenant", "acme", "--at", at, "--reason", "the old CRM", "--dry-run"];
    let done = ledgerline(&function, &arguments);
    let requests = function.requests();
    assert_eq!((code(&done), requests.len()), (6, 2), "{}", words(&done));
    assert_eq!((&requests[0].body, &requests[1].body["dry_run"]), (&requests[1].body, &json!(true)));
    assert!(words(&done).contains("nothing was written"), "{}", words(&done));
}

#[test]
fn a_contact_is_set_by_name_and_value() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(json!({"id": "c1", "created": false, "at": "now"})));
    let set = ["contacts", "set", "ada@example.com", "--tenant", "acme", "consent_email=false", "phone=null"];
    let done = ledgerline(&function, &[&set[..], &["--reason", "she called us", "--by", "ada"]].concat());
    assert_eq!(code(&done), 0, "{}", words(&done));
    let expected = json!({"op": "set_contact", "tenant": "acme", "email": "ada@example.com", "by": "ada",
                          "reason": "she called us", "fields": {"consent_email": false, "phone": null}});
    assert_eq!(function.requests()[0].body, expected);
    let nothing = ledgerline(&function, &["contacts", "set", "ada@example.com", "--tenant", "acme", "--reason", "r"]);
    assert_eq!(code(&nothing), 2, "{}", words(&nothing));
}

/// The timeline of an event whose first worker was lost in its call.
fn timeline() -> Value {
    let span = |id: u64, parent: &str, kind: Value, end: &str, said: &str| {
        let times = json!({"began": 1_794_819_600_000_i64, "ended": 1_794_819_660_000_i64, "end": end, "said": said});
        let mut span = json!({"id": format!("{id:016x}"), "parent": parent});
        for more in [kind, times] {
            span.as_object_mut().expect("a span").extend(more.as_object().expect("fields").clone());
        }
        span
    };
    let (lost, called) = ("the worker was lost", json!({"kind": "called", "effect": "crm", "attempt": 1}));
    json!({
        "event": "1b16f576", "flow": "lead-routing", "state": "dead", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spans": [
            span(0xa1, "00f067aa0ba902b7", json!({"kind": "accepted"}), "done", ""),
            span(0xa2, "00000000000000a1", json!({"kind": "worked", "claim": 1}), "unknown", lost),
            span(0xa3, "00000000000000a2", called, "unknown", lost),
            span(0xa4, "00000000000000a1", json!({"kind": "replayed", "replay": 1, "by": "ada: Ada says so"}), "done", ""),
        ],
    })
}

#[test]
fn a_trace_is_otlp_with_the_ids_of_the_timeline_and_without_people() {
    let function = FunctionStub::start(|_, _| StubReply::Answer(timeline()));
    let output = ledgerline(&function, &["trace", "1b16f576", "--otlp"]);
    assert_eq!(code(&output), 0, "{}", words(&output));
    assert_eq!(function.requests()[0].body, json!({"op": "trace", "id": "1b16f576"}));
    let data: TracesData = serde_json::from_slice(&output.stdout).expect("OTLP's JSON");
    let spans = &data.resource_spans[0].scope_spans[0].spans;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let told = timeline();
    let expected = told["spans"].as_array().expect("spans").iter();
    for (span, expected) in spans.iter().zip(expected) {
        assert_eq!(hex(&span.trace_id), told["trace_id"].as_str().expect("an id"));
        assert_eq!(
            [hex(&span.span_id), hex(&span.parent_span_id)].map(Value::from),
            [expected["id"].clone(), expected["parent"].clone()]
        );
    }
    let named: Vec<(&str, i32, bool)> =
        spans.iter().map(|span| (span.name.as_str(), span.kind, span.status.is_some())).collect();
    let (producer, consumer, client) = (4, 5, 3);
    assert_eq!(
        named,
        [
            ("accept events", producer, false),
            ("process events", consumer, true),
            ("call crm", client, true),
            ("replay events", producer, false),
        ]
    );
    assert!(!words(&output).to_lowercase().contains("ada"), "{}", words(&output));
}
