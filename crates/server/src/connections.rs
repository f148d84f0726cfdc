//! Bounds the number of connections. When there is no room, the connections that have been idle for
//! longest are evicted, and never one with a running request. So a client that opens thousands of
//! idle connections only loses connections of its own.
//!
//! *Invariant:* an eviction never cuts off a running request, and no request begins on an evicted
//! connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use ballast_base::metrics;

/// Connections that one search evicts, because the search costs more than a new connection.
const EVICTED_AT_ONCE: usize = 32;
/// Anybody can cause these events, so each kind is logged at most this often. All are counted.
const SPEAK_EVERY: Duration = Duration::from_secs(10);

/// The bounds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open connections. If all of them have running requests, further clients are refused.
    pub connections_max: usize,
    /// The time for a TLS handshake.
    pub handshake_max: Duration,
    /// The time for the head of a request over HTTP/1.1, from the end of the one before (LI5).
    pub header_read_max: Duration,
    /// The time that a connection may have no request (LI5).
    pub idle_max: Duration,
    /// Memory that all answers together may hold while they wait for their clients, in bytes.
    pub unsent_bytes_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            connections_max: 4096,
            handshake_max: Duration::from_secs(10),
            header_read_max: Duration::from_secs(32),
            idle_max: Duration::from_secs(90),
            unsent_bytes_max: 128 * 1024 * 1024,
        }
    }
}

/// Why the server closed a connection: a label of `ballast_connections_closed_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was idle, and another one needed the room.
    Evicted,
    /// There was no room, and all connections had running requests.
    Refused,
    Idle,
    /// The handshake, the head of a request or the answer to a PING did not come in time.
    Timeout,
    /// The client sent no valid HTTP, or too many resets, continuations or header lines.
    Protocol,
    /// Its answers were not read, and the server needed the memory.
    Unread,
}

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
    seats: Mutex<Seats>,
    spoken: Mutex<HashMap<&'static str, Instant>>,
}

#[derive(Default)]
struct Seats {
    next: u64,
    taken: HashMap<u64, Arc<Seat>>,
}

impl Connections {
    pub fn new(connections_max: usize) -> Arc<Connections> {
        Arc::new(Connections { connections_max, seats: Mutex::default(), spoken: Mutex::default() })
    }

    /// A place for a new connection, if necessary that of an idle one. `None` if all connections
    /// have running requests.
    pub fn admit(self: &Arc<Connections>) -> Option<Place> {
        if self.seats().taken.len() >= self.connections_max {
            self.make_room();
        }
        let mut seats = self.seats();
        if seats.taken.len() >= self.connections_max {
            drop(seats);
            self.closed(Reason::Refused, "everybody else is at work");
            return None;
        }
        let id = seats.next;
        seats.next += 1;
        let seat = Arc::new(Seat::new());
        seats.taken.insert(id, Arc::clone(&seat));
        Some(Place { id, seat, connections: Arc::clone(self) })
    }

    /// Evicts the connections that have been idle for longest.
    pub fn make_room(&self) {
        let mut seats = self.seats();
        let idle = seats.taken.iter().filter_map(|(id, seat)| Some((seat.idle_since()?, *id)));
        let mut idle: Vec<(Instant, u64)> = idle.collect();
        let wanted = EVICTED_AT_ONCE.min(self.connections_max / 4).max(1);
        if idle.len() > wanted {
            idle.select_nth_unstable(wanted);
            idle.truncate(wanted);
        }
        let evicted = idle.iter().filter(|(_, id)| seats.taken.get(id).is_some_and(|seat| seat.evict()));
        let evicted: Vec<u64> = evicted.map(|(_, id)| *id).collect();
        evicted.iter().for_each(|id| drop(seats.taken.remove(id)));
        drop(seats);
        evicted.iter().for_each(|_| self.closed(Reason::Evicted, "others want in"));
    }

    /// Counts the end of a connection, and logs the reason now and then.
    pub fn closed(&self, reason: Reason, why: &str) {
        metrics::connection_closed(reason.as_str());
        let now = Instant::now();
        let mut spoken = self.spoken.lock().expect("no panic while it is held");
        let is_due = spoken.get(reason.as_str()).is_none_or(|last| now - *last >= SPEAK_EVERY);
        if is_due {
            spoken.insert(reason.as_str(), now);
            let open = self.seats().taken.len();
            let reason = reason.as_str();
            tracing::warn!(reason, why, open, "connections are closed; ballast_connections_closed_total counts them");
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("no panic while it is held")
    }
}

/// The place of a connection, which is free again when this is dropped.
pub struct Place {
    id: u64,
    pub seat: Arc<Seat>,
    connections: Arc<Connections>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.seats().taken.remove(&self.id);
    }
}

/// The state of one connection.
pub struct Seat {
    state: Mutex<State>,
    evicted: CancellationToken,
    cut_off: CancellationToken,
}

struct State {
    requests: usize,
    idle_since: Instant,
    is_evicted: bool,
}

impl Seat {
    fn new() -> Seat {
        let state = State { requests: 0, idle_since: Instant::now(), is_evicted: false };
        Seat { state: Mutex::new(state), evicted: CancellationToken::new(), cut_off: CancellationToken::new() }
    }

    /// Begins a request. `None` if the connection was evicted.
    pub fn begin(self: &Arc<Seat>) -> Option<Busy> {
        let mut state = self.state();
        if state.is_evicted {
            return None;
        }
        state.requests += 1;
        Some(Busy(Arc::clone(self)))
    }

    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Ends the connection at once, whatever is under way on it.
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

    fn evict(&self) -> bool {
        let mut state = self.state();
        if state.requests > 0 {
            return false;
        }
        state.is_evicted = true;
        self.evicted.cancel();
        true
    }

    fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.requests == 0 && !state.is_evicted).then_some(state.idle_since)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }
}

/// A running request. It ends when this is dropped with the body of its answer.
pub struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.idle_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_was_idle_for_longest_makes_room() {
        let connections = Connections::new(3);
        let places: Vec<Place> = (0..3).map(|_| connections.admit().unwrap()).collect();
        let busy = places[0].seat.begin().unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(places[1].seat.begin());
        let _newcomer = connections.admit().expect("the third one leaves");
        assert!(places[2].seat.begin().is_none(), "no request begins on an evicted connection");
        places[2].seat.evicted().await;
        assert!(places[1].seat.begin().is_some(), "it was at work later");
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_at_work_is_evicted() {
        let connections = Connections::new(2);
        let places: Vec<Place> = (0..2).map(|_| connections.admit().unwrap()).collect();
        let busy: Vec<Busy> = places.iter().map(|place| place.seat.begin().unwrap()).collect();
        assert!(connections.admit().is_none());
        drop(busy);
        assert!(connections.admit().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn idleness_is_counted_from_the_end_of_the_last_request() {
        let connections = Connections::new(1);
        let place = connections.admit().unwrap();
        let (begun, busy) = (Instant::now(), place.seat.begin().unwrap());
        let limit = Duration::from_secs(90);
        let idle = place.seat.idle_for(limit);
        let work = async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            drop(busy);
        };
        tokio::join!(idle, work);
        assert!(begun.elapsed() >= Duration::from_secs(390));
    }
}
