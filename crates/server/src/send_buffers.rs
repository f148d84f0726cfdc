//! Limits the memory that responses take while their clients do not read them.
//!
//! Every chunk of a body is counted from the moment it leaves the body until its last byte is
//! written to the connection. A stream that holds enough is not polled for another chunk, so a
//! client that stops reading costs at most `STREAM_BYTES_MAX`.
//!
//! All streams together have a limit, too (`ConnectionLimits::unsent_bytes_max`). Above it each
//! stream gets one chunk at a time, and streams that have not progressed for `STALLED_MIN` are
//! ended, the slowest first: a watch is sent an ERROR event, and a stream that still does not
//! progress is reset.
//!
//! *Invariant:* a client that reads is never cut off, however full the buffers are.
//!
//! Not counted: buffers of the kernel, the state of a compressor, and the objects that a response
//! references, which are shared with the cache.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::connections::{ActiveRequest, ConnectionState};
use super::respond::Response;
use super::{coalescing_stream, frames};
use ballast_base::metrics;

/// The most user-space memory that one unread stream takes, including the buffers of its
/// connection. A single object or document that is larger than a chunk is added to it.
pub const STREAM_BYTES_MAX: usize = 256 * 1024;
/// A stream that holds this many bytes is not polled for another chunk.
const ENOUGH_BYTES: usize = 64 * 1024;
/// The most bytes that rustls buffers per connection.
const TLS_BYTES_MAX: usize = 64 * 1024;
const _: () = assert!(
    ENOUGH_BYTES + frames::PIECE_BYTES_MAX + TLS_BYTES_MAX + coalescing_stream::HELD_BYTES_MAX <= STREAM_BYTES_MAX
);

/// The interval at which the total is compared with its limit.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stream counts as unread when none of its bytes have been written for this long.
const STALLED_MIN: Duration = Duration::from_secs(5);
/// The time that a watch may take to read its last event, and a reset stream to end by itself.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// The last line of a watch that is ended because its client does not read it. `watch_stream` adds
/// it to the extensions of the response.
#[derive(Clone)]
pub struct LastEvent(pub Bytes);

/// The memory that all responses of a listener hold.
pub struct SendBuffers {
    bytes_max: usize,
    bytes: AtomicUsize,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    next: u64,
    open: HashMap<u64, Weak<ResponseStream>>,
}

impl SendBuffers {
    pub fn new(bytes_max: usize) -> Arc<SendBuffers> {
        Arc::new(SendBuffers { bytes_max, bytes: AtomicUsize::new(0), streams: Mutex::default() })
    }

