//! Connections to partners that cannot keep a worker busy: what a partner sends is read in small pieces, with a pause
//! for others between them, and no further than an answer may be long.
//!
//! hyper reads on as long as there is something to read. A partner that floods would have the whole thread.

use std::io::{Error, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

/// The most bytes that are read before other work has its turn.
const PIECE: usize = 8 * 1024;

/// A connector whose connections are bounded.
#[derive(Clone, Debug)]
pub(super) struct BoundedConnector<C> {
    connector: C,
    most: usize,
}

impl<C> BoundedConnector<C> {
    /// Connections on which each answer has so many bytes at most.
    pub(super) fn new(connector: C, most: usize) -> Self {
        Self { connector, most }
    }
}

impl<C> Service<Uri> for BoundedConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
{
    type Response = BoundedStream<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, std::result::Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, most) = (self.connector.call(uri), self.most);
        Box::pin(async move { Ok(BoundedStream { stream: connecting.await?, most, read: 0, paused: true }) })
    }
}

/// A stream of which so many bytes at most are read between two writes: an answer follows its request.
pub(super) struct BoundedStream<S> {
    stream: S,
    most: usize,
    read: usize,
    /// Whether others had their turn since the last whole piece.
    paused: bool,
}

impl<S: Read + Unpin> Read for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        if !self.paused {
            self.paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.read > self.most {
            return Poll::Ready(Err(Error::other("the answer is too long")));
        }
        let mut piece = [0; PIECE];
        let room = buffer.remaining().min(PIECE);
        let mut piece = ReadBuf::new(&mut piece[..room]);
        ready!(Pin::new(&mut self.stream).poll_read(context, piece.unfilled()))?;
        let got = piece.filled();
        self.read += got.len();
        self.paused = got.len() < PIECE / 2;
        buffer.put_slice(got);
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.read = 0;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: Connection> Connection for BoundedStream<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    /// A partner that always has more to send.
    struct Flood;

    impl Read for Flood {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
            buffer.put_slice(&vec![b'a'; buffer.remaining()]);
            Poll::Ready(Ok(()))
        }
    }

    fn read(stream: &mut BoundedStream<Flood>) -> Poll<Result<usize>> {
        let mut bytes = [0; 4 * PIECE];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut context = Context::from_waker(noop_waker_ref());
        let read = Pin::new(stream).poll_read(&mut context, buffer.unfilled());
        read.map_ok(|()| buffer.filled().len())
    }

    #[test]
    fn others_have_their_turn_after_each_piece_and_no_answer_is_endless() {
        let mut stream = BoundedStream { stream: Flood, most: 3 * PIECE, read: 0, paused: true };
        for _ in 0..4 {
            assert!(matches!(read(&mut stream), Poll::Ready(Ok(PIECE))));
            assert!(read(&mut stream).is_pending(), "others have their turn");
        }
        assert!(matches!(read(&mut stream), Poll::Ready(Err(_))), "the answer is too long");
    }
}
