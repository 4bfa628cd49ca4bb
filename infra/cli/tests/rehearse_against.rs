//! An export sent to a running intake: signed for the address that is called, and going on after the line that was answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};
use shared::adapters::machine::{SystemClock, read_catalog};
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::signature::{Secret, new_secret, receivers_secret, verify};
use shared::base::machine::Clock as _;
use shared::flows::{File, Flows};

const FLOW: &str = r#"name: things
version: 1
on: {source: other, type: thing}
schema: {type: object, required: [id], properties: {id: {type: string}, type: {type: string}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 72h
effects: [{id: crm, integration: crm, request: {method: POST, path: /x}}]
retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}
"#;

/// A folder with one flow of a sender, its flows, and the secret of the sender.
fn folder(name: &str, sender: &str, more: &str) -> (PathBuf, Flows, Secret) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("against-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("flows")).expect("a folder");
    let file = |path: &str, text: String| File { path: path.into(), text };
    let mut files = vec![
        file("sources.yaml", format!("other: {{uses: {sender}, max_body: 64KiB, rate: 100/s{more}}}\n")),
        file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}\n".into()),
        file("flows/things.yaml", FLOW.into()),
    ];
    files.iter().for_each(|file| std::fs::write(folder.join(&file.path), &file.text).expect("a file"));
    let catalog = read_catalog(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../flows")).expect("the catalogue");
    files.extend(catalog.into_iter().filter(|file| file.path == format!("catalog/sources/{sender}.yaml")));
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let secret = new_secret(&flows.source("other").expect("the source").scheme, &[7; 32]);
    std::fs::write(folder.join("secret"), secret.expose()).expect("the secret");
    (folder, flows, secret)
}

fn export(folder: &Path, lines: usize) {
    let line = |number| json!({"id": format!("e-{number}")}).to_string() + "\n";
    std::fs::write(folder.join("export.jsonl"), (0..lines).map(line).collect::<String>()).expect("an export");
}

fn rehearse(folder: &Path, url: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ledgerline"))
        .current_dir(folder)
        .args(["--json", "rehearse", "export.jsonl", "--in", ".", "--flow", "things", "--against", url])
        .args(["--secret-file", "secret", "--rate", "100/s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs")
}

/// Rehearses, and answers all lines with this.
fn answered(
    folder: &Path,
    (url, heard): &(String, Receiver<Heard>),
    lines: usize,
    answer: fn(Heard),
) -> (bool, String) {
    let running = rehearse(folder, url);
    (0..lines).for_each(|_| answer(heard.recv().expect("a request")));
    let output = running.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

fn report(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A request, and the connection that waits for its answer.
struct Heard {
    delivery: Delivery,
    connection: TcpStream,
}

impl Heard {
    fn id(&self) -> String {
        let body = String::from_utf8_lossy(&self.delivery.body).into_owned();
        body.split("e-").nth(1).unwrap_or_default().chars().take_while(char::is_ascii_digit).collect()
    }

    fn answer(mut self, status: u16, more: &str, body: &Value) {
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\n{more}connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = self.connection.write_all(format!("{head}{body}").as_bytes());
    }

    fn accept(self) {
        self.answer(202, "", &json!({"id": "x", "status": "accepted"}));
    }

    fn know(self) {
        self.answer(202, "idempotent-replayed: true\r\n", &json!({"id": "x", "status": "accepted"}));
    }
}

/// An intake that tells what it hears. Whoever listens answers.
fn intake() -> (String, Receiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, heard) = channel();
    let base = url.clone();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|connection| hear(connection, &base, &tell)));
    (url, heard)
}

fn hear(connection: TcpStream, base: &str, tell: &Sender<Heard>) {
    let mut reader = BufReader::new(connection.try_clone().expect("a connection"));
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or_default() == 0 {
        return;
    }
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body).expect("the body");
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let called = Called { method: "POST".into(), base: base.into(), path: path.into(), query: query.into() };
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let delivery = Delivery { source: "other".into(), event_type: None, headers, body, called };
    let _ = tell.send(Heard { delivery, connection });
}

