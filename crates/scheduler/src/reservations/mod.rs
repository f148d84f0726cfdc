//! Room that is really there: what a cluster has left after what exists and what is promised
//! (RM1 to RM9).
//!
//! ```text
//!   bindings (targets, requests, reports) ──► holding ──► ledger: an account of each cluster
//!   clusters (summaries) ───────────────────────────────────► Room ──► clusters with what is left
//!                                                              ▲
//!   decisions that are not in the view yet ──► claims ─────────┘
//! ```
//!
//! Used in a cluster is the larger of its summary's `allocated` and what the reports of its
//! bindings say exists there, plus what is promised: assigned and not reported. Where a report is
//! newer than the summary, pods of others in `allocated` would hide what it shows: such copies are
//! counted beside them (`Account::unseen`). All of it is read
//! from what is stored, so it is the same after a restart, in another process, for the past, and
//! beside a Karmada. The engine gets the clusters with the room that is left, and stays pure.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `followed`: which clusters have accounts
//! - `holding`: what one binding holds
//! - `holders`: who has promises on each cluster
//! - `ledger`: the account of each cluster
//! - `told`: says who has the room
//! - `keeper`: the newest state, for all who decide, and what their decisions give away

mod followed;
mod holders;
mod holding;
mod keeper;
mod ledger;
#[cfg(test)]
mod tests;
mod told;

use std::collections::HashMap;
use std::sync::Arc;

use imbl::OrdMap;

pub use self::keeper::{Claim, GivenRoom, Keeper, Present, Turn};
use self::ledger::Ledger;
pub use self::ledger::{Account, Accounts};
pub use self::told::Names;
use super::cluster_cache::{Allocated, ClusterCache, Summary};
use ballast_api::karmada::work::v1alpha2::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use ballast_engine::karmada::{Amounts, Cluster, ClusterSet, Profile};
use ballast_estimator::Held;
use ballast_k8s::{Key, Revision, Time};
use ballast_watch::View;

/// What the clusters of one view have, and who holds it. Cheap to clone. Without reservations it is
/// empty.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// The clusters as their summaries have them.
    open: ClusterSet,
    summaries: OrdMap<Arc<str>, Summary>,
    accounts: Accounts,
    /// What decisions have given away that the accounts do not show yet.
    claimed: Vec<GivenRoom>,
    is_kept: bool,
}

/// When something is decided, and with which room.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub now: Time,
    pub room: &'a Room,
}

impl Room {
    fn new(clusters: &ClusterCache, accounts: &Accounts) -> Room {
        let ClusterCache { fleet, summaries, .. } = clusters;
        let (summaries, accounts, claimed) = (summaries.clone(), accounts.clone(), Vec::new());
        Room { open: fleet.clone(), summaries, accounts, claimed, is_kept: true }
    }

    /// Of no cluster.
    pub fn of_none(is_kept: bool) -> Room {
        Room { is_kept, ..Room::default() }
    }

    /// Whether room is kept for what is promised.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The pods on the cluster that no report of a binding shows.
    pub fn foreign_pods(&self, cluster: &str) -> i64 {
        let Some(summary) = self.summaries.get(cluster) else { return 0 };
        let Some(account) = self.accounts.of(cluster) else { return summary.pods() };
        let reported = i64::try_from(account.reported.get("pods")).unwrap_or(i64::MAX);
        let unseen: i64 = account.unseen(summary, self.accounts.now()).iter().map(|(_, copies)| copies).sum();
        summary.pods().max(reported).saturating_add(unseen) - reported
    }

    /// The room of a view, made anew, and the clusters with what is left. Without reservations, the
    /// clusters are as their summaries have them.
    pub(super) fn of(view: &View, clusters: &ClusterCache, profile: &Profile, now: Time) -> (Room, ClusterSet) {
        let mut left = clusters.fleet.clone();
        if !profile.reserves {
            return (Room::default(), left);
        }
        let ledger = Ledger::of(view, profile.reservation_ttl, now);
        for (name, _) in ledger.accounts().iter() {
            Room::left_of(clusters, ledger.accounts(), name).map(|cluster| left.upsert(cluster));
        }
        (Room::new(clusters, ledger.accounts()), left)
    }

