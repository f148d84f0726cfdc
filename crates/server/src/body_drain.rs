//! Reads and discards the rest of a request body that a handler rejected before its end.
//!
//! An HTTP/1.1 connection with an unread body cannot be used again and is closed. A client that is
//! still sending would see a broken connection instead of its response. So the rest is read and
//! discarded before the response is sent, within limits of size and time. The size limit is well
//! above the largest accepted body. A client that waits for `100 Continue` has sent nothing, so its
//! body is not drained.
//!
//! While the rest is read, nothing else of the request is held: unauthenticated clients may have
//! thousands of them. So the rest leaves the pipeline with the response, and the listener reads it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header;
use http::request::Parts;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;

const BYTES_MAX: usize = 16 * 1024 * 1024;
/// The timeouts for the next piece, and for all of them.
const PIECE_WAIT_MAX: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Receives a body when its handler has dropped it; `None` if there can be no rest.
pub type Rest = Option<oneshot::Receiver<Body>>;

/// Wraps a body for a handler, so that `drain` gets its rest.
pub fn with_rest(parts: &Parts, body: Body) -> (Body, Rest) {
    if body.is_end_stream() || parts.headers.contains_key(header::EXPECT) {
        return (body, None);
    }
    let (back, rest) = oneshot::channel();
    (Body::new(DrainableBody { body, back: Some(back) }), Some(rest))
}

/// Returns the rest that a handler has left unread, if any. Does not wait for a body that the
/// handler still holds.
pub fn rest(rest: Rest) -> Option<Body> {
    let body = rest?.try_recv().ok()?;
    (!body.is_end_stream()).then_some(body)
}

/// The rest to read before the response is sent, stored in its extensions.
#[derive(Clone)]
struct Left(Arc<Mutex<Body>>);

/// Attaches the rest to the response, for its sender.
pub fn leave<T>(answer: &mut http::Response<T>, rest: Option<Body>) {
    if let Some(rest) = rest {
        answer.extensions_mut().insert(Left(Arc::new(Mutex::new(rest))));
    }
}

/// Takes the rest that `leave` has attached.
pub fn take<T>(answer: &mut http::Response<T>) -> Option<Body> {
    let Left(rest) = answer.extensions_mut().remove()?;
    Some(std::mem::take(&mut *rest.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Reads the rest to its end.
pub async fn drain(mut rest: Body) {
    let _ = tokio::time::timeout(WAIT_MAX, discard(&mut rest)).await;
}

async fn discard(body: &mut Body) {
    let mut bytes_left = BYTES_MAX;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(PIECE_WAIT_MAX, body.frame()).await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        let Some(left) = bytes_left.checked_sub(size) else { return };
        bytes_left = left;
    }
}

struct DrainableBody {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl http_body::Body for DrainableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for DrainableBody {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn parts(expect: bool) -> Parts {
        let builder = http::Request::builder();
        let builder = if expect { builder.header(header::EXPECT, "100-continue") } else { builder };
        builder.body(()).unwrap().into_parts().0
    }

    /// Returns a body of `count` pieces, and a counter of the pieces that were read.
    fn pieces(count: usize) -> (Body, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
        let read = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let counter = read.clone();
        let pieces = stream::iter((0..count).map(move |_| {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok::<_, std::io::Error>(vec![0; 16 * 1024])
        }));
        (Body::from_stream(pieces), read)
    }

    #[tokio::test]
    async fn what_a_handler_leaves_is_read_up_to_a_bound() {
        for (count, expected) in [(0, 0), (3, 3), (2000, BYTES_MAX / (16 * 1024) + 1)] {
            let (body, read) = pieces(count);
            let (wrapped, rest) = with_rest(&parts(false), body);
            drop(wrapped);
            drain_what_is_left(rest).await;
            assert_eq!(read.load(std::sync::atomic::Ordering::Relaxed), expected);
        }
    }

    #[tokio::test]
    async fn a_body_that_was_not_asked_for_is_not_read() {
        let (body, read) = pieces(3);
        let (wrapped, rest) = with_rest(&parts(true), body);
        drop(wrapped);
        drain_what_is_left(rest).await;
        assert_eq!(read.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_body_that_was_read_is_as_it_came() {
        let (wrapped, rest) = with_rest(&parts(false), Body::from("all of it"));
        assert_eq!(wrapped.size_hint().exact(), Some(9));
        assert_eq!(crate::body::read(wrapped).await.unwrap(), "all of it");
        drain_what_is_left(rest).await;
    }

    async fn drain_what_is_left(left: Rest) {
        let mut answer = http::Response::new(());
        leave(&mut answer, rest(left));
        if let Some(left) = take(&mut answer) {
            drain(left).await;
        }
    }
}
