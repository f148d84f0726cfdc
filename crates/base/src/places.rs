//! Slots: a bounded resource that users share fairly, such as the number of concurrent requests.
//!
//! ```text
//!            free, and the user has its share or less ────────────► Place ──drop──► free again
//!  enter ──► otherwise: a queue for each user, served in turns ───► Place
//!                │ too many wait, or for too long
//!                └──► Busy: when to retry
//! ```
//!
//! *Guarantees.* A slot is acquired for work: its holder has read the required input before. No
//! user gets more than the share while another user waits, and the reserve is only for users below
//! the share, so one user's load never makes a new user wait for all of it. Waiting users are
//! served in turns, and each in the order of its requests. A request waits for a bounded time, and
//! a bounded number of requests wait. Dropping a future or a slot frees the units that it holds.
//!
//! Requests may take several units at once, such as bytes. If the next request exceeds the free
//! units, no smaller request of another user overtakes it, so that it is eventually served.
//!
//! Without contention, a slot costs two short locks.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::metrics;
use ballast_k8s::Status;

/// Maximum retry time that `Busy` contains, in seconds: longer forecasts are not reliable.
const RETRY_AFTER_SECONDS_MAX: u32 = 60;
/// The weight of the newest observation in the mean holding time of slots.
const HELD_MEAN_WEIGHT: f64 = 1.0 / 16.0;

/// The number of units, and how they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The class label of the metrics.
    pub class: &'static str,
    pub units: usize,
    /// Maximum number of units per user while another user waits. A user that holds no unit may
    /// exceed it with one request.
    pub share: usize,
    /// The units that are reserved for users below their share.
    pub reserved: usize,
    /// Maximum number of waiting requests of all users.
    pub waiting_max: usize,
    /// Maximum number of waiting requests per user.
    pub waiting_of_user_max: usize,
    pub wait_max: Duration,
}

impl Bounds {
    /// Creates bounds with a quarter for each user while others wait, and a quarter that is
    /// reserved for users below their share.
    pub fn in_quarters(class: &'static str, units: usize, waiting_max: usize, wait_max: Duration) -> Bounds {
        Bounds {
            class,
            units,
            share: units.div_ceil(4),
            reserved: units / 4,
            waiting_max,
            waiting_of_user_max: waiting_max.div_ceil(4),
            wait_max,
        }
    }

    /// Creates bounds with one unit per user.
    pub fn one_for_each(class: &'static str, units: usize, waiting_max: usize, wait_max: Duration) -> Bounds {
        Bounds { share: 1, reserved: units, ..Bounds::in_quarters(class, units, waiting_max, wait_max) }
    }
}

/// No slot is free, and the queue is full or was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all places are taken; come again in {retry_after_seconds} s")]
pub struct Busy {
    /// The time until the waiting requests will have been served, at the current speed.
    pub retry_after_seconds: u32,
}

impl From<Busy> for Status {
    fn from(busy: Busy) -> Status {
        Status::too_many_requests(busy.retry_after_seconds)
    }
}

/// The slots of one class.
pub struct Places {
    bounds: Bounds,
    state: Mutex<State>,
    /// The start of the times in `State`.
    epoch: Instant,
    counts: metrics::Places,
}

#[derive(Default)]
struct State {
    held: usize,
    /// The number of held slots. `taken_at_sum` is the sum of the times when they were acquired.
    holders: usize,
    taken_at_sum: Duration,
    /// The mean holding time of recently released slots.
    held_mean: Duration,
    /// The users that hold slots or wait.
    users: HashMap<Arc<str>, UserState>,
    /// The waiting users, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    waiting: usize,
    waiting_units: usize,
    next_id: u64,
}

#[derive(Default)]
struct UserState {
    held: usize,
    waiting: VecDeque<Waiter>,
    waiting_units: usize,
}

struct Waiter {
    id: u64,
    units: usize,
    served: oneshot::Sender<Place>,
}

/// A slot for a waiting request. It is sent after the lock is released, because a request that was
/// dropped drops the slot, which takes the lock.
type Grant = (oneshot::Sender<Place>, Place);

impl Places {
    pub fn new(bounds: Bounds) -> Arc<Places> {
        let counts = metrics::Places::of(bounds.class);
        Arc::new(Places { bounds, state: Mutex::default(), epoch: Instant::now(), counts })
    }

