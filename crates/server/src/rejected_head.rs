//! Adds a Status to the responses that hyper sends by itself.
//!
//! hyper rejects an unparsable HTTP/1.1 head before there is a request: with 400, 414 or 431, and
//! without a body. This stream holds such a response back. If the connection then ends with a
//! parser error, the caller sends it with a Status (`Rejection::answer`).
//!
//! *Invariant:* all other bytes are sent unchanged and in order.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use ballast_k8s::Status;

/// The end of the head of a hyper response without a body.
const EMPTY: &str = "content-length: 0\r\n";
/// A response of hyper itself is shorter.
const HEAD_BYTES_MAX: usize = 256;

/// The bytes that a `RejectedHeadStream` holds back. They outlive the stream.
#[derive(Clone, Default)]
pub struct Rejection(Arc<Mutex<Vec<u8>>>);

impl Rejection {
    /// Returns the held bytes, with a Status if hyper did reject a head. Usually empty.
    pub fn answer(&self, is_refused: bool) -> Vec<u8> {
        let held = std::mem::take(&mut *self.held());
        match refusal(&held).filter(|_| is_refused) {
            Some((status, at)) => with_status(&held, &status, at),
            None => held,
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the Status for a response of hyper itself, and the position of its empty length. `None`
/// for other responses, all of which have an audit id.
fn refusal(answer: &[u8]) -> Option<(Status, usize)> {
    let head = std::str::from_utf8(answer.get(..HEAD_BYTES_MAX.min(answer.len()))?).ok()?;
    let status = match head.strip_prefix("HTTP/1.1 ")?.get(..3)? {
        "400" => Status::bad_request("the request line or a header of the request is not valid"),
        "414" => Status::failure(414, "RequestURITooLong", "the URI of the request has more than 65534 bytes"),
        "431" => Status::failure(431, "RequestHeaderFieldsTooLarge", "the request's headers are too large"),
        _ => return None,
    };
    let is_whole = head.len() == answer.len() && head.ends_with("\r\n\r\n") && !head.contains("audit-id");
    Some((status, head.find(EMPTY).filter(|_| is_whole)?))
}

fn with_status(answer: &[u8], status: &Status, at: usize) -> Vec<u8> {
    let mut body = serde_json::to_vec(status).unwrap_or_default();
    body.push(b'\n');
    let length = body.len();
    let headers =
        format!("content-type: application/json\r\ncache-control: no-cache, private\r\ncontent-length: {length}\r\n");
    [&answer[..at], headers.as_bytes(), &answer[at + EMPTY.len()..], &body].concat()
}

pub struct RejectedHeadStream<S> {
    inner: S,
    rejection: Rejection,
}

impl<S: AsyncWrite + Unpin> RejectedHeadStream<S> {
    pub fn new(inner: S) -> (RejectedHeadStream<S>, Rejection) {
        let rejection = Rejection::default();
        (RejectedHeadStream { inner, rejection: rejection.clone() }, rejection)
    }

    /// Sends the held bytes: more follows, so it was not a response of hyper itself.
    fn release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.rejection.held();
        while !held.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, &held))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => drop(held.drain(..written)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn holds(&self) -> bool {
        !self.rejection.held().is_empty()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RejectedHeadStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RejectedHeadStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.release(cx))?;
        if refusal(data).is_some() {
            self.rejection.held().extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        Pin::new(&mut self.inner).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = pieces {
            return self.poll_write(cx, only);
        }
        ready!(self.release(cx))?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// If bytes are held back, the caller closes the stream.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const OWN: &[u8] = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";

    #[tokio::test]
    async fn an_answer_of_hyper_itself_is_held_back_and_gets_a_status() {
        let (near, mut far) = tokio::io::duplex(4096);
        let (mut stream, rejection) = RejectedHeadStream::new(near);
        stream.write_all(b"before").await.unwrap();
        stream.write_all(OWN).await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        let mut sent = Vec::new();
        far.read_to_end(&mut sent).await.unwrap();
        assert_eq!(sent, b"before");
        let answer = String::from_utf8(rejection.answer(true)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-type: application/json\r\n")
        );
        assert!(head.ends_with(&format!("content-length: {}\r\ndate: x", body.len())));
        assert_eq!(serde_json::from_str::<Status>(body).unwrap().code, 414);
        assert!(rejection.answer(true).is_empty(), "it is sent once");
    }

    #[tokio::test]
    async fn what_only_looks_like_one_is_sent_unchanged() {
        let (near, mut far) = tokio::io::duplex(4096);
        let (mut stream, rejection) = RejectedHeadStream::new(near);
        stream.write_all(OWN).await.unwrap();
        stream.write_all(b"more").await.unwrap();
        stream.write_all(OWN).await.unwrap();
        drop(stream);
        let mut sent = Vec::new();
        far.read_to_end(&mut sent).await.unwrap();
        assert_eq!(sent, [OWN, b"more"].concat());
        assert_eq!(rejection.answer(false), OWN);
        assert!(refusal(b"HTTP/1.1 400 Bad Request\r\naudit-id: x\r\ncontent-length: 0\r\n\r\n").is_none());
    }
}
