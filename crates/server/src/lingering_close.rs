//! Lingering close: closes a connection so that the peer can read the last response.
//!
//! The kernel resets a socket that is closed while it has unread bytes, and the peer loses what it
//! has not read yet. A client that is still sending a head or body that is too long would find a
//! broken connection instead of its 431 or 413. So the server first closes its half of the
//! connection. Then it reads and discards bytes until the peer has closed the other half, within
//! bounds of time and size.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;

const WAIT_MAX: Duration = Duration::from_secs(1);
const BYTES_MAX: usize = 64 * 1024 * 1024;
const PIECE_BYTES: usize = 8 * 1024;

/// Wraps a stream for a connection. The receiver gets it back when the connection is dropped.
pub fn return_on_drop<S>(stream: S) -> (ReturnedStream<S>, oneshot::Receiver<S>) {
    let (back, returned) = oneshot::channel();
    (ReturnedStream { stream: Some(stream), back: Some(back) }, returned)
}

/// Sends the last bytes, closes the half of the server, and reads until the peer has closed its
/// half.
pub async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin, last: &[u8]) {
    let closing = async {
        // The peer may have disconnected already.
        let _ = stream.write_all(last).await;
        let _ = stream.shutdown().await;
        let mut bytes_left = BYTES_MAX;
        let mut piece = [0; PIECE_BYTES];
        while let Ok(read @ 1..) = stream.read(&mut piece).await
            && let Some(left) = bytes_left.checked_sub(read)
        {
            bytes_left = left;
        }
    };
    let _ = tokio::time::timeout(WAIT_MAX, closing).await;
}

/// A stream that goes back to the caller of `return_on_drop` when it is dropped.
pub struct ReturnedStream<S> {
    /// Both fields are `Some` until the drop.
    stream: Option<S>,
    back: Option<oneshot::Sender<S>>,
}

impl<S: Unpin> ReturnedStream<S> {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut S> {
        Pin::new(self.get_mut().stream.as_mut().expect("it is there until the drop"))
    }
}

impl<S> Drop for ReturnedStream<S> {
    fn drop(&mut self) {
        if let (Some(stream), Some(back)) = (self.stream.take(), self.back.take()) {
            // Without a receiver the stream is dropped here.
            let _ = back.send(stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReturnedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReturnedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(S::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_still_comes_is_read_until_the_peer_ends_as_well() {
        let (near, mut far) = tokio::io::duplex(64);
        let ended = tokio::spawn(async move {
            let (mut connection, returned) = return_on_drop(near);
            connection.write_all(b"too much").await.unwrap();
            drop(connection);
            close(returned.await.unwrap(), b"!").await;
        });
        far.write_all(&[0; 10_000]).await.unwrap();
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"too much!");
        let before = Instant::now();
        drop(far);
        ended.await.unwrap();
        assert!(before.elapsed() < WAIT_MAX, "a peer that has gone is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_end_is_waited_for_within_bounds() {
        let (near, _far) = tokio::io::duplex(64);
        let before = Instant::now();
        close(near, b"").await;
        assert_eq!(before.elapsed(), WAIT_MAX);
        let (near, mut endless) = tokio::io::duplex(1 << 20);
        let sender = tokio::spawn(async move { while endless.write_all(&[0; 1 << 20]).await.is_ok() {} });
        close(near, b"").await;
        sender.await.unwrap();
    }
}
