//! Limits the number of connections. At the limit, existing connections are evicted for new ones:
//! first connections without an active request, the longest idle first; then connections whose
//! requests wait for their bodies or for a permit. A client that opens thousands of connections
//! thus loses its own.
//!
//! A request is active once its user is authenticated and it holds a permit (`Stage`). An
//! unauthenticated request, or one that was rejected before its body was needed, is not active: a
//! client that sends such requests, or sends their bodies slowly, cannot keep other clients out.
//!
//! Watches last for hours, so a user could occupy all connections with them. If nothing else can be
//! evicted, the user with the most watching connections loses one, provided that it exceeds its
//! share. Its client resumes the watch from the last revision that it received.
//!
//! *Invariant:* an eviction interrupts no active request except such a watch, and no request starts
//! on an evicted connection.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::request::Parts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use ballast_base::log_limit::LogLimit;
use ballast_base::metrics;
use ballast_k8s::{Status, User};

/// Connections evicted per search; a search costs more than accepting a connection.
const EVICTED_AT_ONCE: usize = 32;
/// The inverse of the share of connections that one user may watch on while the limit is reached.
const WATCHED_SHARE: usize = 4;

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The limit of open connections. If all of them have active requests, new clients are refused.
    pub connections_max: usize,
    /// The timeout of a TLS handshake.
    pub handshake_max: Duration,
    /// The timeout for the head of an HTTP/1.1 request, from the end of the previous one (LI5).
    pub header_read_max: Duration,
    /// The longest time that a connection may be without a request (LI5).
    pub idle_max: Duration,
    /// The memory, in bytes, that all responses together may hold while their clients do not read
    /// them.
    pub unsent_bytes_max: usize,
    /// The number of HTTP/2 requests per million that move their client to another connection
    /// (CU5).
    pub goaway_per_million: u32,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            connections_max: 4096,
            handshake_max: Duration::from_secs(10),
            header_read_max: Duration::from_secs(32),
            idle_max: Duration::from_secs(90),
            unsent_bytes_max: 128 * 1024 * 1024,
            goaway_per_million: 0,
        }
    }
}

/// The reason why the server closed a connection: a label of `ballast_connections_closed_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A new connection needed the slot of a connection without an active request, or of watches of
    /// a user above its share.
    Evicted,
    /// All slots were taken by connections with active requests.
    Refused,
    /// No request, or part of one, arrived within the idle timeout.
    Idle,
    /// The handshake, the head of a request or the response to a PING did not arrive in time.
    Timeout,
    /// The client sent no valid HTTP, or too many resets, continuations or header lines.
    Protocol,
    /// The client did not read its responses, and the server needed the memory.
    Unread,
}

const REASONS: usize = Reason::Unread as usize + 1;

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Evicted => "evicted",
            Reason::Refused => "refused",
            Reason::Idle => "idle",
            Reason::Timeout => "timeout",
            Reason::Protocol => "protocol",
            Reason::Unread => "unread",
        }
    }
}

/// The connections of a listener.
pub struct Connections {
    connections_max: usize,
    table: Mutex<ConnectionTable>,
    /// Log limits, indexed by `Reason`.
    log_limits: [LogLimit; REASONS],
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    open: HashMap<u64, Arc<ConnectionState>>,
}

impl Connections {
    pub fn new(connections_max: usize) -> Arc<Connections> {
        Arc::new(Connections { connections_max, table: Mutex::default(), log_limits: Default::default() })
    }

    /// Returns a slot for a new connection, evicting idle ones if necessary. `None` if all
    /// connections have active requests.
    pub fn admit(self: &Arc<Connections>) -> Option<ConnectionSlot> {
        if self.table().open.len() >= self.connections_max {
            self.make_room();
        }
        let mut table = self.table();
        if table.open.len() >= self.connections_max {
            drop(table);
            self.closed(Reason::Refused, "everybody else is at work");
            return None;
        }
        let id = table.next;
        table.next += 1;
        let state = Arc::new(ConnectionState::new());
        table.open.insert(id, Arc::clone(&state));
        Some(ConnectionSlot { id, state, connections: Arc::clone(self) })
    }

    /// Evicts the connections that have been without an active request for longest. If there are
    /// none, evicts one of the user that watches on more than its share.
    pub fn make_room(&self) {
        let mut table = self.table();
        let idle = table.open.iter().filter_map(|(id, state)| Some((state.eviction_rank()?, *id)));
        let mut idle: Vec<((Stage, Instant), u64)> = idle.collect();
        let wanted = EVICTED_AT_ONCE.min(self.connections_max / 4).max(1);
        if idle.len() > wanted {
            idle.select_nth_unstable(wanted);
            idle.truncate(wanted);
        }
        let is_evicted = |id: &u64, last| table.open.get(id).is_some_and(|state| state.evict(last));
        let mut evicted: Vec<u64> =
            idle.iter().map(|(_, id)| *id).filter(|id| is_evicted(id, Stage::Waiting)).collect();
        if evicted.is_empty() {
            let watching = table.most_watching(self.connections_max / WATCHED_SHARE);
            evicted.extend(watching.filter(|id| is_evicted(id, Stage::Watching)));
        }
        evicted.iter().for_each(|id| drop(table.open.remove(id)));
        drop(table);
        evicted.iter().for_each(|_| self.closed(Reason::Evicted, "others want in"));
    }

