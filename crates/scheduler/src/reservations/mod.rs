//! The capacity of a cluster that is really free: without existing and reserved replicas (RM1 to
//! RM9).
//!
//! ```text
//!   bindings (targets, requests, reports) ──► holding ──► ledger: an account of each cluster
//!   clusters (summaries) ───────────────────────────────────► Room ──► clusters with free capacity
//!                                                              ▲
//!   decisions that are not in the view yet ──► claims ─────────┘
//! ```
//!
//! The usage of a cluster is the larger of its summary's `allocated` and the replicas in the
//! reports of its bindings, plus the reservations: replicas that are assigned and not reported. If
//! a report is newer than the summary, foreign pods in `allocated` could hide its replicas; such
//! copies are counted in addition (`Account::unseen`). All inputs are stored, so the result is the
//! same after a restart, in another process, for the past, and attached to Karmada. The engine
//! receives clusters with their free capacity, and stays pure.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `followed`: the clusters with accounts
//! - `holding`: the capacity that one binding holds
//! - `holders`: the holders of reservations on each cluster
//! - `ledger`: the account of each cluster
//! - `told`: messages about the holders of capacity
//! - `keeper`: the newest state for all decisions, and their reservations

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

/// The capacity of the clusters of one view, and its holders. Cheap to clone. Empty without
/// reservations.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// The clusters with the capacity of their summaries.
    open: ClusterSet,
    summaries: OrdMap<Arc<str>, Summary>,
    accounts: Accounts,
    /// Reservations of decisions that the accounts do not contain yet.
    claimed: Vec<GivenRoom>,
    is_kept: bool,
}

/// The time of a decision, and its capacity.
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

    /// Returns the capacity of no clusters.
    pub fn of_none(is_kept: bool) -> Room {
        Room { is_kept, ..Room::default() }
    }

    /// Returns whether reservations are enabled.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Returns the pods on the cluster that no report of a binding contains.
    pub fn foreign_pods(&self, cluster: &str) -> i64 {
        let Some(summary) = self.summaries.get(cluster) else { return 0 };
        let Some(account) = self.accounts.of(cluster) else { return summary.pods() };
        let reported = i64::try_from(account.reported.get("pods")).unwrap_or(i64::MAX);
        let unseen: i64 = account.unseen(summary, self.accounts.now()).iter().map(|(_, copies)| copies).sum();
        summary.pods().max(reported).saturating_add(unseen) - reported
    }

    /// Computes the capacity of a view from scratch, and returns it with the clusters and their
    /// free capacity. Without reservations, clusters have the capacity of their summaries.
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

    /// Returns the cluster with its free capacity, or `None` if it does not exist.
    fn left_of(clusters: &ClusterCache, accounts: &Accounts, name: &str) -> Option<Cluster> {
        let mut cluster = Cluster::clone(clusters.fleet.find(name)?);
        let summary = clusters.summaries.get(name).cloned().unwrap_or_default();
        if let (Some(account), Some(capacity)) = (accounts.of(name), &mut cluster.capacity) {
            account.apply(&summary, accounts.now(), capacity);
        }
        Some(cluster)
    }

    /// Counts the bindings on this cluster, if it does not exist and they name it. `view` must be
    /// the view of the accounts.
    pub fn know(&mut self, cluster: &str, view: &View, profile: &Profile) {
        if !self.accounts.is_complete_for(cluster) {
            let now = Time::from_seconds(self.accounts.now());
            // All names at once, so that this is done once for many clusters.
            self.accounts = Ledger::of_all_names(view, profile.reservation_ttl, now).accounts().clone();
        }
    }

    /// Replaces or adds a hypothetical cluster with `allocated` in its summary, and returns it with
    /// its free capacity. `know` must be called first.
    pub fn suppose(&mut self, cluster: Cluster, allocated: Allocated) -> Cluster {
        self.open.upsert(cluster.clone());
        let mut left = cluster;
        // The summary counts as newer than all reports.
        let summary = Summary { allocated, revision: Revision(i64::MAX - 1) };
        if let (Some(account), Some(capacity)) = (self.accounts.of(&left.name), &mut left.capacity) {
            account.apply(&summary, self.accounts.now(), capacity);
        }
        self.summaries.insert(Arc::clone(&left.name), summary);
        left
    }

    /// Returns the resources that bindings hold on each cluster, including claims.
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

    /// Iterates over the bindings and copies that are reserved or claimed on the cluster.
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

    /// Iterates over the accounts of clusters with any holdings, by name.
    pub fn accounts(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Account>)> {
        self.accounts.iter()
    }
}