#[test]
fn a_line_is_signed_for_the_address_that_is_called() {
    for (sender, more) in [
        ("hubspot", ", split: \"items[*]\""),
        ("square", ""),
        ("twilio", ""),
        ("twilio-json", ""),
        ("sendgrid", ", split: \"items[*]\""),
        ("basic", ""),
    ] {
        let (folder, flows, secret) = folder(sender, sender, more);
        export(&folder, 2);
        let (url, heard) = intake();
        let running = rehearse(&folder, &format!("{url}/"));
        let source = flows.source("other").expect("the source");
        let kept = receivers_secret(&source.scheme, &secret).expect("a secret");
        for _ in 0..2 {
            let request = heard.recv().expect("a request");
            let believed = verify(source, std::slice::from_ref(&kept), request.delivery.clone(), SystemClock.now());
            assert!(believed.is_ok(), "{sender}");
            request.accept();
        }
        assert_eq!(report(running)["accepted"], json!(2), "{sender}");
    }
}

#[test]
fn what_was_answered_is_not_sent_again_and_nothing_is_called_a_duplicate_that_may_be_none() {
    let (folder, ..) = folder("resume", "stripe", "");
    export(&folder, 6);
    let (url, heard) = intake();
    let mut first = rehearse(&folder, &url);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let request = heard.recv().expect("a request");
        ids.push(request.id());
        request.accept();
    }
    // The fourth arrives, and the command is gone before it hears so.
    let fourth = heard.recv().expect("a request");
    first.kill().expect("it is killed");
    first.wait().expect("it is gone");
    ids.push(fourth.id());
    drop(fourth);
    let second = rehearse(&folder, &url);
    let fourth = heard.recv().expect("a request");
    assert_eq!(fourth.id(), "3", "the line whose answer was not heard is sent again, and none before it");
    fourth.know();
    // The answer to the fifth is lost: it is sent again, and known then.
    drop(heard.recv().expect("a request"));
    heard.recv().expect("a request").know();
    heard.recv().expect("a request").know();
    let told = report(second);
    let counts = ["lines", "accepted", "duplicates", "in_doubt"].map(|name| told[name].as_u64().unwrap_or_default());
    assert_eq!((counts, ids.concat().as_str()), ([6, 3, 1, 2], "0123"), "{told}");
}

#[test]
fn another_export_does_not_go_on_where_this_one_stopped() {
    let (folder, ..) = folder("another", "stripe", "");
    export(&folder, 2);
    let (url, heard) = intake();
    let running = rehearse(&folder, &url);
    (0..2).for_each(|_| heard.recv().expect("a request").accept());
    report(running);
    export(&folder, 3);
    let refused = rehearse(&folder, &url).wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("the export is another one"), "{told}");
}

#[test]
fn a_secret_of_another_scheme_is_told_before_anything_is_sent() {
    let (folder, ..) = folder("secret", "sendgrid", ", split: \"items[*]\"");
    export(&folder, 1);
    std::fs::write(folder.join("secret"), "no key").expect("a secret");
    let (url, heard) = intake();
    let refused = rehearse(&folder, &url).wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("no secret of the scheme of `other`"), "{told}");
    assert!(heard.try_recv().is_err(), "nothing was sent");
}

#[test]
fn a_secret_that_is_not_believed_ends_the_rehearsal_at_its_first_line() {
    let (folder, ..) = folder("unbelieved", "stripe", "");
    export(&folder, 3);
    let intake = intake();
    let unbelieved = json!({"type": "urn:ledgerline:problem:bad-signature"});
    let running = rehearse(&folder, &intake.0);
    intake.1.recv().expect("a request").answer(401, "", &unbelieved);
    let refused = running.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("line 1 was rejected as `bad-signature`"), "{told}");
    assert!(intake.1.try_recv().is_err(), "nothing was sent after it");
    let (is_good, told) = answered(&folder, &intake, 3, Heard::accept);
    assert!(is_good && told.contains("\"accepted\":3") || told.contains("\"accepted\": 3"), "{told}");
    let (is_good, told) = answered(&folder, &intake, 0, Heard::accept);
    assert!(is_good && told.contains("Nothing was left to send: export.jsonl.rehearsed says"), "{told}");
}

#[test]
fn the_report_of_a_running_cloud_has_what_its_answers_say() {
    let (folder, ..) = folder("text", "stripe", "");
    export(&folder, 1);
    let intake = intake();
    answered(&folder, &intake, 1, Heard::know);
    let again = Command::new(env!("CARGO_BIN_EXE_ledgerline"))
        .current_dir(&folder)
        .args(["rehearse", "export.jsonl", "--in", ".", "--flow", "things", "--against", &intake.0])
        .args(["--secret-file", "secret", "--rate", "100/s"])
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(told.contains("1 line answered") && told.contains("duplicate  1: known there before"), "{told}");
    assert!(!told.contains("succeeded") && !told.contains("the old system") && !told.contains(" from "), "{told}");
}
