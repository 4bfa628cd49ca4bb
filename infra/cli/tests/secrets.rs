//! `ledgerline secrets` against a store that does as it is told: what is asked of it, and that no secret is seen anywhere.

mod function_stub;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use function_stub::{FunctionStub, StubReply};
use serde_json::{Value, json};

const SECRET: &str = "canary-7f3a";

/// Runs the command with a text on its standard input.
fn ledgerline(store: &FunctionStub, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "LEDGERLINE_STACK"] {
        command.env_remove(name);
    }
    command
        .env("AWS_ENDPOINT_URL", &store.url)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .arg("secrets")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its standard input");
    // A command that declines need not read it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A store that has these names, one on each page, and takes every change.
fn store(names: &'static [&'static str]) -> FunctionStub {
    FunctionStub::start(move |body, _| {
        if body["Path"].is_null() {
            return StubReply::Answer(json!({"Version": 1}));
        }
        let page = body["NextToken"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0);
        let parameters: Vec<Value> = names
            .get(page)
            .map(|name| json!({"Name": name, "Value": SECRET, "LastModifiedDate": 1_794_830_400.5}))
            .into_iter()
            .collect();
        let next = if page + 1 < names.len() { json!((page + 1).to_string()) } else { Value::Null };
        StubReply::Answer(json!({"Parameters": parameters, "NextToken": next}))
    })
}

/// What was asked of the store that changes it, by the action.
fn changes(store: &FunctionStub) -> Vec<(String, Value)> {
    let action = |head: &str| {
        let target = head.lines().find_map(|line| line.strip_prefix("x-amz-target: AmazonSSM."));
        target.unwrap_or_default().to_owned()
    };
    let all = store.requests().into_iter().inspect(|request| assert_eq!(request.path, "/"));
    all.map(|request| (action(&request.head), request.body)).filter(|(action, _)| !action.starts_with("Get")).collect()
}

#[test]
fn names_are_listed_over_all_pages_and_no_value() {
    let store = store(&["/ledgerline/sources/web/2026-11", "/ledgerline/integrations/crm/vars/hook/current"]);
    let listed = ledgerline(&store, &["list"], "");
    assert_eq!(listed.status.code(), Some(0), "{}", words(&listed));
    let text = words(&listed);
    for told in ["sources/web", "2026-11", "integrations/crm/vars/hook", "2026-11-16T12:00:00.000Z"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains(SECRET));
    assert!(store.requests().iter().all(|request| request.body["WithDecryption"] == false));
}

#[test]
fn a_secret_is_read_from_standard_input_and_shown_nowhere() {
    let store = store(&[]);
    let key = "arn:aws:kms:eu-central-1:123456789012:key/k";
    let set = ledgerline(&store, &["set", "integrations/crm", "--key", key], &format!("{SECRET}\n"));
    assert_eq!(set.status.code(), Some(0), "{}", words(&set));
    assert!(!words(&set).contains(SECRET), "{}", words(&set));
    let [(action, body)] = &changes(&store)[..] else { panic!("one change: {:?}", changes(&store)) };
    assert_eq!(
        (action.as_str(), &body["Value"], &body["Type"]),
        ("PutParameter", &json!(SECRET), &json!("SecureString"))
    );
    assert_eq!(
        (&body["KeyId"], body.get("Overwrite")),
        (&json!(key), None),
        "a name that is taken is not written over"
    );
    assert!(body["Name"].as_str().is_some_and(|name| name.starts_with("/ledgerline/integrations/crm/20")), "{body}");
}

#[test]
fn a_second_secret_is_a_rotation_and_sorts_behind_the_first() {
    let store = store(&["/ledgerline/sources/web/current"]);
    let again = ledgerline(&store, &["set", "sources/web"], SECRET);
    assert_eq!((again.status.code(), changes(&store)), (Some(2), vec![]));
    assert!(words(&again).contains("secrets rotate sources/web"), "{}", words(&again));

    let rotated = ledgerline(&store, &["rotate", "sources/web", "--generate"], "");
    assert_eq!(rotated.status.code(), Some(0), "{}", words(&rotated));
    let [(_, body)] = &changes(&store)[..] else { panic!("one change") };
    assert_eq!(body["Name"], "/ledgerline/sources/web/current-2");
    let secret = String::from_utf8_lossy(&rotated.stdout).trim().to_owned();
    assert_eq!(body["Value"], json!(secret), "it is printed once, alone, on standard output");
    assert!(String::from_utf8_lossy(&rotated.stderr).contains("rotate sources/web --retire"), "{}", words(&rotated));
}

#[test]
fn older_secrets_are_deleted_when_that_is_confirmed() {
    let names =
        &["/ledgerline/sources/web/2026-10", "/ledgerline/sources/web/2026-11", "/ledgerline/sources/other/2026-09"];
    let store = store(names);
    let asked = ledgerline(&store, &["rotate", "sources/web", "--retire"], "y\n");
    assert_eq!((asked.status.code(), changes(&store)), (Some(2), vec![]), "nobody is at a terminal: {}", words(&asked));
    let retired = ledgerline(&store, &["rotate", "sources/web", "--retire", "--yes"], "");
    assert_eq!(retired.status.code(), Some(0), "{}", words(&retired));
    let deleted = ("DeleteParameter".to_owned(), json!({"Name": "/ledgerline/sources/web/2026-10"}));
    assert_eq!(changes(&store), [deleted]);
}

#[test]
fn a_lost_answer_and_a_refusal_say_whether_it_was_stored() {
    for (reply, told) in [(true, "It may have been done"), (false, "nothing was changed")] {
        let store = FunctionStub::start(move |body, _| match (body["Path"].is_null(), reply) {
            (false, _) => StubReply::Answer(json!({"Parameters": []})),
            (true, true) => StubReply::Nothing,
            (true, false) => StubReply::Status(400, json!({"__type": "AccessDeniedException", "message": "not you"})),
        });
        let set = ledgerline(&store, &["set", "sources/web"], SECRET);
        assert_eq!(set.status.code(), Some(5), "{}", words(&set));
        assert!(words(&set).contains(told) && !words(&set).contains(SECRET), "{}", words(&set));
        assert_eq!(changes(&store).len(), 1, "a secret is not sent twice");
    }
}
