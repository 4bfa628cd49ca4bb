//! Partners that send without end, or drop by drop. A real socket, and other work on the same thread beside it.

use std::time::{Duration, Instant};

use shared::adapters::HttpPartners;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::Partners;
use shared::flows::PartnerAnswer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::effects::request;

/// A partner on a thread of its own, that does this with each connection once it was asked.
fn partner<F: Future<Output = ()>>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                answer(stream).await;
            }
        });
    });
    address
}

/// A partner that sends this over and over, until it is cut off.
fn flooding(head: &'static str, again: &'static str) -> String {
    partner(move |mut stream| async move {
        let flood = again.repeat(64 * 1024 / again.len());
        let mut sent = stream.write_all(head.as_bytes()).await;
        while sent.is_ok() {
            sent = stream.write_all(flood.as_bytes()).await;
        }
    })
}

/// A partner that sends this, then a byte at a time.
fn dripping(head: &'static str) -> String {
    partner(move |mut stream| async move {
        let mut sent = stream.write_all(head.as_bytes()).await;
        while sent.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            sent = stream.write_all(b"a").await;
        }
    })
}

/// Calls a partner. Says what came of it, and the longest that this thread computed before a neighbour on it, which wants
/// its turn every few milliseconds, had it.
async fn call(timeout: Duration, address: &str) -> (Result<PartnerAnswer, NoAnswer>, Duration) {
    let mut request = request(address, "/leads");
    request.timeout = timeout;
    let partners = HttpPartners::new(None);
    let call = partners.call(request);
    tokio::pin!(call);
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let turn = computed(began);
        tokio::select! {
            answer = &mut call => return (answer, longest),
            () = tokio::time::sleep(Duration::from_millis(5)) => longest = longest.max(computed(began) - turn),
        }
    }
}

/// How long this thread has computed: what other processes take of the time does not count. Where the system does not say,
/// all of the time does.
fn computed(began: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| began.elapsed(), Duration::from_nanos)
}

/// Far shorter than a flood took.
const NEIGHBOURS_PATIENCE: Duration = Duration::from_millis(700);

/// Longer than any call takes that ends by itself.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_flood_of_interim_answers_ends_the_call_and_keeps_nobody_waiting() {
    for again in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"] {
        let (answer, waited) = call(PATIENCE, &flooding("", again)).await;
        assert_eq!(answer, Err(NoAnswer::Lost("more than 8 interim answers".into())), "it may have been done");
        assert!(waited < NEIGHBOURS_PATIENCE, "a neighbour waited {waited:?}");
    }
}

#[tokio::test]
async fn a_few_interim_answers_are_taken() {
    let address = partner(|mut stream| async move {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{\"id\": 1}";
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(3);
        let _ = stream.write_all(format!("{interim}{answer}").as_bytes()).await;
    });
    let answer = call(PATIENCE, &address).await.0.expect("an answer");
    assert_eq!((answer.status, answer.body), (200, Some(serde_json::json!({"id": 1}))));
}

#[tokio::test]
async fn headers_without_end_end_the_call() {
    for (head, again) in [("HTTP/1.1 200 OK\r\n", "x-a: b\r\n"), ("HTTP/1.1 200 OK\r\nx-a: ", "b")] {
        let (answer, waited) = call(PATIENCE, &flooding(head, again)).await;
        assert_eq!(answer, Err(NoAnswer::Lost("cut off".into())), "before its own time was up");
        assert!(waited < NEIGHBOURS_PATIENCE, "{waited:?}");
    }
}

/// The status says enough; the body is not kept. An unoptimised reader takes its time with chunks of one byte.
#[tokio::test]
async fn a_body_without_end_is_not_read_to_its_end() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for again in ["1\r\na\r\n", "400\r\n"] {
        let (answer, waited) = call(PATIENCE, &flooding(head, again)).await;
        assert!(matches!(answer, Ok(PartnerAnswer { status: 200, body: None, .. })), "{answer:?}");
        assert!(waited < NEIGHBOURS_PATIENCE, "a neighbour waited {waited:?}");
    }
}

#[tokio::test]
async fn drops_are_waited_for_no_longer_than_the_call_may_take() {
    for head in ["", "HTTP/1.1 200 OK\r\nx-a: ", "HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n"] {
        let (answer, waited) = call(Duration::from_secs(1), &dripping(head)).await;
        assert!(!matches!(answer, Err(NoAnswer::NotSent(_))), "{head}: it may have been done");
        assert!(waited < NEIGHBOURS_PATIENCE, "{head}: a neighbour waited {waited:?}");
    }
}
