//! Bounds the memory that answers take while their clients do not read them.
//!
//! Every piece of a body is counted from the moment it leaves the body until its last byte is on
//! its way. A stream that holds enough is asked for no further piece, so a client that stops
//! reading costs at most `STREAM_BYTES_MAX`. All streams together have a bound too
//! (`ConnectionLimits::unsent_bytes_max`). Above it each stream gets one piece at a time, and those
//! that have not moved for `STALLED_MIN` are ended, the slowest first: a watch is sent an ERROR
//! event, and whatever still does not move is cut off.
//!
//! *Invariant:* a client that reads is never cut off, however full the server is.
//!
//! Not counted: buffers of the kernel, the state of a compressor, and the objects that an answer
//! refers to, which are shared with the cache.

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

use super::connections::{Busy, Seat};
use super::respond::Response;
use super::{cork, frames};
use ballast_base::metrics;

/// The most user memory that one unread stream takes, with the buffers of its connection. A single
/// object or document that is larger than a piece comes on top.
pub const STREAM_BYTES_MAX: usize = 256 * 1024;
/// A stream that holds this much is asked for no further piece.
const ENOUGH_BYTES: usize = 64 * 1024;
/// What rustls holds at most of one connection.
const TLS_BYTES_MAX: usize = 64 * 1024;
const _: () =
    assert!(ENOUGH_BYTES + frames::PIECE_BYTES_MAX + TLS_BYTES_MAX + cork::HELD_BYTES_MAX <= STREAM_BYTES_MAX);

/// How often the sum is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stream counts as unread when nothing of it has left for this long.
const STALLED_MIN: Duration = Duration::from_secs(5);
/// The time that a watch has to take its last event, and a connection to end by itself.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The last line of a watch that is ended because nobody reads it: an extension of its response.
#[derive(Clone)]
pub struct Farewell(pub Bytes);

/// What all answers of a listener hold.
pub struct Unsent {
    bytes_max: usize,
    bytes: AtomicUsize,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    next: u64,
    open: HashMap<u64, Weak<Stream>>,
}

impl Unsent {
    pub fn new(bytes_max: usize) -> Arc<Unsent> {
        Arc::new(Unsent { bytes_max, bytes: AtomicUsize::new(0), streams: Mutex::default() })
    }

