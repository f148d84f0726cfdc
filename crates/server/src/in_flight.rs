//! Limits concurrent requests and the bytes of their bodies (LI4, LI12).
//!
//! Each kind of request has separate permits, which users share fairly (`base::places`). Members of
//! `system:masters`, and writes that other replicas have forwarded, have separate permits, so that
//! no load keeps an administrator or a replica out.

use std::sync::Arc;
use std::time::Duration;

use ballast_base::places::{Bounds, Place, Places};
use ballast_k8s::{Status, User};

use super::body::BODY_BYTES_MAX;

/// The time that a request waits for a permit: a quarter of the longest deadline, as in
/// kube-apiserver.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// The waiting time of privileged requests: until their deadline.
const PRIVILEGED_WAIT_MAX: Duration = Duration::from_secs(60);
/// The limit of waiting requests. Each holds its head; the memory of bodies is limited by
/// `BODIES_BYTES`.
const WAITING_MAX: usize = 2_000;
/// The memory of the trees of concurrent large writes, in units. Each write occupies a dedicated
/// thread for a while, so the minimum per write limits their number to four. Masters have half of
/// it.
const LARGE_UNITS: usize = 8;
const LARGE_UNITS_MIN: usize = 2;
const LARGE_UNIT_BYTES: usize = 16 * 1024 * 1024;
/// The bytes of all bodies that are read, waiting or being processed. A quarter of it holds five
/// bodies of the largest size.
const BODIES_BYTES: usize = 64 * 1024 * 1024;
/// The minimum that a body counts for, because each costs a task and its head.
const BODY_BYTES_MIN: usize = 4 * 1024;
const _: () = assert!(BODIES_BYTES / 4 >= BODY_BYTES_MAX);

/// The kind of work of a request, which determines its permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    /// The first events of a watch.
    Watch,
    Write,
    /// A write with a large body or stored object, and the estimated memory of its tree in bytes.
    LargeWrite(usize),
    /// A POST that changes nothing: a review.
    Ask,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    User,
    /// A member of `system:masters`.
    Master,
    /// Another replica, which has already issued a permit to the user.
    Replica,
}

impl Origin {
    pub fn of(user: &User) -> Origin {
        if user.is_master() { Origin::Master } else { Origin::User }
    }
}

/// The permits of all requests.
pub struct InFlight {
    users: PlacesOf,
    masters: PlacesOf,
    replicas: PlacesOf,
}

struct PlacesOf {
    reads: Arc<Places>,
    watches: Arc<Places>,
    writes: Arc<Places>,
    large_writes: Arc<Places>,
    asks: Arc<Places>,
    bodies: Arc<Places>,
}

/// The names of permit classes of one origin, as used in metrics.
struct Classes {
    read: &'static str,
    watch: &'static str,
    write: &'static str,
    large_write: &'static str,
    ask: &'static str,
    body: &'static str,
}

const USERS: Classes =
    Classes { read: "read", watch: "watch", write: "write", large_write: "large_write", ask: "ask", body: "body" };
const MASTERS: Classes = Classes {
    read: "master_read",
    watch: "master_watch",
    write: "master_write",
    large_write: "master_large_write",
    ask: "master_ask",
    body: "master_body",
};
const REPLICAS: Classes = Classes {
    read: "replica_read",
    watch: "replica_watch",
    write: "replica_write",
    large_write: "replica_large_write",
    ask: "replica_ask",
    body: "replica_body",
};

impl PlacesOf {
    fn shared(classes: &Classes, reads: usize, writes: usize, wait_max: Duration) -> PlacesOf {
        let quarters = |class, units| Places::new(Bounds::in_quarters(class, units, WAITING_MAX, wait_max));
        PlacesOf {
            reads: quarters(classes.read, reads),
            watches: quarters(classes.watch, reads),
            writes: quarters(classes.write, writes),
            large_writes: Places::new(Bounds::one_for_each(classes.large_write, LARGE_UNITS, WAITING_MAX, wait_max)),
            asks: quarters(classes.ask, writes),
            bodies: quarters(classes.body, BODIES_BYTES),
        }
    }

    /// Creates permits of which one user may take all.
    fn of_masters(reads: usize, writes: usize) -> PlacesOf {
        let whole = |class, units| {
            let bounds = Bounds::in_quarters(class, units, WAITING_MAX, PRIVILEGED_WAIT_MAX);
            Places::new(Bounds { reserved: 0, waiting_of_user_max: WAITING_MAX, ..bounds })
        };
        PlacesOf {
            reads: whole(MASTERS.read, reads),
            watches: whole(MASTERS.watch, reads),
            writes: whole(MASTERS.write, writes),
            large_writes: whole(MASTERS.large_write, LARGE_UNITS / 2),
            asks: whole(MASTERS.ask, writes),
            bodies: whole(MASTERS.body, BODIES_BYTES),
        }
    }