    /// The cluster with what is left in it. `None`: there is no such cluster.
    fn left_of(clusters: &ClusterCache, accounts: &Accounts, name: &str) -> Option<Cluster> {
        let mut cluster = Cluster::clone(clusters.fleet.find(name)?);
        let summary = clusters.summaries.get(name).cloned().unwrap_or_default();
        if let (Some(account), Some(capacity)) = (accounts.of(name), &mut cluster.capacity) {
            account.apply(&summary, accounts.now(), capacity);
        }
        Some(cluster)
    }

    /// Counts what bindings hold on this cluster, if it does not exist and they name it.
    /// `view` is what the accounts were made from.
    pub fn know(&mut self, cluster: &str, view: &View, profile: &Profile) {
        if !self.accounts.is_complete_for(cluster) {
            let now = Time::from_seconds(self.accounts.now());
            // All names at once, so that this is done once for many clusters.
            self.accounts = Ledger::of_all_names(view, profile.reservation_ttl, now).accounts().clone();
        }
    }

    /// Supposes that the cluster is as given, with `allocated` in its summary, and returns it with
    /// what would be left. Call `know` before.
    pub fn suppose(&mut self, cluster: Cluster, allocated: Allocated) -> Cluster {
        self.open.upsert(cluster.clone());
        let mut left = cluster;
        // It counts as newer than all reports.
        let summary = Summary { allocated, revision: Revision(i64::MAX - 1) };
        if let (Some(account), Some(capacity)) = (self.accounts.of(&left.name), &mut left.capacity) {
            account.apply(&summary, self.accounts.now(), capacity);
        }
        self.summaries.insert(Arc::clone(&left.name), summary);
        left
    }

    /// What bindings hold on each cluster, with what is claimed.
    pub fn held(&self) -> Held {
        let mut held = Held::default();
        let mut all: HashMap<Arc<str>, Amounts> = HashMap::new();
        for (name, account) in self.accounts.iter() {
            let mut sum = account.reported.clone();
            sum.add(&account.promised, 1);
            all.insert(Arc::clone(name), sum);
            held.reported.insert(Arc::clone(name), Arc::new(account.reported.clone()));
        }
        for given in &self.claimed {
            let each = given.needs.amounts();
            for (cluster, copies) in &given.arrivals {
                all.entry(Arc::clone(cluster)).or_default().add(&each, *copies);
            }
        }
        held.all = all.into_iter().map(|(name, sum)| (name, Arc::new(sum))).collect();
        held
    }

    /// What is promised on the cluster, and what decisions have given away there: bindings, and
    /// their copies.
    pub fn on_its_way(&self, cluster: &str) -> impl Iterator<Item = (Key, i64)> {
        let key = |namespace: &Arc<str>, name: &Arc<str>| match namespace.is_empty() {
            true => Key::cluster(CLUSTER_RESOURCE_BINDINGS, &**name),
            false => Key::namespaced(RESOURCE_BINDINGS, &**namespace, &**name),
        };
        let holders =
            self.accounts.holders(cluster).map(move |(holder, copies)| (key(&holder.namespace, &holder.name), copies));
        let on = |given: &GivenRoom| {
            let copies: i64 =
                given.arrivals.iter().filter(|(name, _)| **name == *cluster).map(|(_, copies)| copies).sum();
            (copies > 0).then(|| (given.binding.clone(), copies))
        };
        let claimed: Vec<(Key, i64)> = self.claimed.iter().filter_map(on).collect();
        holders.chain(claimed)
    }

    /// The account of each cluster that anything is held on, by name.
    pub fn accounts(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Account>)> {
        self.accounts.iter()
    }
}
