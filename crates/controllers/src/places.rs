//! Asks the scheduler's engine whether a workload has another place, and where it would be left.
//!
//! Only the profile `default` asks: Karmada's controllers evict without a look at the clusters.

use std::sync::Arc;

use ballast_api::karmada::work::v1alpha2::{AnyBinding, LAST_COPY_KEPT, TargetCluster};
use ballast_engine::karmada::{Profile, Rules, Target};
use ballast_k8s::{Object, Time};
use ballast_scheduler::cause::counted;
use ballast_scheduler::planning::{self, ParsedBinding, PlanBuilder, Planner};
use ballast_scheduler::reservations::{Keeper, Turn};
use ballast_watch::{Cache, View};
use ballast_worker::events::{Note, Recorder, Severity};

/// Cheap to share. It keeps the clusters in step from call to call.
pub struct Places {
    planner: Planner,
    profile: Profile,
}

impl Places {
    /// `None`: this profile does not ask.
    pub fn of(profile: &Profile) -> Option<Arc<Places>> {
        (profile.rules == Rules::Default)
            .then(|| Arc::new(Places { planner: Planner::new(profile.clone()), profile: profile.clone() }))
    }

    /// The places in this view.
    pub fn in_view(&self, view: &Arc<View>, now: Time) -> FreePlaces {
        FreePlaces { builder: PlanBuilder::new(&self.planner.snapshot(Arc::clone(view), now)) }
    }

    /// Waits for the turn to decide, for a decision that gives room away. `None`: nobody keeps
    /// room.
    pub async fn turn(&self, cache: &Cache) -> Option<Turn> {
        match self.profile.reserves {
            true => Some(Keeper::of(cache, &self.profile).turn().await),
            false => None,
        }
    }

    /// The newest view, and its places, without what other decisions have given away.
    pub fn present(&self, cache: &Cache, now: Time) -> (Arc<View>, FreePlaces) {
        let present = self.planner.present(cache, now);
        (Arc::clone(&present.view), FreePlaces { builder: PlanBuilder::new(&present) })
    }
}

/// The places of one view. What one workload takes is gone for those that ask after it.
pub struct FreePlaces {
    builder: PlanBuilder,
}

/// Where a workload would be. `None`: the scheduler leaves it to others.
pub struct OtherPlace(Option<Box<(ParsedBinding, Vec<Target>)>>);

impl FreePlaces {
    /// A place for all of the workload without these clusters, which `take` takes. The error says
    /// why there is none. A binding that the scheduler leaves to others counts as placed.
    pub fn find_other(&mut self, binding: &Arc<Object>, clusters: &[&str]) -> Result<OtherPlace, String> {
        let Some(parsed) = ParsedBinding::of(binding) else { return Ok(OtherPlace(None)) };
        let targets = planning::place_without(&mut self.builder, &parsed, clusters)?;
        Ok(OtherPlace(targets.map(|targets| Box::new((parsed, targets)))))
    }

    /// Takes the place, so that it is gone for those that ask after this workload.
    pub fn take(&mut self, place: &OtherPlace) {
        if let Some((parsed, targets)) = place.0.as_deref() {
            self.builder.accept(parsed, targets);
        }
    }

    /// Whether the scheduler would leave the workload on these targets, of which it has left some.
    pub fn keeps(&mut self, binding: &Arc<Object>, targets: &[TargetCluster]) -> bool {
        let parsed = ParsedBinding::of(binding);
        parsed.is_none_or(|parsed| planning::would_keep(&mut self.builder, &parsed, targets))
    }
}

/// The Warning that a workload stays on these clusters, because it has no other place.
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
