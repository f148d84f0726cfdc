//! Keeps the free capacity of clusters up to date with the newest view, for all decisions in one
//! process (RM5).
//!
//! Decisions are serialized: while it holds its turn, a loop sees the newest view and the
//! reservations of earlier decisions that are not in the view yet. These are *claims*. A claim
//! counts while its binding in the view is the version that was decided on. Once the write is in
//! the view, the binding's targets replace the claim; and if another write came first, the claim is
//! void. Therefore a late release does no harm: no capacity is reserved twice or without a reason.
//!
//! *Invariant:* the result of `present` is a function of the view, the time and the claims. The
//! accounts are updated event by event, without walking all objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::Room;
use super::ledger::Ledger;
use crate::cluster_cache::{CLUSTERS, ClusterCache};
use ballast_api::core::Taint;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_engine::karmada::{Cluster, ClusterSet, Needs, Profile};
use ballast_k8s::{GroupResource, Key, Revision, Time};
use ballast_watch::{Cache, Difference, View};

/// The state that all decisions of a process share.
pub struct Keeper {
    kept: Mutex<Option<Kept>>,
    claims: Mutex<Claims>,
    turn: Arc<tokio::sync::Mutex<()>>,
    ttl: i64,
}

/// The turn to decide. While it is held, no other loop decides.
pub struct Turn {
    _held: OwnedMutexGuard<()>,
}

/// Reserved capacity that may be missing from the view. It ends when this is dropped, so it must be
/// held until the outcome of the write is known.
pub struct Claim {
    keeper: Arc<Keeper>,
    number: u64,
}

/// The capacity that a decision reserves.
#[derive(Clone, Debug)]
pub struct GivenRoom {
    pub binding: Key,
    /// The version of the binding that was decided on.
    pub base: Revision,
    pub needs: Needs,
    /// The copies that arrive on each cluster.
    pub arrivals: Vec<(Arc<str>, i64)>,
}

/// The newest state, prepared for decisions.
pub struct Present {
    pub view: Arc<View>,
    /// As in `ClusterCache`.
    pub no_execute: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    pub unready: Arc<BTreeSet<Arc<str>>>,
    /// The clusters with their free capacity.
    pub left: ClusterSet,
    pub room: Room,
}

#[derive(Default)]
struct Claims {
    known: HashMap<u64, GivenRoom>,
    next: u64,
}

/// The state of one view.
struct Kept {
    /// The followed kinds, at the state of the accounts.
    at: View,
    clusters: ClusterCache,
    ledger: Ledger,
    left: ClusterSet,
    /// Clusters that may have more free capacity than at the last call of `grown`.
    grown: BTreeSet<Arc<str>>,
}

fn kinds() -> Vec<GroupResource> {
    [CLUSTERS].into_iter().chain(BINDINGS).collect()
}

impl Keeper {
    /// Returns the keeper of the process with this cache, creating it on the first call.
    pub fn of(cache: &Cache, profile: &Profile) -> Arc<Keeper> {
        cache.companion(|| Keeper {
            kept: Mutex::default(),
            claims: Mutex::default(),
            turn: Arc::default(),
            ttl: profile.reservation_ttl,
        })
    }

    /// Waits for the turn to decide.
    pub async fn turn(&self) -> Turn {
        Turn { _held: Arc::clone(&self.turn).lock_owned().await }
    }

    /// Returns the newest view, with the free capacity after all claims.
    pub fn present(&self, cache: &Cache, now: Time) -> Present {
        let mut kept = lock(&self.kept);
        // Must precede reading the view: a claim that ends meanwhile is in that view.
        let claims: Vec<GivenRoom> = lock(&self.claims).known.values().cloned().collect();
        let (kept, view) = self.in_step(&mut kept, cache, now);
        let mut left = kept.left.clone();
        let is_open =
            |given: &GivenRoom| view.get(&given.binding).is_some_and(|binding| binding.revision == given.base);
        let claimed: Vec<GivenRoom> = claims.into_iter().filter(is_open).collect();
        for given in &claimed {
            for (cluster, copies) in &given.arrivals {
                left.change_capacity(cluster, |capacity| capacity.take(&given.needs, *copies));
            }
        }
        let room = Room { claimed, ..Room::new(&kept.clusters, kept.ledger.accounts()) };
        let ClusterCache { no_execute, unready, .. } = &kept.clusters;
        Present { view, no_execute: Arc::clone(no_execute), unready: Arc::clone(unready), left, room }
    }

