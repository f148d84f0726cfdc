//! Coalesces the writes of an HTTP/2 connection until its next poll, so that the frames of many
//! streams leave in few TLS records and one system call. Examples are responses to concurrent
//! requests, or an event for a hundred watchers.
//!
//! h2 flushes after every DATA frame. Here, such a flush only wakes the task of the connection, and
//! the bytes are written at its next poll. Other ready tasks run in between. There is no timer.
//!
//! *Invariant:* all bytes are written once the task of the connection is idle. This relies on h2
//! reading from the connection at every poll. HTTP/1.1 flushes at the right time by itself, so its
//! bytes are not collected.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The limit of collected bytes. Above it, writing waits for the client.
pub(super) const HELD_BYTES_MAX: usize = 64 * 1024;
/// A write of this size is part of a long response.
const LARGE_BYTES: usize = 8 * 1024;
/// The largest buffer that an idle connection keeps.
const KEPT_BYTES_MAX: usize = 4 * 1024;

pub struct CoalescingStream<S, R> {
    inner: S,
    is_enabled: bool,
    buffer: BytesMut,
    /// A flush was requested and is due at the next poll.
    flush_due: bool,
    /// Called when bytes have arrived.
    received: R,
}

impl<S: AsyncWrite + Unpin, R: Fn()> CoalescingStream<S, R> {
    pub fn new(inner: S, is_enabled: bool, received: R) -> CoalescingStream<S, R> {
        CoalescingStream { inner, is_enabled, buffer: BytesMut::new(), flush_due: false, received }
    }

    /// Sends the collected bytes, and flushes.
    fn flush_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffer.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, &self.buffer))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.buffer.advance(written),
            }
        }
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.flush_due = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, R: Fn() + Unpin> AsyncRead for CoalescingStream<S, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.flush_due
            && let Poll::Ready(flushed) = self.flush_buffer(cx)
        {
            flushed?;
            // The burst is over, so its buffer is released.
            if self.buffer.capacity() > KEPT_BYTES_MAX {
                self.buffer = BytesMut::new();
            }
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            (self.received)();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, R: Fn() + Unpin> AsyncWrite for CoalescingStream<S, R> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if !self.is_enabled {
            return Pin::new(&mut self.inner).poll_write(cx, data);
        }
        if self.buffer.len() == HELD_BYTES_MAX {
            ready!(self.flush_buffer(cx))?;
        }
        let fits = data.len().min(HELD_BYTES_MAX - self.buffer.len());
        if data.len() > LARGE_BYTES {
            // More will follow. Reserving the full buffer at once saves copies to larger ones.
            let room = HELD_BYTES_MAX - self.buffer.len();
            self.buffer.reserve(room);
        }
        self.buffer.extend_from_slice(&data[..fits]);
        Poll::Ready(Ok(fits))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.is_enabled {
            return Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        }
        let first = pieces.iter().find(|piece| !piece.is_empty());
        self.poll_write(cx, first.map_or(&[], |piece| &**piece))
    }

    /// Returns true for HTTP/1.1, so that hyper keeps the pieces of a body separate. Otherwise it
    /// copies them into one buffer, which grows up to the size of the largest request head.
    fn is_write_vectored(&self) -> bool {
        !self.is_enabled && self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Pin::new(&mut self.inner).poll_flush(cx);
        }
        if !self.flush_due {
            self.flush_due = true;
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.flush_buffer(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Polls a read once, as h2 does at every poll.
    async fn look<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut CoalescingStream<S, impl Fn() + Unpin>) {
        poll_fn(|cx| {
            let _nothing_came = Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]));
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn writes_leave_together_at_the_next_poll() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut stream = CoalescingStream::new(near, true, || ());
        for _ in 0..3 {
            stream.write_all(b"abc").await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut read = [0; 16];
        let early =
            poll_fn(|cx| Poll::Ready(Pin::new(&mut far).poll_read(cx, &mut ReadBuf::new(&mut read)).is_ready()));
        assert!(!early.await, "nothing has left yet");
        look(&mut stream).await;
        assert_eq!(far.read(&mut read).await.unwrap(), 9, "all in one piece");
    }

    #[tokio::test]
    async fn order_is_kept_whatever_the_sizes_and_a_slow_reader_holds_it_back() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut stream = CoalescingStream::new(near, true, || ());
        let writes: Vec<Vec<u8>> = (0..200_usize).map(|i| vec![i as u8; (i * 997) % 20_000]).collect();
        let expected = writes.concat();
        let writer = tokio::spawn(async move {
            for data in writes {
                stream.write_all(&data).await.unwrap();
                stream.flush().await.unwrap();
                assert!(stream.buffer.len() <= HELD_BYTES_MAX);
            }
            stream.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        writer.await.unwrap();
        assert!(read == expected);
    }

    #[tokio::test]
    async fn what_is_not_held_passes_at_once() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut stream = CoalescingStream::new(near, false, || ());
        stream.write_all(b"abc").await.unwrap();
        assert_eq!(far.read(&mut [0; 16]).await.unwrap(), 3);
    }
}