    fn of(&self, work: Work) -> &Arc<Places> {
        match work {
            Work::Read => &self.reads,
            Work::Watch => &self.watches,
            Work::Write => &self.writes,
            Work::LargeWrite(_) => &self.large_writes,
            Work::Ask => &self.asks,
        }
    }
}

impl InFlight {
    /// Creates permits for `read_only` concurrent reads and `mutating` concurrent writes.
    pub fn new(read_only: usize, mutating: usize) -> InFlight {
        InFlight {
            users: PlacesOf::shared(&USERS, read_only, mutating, WAIT_MAX),
            masters: PlacesOf::of_masters(read_only, mutating),
            replicas: PlacesOf::shared(&REPLICAS, read_only, mutating, PRIVILEGED_WAIT_MAX),
        }
    }

    /// Acquires a permit for this work, waiting if necessary. A 429 if too many requests wait, or
    /// for too long.
    pub(super) async fn enter(&self, origin: Origin, work: Work, user: &User) -> Result<Place, Status> {
        let units = match work {
            Work::LargeWrite(bytes) => bytes.div_ceil(LARGE_UNIT_BYTES).max(LARGE_UNITS_MIN),
            Work::Read | Work::Watch | Work::Write | Work::Ask => 1,
        };
        Ok(self.of(origin).of(work).enter(&user.name, units).await?)
    }

    /// Reserves memory for a body of `bytes`, or of unknown size.
    pub(super) async fn enter_body(&self, origin: Origin, user: &User, bytes: Option<u64>) -> Result<Place, Status> {
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(BODY_BYTES_MAX);
        Ok(self.of(origin).bodies.enter(&user.name, bytes.max(BODY_BYTES_MIN)).await?)
    }

    /// Releases the part of a body's reserved memory that was not needed.
    pub(super) fn shrink_body(place: &mut Place, bytes: usize) {
        place.shrink(bytes.max(BODY_BYTES_MIN));
    }

    fn of(&self, origin: Origin) -> &PlacesOf {
        match origin {
            Origin::User => &self.users,
            Origin::Master => &self.masters,
            Origin::Replica => &self.replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn li4_at_the_limit_requests_wait_and_masters_and_replicas_have_their_own_places() {
        let in_flight = InFlight::new(0, 2);
        let (master, a, b, c) = (User::component("test"), user("a"), user("b"), user("c"));
        let enter = |origin, user| in_flight.enter(origin, Work::Write, user);
        let first = enter(Origin::User, &a).await.unwrap();
        let second = enter(Origin::User, &b).await.unwrap();
        let mut waiting = std::pin::pin!(enter(Origin::User, &b));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(enter(Origin::of(&master), &master).now_or_never().unwrap().is_ok());
        assert!(enter(Origin::Replica, &a).now_or_never().unwrap().is_ok());
        drop(first);
        let third = waiting.now_or_never().unwrap().unwrap();
        // If the queue stays full, the response is a 429 with a retry time.
        let status = enter(Origin::User, &c).await.unwrap_err();
        drop((second, third));
        assert_eq!(status.code, 429);
        assert!(status.retry_after_seconds().is_some_and(|seconds| seconds >= 1), "{status:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn li12_bodies_of_one_user_take_three_quarters_of_the_room_at_most() {
        let in_flight = InFlight::new(1, 1);
        let mut held = Vec::new();
        while let Some(Ok(place)) = in_flight.enter_body(Origin::User, &user("a"), None).now_or_never() {
            held.push(place);
        }
        assert_eq!(held.len(), 16, "48 of 64 MiB");
        assert!(in_flight.enter_body(Origin::User, &user("b"), Some(1)).now_or_never().unwrap().is_ok());
        InFlight::shrink_body(&mut held[0], 5);
        assert!(in_flight.enter_body(Origin::User, &user("a"), Some(1 << 20)).now_or_never().unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn large_writes_share_the_memory_of_their_trees() {
        let in_flight = InFlight::new(1, 1);
        let enter = async |name: &str, bytes| in_flight.enter(Origin::User, Work::LargeWrite(bytes), &user(name)).await;
        let usual = [enter("a", 1).await, enter("b", 1).await, enter("c", 1).await, enter("d", 1).await];
        assert!(usual.iter().all(Result::is_ok));
        assert!(enter("e", 1).now_or_never().is_none(), "four of them at a time");
        drop(usual);
        let huge = enter("a", usize::MAX).await.unwrap();
        assert!(enter("b", 1).now_or_never().is_none(), "one that takes all of it is alone");
        drop(huge);
        assert!(enter("b", 1).now_or_never().is_some());
    }
}
