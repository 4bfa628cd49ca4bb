//! Pages of other origins, other hosts and callers without this run's credentials: no port of the local cloud does
//! anything for them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::browser::Browser;
use super::new_lead;
use super::system::{System, variable};

/// Whatever does or tells something, on any of the ports, if it is let.
const TEMPTING: [(&str, &str, &str); 11] = [
    ("GET", "/console/dashboards/ledgerline-us-east-1-operate", ""),
    ("POST", "/console/call", r#"{"endpoint":"arn:x:function:ledgerline-replay","event":{"op":"list"}}"#),
    ("GET", "/_control/log", ""),
    ("PUT", "/_control/crm", r#"{"mode":"status","status":500}"#),
    ("DELETE", "/_control", ""),
    ("POST", "/crm/contacts", "{}"),
    ("GET", "/_ministack/health", ""),
    ("POST", "/_ministack/reset", ""),
    ("GET", "/2015-03-31/functions/", ""),
    ("GET", "/2018-06-01/runtime/invocation/next", ""),
    ("POST", "/?Action=ListQueues", ""),
];

/// A call that reads the demo's secrets.
const SECRETS: &str = r#"{"Path":"/ledgerline","Recursive":true,"WithDecryption":true}"#;

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn requests_that_were_meant_for_others_have_no_effect_on_any_port() {
    let system = System::take().await;
    let ports = every_port(&system).await;
    for port in &ports {
        let here = format!("127.0.0.1:{port}");
        let evil = format!("{here}:evil");
        for (host, more) in [
            ("evil.example", ""),
            (evil.as_str(), ""),
            ("127.0.0.1", ""),
            (here.as_str(), "origin: http://evil.example\r\n"),
            (here.as_str(), "origin: null\r\n"),
            (here.as_str(), "sec-fetch-site: cross-site\r\n"),
        ] {
            for (method, path, body) in TEMPTING.into_iter().chain([("OPTIONS", "/", ""), ("GET", "/console", "")]) {
                let answer = raw(*port, method, path, host, more, body).await;
                assert!(answer.starts_with("HTTP/1.1 403"), "{method} {path} of {host} {more} at {port}: {answer}");
                assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
            }
        }
    }
    nothing_happened(&system).await;
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn whoever_has_no_credentials_of_this_run_is_rejected_on_every_port() {
    let system = System::take().await;
    let forged = "authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ssm/aws4_request, \
                  SignedHeaders=host, Signature=0\r\nx-amz-target: AmazonSSM.GetParametersByPath\r\n";
    for port in every_port(&system).await {
        for more in ["", "authorization: Bearer guess\r\n", forged] {
            for (method, path, body) in TEMPTING.into_iter().chain([("POST", "/", SECRETS), ("OPTIONS", "/", "")]) {
                let answer = raw(port, method, path, &format!("127.0.0.1:{port}"), more, body).await;
                let rejected = ["401", "403", "404"].iter().any(|status| answer[9..].starts_with(status));
                assert!(rejected, "{method} {path} {more} at {port}: {answer}");
                assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
            }
        }
    }
    nothing_happened(&system).await;
}

/// In a real browser, which has no reason to be polite: from a page of another site, and under another name of this
/// machine.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_page_of_a_foreign_origin_reads_nothing_and_changes_nothing() {
    let system = System::take().await;
    let ports: Vec<u16> = every_port(&system).await.into_iter().collect();
    let browser = Browser::open(&format!("http://localhost:{}/", foreign_page().await)).await;
    let script = format!(
        "const [ports, tempting] = [{}, {}]; const read = [];
         const tries = ports.flatMap((port) => tempting.flatMap(([method, path, body]) => ['cors', 'no-cors'].map(
           async (mode) => {{
             const options = mode === 'cors' ? {{ method }} : {{ mode, method: method === 'GET' ? 'GET' : 'POST' }};
             if (body && options.method !== 'GET') options.body = body;
             try {{
               const answer = await fetch(`http://127.0.0.1:${{port}}${{path}}`, options);
               if (answer.type !== 'opaque') read.push([port, path, answer.status]);
             }} catch (error) {{}}
           }})));
         return Promise.all(tries).then(() => read);",
        json!(ports),
        json!(TEMPTING),
    );
    assert_eq!(browser.run(&script).await, json!([]), "answers that the page could read");
    nothing_happened(&system).await;

    for port in &ports {
        browser.go(&format!("http://rebound.example:{port}/console")).await;
        let script = format!(
            "return Promise.all({}.map(([method, path, body]) => fetch(path, {{ method, body: body || undefined }})
             .then((answer) => answer.status, () => 0)))",
            json!(TEMPTING)
        );
        let statuses = browser.run(&script).await;
        let rejected = |status: &Value| [json!(403), json!(0)].contains(status);
        assert!(
            statuses[0] == 403 && statuses.as_array().is_some_and(|all| all.iter().all(rejected)),
            "{port}: {statuses}"
        );
    }
    nothing_happened(&system).await;
}