    /// Counts a closed connection, and logs each reason at a limited rate.
    pub fn closed(&self, reason: Reason, why: &str) {
        metrics::connection_closed(reason.as_str());
        if self.log_limits[reason as usize].pass().is_some() {
            let open = self.table().open.len();
            let reason = reason.as_str();
            tracing::warn!(reason, why, open, "connections are closed; ballast_connections_closed_total counts them");
        }
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().expect("no panic while it is held")
    }
}

impl ConnectionTable {
    /// Returns the oldest connection, used only for watches, of the user with the most of such
    /// connections, if they exceed `share`.
    fn most_watching(&self, share: usize) -> Option<u64> {
        let mut users: HashMap<Arc<str>, (usize, u64)> = HashMap::new();
        for (id, state) in &self.open {
            let Some(user) = state.watching_user() else { continue };
            let (count, oldest) = users.entry(user).or_insert((0, u64::MAX));
            *count += 1;
            *oldest = (*oldest).min(*id);
        }
        let (count, oldest) = users.into_values().max()?;
        (count > share).then_some(oldest)
    }
}

/// The slot of a connection, which is released on drop.
pub struct ConnectionSlot {
    id: u64,
    pub state: Arc<ConnectionState>,
    connections: Arc<Connections>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.table().open.remove(&self.id);
    }
}

/// The state of one connection.
pub struct ConnectionState {
    activity: Mutex<Activity>,
    evicted: CancellationToken,
    cut_off: CancellationToken,
    /// Whether bytes have arrived since the last request started or ended.
    has_received: AtomicBool,
    /// Whether the connection has switched to a protocol in which it only watches (`web_socket`).
    only_watches: AtomicBool,
}

struct Activity {
    /// The number of requests per `Stage`.
    requests: [usize; STAGES],
    /// The end of the last request.
    idle_since: Instant,
    /// The end of the last authenticated request. Unauthenticated requests do not change it.
    known_until: Instant,
    watchers: Watchers,
    is_evicted: bool,
}

/// The users that have watched on a connection; a proxy multiplexes several.
#[derive(Default)]
enum Watchers {
    #[default]
    None,
    One(Arc<str>),
    Several,
}

impl Activity {
    fn has_requests(&self) -> bool {
        self.requests.iter().any(|count| *count > 0)
    }

    /// Returns the furthest stage of all requests, `Unknown` without requests.
    fn stage(&self) -> Stage {
        match self.requests {
            [_, 0, 0, 0] => Stage::Unknown,
            [_, _, 0, 0] => Stage::Waiting,
            [_, _, _, 0] => Stage::Watching,
            [_, _, _, _] => Stage::AtWork,
        }
    }
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Unauthenticated, or rejected before its body was needed.
    Unknown,
    /// Waiting for its body or for a permit.
    Waiting,
    /// A watch that has started, of a user that is not a member of `system:masters`.
    Watching,
    AtWork,
}

const STAGES: usize = 4;
/// The stage of a request that has ended.
const ENDED: u8 = u8::MAX;

impl ConnectionState {
    fn new() -> ConnectionState {
        let now = Instant::now();
        let activity = Activity {
            requests: [0; STAGES],
            idle_since: now,
            known_until: now,
            watchers: Watchers::None,
            is_evicted: false,
        };
        ConnectionState {
            activity: Mutex::new(activity),
            evicted: CancellationToken::new(),
            cut_off: CancellationToken::new(),
            has_received: AtomicBool::new(false),
            only_watches: AtomicBool::new(false),
        }
    }

    /// Counts a connection that has switched protocols as one request that lasts as long as the
    /// connection. `None` if it was evicted.
    pub fn begin_switched(self: &Arc<ConnectionState>) -> Option<ActiveRequest> {
        let busy = self.begin()?;
        let only_watches = self.only_watches.load(Ordering::Relaxed);
        busy.progress().reach(if only_watches { Stage::Watching } else { Stage::AtWork }).ok()?;
        Some(busy)
    }

    /// Starts a request. `None` if the connection was evicted.
    pub fn begin(self: &Arc<ConnectionState>) -> Option<ActiveRequest> {
        let mut activity = self.activity();
        if activity.is_evicted {
            return None;
        }
        activity.requests[Stage::Unknown as usize] += 1;
        self.has_received.store(false, Ordering::Relaxed);
        let stage = AtomicU8::new(Stage::Unknown as u8);
        Some(ActiveRequest(Arc::new(RequestProgress { connection: Arc::clone(self), stage })))
    }

    /// Records that the client has sent bytes.
    pub fn received(&self) {
        self.has_received.store(true, Ordering::Relaxed);
    }

