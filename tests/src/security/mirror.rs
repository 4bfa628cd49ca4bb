//! A partner over real HTTP that answers with all that it was sent, and gives tokens.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A request as it was on the wire.
#[derive(Clone, Debug)]
pub(crate) struct OnTheWire {
    /// The first line and the headers.
    pub(crate) head: String,
    /// The body's bytes.
    pub(crate) body: Vec<u8>,
}

impl OnTheWire {
    /// The method, the path and the query.
    pub(crate) fn target(&self) -> &str {
        self.head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1")
    }

    /// The value of a header, if it stands there once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut values = fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        values.next().filter(|_| values.next().is_none())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn is_for_a_token(&self) -> bool {
        self.target().contains("/_token/")
    }
}

/// How the partner answers.
#[derive(Clone, Copy)]
pub(crate) struct Mirror {
    /// The status of its API's answers.
    pub(crate) status: u16,
    /// The status of its token end-point's answers.
    pub(crate) token_status: u16,
    /// The token that it gives.
    pub(crate) token: &'static str,
}

/// The token of an end-point that gives none.
pub(crate) const NONSENSE: &str = "";

impl Mirror {
    /// Serves at the address that is returned, and tells what was asked.
    pub(crate) async fn serve(self) -> (String, mpsc::UnboundedReceiver<OnTheWire>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, questions) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read(&mut stream).await else { continue };
                stream.write_all(self.answer(&request).as_bytes()).await.ok();
                asked.send(request).ok();
            }
        });
        (address, questions)
    }

    fn answer(self, request: &OnTheWire) -> String {
        let quote = format!("{} {}", request.head, request.text());
        let (status, mut body) = (self.status, json!({"error": quote, "message": quote, "quote": {&quote: 1}}));
        let status = if request.is_for_a_token() { self.token_status } else { status };
        if request.is_for_a_token() && status == 200 {
            body = json!({"access_token": self.token, "expires_in": 3600, "quote": quote});
        }
        // A success that is no token: an end-point behind a page, say.
        if request.is_for_a_token() && self.token == NONSENSE {
            body = json!(format!("<html>{quote}</html>"));
        }
        let quote = quote.replace(|c: char| c.is_control(), " ");
        let body = body.to_string();
        let location = format!("location: https://elsewhere.example/?{}", quote.replace(' ', "+"));
        let head = format!("HTTP/1.1 {status} {quote}\r\n{location}\r\nx-quote: {quote}");
        format!("{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }
}

/// Reads one request to its end.
async fn read(stream: &mut TcpStream) -> Option<OnTheWire> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&piece[..length]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let request =
            OnTheWire { head: String::from_utf8_lossy(&bytes[..end]).into_owned(), body: bytes[end + 4..].to_vec() };
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if request.body.len() >= length {
            return Some(request);
        }
    }
}

/// A body as JSON.
pub(crate) fn json_of(request: &OnTheWire) -> Value {
    serde_json::from_slice(&request.body).expect("a body of JSON")
}