    /// Counts the body of `response`. `active` keeps the connection from being idle meanwhile.
    pub fn count(
        self: &Arc<SendBuffers>,
        response: Response,
        active: ActiveRequest,
        connection: Arc<ConnectionState>,
    ) -> http::Response<CountedBody> {
        let (mut head, body) = response.into_parts();
        let last_event = head.extensions.remove::<LastEvent>().map(|LastEvent(line)| line);
        let mut streams = self.streams();
        let id = streams.next;
        streams.next += 1;
        let stream = Arc::new(ResponseStream {
            id,
            buffers: Arc::clone(self),
            connection,
            is_watch: last_event.is_some(),
            bytes: AtomicUsize::new(0),
            progress: Mutex::new(Progress { last: Instant::now(), ending: Ending::No }),
            is_ending: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        streams.open.insert(id, Arc::downgrade(&stream));
        drop(streams);
        http::Response::from_parts(head, CountedBody { body, stream, last_event, _busy: active })
    }

    /// Ends stalled streams while all streams together exceed the limit. Never returns.
    pub async fn keep_bounded(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.bytes() > self.bytes_max {
                self.end_the_slowest(Instant::now());
            }
        }
    }

    fn end_the_slowest(&self, now: Instant) {
        let open: Vec<Arc<ResponseStream>> = self.streams().open.values().filter_map(Weak::upgrade).collect();
        let holding = open.into_iter().filter(|stream| stream.bytes() > 0);
        let mut slowest: Vec<(Instant, Arc<ResponseStream>)> = holding
            .map(|stream| {
                let last_progress = stream.progress().last;
                (last_progress, stream)
            })
            .collect();
        slowest.sort_unstable_by_key(|(last_progress, _)| *last_progress);
        let mut excess = self.bytes().saturating_sub(self.bytes_max);
        let (mut ended, mut freed) = (0, 0);
        for (last_progress, stream) in slowest {
            if excess == 0 || now - last_progress < STALLED_MIN {
                break;
            }
            let bytes = stream.bytes();
            excess = excess.saturating_sub(bytes);
            if stream.end(now) {
                ended += 1;
                freed += bytes;
            }
        }
        if ended > 0 {
            let (unsent, bytes_max) = (self.bytes(), self.bytes_max);
            tracing::warn!(
                streams = ended,
                bytes = freed,
                unsent,
                bytes_max,
                "ended answers that nobody reads: together they hold too much memory"
            );
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().expect("no panic while it is held")
    }
}

/// One response, until its last byte is written.
struct ResponseStream {
    id: u64,
    buffers: Arc<SendBuffers>,
    connection: Arc<ConnectionState>,
    is_watch: bool,
    bytes: AtomicUsize,
    progress: Mutex<Progress>,
    /// Whether `progress.ending` is not `No`.
    is_ending: AtomicBool,
    /// Wakes the task that polls for the next chunk.
    waker: AtomicWaker,
}

struct Progress {
    /// The last time that one of its bytes was written.
    last: Instant,
    ending: Ending,
}

/// The progress of ending a stalled stream.
#[derive(Clone, Copy)]
enum Ending {
    No,
    /// The watch must send its last event.
    Requested(Instant),
    /// The body fails at the next poll, which resets an HTTP/2 stream.
    CutOff(Instant),
}

impl ResponseStream {
    /// Advances the ending of the stream by one step. Returns true for the first step.
    fn end(&self, now: Instant) -> bool {
        let mut progress = self.progress();
        let is_first = matches!(progress.ending, Ending::No);
        progress.ending = match progress.ending {
            Ending::No if self.is_watch => Ending::Requested(now),
            Ending::No => Ending::CutOff(now),
            Ending::Requested(since) if now - since >= END_WAIT_MAX => Ending::CutOff(now),
            Ending::CutOff(since) if now - since >= END_WAIT_MAX => {
                // The body is no longer polled, so the whole connection is closed.
                self.connection.cut_off();
                progress.ending
            }
            ending => ending,
        };
        drop(progress);
        self.is_ending.store(true, Ordering::Release);
        self.waker.wake();
        if is_first {
            metrics::unread_ended(if self.is_watch { "watch" } else { "answer" });
        }
        is_first
    }

    fn has_enough(&self) -> bool {
        let bytes = self.bytes();
        bytes >= ENOUGH_BYTES || bytes > 0 && self.buffers.bytes() >= self.buffers.bytes_max
    }

    fn counted(self: &Arc<ResponseStream>, bytes: Bytes) -> CountedChunk {
        let size = bytes.len();
        self.bytes.fetch_add(size, Ordering::AcqRel);
        self.buffers.bytes.fetch_add(size, Ordering::Relaxed);
        metrics::unsent_bytes(size as i64);
        CountedChunk { bytes, size, stream: Arc::clone(self) }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no panic while it is held")
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.buffers.streams().open.remove(&self.id);
    }
}

/// A part of a body that is counted until it is written.
pub struct CountedChunk {
    bytes: Bytes,
    size: usize,
    stream: Arc<ResponseStream>,
}

impl Buf for CountedChunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.stream.progress().last = Instant::now();
    }
}

impl Drop for CountedChunk {
    fn drop(&mut self) {
        self.stream.bytes.fetch_sub(self.size, Ordering::AcqRel);
        self.stream.buffers.bytes.fetch_sub(self.size, Ordering::Relaxed);
        metrics::unsent_bytes(-(self.size as i64));
        self.stream.waker.wake();
    }
}

/// The body of a response. Its connection is not idle while the body exists.
pub struct CountedBody {
    body: Body,
    stream: Arc<ResponseStream>,
    /// `None` once it has been sent.
    last_event: Option<Bytes>,
    _busy: ActiveRequest,
}

/// The client did not read its response, and the server needed the memory.
#[derive(Debug, thiserror::Error)]
#[error("the answer was not read")]
struct NotRead;

impl http_body::Body for CountedBody {
    type Data = CountedChunk;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<CountedChunk>, axum::Error>>> {
        let this = self.get_mut();
        let stream = &this.stream;
        // Registered before the check, so that no change in between is missed.
        stream.waker.register(context.waker());
        if stream.is_ending.load(Ordering::Acquire) {
            let ending = stream.progress().ending;
            match (ending, this.last_event.take()) {
                (Ending::CutOff(_), _) => return Poll::Ready(Some(Err(axum::Error::new(NotRead)))),
                (_, Some(line)) => return Poll::Ready(Some(Ok(Frame::data(stream.counted(line))))),
                // The end is reported once the chunks are written: an HTTP/2 stream that is not
                // read frees its memory only by an error.
                (_, None) if stream.bytes() > 0 => return Poll::Pending,
                (_, None) => return Poll::Ready(None),
            }
        }
        if stream.has_enough() {
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| stream.counted(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
