//! Decisions without writes: the targets of many bindings, and whether all of them fit together.
//!
//! 1. A [`Planner`] keeps the clusters up to date and returns a [`PlanningSnapshot`]: one view,
//!    prepared for decisions. Callers may change it, to plan for hypothetical clusters.
//! 2. A [`Selection`] finds the selected bindings, as [`ParsedBinding`]s.
//! 3. [`plan()`] decides them all, one after another, against a ledger of capacity (BD1). A
//!    [`PlanBuilder`] is that ledger, for callers that decide step by step.
//! 4. [`edits`] is the write that executes a decision.
//!
//! Nothing here writes or reads a clock. The only blocking calls are queries to the estimators of a
//! snapshot (`asking`).

mod clearing;
mod cutting;
mod draining;
mod inputs;
mod known_survival;
mod parsed_binding;
mod plan_builder;
mod homecoming;
mod leaving;
mod limits;
mod objective;
mod plan;
mod prices;
mod selection;
mod survival;
mod surviving;
mod triggered;
mod unknown;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

pub use self::clearing::Clearing;
pub use self::draining::on_clusters;
pub use self::homecoming::{Standing, is_displaced, standing};
pub use self::known_survival::{KnownAnswer, KnownSurvival};
pub use self::leaving::{place_without, would_keep};
pub use self::objective::{ObjectiveOutcome, aim_at, plan_for};
pub use self::parsed_binding::{ParsedBinding, shares};
pub use self::plan::{
    MovePlan, MoveRank, PlannedMove, StayingBinding, UnplaceableBinding, in_order, plan, plan_by, plan_return, rank,
    ranked,
};
pub use self::plan_builder::{PlanBuilder, PlanOptions, Proposal, Shortfall};
pub use self::prices::{PRICE, cost_of};
pub use self::selection::{SELECTED_MAX, Selection, SelectionTooLarge};
pub use self::survival::{Haste, domains, survival, survival_of, unknown_domain};
pub use self::unknown::unknown_to_all;
use super::asking::{self, Asking};
use super::cause::{self, Cause};
use super::cluster_cache::ClusterCache;
use super::reservations::{Keeper, Moment, Names, Present, Room};
use super::{commit, convert};
use ballast_api::core::Taint;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, PartialBinding, Trigger};
use ballast_engine::karmada::{ClusterSet, Decision, Mode, Outcome, Placed, Profile, Target};
use ballast_k8s::{Edit, Object, Time};
use ballast_watch::{Cache, View};

/// Prepares views for decisions. Cheap if few clusters have changed since the last call.
pub struct Planner {
    profile: Arc<Profile>,
    clusters: Mutex<ClusterCache>,
}

/// The input of decisions. Cheap to clone, and to change before use.
#[derive(Clone)]
pub struct PlanningSnapshot {
    pub view: Arc<View>,
    /// The clusters with their free capacity.
    pub clusters: ClusterSet,
    /// The holders of the capacity that is not free.
    pub room: Room,
    /// Queries the estimators, on a thread that may block. `None`: no estimators.
    pub asking: Option<Asking>,
    /// The holders that messages may name.
    pub names: Names,
    /// The clusters with NoExecute taints, and their taints.
    pub no_execute: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    /// The clusters with a false Ready condition.
    pub unready: Arc<BTreeSet<Arc<str>>>,
    pub profile: Arc<Profile>,
    pub now: Time,
    /// The clusters that Steady plans clear. `None`: they decide as the scheduler does.
    pub clearing: Option<Arc<Clearing>>,
    /// The hypothetical clusters that differ from the view, as objects.
    pub supposed: BTreeMap<Arc<str>, Arc<Cluster>>,
}

impl Planner {
    /// Creates a planner. The profile must be the scheduler's, because plans predict its decisions.
    pub fn new(profile: Profile) -> Planner {
        Planner { profile: Arc::new(profile), clusters: Mutex::default() }
    }