    /// Acquires units for a user, at once or after a wait. More than `Bounds::units` means all
    /// units.
    pub async fn enter(self: &Arc<Places>, user: &str, units: usize) -> Result<Place, Busy> {
        let units = units.min(self.bounds.units);
        let (mut queued, served) = match self.take_or_queue(user, units)? {
            Entered::Served(place) => return Ok(place),
            Entered::Queued(queued, served) => (queued, served),
        };
        let began = Instant::now();
        let outcome = tokio::time::timeout(self.bounds.wait_max, served).await;
        self.counts.waited(began.elapsed());
        if let Ok(Ok(place)) = outcome {
            queued.is_over = true;
            return Ok(place);
        }
        let state = self.state();
        let busy = self.busy(&state, user, units);
        drop(state);
        self.counts.refused();
        Err(busy)
    }

    /// Returns the held units and the units of waiting requests.
    #[cfg(test)]
    fn load(&self) -> (usize, usize) {
        let state = self.state();
        (state.held, state.waiting_units)
    }

    fn take_or_queue(self: &Arc<Places>, user: &str, units: usize) -> Result<Entered<'_>, Busy> {
        let bounds = &self.bounds;
        let mut state = self.state();
        if state.turns.is_empty() && state.fits(bounds, user, units) {
            let name = state.users.get_key_value(user).map_or_else(|| Arc::from(user), |(name, _)| Arc::clone(name));
            let place = self.take(&mut state, name, units);
            drop(state);
            self.counts.served();
            return Ok(Entered::Served(place));
        }
        let own = state.users.get(user).map_or(0, |own| own.waiting.len());
        if state.waiting >= bounds.waiting_max || own >= bounds.waiting_of_user_max {
            let busy = self.busy(&state, user, units);
            drop(state);
            self.counts.refused();
            return Err(busy);
        }
        let (served, receiver) = oneshot::channel();
        let id = state.push(user, units, served);
        let grants = self.serve_turns(&mut state);
        drop(state);
        self.send(grants);
        let queued = Queued { places: self, user: user.to_owned(), id, is_over: false };
        Ok(Entered::Queued(queued, receiver))
    }

    fn take(self: &Arc<Places>, state: &mut State, user: Arc<str>, units: usize) -> Place {
        let taken_at = self.epoch.elapsed();
        state.held += units;
        self.counts.held(state.held);
        state.holders += 1;
        state.taken_at_sum += taken_at;
        state.users.entry(Arc::clone(&user)).or_default().held += units;
        Place { places: Arc::clone(self), user, units, taken_at }
    }

    /// Assigns the free units to the waiting users in turn.
    fn serve_turns(self: &Arc<Places>, state: &mut State) -> Vec<Grant> {
        let mut grants = Vec::new();
        while let Some((user, waiter)) = state.pop_next(&self.bounds) {
            grants.push((waiter.served, self.take(state, user, waiter.units)));
        }
        self.counts.waiting(state.waiting);
        grants
    }

    fn send(&self, grants: Vec<Grant>) {
        for (served, place) in grants {
            self.counts.served();
            // If the receiver was dropped, the slot is dropped, too, which assigns it to the next
            // request.
            drop(served.send(place));
        }
    }

    fn give_back(self: &Arc<Places>, user: &str, units: usize, taken_at: Option<Duration>) {
        let mut state = self.state();
        state.held -= units;
        self.counts.held(state.held);
        if let Some(taken_at) = taken_at {
            state.holders -= 1;
            state.taken_at_sum = state.taken_at_sum.saturating_sub(taken_at);
            let held = self.epoch.elapsed().saturating_sub(taken_at);
            let mean = state.held_mean;
            state.held_mean = mean.mul_f64(1.0 - HELD_MEAN_WEIGHT) + held.mul_f64(HELD_MEAN_WEIGHT);
        }
        if let Some(own) = state.users.get_mut(user) {
            own.held -= units;
        }
        state.forget_if_absent(user);
        if state.turns.is_empty() {
            return;
        }
        let grants = self.serve_turns(&mut state);
        drop(state);
        self.send(grants);
    }

    fn leave_queue(self: &Arc<Places>, user: &str, id: u64) {
        let mut state = self.state();
        state.remove(user, id);
        // Other requests may have been waiting for this one.
        let grants = self.serve_turns(&mut state);
        drop(state);
        self.send(grants);
    }

    /// Estimates how long a request of this user would have to wait at the end of the queue.
    fn busy(&self, state: &State, user: &str, units: usize) -> Busy {
        let ages = match u32::try_from(state.holders) {
            Ok(holders @ 1..) => self.epoch.elapsed().saturating_sub(state.taken_at_sum / holders),
            _ => Duration::ZERO,
        };
        let held = state.held_mean.max(ages);
        let own = state.users.get(user).map_or(0, |own| own.held + own.waiting_units);
        let of_user = (own + units) as f64 / self.bounds.share.max(1) as f64;
        let of_all = (state.held + state.waiting_units + units) as f64 / self.bounds.units.max(1) as f64;
        let seconds = held.mul_f64(of_user.max(of_all)).as_secs_f64().ceil();
        // The bounds make the cast exact.
        let retry_after_seconds = seconds.clamp(1.0, f64::from(RETRY_AFTER_SECONDS_MAX)) as u32;
        Busy { retry_after_seconds }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }
}

