//! Collects what an HTTP/2 connection writes until its next poll, so that the frames of many
//! streams leave in few TLS records and one system call. Examples are answers to concurrent
//! requests, or an event for a hundred watchers.
//!
//! h2 flushes after every DATA frame. Here, such a flush only asks for another poll of the
//! connection, and the bytes leave at that poll. Other tasks that are ready run in between. There
//! is no timer.
//!
//! *Invariant:* all bytes are on their way once the task of the connection has nothing more to do.
//! This relies on h2 reading from the connection at every poll. HTTP/1.1 flushes at the right time
//! by itself, so its bytes pass at once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most that is collected. With more, writing waits for the client.
pub(super) const HELD_BYTES_MAX: usize = 64 * 1024;
/// A write of this size is part of a long answer.
const LARGE_BYTES: usize = 8 * 1024;
/// The largest buffer that an idle connection keeps.
const KEPT_BYTES_MAX: usize = 4 * 1024;

pub struct Cork<S> {
    inner: S,
    holds: bool,
    held: BytesMut,
    /// A flush was asked for and is due at the next poll.
    promised: bool,
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    pub fn new(inner: S, holds: bool) -> Cork<S> {
        Cork { inner, holds, held: BytesMut::new(), promised: false }
    }

    /// Sends the collected bytes, and flushes.
    fn release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, &self.held))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.held.advance(written),
            }
        }
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.promised = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Cork<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.promised
            && let Poll::Ready(released) = self.release(cx)
        {
            released?;
            // The burst is over, so its buffer goes.
            if self.held.capacity() > KEPT_BYTES_MAX {
                self.held = BytesMut::new();
            }
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cork<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if !self.holds {
            return Pin::new(&mut self.inner).poll_write(cx, data);
        }
        if self.held.len() == HELD_BYTES_MAX {
            ready!(self.release(cx))?;
        }
        let fits = data.len().min(HELD_BYTES_MAX - self.held.len());
        if data.len() > LARGE_BYTES {
            // More will follow. The full buffer at once saves copies to larger ones.
            let room = HELD_BYTES_MAX - self.held.len();
            self.held.reserve(room);
        }
        self.held.extend_from_slice(&data[..fits]);
        Poll::Ready(Ok(fits))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.holds {
            return Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        }
        let first = pieces.iter().find(|piece| !piece.is_empty());
        self.poll_write(cx, first.map_or(&[], |piece| &**piece))
    }

    /// With this, hyper keeps the pieces of a body over HTTP/1.1 as they are. Otherwise it copies
    /// them into one buffer, which grows up to the size of the largest request head.
    fn is_write_vectored(&self) -> bool {
        !self.holds && self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held.is_empty() {
            return Pin::new(&mut self.inner).poll_flush(cx);
        }
        if !self.promised {
            self.promised = true;
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.release(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Polls a read once, as h2 does at every poll.
    async fn look<S: AsyncRead + AsyncWrite + Unpin>(cork: &mut Cork<S>) {
        poll_fn(|cx| {
            let _nothing_came = Pin::new(&mut *cork).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]));
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn writes_leave_together_at_the_next_poll() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut cork = Cork::new(near, true);
        for _ in 0..3 {
            cork.write_all(b"abc").await.unwrap();
            cork.flush().await.unwrap();
        }
        let mut read = [0; 16];
        let early =
            poll_fn(|cx| Poll::Ready(Pin::new(&mut far).poll_read(cx, &mut ReadBuf::new(&mut read)).is_ready()));
        assert!(!early.await, "nothing has left yet");
        look(&mut cork).await;
        assert_eq!(far.read(&mut read).await.unwrap(), 9, "all in one piece");
    }

    #[tokio::test]
    async fn order_is_kept_whatever_the_sizes_and_a_slow_reader_holds_it_back() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut cork = Cork::new(near, true);
        let writes: Vec<Vec<u8>> = (0..200_usize).map(|i| vec![i as u8; (i * 997) % 20_000]).collect();
        let expected = writes.concat();
        let writer = tokio::spawn(async move {
            for data in writes {
                cork.write_all(&data).await.unwrap();
                cork.flush().await.unwrap();
                assert!(cork.held.len() <= HELD_BYTES_MAX);
            }
            cork.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        writer.await.unwrap();
        assert!(read == expected);
    }

    #[tokio::test]
    async fn what_is_not_held_passes_at_once() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut cork = Cork::new(near, false);
        cork.write_all(b"abc").await.unwrap();
        assert_eq!(far.read(&mut [0; 16]).await.unwrap(), 3);
    }
}