    /// Returns whether a request is running, or the client has sent a part of the next one.
    pub fn is_in_use(&self) -> bool {
        self.has_received.load(Ordering::Relaxed) || self.activity().has_requests()
    }

    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Closes the connection at once, with its running requests.
    pub fn cut_off(&self) {
        self.cut_off.cancel();
    }

    /// Resolves when the connection must be closed at once.
    pub async fn is_cut_off(&self) {
        self.cut_off.cancelled().await;
    }

    /// Resolves once there has been no request for `limit`.
    pub async fn idle_for(&self, limit: Duration) {
        loop {
            let end = self.idle_since().unwrap_or_else(Instant::now) + limit;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    /// Evicts the connection, unless one of its requests has passed the stage `last`.
    fn evict(&self, last: Stage) -> bool {
        let mut activity = self.activity();
        if activity.stage() > last {
            return false;
        }
        activity.is_evicted = true;
        self.evicted.cancel();
        true
    }

    fn idle_since(&self) -> Option<Instant> {
        let activity = self.activity();
        (!activity.has_requests() && !activity.is_evicted).then_some(activity.idle_since)
    }

    /// Returns the eviction rank: the lowest is evicted first. `None` if the connection must stay.
    fn eviction_rank(&self) -> Option<(Stage, Instant)> {
        let activity = self.activity();
        let stage = activity.stage();
        (stage <= Stage::Waiting && !activity.is_evicted).then_some((stage, activity.known_until))
    }

    /// Returns the user that watches on this connection. `None` if there are several users, or
    /// other active requests.
    fn watching_user(&self) -> Option<Arc<str>> {
        let activity = self.activity();
        match &activity.watchers {
            Watchers::One(user) if activity.stage() == Stage::Watching => Some(Arc::clone(user)),
            _ => None,
        }
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().expect("no panic while it is held")
    }
}

/// A running request. It ends on drop, together with the body of its response.
pub struct ActiveRequest(Arc<RequestProgress>);

impl ActiveRequest {
    /// Returns the handle by which layers report the progress of the request to its connection.
    pub fn progress(&self) -> Arc<RequestProgress> {
        Arc::clone(&self.0)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let connection = &self.0.connection;
        let mut activity = connection.activity();
        self.0.leave_stage(&mut activity);
        self.0.stage.store(ENDED, Ordering::Relaxed);
        connection.has_received.store(false, Ordering::Relaxed);
        activity.idle_since = Instant::now();
    }
}

/// The progress of a request, as its connection counts it. It is stored in the extensions of the
/// request.
pub struct RequestProgress {
    connection: Arc<ConnectionState>,
    /// Modified only while the activity of the connection is locked.
    stage: AtomicU8,
}

impl RequestProgress {
    /// Records the stage. `Err` if the connection was evicted: the request must not continue.
    pub fn reach(&self, stage: Stage) -> Result<(), Evicted> {
        let mut activity = self.connection.activity();
        if activity.is_evicted {
            return Err(Evicted);
        }
        if self.leave_stage(&mut activity) {
            activity.requests[stage as usize] += 1;
            self.stage.store(stage as u8, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes the request from the count of its stage. Returns false if it has ended.
    fn leave_stage(&self, activity: &mut Activity) -> bool {
        let stage = self.stage.load(Ordering::Relaxed);
        if stage == ENDED {
            return false;
        }
        activity.requests[usize::from(stage)] -= 1;
        if stage != Stage::Unknown as u8 {
            activity.known_until = Instant::now();
        }
        true
    }
}

/// Records the stage of a request on its connection. Fails if the connection was evicted.
pub fn reach(parts: &Parts, stage: Stage) -> Result<(), Status> {
    let Some(progress) = parts.extensions.get::<Arc<RequestProgress>>() else { return Ok(()) };
    progress.reach(stage).map_err(|evicted| Status::unavailable(evicted.to_string()).already_logged())
}

/// Records the start of a watch, and its user, on the connection.
pub fn watches(parts: &Parts, user: &User) -> Result<(), Status> {
    if user.is_master() {
        return Ok(());
    }
    reach(parts, Stage::Watching)?;
    if let Some(progress) = parts.extensions.get::<Arc<RequestProgress>>() {
        let watchers = &mut progress.connection.activity().watchers;
        match watchers {
            Watchers::None => *watchers = Watchers::One(Arc::from(&*user.name)),
            Watchers::One(known) if **known != *user.name => *watchers = Watchers::Several,
            Watchers::One(_) | Watchers::Several => {}
        }
    }
    Ok(())
}

/// Records that the connection is about to switch to a protocol in which it only watches.
pub fn switches_to_watch(parts: &Parts) {
    if let Some(progress) = parts.extensions.get::<Arc<RequestProgress>>() {
        let only_watches = progress.stage.load(Ordering::Relaxed) == Stage::Watching as u8;
        progress.connection.only_watches.store(only_watches, Ordering::Relaxed);
    }
}

/// The error of a request that was not started because its connection was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Evicted;
