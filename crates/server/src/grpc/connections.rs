//! Connections that ask for nothing are worth little: one that says nothing at first, or on which no call has been under
//! way for long, makes room for others (D-04, D-06).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

use super::calls::Calls;

/// Connections at once; more wait to be accepted.
pub(super) const CONNECTIONS_MAX: usize = 10_000;
/// A client must begin to speak within this time.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(10);
/// A connection without any call is kept open so long. Pings of the transport do not count: they only show that somebody
/// is there.
pub(super) const IDLE: Duration = Duration::from_secs(300);
/// After a failed accept, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts while there is room.
pub(super) fn accept(
    listener: TcpListener,
    max: usize,
    first_word: Duration,
    idle: Duration,
) -> impl Stream<Item = io::Result<Connection>> {
    let room = Arc::new(Semaphore::new(max));
    futures::stream::unfold((listener, room), move |(listener, room)| async move {
        let permit = room.clone().acquire_owned().await.ok()?;
        let socket = loop {
            match listener.accept().await {
                Ok((socket, _)) => break socket,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let connection = socket.set_nodelay(true).map(|()| Connection::new(socket, permit, first_word, idle));
        Some((connection, (listener, room)))
    })
    // One that is gone before it could be set up is no fault of the port.
    .filter(|connection| std::future::ready(connection.is_ok()))
}

/// A connection that ends when nothing is asked on it in time.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    calls: Calls,
    has_spoken: bool,
    /// When to look whether it is still worth its room.
    look: Pin<Box<Sleep>>,
    idle: Duration,
    _room: OwnedSemaphorePermit,
}

impl Connection {
    fn new(socket: TcpStream, permit: OwnedSemaphorePermit, first_word: Duration, idle: Duration) -> Self {
        let look = Box::pin(tokio::time::sleep_until(Instant::now() + first_word));
        Self { socket, calls: Calls::default(), has_spoken: false, look, idle, _room: permit }
    }

    /// Ready when the connection is to end: with an error when the client never spoke, else as if it had hung up.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.look.as_mut().poll(cx).is_ready() {
            if !self.has_spoken {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client said nothing")));
            }
            let now = Instant::now();
            let until = self.calls.quiet_since().unwrap_or(now) + self.idle;
            if until <= now {
                tracing::debug!("a connection without calls is closed");
                return Poll::Ready(Ok(()));
            }
            self.look.as_mut().reset(until);
        }
        Poll::Pending
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        if buf.filled().len() > before && !self.has_spoken {
            self.has_spoken = true;
            let until = Instant::now() + self.idle;
            self.look.as_mut().reset(until);
        }
        if read.is_pending() { self.poll_patience(cx) } else { read }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = Calls;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.calls.clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn port(
        max: usize,
        first_word: Duration,
    ) -> (std::net::SocketAddr, Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        (listener.local_addr().unwrap(), Box::pin(accept(listener, max, first_word, Duration::from_secs(60))))
    }

    #[tokio::test]
    async fn d_04_a_client_that_says_nothing_is_cut_off_and_one_that_speaks_is_not() {
        let (address, mut incoming) = port(10, Duration::from_millis(50)).await;
        let silent = TcpStream::connect(address).await.unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(silent);
        let mut speaking = TcpStream::connect(address).await.unwrap();
        speaking.write_all(b"x").await.unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'x');
        let later = tokio::time::timeout(Duration::from_millis(200), connection.read_u8()).await;
        assert!(later.is_err(), "after its first word it may be silent for long");
    }

    #[tokio::test]
    async fn d_06_no_more_connections_are_accepted_than_there_is_room_for() {
        let (address, mut incoming) = port(1, Duration::from_secs(60)).await;
        let _clients = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let first = incoming.next().await.unwrap().unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(100), incoming.next()).await;
        assert!(waiting.is_err());
        drop(first);
        incoming.next().await.unwrap().unwrap();
    }
}
