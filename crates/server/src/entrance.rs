//! The resources that a request acquires before its work starts: memory for its body, the body
//! itself, and a permit.
//!
//! *Invariant:* the body is read before the permit is acquired, within limits of bytes and time, so
//! a body that never arrives holds no permit.

use std::sync::{Mutex, OnceLock};

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;

use super::body;
use super::connections::{self, Stage, reach};
use super::in_flight::{InFlight, Origin, Work};
use ballast_base::metrics::{self, GaugeGuard};
use ballast_base::places::Place;
use ballast_k8s::{Status, User};

/// Bodies and stored objects up to this size take a millisecond or two. Larger ones are processed
/// on other threads than the serving ones.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The memory of the tree of a typical stored object, per byte of its text.
const TREE_BYTES_PER_BYTE: usize = 12;

/// A request before or after it acquires its permit, which is released on drop.
pub struct Entrance<'a> {
    in_flight: &'a InFlight,
    origin: Origin,
    user: &'a User,
    work: Work,
    /// `None` once it is read or taken.
    body: Mutex<Option<Body>>,
    text: OnceLock<Bytes>,
    place: OnceLock<Entered>,
    parts: &'a Parts,
}

/// The permit, and the gauge of the requests in flight.
type Entered = (Place, Option<GaugeGuard>);

impl<'a> Entrance<'a> {
    pub fn new(
        in_flight: &'a InFlight,
        (origin, user): (Origin, &'a User),
        parts: &'a Parts,
        work: Work,
        body: Body,
    ) -> Entrance<'a> {
        let body = Mutex::new(Some(body));
        Entrance { in_flight, origin, user, work, body, text: OnceLock::new(), place: OnceLock::new(), parts }
    }

    /// Returns the entrance with a body that was read before.
    pub fn with_text(self, text: Option<Bytes>) -> Entrance<'a> {
        if let Some(text) = text {
            let _ = self.text.set(text);
        }
        self
    }

    /// Acquires a permit, once.
    pub async fn enter(&self) -> Result<(), Status> {
        self.enter_for(self.work).await
    }

    /// Reads the body, and acquires a permit. `stored_bytes` is the size of the written object: a
    /// small patch of a large object is as much work as a large body.
    pub async fn text(&self, stored_bytes: usize) -> Result<Bytes, Status> {
        let text = match self.text.get() {
            Some(text) => text.clone(),
            None => {
                let body = self.take_body();
                let text = read(self.in_flight, self.origin, self.user, body).await?;
                self.text.get_or_init(|| text).clone()
            }
        };
        let work = match text.len().max(stored_bytes) > INLINE_BYTES_MAX {
            true => Work::LargeWrite(body::tree_bytes(&text)?.max(stored_bytes * TREE_BYTES_PER_BYTE)),
            false => self.work,
        };
        self.enter_for(work).await?;
        Ok(text)
    }

    /// Returns the unread body, for a request that is passed on.
    pub fn take_body(&self) -> Body {
        self.body.lock().expect("no panic while it is held").take().unwrap_or_default()
    }

    /// Records that the watch has started: from now on its connection may be evicted.
    pub fn watches(&self) -> Result<(), Status> {
        connections::watches(self.parts, self.user)
    }

    async fn enter_for(&self, work: Work) -> Result<(), Status> {
        if self.place.get().is_some() {
            return Ok(());
        }
        let place = self.in_flight.enter(self.origin, work, self.user).await?;
        reach(self.parts, Stage::AtWork)?;
        let gauge = match work {
            Work::Read => Some(metrics::in_flight("readOnly")),
            Work::Write | Work::LargeWrite(_) | Work::Ask => Some(metrics::in_flight("mutating")),
            Work::Watch => None,
        };
        let _ = self.place.set((place, gauge));
        Ok(())
    }
}

/// Reads a body after reserving memory for it. The reservation lasts until the last clone of the
/// bytes is dropped.
pub async fn read(in_flight: &InFlight, origin: Origin, user: &User, body: Body) -> Result<Bytes, Status> {
    let size = http_body::Body::size_hint(&body);
    if size.exact() == Some(0) {
        return Ok(Bytes::new());
    }
    body::check_size(size.lower())?;
    let mut room = in_flight.enter_body(origin, user, size.exact()).await?;
    let text = body::read(body).await?;
    InFlight::shrink_body(&mut room, text.len());
    Ok(Bytes::from_owner(TextInRoom { text, _room: room }))
}

struct TextInRoom {
    text: Bytes,
    _room: Place,
}

impl AsRef<[u8]> for TextInRoom {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn li12_a_body_that_never_comes_holds_no_place_and_is_given_up() {
        let in_flight = InFlight::new(1, 1);
        let user = User { name: "a".to_owned(), ..User::default() };
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let parts = http::Request::new(()).into_parts().0;
        let waits = Entrance::new(&in_flight, (Origin::User, &user), &parts, Work::Write, never);
        let mut waiting = std::pin::pin!(waits.text(0));
        assert!(waiting.as_mut().now_or_never().is_none());
        let comes = Entrance::new(&in_flight, (Origin::User, &user), &parts, Work::Write, Body::from("{}"));
        assert_eq!(comes.text(0).await.unwrap(), "{}");
        assert_eq!(comes.text(0).await.unwrap(), "{}", "it is read once");
        let began = tokio::time::Instant::now();
        assert_eq!(waiting.await.unwrap_err().code, 408);
        assert_eq!(began.elapsed(), body::PIECE_WAIT_MAX);
    }
}