impl State {
    /// Returns whether a user may take these units now, if no other user waits.
    fn fits(&self, bounds: &Bounds, user: &str, units: usize) -> bool {
        let Some(left) = (bounds.units - self.held).checked_sub(units) else { return false };
        self.is_within_share(bounds, user, units) || left >= bounds.reserved
    }

    fn is_within_share(&self, bounds: &Bounds, user: &str, units: usize) -> bool {
        let held = self.users.get(user).map_or(0, |own| own.held);
        held == 0 || held + units <= bounds.share
    }

    fn push(&mut self, user: &str, units: usize, served: oneshot::Sender<Place>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.waiting += 1;
        self.waiting_units += units;
        let name = self.users.get_key_value(user).map_or_else(|| Arc::from(user), |(name, _)| Arc::clone(name));
        let own = self.users.entry(Arc::clone(&name)).or_default();
        own.waiting.push_back(Waiter { id, units, served });
        own.waiting_units += units;
        if own.waiting.len() == 1 {
            self.turns.push_back(name);
        }
        id
    }

    /// Removes and returns the next request that may be served now.
    fn pop_next(&mut self, bounds: &Bounds) -> Option<(Arc<str>, Waiter)> {
        let units = |user: &str| self.users.get(user)?.waiting.front().map(|front| front.units);
        let at = if self.turns.len() > 1 {
            let is_within = |user: &str| units(user).is_some_and(|units| self.is_within_share(bounds, user, units));
            let at = self.turns.iter().position(|user| is_within(user))?;
            (units(&self.turns[at])? <= bounds.units - self.held).then_some(at)?
        } else {
            let only = self.turns.front()?;
            self.fits(bounds, only, units(only)?).then_some(0)?
        };
        let user = self.turns.remove(at)?;
        let own = self.users.get_mut(&user)?;
        let waiter = own.waiting.pop_front()?;
        own.waiting_units -= waiter.units;
        self.waiting -= 1;
        self.waiting_units -= waiter.units;
        if !own.waiting.is_empty() {
            self.turns.push_back(Arc::clone(&user));
        }
        Some((user, waiter))
    }

    /// Removes a request that no longer waits, if it has not been served.
    fn remove(&mut self, user: &str, id: u64) {
        let Some(own) = self.users.get_mut(user) else { return };
        let Some(at) = own.waiting.iter().position(|waiter| waiter.id == id) else { return };
        let Some(waiter) = own.waiting.remove(at) else { return };
        own.waiting_units -= waiter.units;
        self.waiting -= 1;
        self.waiting_units -= waiter.units;
        if own.waiting.is_empty() {
            self.turns.retain(|name| &**name != user);
        }
        self.forget_if_absent(user);
    }

    fn forget_if_absent(&mut self, user: &str) {
        if self.users.get(user).is_some_and(|own| own.held == 0 && own.waiting.is_empty()) {
            self.users.remove(user);
        }
    }
}

enum Entered<'a> {
    Served(Place),
    Queued(Queued<'a>, oneshot::Receiver<Place>),
}

/// A waiting request. Dropping it removes it from the queue.
struct Queued<'a> {
    places: &'a Arc<Places>,
    user: String,
    id: u64,
    is_over: bool,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.places.leave_queue(&self.user, self.id);
        }
    }
}

/// Units that are held until this is dropped.
#[must_use]
pub struct Place {
    places: Arc<Places>,
    user: Arc<str>,
    units: usize,
    taken_at: Duration,
}

impl Place {
    /// Releases the units above `units`.
    pub fn shrink(&mut self, units: usize) {
        if let Some(more @ 1..) = self.units.checked_sub(units) {
            self.units = units;
            self.places.give_back(&self.user, more, None);
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("class", &self.places.bounds.class).field("units", &self.units).finish()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(&self.user, self.units, Some(self.taken_at));
    }
}
