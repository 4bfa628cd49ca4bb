//! A stub of the replay function: it replies as a test tells it, behind the plainest of HTTP servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The reply to a request.
#[derive(Debug)]
pub(crate) enum StubReply {
    /// The function answers.
    Answer(Value),
    /// AWS answers in the function's place.
    Status(u16, Value),
    /// The connection ends without an answer.
    Nothing,
}

/// A request that the stub received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    /// The header's lines.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A stub that listens. A request that is not JSON, such as one to STS, is denied and not kept.
#[derive(Debug)]
pub(crate) struct FunctionStub {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl FunctionStub {
    /// Starts a stub. `reply` gets each request, and how many there were before.
    pub(crate) fn start(reply: impl Fn(&Value, usize) -> StubReply + Send + 'static) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", door.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in door.incoming().filter_map(Result::ok) {
                // A client may close the connection before it sends a request.
                let Some(request) = read(&stream) else { continue };
                answer(stream, request, &kept, &reply);
            }
        });
        Self { url, requests }
    }

    /// The requests that the stub received, in order.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().expect("no test failed").clone()
    }
}

fn read(stream: &TcpStream) -> Option<(String, String, Vec<u8>)> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && head != "\r\n" {
        (lines.read_line(&mut head).ok()? > 0).then_some(())?;
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    lines.read_exact(&mut body).ok()?;
    Some((first.split(' ').nth(1)?.to_owned(), head, body))
}

fn answer(
    stream: TcpStream,
    (path, head, body): (String, String, Vec<u8>),
    requests: &Mutex<Vec<ReceivedRequest>>,
    reply: &impl Fn(&Value, usize) -> StubReply,
) {
    let Ok(body) = serde_json::from_slice::<Value>(&body) else { return send(stream, 403, "{}") };
    let before = requests.lock().expect("no test failed").len();
    requests.lock().expect("no test failed").push(ReceivedRequest { path, head, body: body.clone() });
    match reply(&body, before) {
        StubReply::Answer(answer) => send(stream, 200, &answer.to_string()),
        StubReply::Status(status, answer) => send(stream, status, &answer.to_string()),
        StubReply::Nothing => (),
    }
}

fn send(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // A client that is gone needs no answer.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