    /// Counts the body of `response`, for which `busy` keeps the connection of `seat` from being
    /// idle.
    pub fn count(self: &Arc<Unsent>, response: Response, busy: Busy, seat: Arc<Seat>) -> http::Response<Answer> {
        let (mut head, body) = response.into_parts();
        let farewell = head.extensions.remove::<Farewell>().map(|Farewell(line)| line);
        let mut streams = self.streams();
        let id = streams.next;
        streams.next += 1;
        let stream = Arc::new(Stream {
            id,
            unsent: Arc::clone(self),
            seat,
            is_watch: farewell.is_some(),
            bytes: AtomicUsize::new(0),
            course: Mutex::new(Course { moved: Instant::now(), end: End::Open }),
            is_ending: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        streams.open.insert(id, Arc::downgrade(&stream));
        drop(streams);
        http::Response::from_parts(head, Answer { body, stream, farewell, _busy: busy })
    }

    /// Ends unread streams while all of them hold too much. Runs for as long as it is polled.
    pub async fn keep_bounded(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.bytes() > self.bytes_max {
                self.end_the_slowest(Instant::now());
            }
        }
    }

    fn end_the_slowest(&self, now: Instant) {
        let open: Vec<Arc<Stream>> = self.streams().open.values().filter_map(Weak::upgrade).collect();
        let holding = open.into_iter().filter(|stream| stream.bytes() > 0);
        let mut slowest: Vec<(Instant, Arc<Stream>)> = holding
            .map(|stream| {
                let moved = stream.course().moved;
                (moved, stream)
            })
            .collect();
        slowest.sort_unstable_by_key(|(moved, _)| *moved);
        let mut excess = self.bytes().saturating_sub(self.bytes_max);
        let (mut ended, mut freed) = (0, 0);
        for (moved, stream) in slowest {
            if excess == 0 || now - moved < STALLED_MIN {
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

/// One answer, until its last byte has left.
struct Stream {
    id: u64,
    unsent: Arc<Unsent>,
    seat: Arc<Seat>,
    is_watch: bool,
    bytes: AtomicUsize,
    course: Mutex<Course>,
    /// Whether `course.end` is anything but `Open`.
    is_ending: AtomicBool,
    /// Of the task that asks for the next piece.
    waker: AtomicWaker,
}

struct Course {
    /// When a byte of it has left last.
    moved: Instant,
    end: End,
}

/// How far the end of a stream that nobody reads has come.
#[derive(Clone, Copy)]
enum End {
    Open,
    /// A watch should send its last event.
    Asked(Instant),
    /// The body fails as soon as it is asked for more, which resets a stream of HTTP/2.
    CutOff(Instant),
}

impl Stream {
    /// One step towards the end; true at the first.
    fn end(&self, now: Instant) -> bool {
        let mut course = self.course();
        let is_first = matches!(course.end, End::Open);
        course.end = match course.end {
            End::Open if self.is_watch => End::Asked(now),
            End::Open => End::CutOff(now),
            End::Asked(since) if now - since >= FAREWELL_MAX => End::CutOff(now),
            End::CutOff(since) if now - since >= FAREWELL_MAX => {
                // The body is not asked for more, so only the connection can be ended.
                self.seat.cut_off();
                course.end
            }
            end => end,
        };
        drop(course);
        self.is_ending.store(true, Ordering::Release);
        self.waker.wake();
        if is_first {
            metrics::unread_ended(if self.is_watch { "watch" } else { "answer" });
        }
        is_first
    }

    fn has_enough(&self) -> bool {
        let bytes = self.bytes();
        bytes >= ENOUGH_BYTES || bytes > 0 && self.unsent.bytes() >= self.unsent.bytes_max
    }

    fn piece(self: &Arc<Stream>, bytes: Bytes) -> Piece {
        let size = bytes.len();
        self.bytes.fetch_add(size, Ordering::AcqRel);
        self.unsent.bytes.fetch_add(size, Ordering::Relaxed);
        metrics::unsent_bytes(size as i64);
        Piece { bytes, size, stream: Arc::clone(self) }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().expect("no panic while it is held")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.unsent.streams().open.remove(&self.id);
    }
}

/// A part of a body that is counted until it has left.
pub struct Piece {
    bytes: Bytes,
    size: usize,
    stream: Arc<Stream>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.stream.course().moved = Instant::now();
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.stream.bytes.fetch_sub(self.size, Ordering::AcqRel);
        self.stream.unsent.bytes.fetch_sub(self.size, Ordering::Relaxed);
        metrics::unsent_bytes(-(self.size as i64));
        self.stream.waker.wake();
    }
}

/// The body of an answer, during which its connection is not idle.
pub struct Answer {
    body: Body,
    stream: Arc<Stream>,
    /// Until it is sent.
    farewell: Option<Bytes>,
    _busy: Busy,
}

/// The client did not read its answer, and the server needed the memory.
#[derive(Debug, thiserror::Error)]
#[error("the answer was not read")]
struct Unread;

impl http_body::Body for Answer {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let answer = self.get_mut();
        let stream = &answer.stream;
        // Before looking, so that no change in between is missed.
        stream.waker.register(context.waker());
        if stream.is_ending.load(Ordering::Acquire) {
            let end = stream.course().end;
            match (end, answer.farewell.take()) {
                (End::CutOff(_), _) => return Poll::Ready(Some(Err(axum::Error::new(Unread)))),
                (_, Some(line)) => return Poll::Ready(Some(Ok(Frame::data(stream.piece(line))))),
                // Only then does a stream of HTTP/2 that is not read free its memory by an error.
                (_, None) if stream.bytes() > 0 => return Poll::Pending,
                (_, None) => return Poll::Ready(None),
            }
        }
        if stream.has_enough() {
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut answer.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| stream.piece(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
