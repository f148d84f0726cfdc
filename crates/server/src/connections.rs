//! Bounds the number of connections. At the bound, connections make room for newcomers: first those
//! without a request at work, the ones that have been so for longest; then those whose requests
//! wait for their bodies or for a place. So a client that opens thousands of connections loses
//! connections of its own.
//!
//! A request is at work once its user is known and it has its place (`Stage`). A request without a
//! known user, and one that was refused before its body was wanted, is none: a client that sends
//! such requests, or drips their bodies, keeps no other client out.
//!
//! Watches last for hours, so a user could hold all connections with them. If there is nothing else
//! to close, the user that watches on most connections loses one, if it has more than its share.
//! Its client resumes the watch from the last revision that it saw.
//!
//! *Invariant:* an eviction cuts off no request at work but such a watch, and no request begins on
//! an evicted connection.

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

/// The number of connections that one search evicts: the search costs more than a new connection.
const EVICTED_AT_ONCE: usize = 32;
/// A user may watch on this part of the connections while others want in.
const WATCHED_SHARE: usize = 4;

/// The bounds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open connections. If all of them have requests at work, further clients are refused.
    pub connections_max: usize,
    /// The time for a TLS handshake.
    pub handshake_max: Duration,
    /// The time for the head of a request over HTTP/1.1, from the end of the one before (LI5).
    pub header_read_max: Duration,
    /// The time that a connection may have no request (LI5).
    pub idle_max: Duration,
    /// Memory that all answers together may hold while they wait for their clients, in bytes.
    pub unsent_bytes_max: usize,
    /// How many of a million requests over HTTP/2 move their client to another connection (CU5).
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

/// Why the server closed a connection: a label of `ballast_connections_closed_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It had no request at work, or watches of a user above its share, and a new connection needed
    /// its slot.
    Evicted,
    /// All slots were taken by connections with requests at work.
    Refused,
    /// It had no request for a while, and no part of one.
    Idle,
    /// The handshake, the head of a request or the answer to a PING did not come in time.
    Timeout,
    /// The client sent no valid HTTP, or too many resets, continuations or header lines.
    Protocol,
    /// Its answers were not read, and the server needed the memory.
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

/// All connections of a listener.
pub struct Connections {
    connections_max: usize,
    table: Mutex<ConnectionTable>,
    /// By the place of the `Reason`.
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

    /// A slot for a new connection, if necessary that of one without a request at work. `None` if
    /// there is none of those.
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

    /// Evicts the connections that have been without a request at work for longest. Without any, it
    /// evicts one of the user that watches on more than its share.
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

    /// Counts the end of a connection, and logs each reason once in a while.
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
    /// The oldest of the connections on which one user watches and does nothing else: of the user
    /// that has most of them, if those are more than its share.
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

/// The slot of a connection. The drop frees it.
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
    /// Bytes have come since the last request began or ended.
    has_received: AtomicBool,
    /// The connection has switched to a protocol in which it only watches (`web_socket`).
    only_watches: AtomicBool,
}

struct Activity {
    /// Requests by their `Stage`.
    requests: [usize; STAGES],
    /// When the last request ended.
    idle_since: Instant,
    /// When the last request of a known user ended. A stranger cannot change it.
    known_until: Instant,
    watchers: Watchers,
    is_evicted: bool,
}

/// The users that have watched on a connection. A proxy forwards those of several.
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

    /// The furthest stage of a request, and `Unknown` without one.
    fn stage(&self) -> Stage {
        match self.requests {
            [_, 0, 0, 0] => Stage::Unknown,
            [_, _, 0, 0] => Stage::Waiting,
            [_, _, _, 0] => Stage::Watching,
            [_, _, _, _] => Stage::AtWork,
        }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Its user is not known, or it was refused before its body was wanted.
    Unknown,
    /// It waits for its body or for a place.
    Waiting,
    /// It is a watch that has begun, of a user that is no member of `system:masters`.
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

    /// Counts a connection that has switched its protocol as one request, which ends with it.
    /// `None` if it was evicted.
    pub fn begin_switched(self: &Arc<ConnectionState>) -> Option<ActiveRequest> {
        let busy = self.begin()?;
        let only_watches = self.only_watches.load(Ordering::Relaxed);
        busy.progress().reach(if only_watches { Stage::Watching } else { Stage::AtWork }).ok()?;
        Some(busy)
    }

    /// Begins a request. `None` if the connection was evicted.
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

    /// Notes that the client has sent bytes.
    pub fn received(&self) {
        self.has_received.store(true, Ordering::Relaxed);
    }

    /// Whether a request is running, or the client has sent a part of the next one.
    pub fn is_in_use(&self) -> bool {
        self.has_received.load(Ordering::Relaxed) || self.activity().has_requests()
    }

    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Ends the connection at once, with its running requests.
    pub fn cut_off(&self) {
        self.cut_off.cancel();
    }

    /// Resolves when the connection should end at once.
    pub async fn is_cut_off(&self) {
        self.cut_off.cancelled().await;
    }

    /// Returns once there has been no request for this time.
    pub async fn idle_for(&self, limit: Duration) {
        loop {
            let end = self.idle_since().unwrap_or_else(Instant::now) + limit;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    /// Evicts it, unless a request has come further than `last`.
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

    /// Which connection is evicted first: the one with the lowest rank. `None`: not this one.
    fn eviction_rank(&self) -> Option<(Stage, Instant)> {
        let activity = self.activity();
        let stage = activity.stage();
        (stage <= Stage::Waiting && !activity.is_evicted).then_some((stage, activity.known_until))
    }

    /// The user that watches here. `None` for several, and beside requests at work.
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

/// A running request. It ends when this is dropped, with the body of its answer.
pub struct ActiveRequest(Arc<RequestProgress>);

impl ActiveRequest {
    /// What tells the connection how far the request has come.
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

/// Tells a connection how far one of its requests has come. It is in the extensions of the request.
pub struct RequestProgress {
    connection: Arc<ConnectionState>,
    /// Changes only while the activity of the connection is locked.
    stage: AtomicU8,
}

impl RequestProgress {
    /// Notes the stage. `Err` if the connection was evicted: the request must not go on.
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

    /// Takes the request out of the count of its stage; false if it has ended.
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

/// Tells the connection of a request how far it has come. A request on an evicted connection ends.
pub fn reach(parts: &Parts, stage: Stage) -> Result<(), Status> {
    let Some(progress) = parts.extensions.get::<Arc<RequestProgress>>() else { return Ok(()) };
    progress.reach(stage).map_err(|evicted| Status::unavailable(evicted.to_string()).already_logged())
}

/// Tells the connection of a watch that the watch has begun, and whose it is.
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

/// Tells the connection of a watch that it switches to a protocol in which it does nothing else.
pub fn switches_to_watch(parts: &Parts) {
    if let Some(progress) = parts.extensions.get::<Arc<RequestProgress>>() {
        let only_watches = progress.stage.load(Ordering::Relaxed) == Stage::Watching as u8;
        progress.connection.only_watches.store(only_watches, Ordering::Relaxed);
    }
}

/// The connection was evicted, so the request is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Evicted;
