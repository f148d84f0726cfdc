//! Bodies that are made in chunks while they are sent: lists, joined from stored bytes, and gzip.
//!
//! *Invariant:* a list is never in memory as one text. The next chunk is made only when the client
//! has read enough. Watches do not use this, and are never compressed.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderValue, header};
use http_body::{Frame, SizeHint};

use ballast_k8s::Object;

/// Larger bodies are compressed if the client accepts it (CT7).
const COMPRESS_BYTES_MIN: usize = 128 * 1024;
/// A chunk is complete once it has this size.
const FRAME_BYTES: usize = 48 * 1024;
/// The capacity of a chunk. Only a large last item makes it grow.
pub(super) const PIECE_BYTES_MAX: usize = 64 * 1024;

/// The length of a body in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// Becomes the Content-Length.
    Exactly(usize),
    About(usize),
}

/// Sets the body of the response.
pub fn send(
    response: &mut http::Response<Body>,
    frames: impl Iterator<Item = Bytes> + Send + 'static,
    size: Size,
    takes_gzip: bool,
) {
    let (Size::Exactly(bytes) | Size::About(bytes)) = size;
    if bytes > COMPRESS_BYTES_MIN && takes_gzip {
        *response.body_mut() = Body::new(Frames { frames: Box::new(gzip(frames)), left: None });
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        return;
    }
    let left = match size {
        Size::Exactly(bytes) => Some(bytes as u64),
        Size::About(_) => None,
    };
    *response.body_mut() = Body::new(Frames { frames: Box::new(frames), left });
}

/// Returns the objects between `head` and `tail`, with commas, as chunks of `FRAME_BYTES` and more.
pub fn joined(
    head: Bytes,
    items: Vec<Arc<Object>>,
    mut add: impl FnMut(&Object, &mut Vec<u8>) + Send,
    tail: Bytes,
) -> impl Iterator<Item = Bytes> + Send {
    let mut head = Some(head);
    let mut tail = Some(tail);
    let mut items = items.into_iter().enumerate();
    std::iter::from_fn(move || {
        tail.as_ref()?;
        let mut frame = Vec::with_capacity(PIECE_BYTES_MAX);
        frame.extend_from_slice(&head.take().unwrap_or_default());
        while frame.len() < FRAME_BYTES {
            let Some((i, item)) = items.next() else {
                frame.extend_from_slice(&tail.take().unwrap_or_default());
                break;
            };
            if i > 0 {
                frame.push(b',');
            }
            add(&item, &mut frame);
        }
        Some(Bytes::from(frame))
    })
}

/// Compresses at level 1: here, time matters more than the last percent (CT7).
fn gzip(mut frames: impl Iterator<Item = Bytes> + Send) -> impl Iterator<Item = Bytes> + Send {
    let mut encoder = Some(GzEncoder::new(Vec::with_capacity(PIECE_BYTES_MAX), Compression::fast()));
    std::iter::from_fn(move || {
        loop {
            let open = encoder.as_mut()?;
            let Some(frame) = frames.next() else {
                let rest = encoder.take()?.finish().expect("writing to memory cannot fail");
                return Some(Bytes::from(rest));
            };
            open.write_all(&frame).expect("writing to memory cannot fail");
            if open.get_ref().len() >= FRAME_BYTES {
                return Some(Bytes::from(std::mem::replace(open.get_mut(), Vec::with_capacity(PIECE_BYTES_MAX))));
            }
        }
    })
}

struct Frames {
    frames: Box<dyn Iterator<Item = Bytes> + Send>,
    /// Bytes still to come, if that is known. At first it is the Content-Length.
    left: Option<u64>,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.frames.next();
        if let (Some(left), Some(frame)) = (&mut self.left, &frame) {
            *left = left.saturating_sub(frame.len() as u64);
        }
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map(SizeHint::with_exact).unwrap_or_default()
    }
}
