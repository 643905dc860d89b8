//! Connections that have not said anything yet are worth little: they are few and short (D-04, D-06).

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

/// Connections at once; more wait to be accepted.
pub(super) const CONNECTIONS_MAX: usize = 10_000;
/// A client must begin to speak within this time.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(10);
/// After a failed accept, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts while there is room.
pub(super) fn accept(
    listener: TcpListener,
    max: usize,
    first_word: Duration,
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
        let connection = socket.set_nodelay(true).map(|()| Connection::new(socket, permit, first_word));
        Some((connection, (listener, room)))
    })
    // One that is gone before it could be set up is no fault of the port.
    .filter(|connection| std::future::ready(connection.is_ok()))
}

/// A connection that ends when nothing is said on it in time.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    /// Until the first byte has come.
    silence: Option<Pin<Box<Sleep>>>,
    _room: OwnedSemaphorePermit,
}

impl Connection {
    fn new(socket: TcpStream, room: OwnedSemaphorePermit, first_word: Duration) -> Self {
        let silence = Some(Box::pin(tokio::time::sleep_until(Instant::now() + first_word)));
        Self { socket, silence, _room: room }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.silence = None;
        }
        if read.is_pending()
            && let Some(silence) = self.silence.as_mut()
            && silence.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client said nothing")));
        }
        read
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
    type ConnectInfo = <TcpStream as Connected>::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.socket.connect_info()
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
        (listener.local_addr().unwrap(), Box::pin(accept(listener, max, first_word)))
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