    /// Returns the clusters that may have more free capacity than at the last call, because a
    /// binding left, shrank or moved, or because a reservation has expired.
    pub fn grown(&self, cache: &Cache, now: Time) -> BTreeSet<Arc<str>> {
        let mut kept = lock(&self.kept);
        std::mem::take(&mut self.in_step(&mut kept, cache, now).0.grown)
    }

    /// Returns the next expiry of a reservation, in seconds, as of the last call of `grown`.
    pub fn next_end(&self, now: Time) -> Option<i64> {
        lock(&self.kept).as_ref()?.ledger.next_end(now)
    }

    /// Records the reservations of a decision. Must be called before the turn ends.
    pub fn claim(self: &Arc<Keeper>, given: GivenRoom) -> Claim {
        let mut claims = lock(&self.claims);
        let number = claims.next;
        claims.next += 1;
        claims.known.insert(number, given);
        Claim { keeper: Arc::clone(self), number }
    }

    /// Updates the state to the newest view.
    fn in_step<'k>(&self, kept: &'k mut Option<Kept>, cache: &Cache, now: Time) -> (&'k mut Kept, Arc<View>) {
        let view = cache.view();
        let kept = kept.get_or_insert_with(|| Kept::new(&view, self.ttl, now));
        let clusters = kept.follow(cache, &view, self.ttl, now);
        kept.settle(clusters, now);
        (kept, view)
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.keeper.claims).known.remove(&self.number);
    }
}

impl Kept {
    fn new(view: &View, ttl: i64, now: Time) -> Kept {
        let at = view.only(&kinds());
        let ledger = Ledger::of(&at, ttl, now);
        let (clusters, left, grown) = (ClusterCache::default(), ClusterSet::default(), BTreeSet::new());
        Kept { at, clusters, ledger, left, grown }
    }

    /// Updates the clusters and the accounts to this view. Returns the clusters that have changed.
    fn follow(&mut self, cache: &Cache, view: &View, ttl: i64, now: Time) -> BTreeSet<Arc<str>> {
        let newest = view.only(&kinds());
        let mut changed = self.clusters.sync(view);
        if changed.iter().all(|name| self.ledger.accounts().is_complete_for(name)) {
            changed.iter().for_each(|name| self.ledger.follow_cluster(name));
            self.follow_bindings(cache, &newest);
        } else {
            // A new cluster is already named by bindings.
            self.ledger = Ledger::of(&newest, ttl, now);
            changed.extend(self.clusters.summaries.keys().cloned());
            changed.extend(self.left.iter().map(|cluster| cluster.name.clone()));
        }
        self.at = newest;
        changed
    }

    fn follow_bindings(&mut self, cache: &Cache, newest: &View) {
        let events = cache.events(&kinds(), self.at.revision, newest.revision);
        match events {
            Ok(events) if self.at.revision <= newest.revision => {
                events.iter().for_each(|event| self.ledger.follow(event));
            }
            // The windows do not contain all events, or the history of the log has changed.
            _ => {
                let mut missed = Difference::new(self.at.clone(), newest.clone());
                while let Some(events) = missed.next(usize::MAX) {
                    events.iter().for_each(|event| self.ledger.follow(event));
                }
            }
        }
    }

    /// Computes the free capacity of the clusters that have changed.
    fn settle(&mut self, mut changed: BTreeSet<Arc<str>>, now: Time) {
        self.ledger.set_time(now);
        let of_accounts = self.ledger.take_touched();
        changed.extend(of_accounts.iter().cloned());
        for name in changed {
            let before = self.left.find(&name).cloned();
            let Some(after) = Room::left_of(&self.clusters, self.ledger.accounts(), &name) else {
                self.left.remove(&name);
                continue;
            };
            if of_accounts.contains(&name) && has_more(before.as_deref(), &after) {
                self.grown.insert(Arc::clone(&name));
            }
            self.left.upsert(after);
        }
    }
}

/// Returns whether there is more of any resource.
fn has_more(before: Option<&Cluster>, after: &Cluster) -> bool {
    let Some(before) = before.and_then(|before| before.capacity.as_ref()) else { return true };
    let Some(after) = &after.capacity else { return false };
    let was = |name: &str| before.free.iter().find(|(known, _)| **known == *name).map(|(_, amount)| *amount);
    after.pods > before.pods || after.free.iter().any(|(name, amount)| was(name).is_none_or(|was| *amount > was))
}

/// Locks the mutex. A panic leaves the state consistent: a change of an account is one step.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