#[test]
#[ignore = "needs the local cloud: make test"]
fn every_file_of_the_local_cloud_is_its_owners_alone() {
    let mut folders = vec![PathBuf::from(variable("LEDGERLINE_STATE"))];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        assert_private(&folder);
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_symlink() => (),
                _ => assert_private(&entry.path()),
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "the folder was not read");
}

/// The functions' programs alone are as the emulator unpacks them: they hold nothing, in folders that nobody enters.
/// What is gone again meanwhile is as private.
fn assert_private(path: &Path) {
    let mode = path.symlink_metadata().map_or(0, |found| found.permissions().mode() & 0o777);
    let is_program = path.file_name().is_some_and(|name| name == "bootstrap");
    assert!(mode & 0o077 == 0 || is_program, "{} has the mode {mode:o}", path.display());
}

/// Every TCP port that the local cloud listens on, the functions' runtimes included: each of them has run.
async fn every_port(system: &System) -> BTreeSet<u16> {
    let id = system.post(&new_lead("before")).await.id();
    system.until(&id, "succeeded").await;
    let cloud = std::fs::read(Path::new(&variable("LEDGERLINE_STATE")).join("cloud.json")).expect("the address");
    let cloud: Value = serde_json::from_slice(&cloud).expect("JSON");
    let pid = u32::try_from(cloud["pid"].as_u64().expect("a process")).expect("a process");
    let ports = listening(&tree(pid));
    let known: BTreeSet<u16> = ["url", "partners_url", "endpoint"]
        .iter()
        .filter_map(|part| cloud[part].as_str()?.rsplit(':').next()?.parse().ok())
        .collect();
    assert!(known.len() == 3 && known.is_subset(&ports) && ports.len() > 3, "{known:?} of {ports:?}");
    ports
}

const COLLECTOR: &str = "(rotel-agent)";

/// The process and all that it started, without the branch that the tests run in, without the emulators of the clouds beside
/// this one, whose functions come and go, and without the collector of traces: only the tests have one, and it takes what it is
/// sent and tells nobody anything.
fn tree(root: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("Linux")
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let is_of_another = std::fs::read(entry.path().join("environ")).is_ok_and(|environ| is_elsewhere(&environ));
            let stat = std::fs::read_to_string(entry.path().join("stat"))
                .ok()
                .filter(|stat| !is_of_another && !stat.contains(COLLECTOR))?;
            Some((pid, stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let parent = |pid: u32| parents.iter().find(|(child, _)| *child == pid).map(|(_, parent)| *parent);
    let ours: BTreeSet<u32> =
        std::iter::successors(Some(std::process::id()), |pid| parent(*pid)).take_while(|pid| *pid != root).collect();
    let mut tree = BTreeSet::from([root]);
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(child, parent)| tree.contains(parent) && !tree.contains(child) && !ours.contains(child))
            .map(|(child, _)| *child)
            .collect();
        if more.is_empty() {
            return tree;
        }
        tree.extend(more);
    }
}

/// Whether a process knows another emulator than this test.
fn is_elsewhere(environ: &[u8]) -> bool {
    let known = environ.split(|byte| *byte == 0).find_map(|set| set.strip_prefix(b"AWS_ENDPOINT_URL="));
    known.is_some_and(|known| known != variable("AWS_ENDPOINT_URL").as_bytes())
}

/// The ports that these processes listen on, on any address.
fn listening(pids: &BTreeSet<u32>) -> BTreeSet<u16> {
    let files = pids.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).ok()).flatten().flatten();
    let sockets: BTreeSet<String> = files
        .filter_map(|file| {
            let link = std::fs::read_link(file.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let columns = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let open = columns.filter(|columns| columns[3] == "0A" && sockets.contains(columns[9]));
    open.filter_map(|columns| u16::from_str_radix(columns[1].rsplit(':').next()?, 16).ok()).collect()
}

/// What a server answers to a request whose every byte is ours.
async fn raw(port: u16, method: &str, path: &str, host: &str, more: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{more}content-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A server with an empty page. Says its port.
async fn foreign_page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\nconnection: close\r\n\r\n<title>x</title>";
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    port
}

/// The partner is as well as before and got no call but the one event's, and the cloud does its work.
async fn nothing_happened(system: &System) {
    let calls = system.calls().await;
    let id = system.post(&new_lead("after")).await.id();
    system.until(&id, "succeeded").await;
    let after = system.calls().await;
    assert_eq!(after.len(), calls.len() + 1, "{after:?}");
    assert!(after.iter().all(|call| call["status"] == 200 && call["authorized"] == true), "{after:?}");
}
