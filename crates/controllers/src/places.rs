//! Queries the scheduler's engine whether a workload can be placed on other clusters.
//!
//! Used by the profile `default` only: Karmada's controllers evict without checking the clusters.

use std::sync::Arc;

use ballast_api::karmada::work::v1alpha2::{AnyBinding, LAST_COPY_KEPT, TargetCluster};
use ballast_engine::karmada::{Profile, Rules, Target};
use ballast_k8s::{Object, Time};
use ballast_scheduler::cause::counted;
use ballast_scheduler::planning::{self, ParsedBinding, PlanBuilder, Planner};
use ballast_scheduler::reservations::{Keeper, Turn};
use ballast_watch::{Cache, View};
use ballast_worker::events::{Note, Recorder, Severity};

/// A search for alternative clusters. Cheap to share; it keeps its cluster state between calls.
pub struct Places {
    planner: Planner,
    profile: Profile,
}

impl Places {
    /// Creates the search, or returns `None` if the profile does not use it.
    pub fn of(profile: &Profile) -> Option<Arc<Places>> {
        (profile.rules == Rules::Default)
            .then(|| Arc::new(Places { planner: Planner::new(profile.clone()), profile: profile.clone() }))
    }

    /// Returns the free capacity in this view.
    pub fn in_view(&self, view: &Arc<View>, now: Time) -> FreePlaces {
        FreePlaces { builder: PlanBuilder::new(&self.planner.snapshot(Arc::clone(view), now)) }
    }

    /// Waits for exclusive access to capacity decisions. Returns `None` if the profile reserves no
    /// capacity.
    pub async fn turn(&self, cache: &Cache) -> Option<Turn> {
        match self.profile.reserves {
            true => Some(Keeper::of(cache, &self.profile).turn().await),
            false => None,
        }
    }

    /// Returns the newest view and its free capacity, without the reservations of other decisions.
    pub fn present(&self, cache: &Cache, now: Time) -> (Arc<View>, FreePlaces) {
        let present = self.planner.present(cache, now);
        (Arc::clone(&present.view), FreePlaces { builder: PlanBuilder::new(&present) })
    }
}

/// Free capacity in one view. An accepted placement reserves its capacity.
pub struct FreePlaces {
    builder: PlanBuilder,
}

/// An alternative placement; `None` if this scheduler does not own the binding.
pub struct OtherPlace(Option<Box<(ParsedBinding, Vec<Target>)>>);

impl FreePlaces {
    /// Finds a placement of the whole workload without these clusters; `take` reserves it. The
    /// error contains the reason if there is none. A binding that this scheduler does not own
    /// counts as placed.
    pub fn find_other(&mut self, binding: &Arc<Object>, clusters: &[&str]) -> Result<OtherPlace, String> {
        let Some(parsed) = ParsedBinding::of(binding) else { return Ok(OtherPlace(None)) };
        let targets = planning::place_without(&mut self.builder, &parsed, clusters)?;
        Ok(OtherPlace(targets.map(|targets| Box::new((parsed, targets)))))
    }

    /// Reserves the capacity of the placement.
    pub fn take(&mut self, place: &OtherPlace) {
        if let Some((parsed, targets)) = place.0.as_deref() {
            self.builder.accept(parsed, targets);
        }
    }

    /// Returns whether the scheduler would keep the workload on these targets, some of which it has
    /// left.
    pub fn keeps(&mut self, binding: &Arc<Object>, targets: &[TargetCluster]) -> bool {
        let parsed = ParsedBinding::of(binding);
        parsed.is_none_or(|parsed| planning::would_keep(&mut self.builder, &parsed, targets))
    }
}

/// Returns the Warning that a workload stays on these clusters because no other cluster can take
/// it.
pub fn kept_notes(recorder: &Recorder, object: &Object, binding: &AnyBinding, clusters: &[&str]) -> [Note; 2] {
    let stays = |target: &&TargetCluster| clusters.contains(&&*target.name);
    let replicas =
        binding.spec.clusters.iter().filter(stays).map(|target| i64::from(target.replicas.unwrap_or_default()));
    let what = match replicas.sum::<i64>() {
        0 => "the object has".to_owned(),
        1 => format!("{} has", counted(1, "replica")),
        replicas => format!("{} have", counted(replicas, "replica")),
    };
    let message = format!("{what} no other place; kept on {}", clusters.join(" and "));
    binding
        .subjects(&object.key)
        .map(|about| Note::new(recorder, about, Severity::Warning, LAST_COPY_KEPT, message.clone()))
}