    /// Returns the newest view with its free capacity. Cheap, because the state is shared with all
    /// decisions of the process.
    pub fn present(&self, cache: &Cache, now: Time) -> PlanningSnapshot {
        if !self.profile.reserves {
            let snapshot = self.snapshot(cache.view(), now);
            let asking = Asking::new(cache, &snapshot.view, || asking::present(cache, &self.profile, now).room);
            return PlanningSnapshot { asking, ..snapshot };
        }
        let Present { view, no_execute, unready, left, room } = Keeper::of(cache, &self.profile).present(cache, now);
        let (profile, names) = (Arc::clone(&self.profile), Names::default());
        let (clearing, asking) = (None, Asking::new(cache, &view, || room.clone()));
        let supposed = BTreeMap::new();
        let clusters = left;
        PlanningSnapshot { view, clusters, room, asking, names, no_execute, unready, profile, now, clearing, supposed }
    }

    /// Returns a snapshot of any view, such as a past one. Resources of its bindings are counted
    /// from scratch; see `present`.
    pub fn snapshot(&self, view: Arc<View>, now: Time) -> PlanningSnapshot {
        // A panic in another thread leaves each cluster consistent.
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.sync(&view);
        let (room, left) = Room::of(&view, &clusters, &self.profile, now);
        PlanningSnapshot {
            clusters: left,
            room,
            asking: None,
            names: Names::default(),
            no_execute: Arc::clone(&clusters.no_execute),
            unready: Arc::clone(&clusters.unready),
            profile: Arc::clone(&self.profile),
            view,
            now,
            clearing: None,
            supposed: BTreeMap::new(),
        }
    }
}

impl PlanningSnapshot {
    /// Makes Steady plans clear these clusters.
    #[must_use]
    pub fn clearing(self, clearing: Clearing) -> PlanningSnapshot {
        PlanningSnapshot { clearing: Some(Arc::new(clearing)), ..self }
    }

    /// Removes a cluster hypothetically.
    pub fn lose(&mut self, name: &str) {
        self.clusters.remove(name);
        // Copy on write: shared maps are copied only if they change.
        if self.no_execute.contains_key(name) {
            Arc::make_mut(&mut self.no_execute).remove(name);
        }
        if self.unready.contains(name) {
            Arc::make_mut(&mut self.unready).remove(name);
        }
    }

    /// Returns the clusters that are lost already: clusters that report that they are not Ready,
    /// and clusters that are being deleted.
    pub fn lost(&self) -> impl Iterator<Item = &Arc<str>> {
        let names = self.clusters.iter().map(|cluster| (&cluster.name, cluster.deleting));
        names.filter(|(name, deleting)| *deleting || self.unready.contains(*name)).map(|(name, _)| name)
    }

    /// Returns the snapshot without the clusters that are lost already, so that the replicas there
    /// need other clusters.
    #[must_use]
    pub fn without_lost(&self) -> PlanningSnapshot {
        let mut rest = self.clone();
        self.lost().for_each(|name| rest.lose(name));
        rest
    }

    /// Replaces or adds a cluster hypothetically.
    pub fn suppose(&mut self, cluster: &Cluster) {
        let (lowered, _) = convert::karmada::cluster(cluster);
        let left = match self.profile.reserves {
            true => {
                self.room.know(&lowered.name, &self.view, &self.profile);
                self.room.suppose(lowered, convert::karmada::allocated(cluster).into())
            }
            false => lowered,
        };
        if let Some(asking) = &mut self.asking {
            asking.leave_out(&left.name);
        }
        self.supposed.insert(Arc::clone(&left.name), Arc::new(cluster.clone()));
        self.clusters.upsert(left);
    }
}

/// Returns the edits that put a binding on these targets, as the scheduler would write them after a
/// successful pass. `term` is the affinity group of the targets, if there are groups. The binding
/// records the cause.
///
/// `binding` is the parsed `object`. A pending trigger would count as served, so such a binding
/// must be left to the scheduler.
pub fn edits(
    object: &Object,
    binding: &AnyBinding,
    to: &[Target],
    term: Option<&str>,
    cause: &Cause,
    moment: Moment<'_>,
) -> Vec<Edit> {
    let content = object.text.content();
    let placement = PartialBinding::placement_of(&content);
    let trigger = Trigger::of(binding);
    let placed = Placed { targets: to.to_vec(), term: term.map(Box::from), message: None };
    let decision = Decision { outcome: Outcome::Placed(placed), mode: Mode::Fresh, unkept: None };
    let mut edits = commit::edits(binding, placement, object.generation, trigger, &decision, true, moment);
    edits.extend(cause::record(binding, to, cause, moment.now));
    edits
}
